package kernel

import (
	"cmp"
	"slices"
	"time"

	"lifeloop/kernel/effect"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// turns are the frames: one for each prompt, whichever source reports it first
// (DECISIONS, Stories), and those that clients open (nested.go). A prompt that the
// harness makes itself opens a frame too (DECISIONS, L22). At most one frame of the
// harness is open. A frame has these events:
//
//	frame.opening ──► frame.opened ──► frame.ending ──► frame.ended
//
// The state of the harness's turn moves between the first and the last of them:
//
//	          work             idle without a stop
//	asked ──────────► working ────────────────────► idle ──► frame.ended
//	  │                  │    ◄────────────────────  │        (a second later)
//	  └───────┬──────────┘           work            │ stop
//	          ▼ stop                                 │
//	       stopped ◄─────────────────────────────────┘
//	        ▲    │ the source says that the turn continues
//	 prompt │    ▼
//	       resumed
type turns struct {
	hard struct {
		Frames []frame         // open, outermost first
		Past   map[string]bool // names of closed turns and frames, at most the newest maxPast; true if a turn had the name
		PastIn []string
		// Prompts is how many frames the harness has begun.
		Prompts int
	}
	soft struct {
		prompt   prompt
		state    turnState
		answered bool             // the newest model call of the turn was a final answer
		idleAt   time.Time        // when the state became idle
		idleBy   telemetry.Signal // the signal that reported the idle state
	}
}

// A turnState is the state of the turn of the harness's open frame.
type turnState int

const (
	turnNone    turnState = iota // no frame is open
	turnAsked                    // a prompt was reported, but no work
	turnWorking                  // a source reported work in the turn
	turnIdle                     // the harness is idle, but no stop of the turn was reported
	turnStopped                  // frame.ending was emitted
	turnResumed                  // the turn stopped, and then a source reported that it continues
)

// prompt describes the newest prompt.
type prompt struct {
	opened  time.Time // when the prompt's frame was opened
	at      time.Time // when the prompt was made, by the clock of its source
	sources []string  // the sources that have reported this prompt
	stopped time.Time // when the model stopped answering the prompt; zero if no source has reported the stop
	named   bool      // a source has named the turn
	line    bool      // the user had begun to type a line, and no source has reported yet whether that line is the prompt
	decided bool      // a source that knows the prompt's origin has reported the prompt
}

type frame struct {
	ID      string
	Turn    string // the harness's name for the turn; empty if unknown
	Origin  string // what made the prompt; empty if the user did
	Parent  string // empty for a top-level frame
	Client  bool   // opened by a client
	Opened  bool   // frame.opened was emitted
	Ending  bool   // frame.ending was emitted
	Outcome string
	Failure lifeloop.FailureClass
}

// FrameAdopted begins a frame that was open before the wrapper observed it, or
// gives an open frame the harness's name for its turn, or its origin. If neither the name
// nor the origin changes, it records that the prompt is the line that the user typed.
type FrameAdopted struct {
	Frame string `json:"frame"`
	Turn  string `json:"turn"`
	// Origin is what opened the turn, if a source has reported it since the frame's
	// opening; the frame had no origin before.
	Origin string `json:"origin,omitempty"`
}

func (FrameAdopted) key() (string, bool) { return "frame_adopted", false }
func (f FrameAdopted) apply(k *Kernel) {
	t := &k.turns
	if fr := t.frame(f.Frame); fr.ID == f.Frame {
		fr.Turn, fr.Origin = f.Turn, cmp.Or(f.Origin, fr.Origin)
		return
	}
	t.hard.Frames = append(t.hard.Frames, frame{ID: f.Frame, Turn: f.Turn, Opened: true})
}

const (
	// idleSettles is how long a harness may be idle in a turn that has not stopped,
	// before the turn counts as interrupted. In this time, a source may report why the
	// harness is idle.
	idleSettles = time.Second
	// maxPast is how many names of closed turns and frames are kept, because a name may
	// be used only once. Older names are not needed: a source that repeats a prompt is
	// not hundreds of turns behind the others.
	maxPast = 1000
)

func newTurns() (t turns) {
	t.hard.Past = map[string]bool{}
	return t
}

func (t *turns) observed(f Observed) {
	r := f.Record
	switch r.Event {
	case lifeloop.FrameOpening:
		fr := frame{ID: r.FrameContext.FrameID, Client: f.ByClient()}
		fr.Turn, _ = r.Data["turn"].(string)
		fr.Origin, _ = r.Data["origin"].(string)
		if p := r.FrameContext.ParentFrameID; p != nil {
			fr.Parent = *p
		}
		t.hard.Frames = append(t.hard.Frames, fr)
		if !fr.Client {
			t.hard.Prompts++
		}
	case lifeloop.FrameOpened:
		t.frame(r.FrameContext.FrameID).Opened = true
	case lifeloop.FrameEnding:
		fr := t.frame(r.FrameContext.FrameID)
		fr.Ending = true
		fr.Outcome, _ = r.Data["outcome"].(string)
		class, _ := r.Data["failure_class"].(string)
		fr.Failure = lifeloop.FailureClass(class)
	case lifeloop.FrameEnded:
		for i, fr := range t.hard.Frames {
			if fr.ID == r.FrameContext.FrameID {
				t.hard.Frames = append(t.hard.Frames[:i:i], t.hard.Frames[i+1:]...)
				t.remember(fr.Turn, true)
				t.remember(fr.ID, false)
				break
			}
		}
	}
}

// remember stores the name of a closed turn or frame, so that it is not used again.
func (t *turns) remember(name string, turn bool) {
	h := &t.hard
	if name == "" {
		return
	}
	was, known := h.Past[name]
	if h.Past[name] = was || turn; known {
		return
	}
	h.PastIn = append(h.PastIn, name)
	if len(h.PastIn) > maxPast {
		delete(h.Past, h.PastIn[0])
		h.PastIn = h.PastIn[1:]
	}
}

// frame returns the open frame that has the given id, or an empty frame.
func (t *turns) frame(id string) *frame {
	for i := range t.hard.Frames {
		if t.hard.Frames[i].ID == id {
			return &t.hard.Frames[i]
		}
	}
	return &frame{}
}

// top returns the harness's own open frame, or nil.
func (t *turns) top() *frame {
	for i := len(t.hard.Frames) - 1; i >= 0; i-- {
		if !t.hard.Frames[i].Client {
			return &t.hard.Frames[i]
		}
	}
	return nil
}

func (t *turns) topFrame() string {
	if f := t.top(); f != nil {
		return f.ID
	}
	return ""
}

func (t *turns) frameOf(turn string) *frame {
	for i := range t.hard.Frames {
		if t.hard.Frames[i].Turn == turn {
			return &t.hard.Frames[i]
		}
	}
	return nil
}

// frameFor returns the open frame that a stop or an end refers to. A signal without a
// turn is about the harness's open frame, unless the signal is older than that frame.
// An older signal is a late report about the previous turn.
func (t *turns) frameFor(sig telemetry.Signal) *frame {
	if sig.Turn != "" {
		return t.frameOf(sig.Turn)
	}
	f := t.top()
	if f == nil || !sig.At.IsZero() && sig.At.Before(t.soft.prompt.opened) {
		return nil
	}
	return f
}

func (t *turns) isOpen(id string) bool { return t.frame(id).ID == id }
func (t *turns) prompts() int          { return t.hard.Prompts }

// unfinished returns the reason why the last turn of an observed session is not
// complete, or "" if it is. last is the outcome of the newest turn that has ended. An
// interrupted turn is complete, because the user chose to interrupt it.
func (t *turns) unfinished(last telemetry.Outcome) string {
	if f := t.top(); f != nil {
		last = telemetry.Outcome(f.Outcome)
		if !f.Ending && !t.soft.answered {
			return "the last turn did not end"
		}
	}
	switch last {
	case telemetry.Failed:
		return "the last turn failed"
	case abandoned:
		return "the last turn was abandoned"
	}
	return ""
}

// abandoned is the outcome of a frame whose end no source reported, if the method close
// finds no other outcome.
const abandoned = "abandoned"

func (t *turns) past(name string) bool          { _, ok := t.hard.Past[name]; return ok }
func (t *turns) any() bool                      { return len(t.hard.Frames) > 0 || len(t.hard.Past) > 0 }
func (t *turns) prompted(before time.Time) bool { return before.After(t.soft.prompt.at) }

// clear clears the state of the turn.
func (t *turns) clear() {
	t.soft.state, t.soft.answered, t.soft.idleAt = turnNone, false, time.Time{}
}

// launching clears the state of the previous launch's turn.
func (t *turns) launching() {
	t.soft.prompt.sources, t.soft.prompt.named, t.soft.prompt.line = nil, false, false
	t.clear()
}

// signal applies a signal of the current harness session.
func (t *turns) signal(s *step, sig telemetry.Signal, h *hook) {
	if sig.Kind == telemetry.Alive && sig.Session == "" {
		s.activity.sign(s, ActivitySeen{Source: sig.Source})
		return // a signal without a session does not prove that a session has started
	}
	if t.late(sig) {
		t.originates(s, sig, t.frameOf(sig.Turn))
		return
	}
	if h == nil && t.repeated(s, sig) {
		return
	}
	if sig.Kind != telemetry.Idle && sig.Kind != telemetry.UsageSeen && sig.Kind != telemetry.WindowSeen && sig.Kind != telemetry.Gap {
		t.notIdle()
	}
	if !s.cfg.Hooks {
		s.scopes.start(s, s.likelyCause(), by(sig), nil) // no better evidence of the start will follow
	}
	t.provesOpen(s, sig)
	s.activity.tool(s, sig)
	switch sig.Kind {
	case telemetry.Prompt, telemetry.Working, telemetry.ToolStart, telemetry.UsageSeen:
		s.health.worked(s, sig.Source)
	}
	switch sig.Kind {
	case telemetry.Prompt:
		t.opening(s, sig, h)
		s.activity.signal(s, working, sig)
	case telemetry.Alive:
		if f := t.top(); f != nil && f.Ending && sig.Turn != "" && sig.Turn == f.Turn {
			t.soft.state = turnResumed
		}
	case telemetry.Working, telemetry.ToolStart, telemetry.ToolEnd:
		s.activity.signal(s, working, sig)
		t.worked()
		t.soft.answered = false
	case telemetry.UsageSeen:
		f := t.top()
		t.soft.answered = sig.Outcome == telemetry.Completed && f != nil
		if t.soft.answered && sig.Turn != "" && sig.Turn == f.Turn {
			t.worked()
		}
	case telemetry.NeedsInput:
		s.activity.signal(s, needsInput, sig)
	case telemetry.Idle:
		s.activity.signal(s, idling, sig)
		t.idle(s, sig)
	case telemetry.TurnStop:
		t.stop(s, sig, h)
	case telemetry.TurnEnd:
		s.activity.signal(s, idling, sig)
		t.end(s, sig)
	case telemetry.LimitWait:
		s.activity.signal(s, limitWait, sig)
		t.worked()
	case telemetry.Gap:
		t.gap(s, sig)
	}
}

// worked records that a source reported work in the turn.
func (t *turns) worked() {
	if t.soft.state == turnAsked {
		t.soft.state = turnWorking
	}
}

func (t *turns) notIdle() {
	t.soft.idleAt = time.Time{}
	if t.soft.state == turnIdle {
		t.soft.state = turnWorking
	}
}

// gap reports records that are missing according to the harness's own sequence numbers.
// It does not reconstruct these records: "Lifeloop does not silently reconstruct lost
// receipts."
func (t *turns) gap(s *step, sig telemetry.Signal) {
	if sig.Missing == nil {
		return
	}
	s.emit(emission{event: lifeloop.ReceiptGapDetected, frame: t.topFrame(), evidence: by(sig), data: map[string]any{
		"source": sig.Source, "missing_from": sig.Missing[0], "missing_to": sig.Missing[1]}})
}

// provesOpen opens the frame of a prompt if sig shows that the model already works in
// it. The end of the prompt's hook may be reported later, because the hook's process
// may be slower than the model.
func (t *turns) provesOpen(s *step, sig telemetry.Signal) {
	switch sig.Kind {
	case telemetry.UsageSeen, telemetry.ToolStart, telemetry.ToolEnd:
		if f := t.top(); f != nil && !f.Opened && !sig.At.IsZero() && sig.At.After(t.soft.prompt.opened) {
			s.openFrame(f.ID, by(sig))
		}
	}
}

// late reports whether a record describes something that is already known. A prompt
// is known if its turn has or had a frame: the transcript repeats a prompt that a hook has
// reported, and a text that the user adds to a running turn is reported as a prompt of
// that turn. Work is known to have ended if it is older than the newest idle state.
func (t *turns) late(sig telemetry.Signal) bool {
	switch sig.Kind {
	case telemetry.Prompt:
		return sig.Turn != "" && (t.hard.Past[sig.Turn] || t.frameOf(sig.Turn) != nil)
	case telemetry.Working, telemetry.ToolStart, telemetry.ToolEnd, telemetry.NeedsInput, telemetry.LimitWait:
		return !sig.At.IsZero() && sig.At.Before(t.soft.idleAt)
	}
	return false
}

// repeated reports whether another source has already reported the prompt in sig. If
// both reports name the turn, repeated returns false, because the method late has
// compared the names. Each source reports each prompt once, in order. sig repeats a
// prompt in these cases:
//   - sig is older than the newest prompt. Then sig repeats an earlier prompt.
//   - The model had not stopped in the open frame at the time of sig. Then sig repeats the
//     prompt of that frame, and the frame gets the name in sig if it has none.
//   - sig names no turn, and a source has reported that the stopped turn continues.
func (t *turns) repeated(s *step, sig telemetry.Signal) bool {
	if sig.Kind != telemetry.Prompt {
		return false
	}
	if sig.Turn == "" && t.soft.state == turnResumed {
		t.soft.state = turnStopped
		return true
	}
	p := &t.soft.prompt
	if p.named && sig.Turn != "" || slices.Contains(p.sources, sig.Source) {
		return false
	}
	f := t.top()
	past := !sig.At.IsZero() && sig.At.Before(p.at)
	open := f != nil && (!f.Ending || !sig.At.IsZero() && sig.At.Before(p.stopped))
	if len(p.sources) == 0 || !past && !open {
		return false
	}
	p.sources = append(p.sources, sig.Source)
	if past || f == nil {
		return true
	}
	if sig.Turn != "" && f.Turn == "" {
		p.named = true
		s.record(FrameAdopted{Frame: f.ID, Turn: sig.Turn})
	}
	t.originates(s, sig, f)
	return true
}

// originates handles sig, which repeats the prompt of f. If f has no origin, the origin
// in sig is recorded. If sig has no origin, the prompt is the user's. If the user had
// begun a line, FrameAdopted then records that the prompt is this line. A hook cannot
// distinguish a message of another session from the user's prompt; the transcript,
// which comes later, can.
func (t *turns) originates(s *step, sig telemetry.Signal, f *frame) {
	if sig.Kind != telemetry.Prompt || f == nil || f.Client || f == t.top() && t.soft.prompt.decided {
		return
	}
	line := t.soft.prompt.line && f == t.top()
	t.soft.prompt.decided = t.soft.prompt.decided || f == t.top()
	if sig.Origin != "" && f.Origin == "" || sig.Origin == "" && line {
		s.record(FrameAdopted{Frame: f.ID, Turn: f.Turn, Origin: sig.Origin})
	}
	if sig.Origin == "" {
		t.lineTaken(s)
	} else if line {
		t.soft.prompt.line = false
	}
}

// lineTaken emits effect.LineTaken if the user had begun a line, because the harness has
// taken that line as the newest prompt. lineTaken is called when a source reports that the
// user submitted the prompt, or, if no source does, when the turn has ended.
func (t *turns) lineTaken(s *step) {
	if t.soft.prompt.line && s.activity.lineBegun() {
		s.do(effect.LineTaken{})
	}
	t.soft.prompt.line = false
}

// likelyCause returns the cause to record for the start of the current harness session if
// no source names a cause. If cfg.Cause says that the session is certainly new, or if this
// is the first harness session and cfg.HarnessSession is set, likelyCause returns the cause
// with which the session was opened. Otherwise it returns "unknown".
func (s *step) likelyCause() string {
	if s.cfg.Cause == "startup" || s.scopes.number() == 1 && s.cfg.HarnessSession != "" {
		return s.scopes.current().Cause
	}
	return "unknown"
}

// opening begins the frame of a prompt.
func (t *turns) opening(s *step, sig telemetry.Signal, h *hook) {
	s.scopes.stopWaiting(s) // the new prompt shows that the previous turn has ended
	if s.scopes.current().Ending {
		return
	}
	ev := by(sig)
	s.scopes.start(s, s.likelyCause(), ev, nil)
	if f := t.top(); f != nil {
		t.close(s, f.ID, ev)
	}
	s.health.prompted(s, sig.Source, h != nil)
	id := sig.Turn
	if id == "" || t.past(id) || t.frame(id).ID != "" { // a frame of a client has, or had, this id
		id = s.cfg.NewID("frm_")
	}
	t.soft.prompt = prompt{opened: s.now, at: sig.At, sources: []string{sig.Source}, named: sig.Turn != ""}
	if sig.At.IsZero() {
		t.soft.prompt.at = s.now
	}
	if t.soft.prompt.line = sig.Origin == "" && s.activity.lineBegun(); h == nil || !s.health.repeats() {
		t.lineTaken(s)
	}
	t.soft.prompt.decided = h == nil
	t.soft.answered, t.soft.state = false, turnAsked
	if s.activity.is(working) {
		t.soft.state = turnWorking // the work was reported before the hook of the prompt
	}
	data := map[string]any{"turn": sig.Turn}
	if sig.Origin != "" {
		data["origin"] = sig.Origin
	}
	calls := s.emit(emission{event: lifeloop.FrameOpening, frame: id, evidence: ev, data: data})
	if h != nil {
		s.slots.inside(s, h, calls, id)
		return
	}
	s.openFrame(id, ev)
}

// stop emits frame.ending for the first stop of a turn. A hook may make the harness
// continue and stop again.
func (t *turns) stop(s *step, sig telemetry.Signal, h *hook) {
	f := t.frameFor(sig)
	if f == nil || f.Ending {
		return
	}
	if sig.Outcome == "" && t.soft.answered {
		sig.Outcome = telemetry.Completed // the newest model call was an answer, so the turn was completed
	}
	t.lineTaken(s)
	t.soft.state, t.soft.prompt.stopped = turnStopped, s.now
	s.slots.inside(s, h, s.frameEnding(f.ID, string(sig.Outcome), class(sig.Error, sig.Outcome), by(sig)), "")
}

// end ends a frame whose end a source has reported.
func (t *turns) end(s *step, sig telemetry.Signal) {
	f := t.frameFor(sig)
	if f == nil {
		return
	}
	outcome, failure := string(sig.Outcome), class(sig.Error, sig.Outcome)
	if f.Ending && (outcome == "" || outcome == string(telemetry.Completed)) {
		outcome, failure = f.Outcome, f.Failure
	}
	t.endFrame(s, f.ID, cmp.Or(outcome, string(telemetry.Completed)), failure, by(sig))
}

// idle ends the open frame if the model has stopped in it. If the harness becomes idle
// in a turn that has not stopped, the turn was probably interrupted. idle does not end
// this turn, because a source may report a moment later why the harness is idle.
func (t *turns) idle(s *step, sig telemetry.Signal) {
	f := t.top()
	if f == nil || !f.Opened {
		return
	}
	if f.Ending {
		t.endFrame(s, f.ID, cmp.Or(f.Outcome, string(sig.Outcome)), f.Failure, by(sig))
		return
	}
	if t.soft.state == turnWorking {
		t.soft.state, t.soft.idleAt, t.soft.idleBy = turnIdle, s.now, sig
	}
}

func (t *turns) next(*Kernel) (at time.Time) {
	if !t.soft.idleAt.IsZero() {
		at = t.soft.idleAt.Add(idleSettles)
	}
	return at
}

// wake ends a turn if the harness stayed idle in it for the time idleSettles, and no
// source reported why.
func (t *turns) wake(s *step) {
	if f := t.top(); f != nil {
		t.endIdle(s, f.ID)
	}
}

// endIdle ends the frame of a turn in which the harness became idle and no stop was
// reported. The frame gets the outcome of the idle signal. If the signal has none, the
// frame is completed if the newest model call was an answer, and otherwise interrupted.
func (t *turns) endIdle(s *step, id string) {
	outcome := cmp.Or(t.soft.idleBy.Outcome, telemetry.Interrupted)
	if t.soft.idleBy.Outcome == "" && t.soft.answered {
		outcome = telemetry.Completed
	}
	t.endFrame(s, id, string(outcome), "", by(t.soft.idleBy))
}

// endFrame emits frame.ended, and before it those events of the frame that were not
// emitted yet, with the same evidence.
func (t *turns) endFrame(s *step, id, outcome string, failure lifeloop.FailureClass, ev []lifeloop.Evidence) {
	t.closeInner(s, id, ev)
	client := t.frame(id).Client
	if !client {
		t.lineTaken(s)
		t.clear()
		s.attempts.turnEnded(telemetry.Outcome(outcome))
	}
	s.openFrame(id, ev)
	if !t.frame(id).Ending {
		s.frameEnding(id, outcome, failure, ev)
	}
	s.emit(emission{event: lifeloop.FrameEnded, frame: id, evidence: ev, data: t.frame(id).data(outcome, failure)})
	if !client {
		s.health.turnEnded(s)
		s.books.save(s)
		s.pressure.save(s)
		s.scopes.stopWaiting(s)
	}
}

// openFrame emits frame.opened once.
func (s *step) openFrame(id string, ev []lifeloop.Evidence) {
	if f := s.turns.frame(id); f.ID == id && !f.Opened {
		s.emit(emission{event: lifeloop.FrameOpened, frame: id, evidence: ev, data: f.data("", "")})
	}
}

func (s *step) frameEnding(id, outcome string, failure lifeloop.FailureClass, ev []lifeloop.Evidence) []callRef {
	s.openFrame(id, ev)
	return s.emit(emission{event: lifeloop.FrameEnding, frame: id, evidence: ev, data: s.turns.frame(id).data(outcome, failure)})
}

// data returns the data of the frame's events after the first one.
func (f *frame) data(outcome string, failure lifeloop.FailureClass) map[string]any {
	if f.Origin == "" && outcome == "" && failure == "" {
		return nil
	}
	data := map[string]any{}
	if f.Origin != "" {
		data["origin"] = f.Origin
	}
	if outcome != "" {
		data["outcome"] = outcome
	}
	if failure != "" {
		data["failure_class"] = string(failure)
	}
	return data
}

// closeAll ends every open frame, innermost first, because a later event proves
// that they have ended.
func (t *turns) closeAll(s *step, ev []lifeloop.Evidence) {
	for n := len(t.hard.Frames); n > 0; n = len(t.hard.Frames) {
		t.close(s, t.hard.Frames[n-1].ID, ev)
	}
}

// close ends a frame whose end no source reported. Its outcome is the first of these:
//   - the outcome with which the model stopped, if a source reported one;
//   - the outcome of endIdle, if the harness is idle in this frame;
//   - completed, if the newest model call was an answer, no abort was requested, and the
//     harness still runs or exited with 0;
//   - abandoned.
func (t *turns) close(s *step, id string, ev []lifeloop.Evidence) {
	f := t.frame(id)
	switch {
	case f.Ending && f.Outcome != "":
		t.endFrame(s, id, f.Outcome, f.Failure, ev)
	case !f.Client && t.soft.state == turnIdle:
		t.endIdle(s, id)
	case !f.Client && t.soft.answered && s.unharmed():
		t.endFrame(s, id, string(telemetry.Completed), "", ev)
	default:
		t.endFrame(s, id, abandoned, "", ev)
	}
}

// compacted ends a frame whose model has stopped, if the compaction belongs to another
// turn. Another turn begins only after the frame's turn has ended.
func (t *turns) compacted(s *step, sigs []telemetry.Signal) {
	f := t.top()
	if f == nil || !f.Ending {
		return
	}
	for _, sig := range sigs {
		if sig.Turn != "" && f.Turn != "" && sig.Turn != f.Turn {
			t.close(s, f.ID, by(sig))
			return
		}
	}
}

// class returns the failure class of a turn that ended with an error of the kind e and
// with the outcome o. A failed turn without a known kind of error has transport_error.
// Error messages are never read.
func class(e telemetry.ErrorKind, o telemetry.Outcome) lifeloop.FailureClass {
	if _, c := consequences(e); c != "" || o != telemetry.Failed {
		return c
	}
	return lifeloop.TransportError
}

// recall copies the soft state of past, the turns of another kernel. After a crash, that
// kernel was given the earlier records again (Kernel.Rehearsal). recall clears the state
// of the turn, unless the harness's open frames in t and past have the same turn and the
// same value of Ending.
func (t *turns) recall(past *turns) {
	t.soft = past.soft
	f, was := t.top(), past.top()
	if f == nil || was == nil || f.Turn != was.Turn || f.Ending != was.Ending {
		t.clear()
	}
}
