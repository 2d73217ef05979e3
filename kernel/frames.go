package kernel

import (
	"cmp"
	"slices"
	"time"

	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// This file turns the signals of a turn into frames: one for each human
// prompt, whichever source told of it first (DECISIONS, Stories).

const (
	// idleSettles is how long an idle harness whose turn never stopped is given
	// to say why, before the turn counts as interrupted.
	idleSettles = time.Second
	// cursorEvery bounds how often a cursor is written for its own sake.
	cursorEvery = time.Second
)

// turnSignal folds a signal of the current harness session.
func (s *step) turnSignal(sig telemetry.Signal, h *hook) {
	if sig.Kind == telemetry.Alive && sig.Session == "" {
		s.sign(ActivitySeen{Source: sig.Source})
		return // it speaks of no session, so it cannot say that one has started
	}
	if s.late(sig) || h == nil && s.again(sig) {
		return
	}
	if sig.Kind != telemetry.Idle && sig.Kind != telemetry.UsageSeen && sig.Kind != telemetry.WindowSeen && sig.Kind != telemetry.Gap {
		s.soft.idleSince = time.Time{}
	}
	if !s.cfg.Hooks {
		s.started(s.likelyCause(), by(sig), nil) // nothing better will tell
	}
	s.provesOpen(sig)
	s.toolSignal(sig)
	switch sig.Kind {
	case telemetry.Prompt:
		s.prompt(sig, h)
		s.active(working, sig)
	case telemetry.Alive:
		if f := s.top(); f != nil && f.Ending && sig.Turn != "" && sig.Turn == f.Turn {
			s.soft.goesOn = f.ID
		}
	case telemetry.Working:
		s.active(working, sig)
		s.soft.worked, s.soft.answered = s.topFrame(), ""
	case telemetry.UsageSeen:
		if s.soft.answered = ""; sig.Outcome == telemetry.Completed {
			s.soft.answered = s.topFrame()
		}
	case telemetry.NeedsInput:
		s.active(needsInput, sig)
	case telemetry.Idle:
		s.active(idling, sig)
		s.idle(sig)
	case telemetry.TurnStop:
		s.turnStop(sig, h)
	case telemetry.TurnEnd:
		s.active(idling, sig)
		s.turnEnd(sig)
	case telemetry.ToolStart, telemetry.ToolEnd:
		s.active(working, sig)
		s.soft.worked, s.soft.answered = s.topFrame(), ""
	case telemetry.LimitWait:
		s.active(limitWait, sig)
		s.soft.worked = s.topFrame()
	case telemetry.Gap:
		s.gap(sig)
	}
}

// gap tells that the harness's own sequence has a hole, once, and fills
// nothing in: "Lifeloop does not silently reconstruct lost receipts."
func (s *step) gap(sig telemetry.Signal) {
	if sig.Missing == nil {
		return
	}
	s.tell(telling{event: lifeloop.ReceiptGapDetected, frame: s.topFrame(), evidence: by(sig), data: map[string]any{
		"source": sig.Source, "missing_from": sig.Missing[0], "missing_to": sig.Missing[1]}})
}

// provesOpen tells that a frame is open when the model is heard in it before
// its hook was seen to end: the hook's process may be slower than the model.
func (s *step) provesOpen(sig telemetry.Signal) {
	switch sig.Kind {
	case telemetry.UsageSeen, telemetry.ToolStart, telemetry.ToolEnd:
	default:
		return
	}
	if f := s.top(); f != nil && !f.Opened && !sig.At.IsZero() && sig.At.After(s.soft.openedAt) {
		s.frameOpened(f.ID, by(sig))
	}
}

// late says that a record tells what is past: a prompt that was told already
// (the transcript repeats the hook, and steering repeats the turn), or the work
// of before the harness went idle, which was written after it.
func (s *step) late(sig telemetry.Signal) bool {
	switch sig.Kind {
	case telemetry.Prompt:
		return s.told(sig.Turn)
	case telemetry.Working, telemetry.ToolStart, telemetry.ToolEnd, telemetry.NeedsInput, telemetry.LimitWait:
		return !sig.At.IsZero() && sig.At.Before(s.soft.idleSince)
	}
	return false
}

// again says that a prompt was told by another source already, where one of the
// two has no name for the turn. Each source tells each prompt once, in order:
// so this one is of the open frame when its model has not stopped, and past
// when the newest prompt is a later one. What has a name gives it to the frame.
// A prompt without a name, in a turn that stopped and was said to go on, is what
// makes it go on.
func (s *step) again(sig telemetry.Signal) bool {
	if sig.Kind != telemetry.Prompt {
		return false
	}
	if sig.Turn == "" && s.soft.goesOn != "" && s.soft.goesOn == s.topFrame() {
		s.soft.goesOn = ""
		return true
	}
	if s.soft.named && sig.Turn != "" || slices.Contains(s.soft.askedBy, sig.Source) {
		return false
	}
	f := s.top()
	past := !sig.At.IsZero() && sig.At.Before(s.soft.askedAt)
	if len(s.soft.askedBy) == 0 || !past && (f == nil || f.Ending) {
		return false
	}
	s.soft.askedBy = append(s.soft.askedBy, sig.Source)
	if sig.Turn != "" && f != nil && f.Turn == "" && !past {
		s.soft.named = true
		s.record(FrameAdopted{Frame: f.ID, Turn: sig.Turn})
	}
	return true
}

// told says that a turn was told, to its end or as far as it is.
func (s *step) told(turn string) bool {
	return turn != "" && (s.hard.Past[turn] || s.frameOf(turn) != nil)
}

// likelyCause is the cause of a start that nothing told: the session whose id
// we gave the harness ourselves is a new one.
func (s *step) likelyCause() string {
	if s.hard.Scope == 1 && s.cfg.HarnessSession != "" {
		return "startup"
	}
	return "unknown"
}

// prompt opens a frame.
func (s *step) prompt(sig telemetry.Signal, h *hook) {
	s.goneAnyway() // what was told before this prompt is not waited for any more
	if s.current().Ending {
		return
	}
	ev := by(sig)
	s.started(s.likelyCause(), ev, nil)
	if f := s.top(); f != nil {
		s.closeFrame(f.ID, ev)
	}
	claimed, now := s.claimed(hooksCapability), s.support(hooksCapability)
	switch {
	case h == nil && s.cfg.Hooks && now == claimed:
		s.degrade(hooksCapability, now, lifeloop.Partial, "a prompt was seen in the "+sig.Source+" and its hook was not heard")
	case h != nil && now == lifeloop.Partial:
		s.degrade(hooksCapability, now, claimed, "a prompt's hook was heard again")
	}
	id := sig.Turn
	if id == "" || s.hard.Past[id] || s.hard.frame(id).ID != "" { // a client has, or had, a frame of that name
		id = s.cfg.NewID("frm_")
	}
	if s.soft.openedAt, s.soft.askedAt = s.now, sig.At; sig.At.IsZero() {
		s.soft.askedAt = s.now
	}
	s.soft.askedBy, s.soft.named, s.soft.answered = []string{sig.Source}, sig.Turn != "", ""
	if s.soft.doing.what == working {
		s.soft.worked = id // the harness said so before its hook told of the prompt
	}
	calls := s.tell(telling{event: lifeloop.FrameOpening, frame: id, evidence: ev, data: map[string]any{"turn": sig.Turn}})
	if h != nil {
		h.opens = id
		s.inside(h, calls)
		return
	}
	s.frameOpened(id, ev)
}

func (s *step) frameOpened(id string, ev []lifeloop.Evidence) {
	if f := s.hard.frame(id); f.ID == id && !f.Opened {
		s.tell(telling{event: lifeloop.FrameOpened, frame: id, evidence: ev})
	}
}

// turnStop tells frame.ending once, however often a hook makes the harness go
// on after it.
func (s *step) turnStop(sig telemetry.Signal, h *hook) {
	f := s.frameFor(sig)
	if f == nil || f.Ending {
		return
	}
	if sig.Outcome == "" && s.soft.answered == f.ID {
		sig.Outcome = telemetry.Completed // another source saw the answer
	}
	s.frameEnding(f.ID, string(sig.Outcome), class(sig.Error, sig.Outcome), by(sig))
}

// turnEnd tells the end of a frame that is over for certain.
func (s *step) turnEnd(sig telemetry.Signal) {
	f := s.frameFor(sig)
	if f == nil {
		return
	}
	outcome, failure := string(sig.Outcome), class(sig.Error, sig.Outcome)
	if f.Ending && (outcome == "" || outcome == string(telemetry.Completed)) {
		outcome, failure = f.Outcome, f.Failure
	}
	if outcome == "" {
		outcome = string(telemetry.Completed)
	}
	s.endFrame(f.ID, outcome, failure, by(sig))
}

// idle ends a frame whose model has stopped. An idle harness whose turn never
// stopped was probably interrupted; the record that says so may be a moment
// behind.
func (s *step) idle(sig telemetry.Signal) {
	f := s.top()
	if f == nil || !f.Opened {
		return
	}
	if f.Ending {
		s.endFrame(f.ID, cmp.Or(f.Outcome, string(sig.Outcome)), f.Failure, by(sig))
		return
	}
	if s.soft.worked == f.ID && s.soft.idleSince.IsZero() {
		s.soft.idleSince, s.soft.idleBy = s.now, sig
	}
}

func (s *step) idleSettled() {
	s.soft.idleSince = time.Time{}
	if f := s.top(); f != nil && s.soft.worked == f.ID {
		s.endFrame(f.ID, s.settled(), "", by(s.soft.idleBy))
	}
}

// settled is how a turn ended that never stopped before the harness was idle:
// it was interrupted, unless this harness tells that elsewhere.
func (s *step) settled() string {
	return string(cmp.Or(s.soft.idleBy.Outcome, telemetry.Interrupted))
}

// endFrame tells frame.ended, and frame.ending right before it when nothing
// told that: its evidence then is the evidence of the end.
func (s *step) endFrame(id, outcome string, failure lifeloop.FailureClass, ev []lifeloop.Evidence) {
	s.endInner(id, ev)
	client := s.hard.frame(id).Client
	if !client {
		s.soft.idleSince = time.Time{}
		s.soft.attempt.turn = telemetry.Outcome(outcome)
	}
	s.frameOpened(id, ev)
	if !s.hard.frame(id).Ending {
		s.frameEnding(id, outcome, failure, ev)
	}
	s.tell(telling{event: lifeloop.FrameEnded, frame: id, evidence: ev, data: outcomeData(outcome, failure)})
	if !client {
		s.turnHeard()
		s.keepBooks(true)
		s.goneAnyway() // its session waited for this
	}
}

func (s *step) frameEnding(id, outcome string, failure lifeloop.FailureClass, ev []lifeloop.Evidence) {
	s.frameOpened(id, ev)
	s.tell(telling{event: lifeloop.FrameEnding, frame: id, evidence: ev, data: outcomeData(outcome, failure)})
}

func outcomeData(outcome string, failure lifeloop.FailureClass) map[string]any {
	data := map[string]any{}
	if outcome != "" {
		data["outcome"] = outcome
	}
	if failure != "" {
		data["failure_class"] = string(failure)
	}
	return data
}

// closeFrames ends every open frame, innermost first, because something later
// proves that they are over.
func (s *step) closeFrames(ev []lifeloop.Evidence) {
	for n := len(s.hard.Frames); n > 0; n = len(s.hard.Frames) {
		s.closeFrame(s.hard.Frames[n-1].ID, ev)
	}
}

// closeFrame ends a frame of which only something later tells. If its model
// had stopped, it ended as it said; if it went idle, as idleness says;
// so it did if
// its newest call was an answer, and nothing cut it short after that; any other
// was abandoned.
func (s *step) closeFrame(id string, ev []lifeloop.Evidence) {
	switch f := s.hard.frame(id); {
	case f.Ending && f.Outcome != "":
		s.endFrame(id, f.Outcome, f.Failure, ev)
	case !s.soft.idleSince.IsZero() && s.soft.worked == id:
		s.endFrame(id, s.settled(), "", by(s.soft.idleBy))
	case s.soft.answered == id && s.endedWell():
		s.endFrame(id, string(telemetry.Completed), "", ev)
	default:
		s.endFrame(id, "abandoned", "", ev)
	}
}

// endedWell says that the harness was not made to end.
func (s *step) endedWell() bool {
	e := s.hard.Exit
	return s.hard.AbortBy == 0 && (e == nil || e.Code == 0 && e.Signal == 0 && !e.Lost && !e.Unseen)
}

// top is the harness's own open frame.
func (s *step) top() *frame {
	for i := len(s.hard.Frames) - 1; i >= 0; i-- {
		if !s.hard.Frames[i].Client {
			return &s.hard.Frames[i]
		}
	}
	return nil
}

func (s *step) topFrame() string {
	if f := s.top(); f != nil {
		return f.ID
	}
	return ""
}

func (s *step) frameOf(turn string) *frame {
	for i := range s.hard.Frames {
		if s.hard.Frames[i].Turn == turn {
			return &s.hard.Frames[i]
		}
	}
	return nil
}

// frameFor is the open frame that a stop or an end speaks of. One that names
// no turn speaks of the open frame, unless its record is older than the frame:
// the end of the turn before may be written after the next prompt was sent.
func (s *step) frameFor(sig telemetry.Signal) *frame {
	if sig.Turn != "" {
		return s.frameOf(sig.Turn)
	}
	f := s.top()
	if f == nil || !sig.At.IsZero() && sig.At.Before(s.soft.openedAt) {
		return nil
	}
	return f
}

// class maps a structured cause to the contract's class; a message is never
// read.
func class(e telemetry.ErrorKind, o telemetry.Outcome) lifeloop.FailureClass {
	switch e {
	case telemetry.ErrRateLimit, telemetry.ErrServer, telemetry.ErrNetwork:
		return lifeloop.TransportError
	case telemetry.ErrAuth, telemetry.ErrQuota, telemetry.ErrBilling:
		return lifeloop.OperatorRequired
	case telemetry.ErrInvalidRequest, telemetry.ErrContextFull:
		return lifeloop.InvalidRequest
	}
	if o == telemetry.Failed {
		return lifeloop.TransportError
	}
	return ""
}
