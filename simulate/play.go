package simulate

import (
	"bytes"
	"fmt"
	"time"

	"lifeloop/attempt"
	"lifeloop/canon"
	"lifeloop/gate"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/telemetry"
)

// source is the name of the only source of evidence, the script.
const source = "script"

// byControl is the id of each command that comes from the document's list "control".
const byControl = "control"

// Limits of a simulation, which end it if a policy retries without end.
const (
	maxEntries = 100_000
	maxInputs  = 2_000_000
	maxTime    = 200 * 365 * 24 * time.Hour
)

const (
	sigKILL = 9
	sigTERM = 15
	// tick is the time before a step, unless the script sets another time with wait_ms.
	tick        = time.Millisecond
	clientDrain = 5 * time.Second
	firstPID    = 1000
)

// Config is the kernel's configuration for the world.
func (w World) Config() kernel.Config {
	n := map[string]int{}
	c := kernel.Config{
		Session: Session, Policy: w.policy, Launch: w.setup(0), Ledger: true, ClientDrain: clientDrain, Limits: setup.Limits{AbortGrace: w.grace}, Manifests: w.adapter,
		NewID: func(prefix string) string { n[prefix]++; return fmt.Sprintf("%s%06d", prefix, n[prefix]) },
	}
	c.Began = kernel.Began{SessionID: Session, AdapterID: c.Manifest.AdapterID, AdapterVersion: c.Manifest.AdapterVersion,
		Program: w.policy.Profiles[0].Name, Policy: "none", Meta: w.meta}
	c.Clients, c.Began.Clients = w.renewal.clients()
	if w.gate != nil {
		c.Guarding = setup.Guarding{Gate: w.gate.Digest(), ApprovalWait: w.approvalWait}
		c.Began.Policy = c.Gate
	}
	if w.renewal.profile != "" {
		c.Renewing = setup.Renewing{Renewals: []renewal.Rules{{Profile: w.renewal.profile, Paths: w.renewal.paths}}, Stores: true}
		if w.renewal.client != nil {
			c.Renewals[0].Client = clientID
		}
	}
	return c
}

// setup describes a launch of a profile. A script cannot report a harness session,
// so the running process counts as one. But if the harness can be renewed, each
// launch has a hook that reports its session.
func (w World) setup(profile int) setup.Launch {
	renews := w.renews(profile)
	return setup.Launch{Manifest: w.adapter[profile], Injected: setup.Injected{Hooks: renews}, NoTelemetry: !renews, Fresh: w.fresh(profile), Resumes: renews, Interactive: renews,
		Ends: setup.Ends{Success: w.success, Codes: w.codes}}
}

// A player simulates one world: it takes the place of the supervisor and of the
// harness.
type player struct {
	world   World
	core    Core
	now     time.Time
	control []control
	queue   []input.Input // inputs caused in this millisecond
	inputs  int
	result  Result

	launched map[string]int // the number of launches of each profile
	called   int            // the number of hook calls
	sessions int            // the number of new harness sessions
	calls    int            // the number of calls to the client
	answers  []answer       // the answers that the client has yet to give, the first one first

	limit     gate.Limiter
	approvals []kernel.ApprovalAsked // the approvals that acts wait for
	launch    launch                 // the newest launch
}

// A launch is one simulated process, whose behaviour a script describes.
type launch struct {
	script  script
	alive   bool
	next    int                // index of the next step
	due     time.Time          // when the next step or the end of the script happens; zero while the launch hangs or waits
	held    bool               // the process is paused
	left    time.Duration      // the time left until the next step, while paused
	ignores bool               // the process ignores TERM
	asking  bool               // the harness waits for the user
	written int64              // bytes of output so far
	cause   attempt.Cause      // the cause of the launch's failure, from the script
	words   string             // the message of the launch's failure
	hooks   string             // the id of the launch's harness session, which its hooks report; empty without hooks
	waits   string             // the id of the hook call about a tool, while the harness waits for its answer
	typed   string             // the id of the renewal for which keys are being typed
	use     *telemetry.ToolUse // the tool call of the hook call whose id is in the field waits
}

// RunOn simulates the world with a core that was created from [World.Config],
// until the session has ended or nothing more can happen.
func (w World) RunOn(core Core) Result {
	p := &player{world: w, core: core, now: Start(), control: w.control, launched: map[string]int{}, result: Result{Texts: map[uint64]*Text{}}}
	for len(p.control) > 0 && p.control[0].at == 0 && p.control[0].do == doAbort { // an abort at time 0 happens before the session begins
		p.ask()
	}
	p.cause(input.Start{})
	for {
		for len(p.queue) > 0 {
			in := p.queue[0]
			p.queue = p.queue[1:]
			p.feed(in)
		}
		if done, over := core.Done(); over {
			p.result.Code = done.Code
			return p.result
		}
		if p.inputs >= maxInputs || len(p.result.Entries) >= maxEntries || p.now.Sub(Start()) >= maxTime {
			return p.stuck(fmt.Sprintf("the session had not ended; the simulation stopped after %d launches", len(p.result.Launches)))
		}
		if !p.happen() {
			return p.stuck("nothing more can happen: " + p.waits())
		}
	}
}

func (p *player) stuck(why string) Result {
	p.result.Stuck = true
	p.result.Why = fmt.Sprintf("after %d ms %s", p.now.Sub(Start()).Milliseconds(), why)
	return p.result
}

// happen performs the next control, answer, step or timer. It returns false if there is
// none.
func (p *player) happen() bool {
	var at time.Time
	first := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	asks, acts := len(p.control) > 0, p.launch.alive && !p.launch.held && !p.launch.due.IsZero()
	if asks {
		first(Start().Add(p.control[0].at))
	}
	if acts {
		first(p.launch.due)
	}
	if len(p.answers) > 0 {
		first(p.answers[0].at)
	}
	timer, waits := p.core.Deadline()
	if waits {
		first(timer)
	}
	if at.IsZero() {
		return false
	}
	if at.After(p.now) {
		p.now = at
	}
	switch {
	case asks && !Start().Add(p.control[0].at).After(p.now):
		p.ask()
	case len(p.answers) > 0 && !p.answers[0].at.After(p.now):
		in := p.answers[0].Returned
		p.answers = p.answers[1:]
		p.cause(in)
	case acts && !p.launch.due.After(p.now):
		p.step()
	default:
		p.cause(input.Wake{})
	}
	return true
}

// ask performs the next entry of the document's list "control". An abort at time 0 is
// a SIGTERM to the wrapper, because the session's socket does not exist yet. A later
// abort is the command `abort`.
func (p *player) ask() {
	c := p.control[0]
	p.control = p.control[1:]
	switch c.do {
	case doAbort:
		in := input.AbortAsked{Signal: sigTERM, Ask: byControl}
		if c.at == 0 {
			in.Ask = ""
		}
		p.cause(in)
	case doPause:
		p.cause(input.PauseAsked{Ask: byControl})
	case doResume:
		p.cause(input.ResumeAsked{Ask: byControl})
	case doApprove, doDeny:
		p.approve(c.do)
	case doRenew:
		p.cause(input.RenewAsked{Ask: byControl})
	}
}

func (p *player) cause(in input.Input) { p.queue = append(p.queue, in) }

// feed steps the kernel with one input, records the facts and performs the
// effects.
func (p *player) feed(in input.Input) kernel.Output {
	p.inputs++
	out := p.core.Step(p.now, in)
	for _, f := range out.Facts {
		p.result.Entries = append(p.result.Entries, kernel.Entry{Seq: uint64(len(p.result.Entries) + 1), At: p.now, Fact: f})
		p.waiting(f)
		switch f := f.(type) {
		case kernel.SessionMoved:
			p.result.State = f.To
		case kernel.AttemptEnded:
			if f.Cause == p.launch.cause && p.launch.words != "" {
				p.result.Texts[uint64(len(p.result.Entries))] = &Text{Words: p.launch.words}
			}
		}
	}
	for _, e := range out.Effects {
		p.perform(e)
	}
	return out
}

// perform performs an effect as the supervisor does. DrainSources is done at once,
// because a simulated harness writes no files to read.
func (p *player) perform(e effect.Effect) {
	l := &p.launch
	switch e := e.(type) {
	case effect.Launch:
		p.start(e)
	case effect.Stop:
		if !l.alive || e.Signal != sigKILL && (l.ignores || l.held) {
			return
		}
		p.ended(input.ChildExited{Signal: e.Signal})
	case effect.Suspend:
		if l.alive && !l.held {
			l.held = true
			l.left = l.due.Sub(p.now)
		}
	case effect.Continue:
		if l.held {
			l.held = false
			if !l.due.IsZero() {
				l.due = p.now.Add(l.left)
			}
		}
	case effect.DrainSources:
		p.cause(input.SourcesDrained{})
	case effect.AskGate:
		p.decide(e)
	case effect.HookAnswer:
		p.cause(input.HookClosed{Hook: e.Hook, Delivered: true})
		p.answered(e)
		if e.Event == "session" {
			p.cause(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.Idle, Source: source, Detail: "its prompt"}}})
		}
	case effect.PrepareRenewal:
		p.cause(input.RenewalPrepared{Renewal: e.Renewal, Digest: string(canon.Sum([]byte(continuation(e.Renewal))))})
	case effect.TypeKeys:
		p.keys(e)
	case effect.Dispatch:
		p.call(e)
	case effect.Cancel:
		p.stopTyping(e)
		p.cancel(e.Call)
	case effect.ContinueRenewal:
		p.cause(input.RenewalContinued{Renewal: e.Renewal, Text: lifeloop.NewOpaque(continuation(e.Renewal)), Digest: e.Digest})
	}
}

// hook returns the input for a call of a hook by the newest launch.
func (p *player) hook(event string, slot string, s telemetry.Signal) input.HookCalled {
	p.called++
	return input.HookCalled{Hook: fmt.Sprintf("hook-%06d", p.called), Deadline: p.now.Add(time.Minute), Call: telemetry.HookCall{
		Event: event, Slot: slot, Capacity: 1 << 13, Session: p.launch.hooks, Signals: []telemetry.Signal{s}}}
}

// start begins the next launch of a profile.
func (p *player) start(e effect.Launch) {
	name := p.world.policy.Profiles[e.Profile].Name
	p.result.Launches = append(p.result.Launches, name)
	scripts, n := p.world.scripts[name], p.launched[name]
	p.launched[name]++
	p.launch = launch{}
	l := &p.launch
	if len(scripts) > 0 {
		l.script = scripts[min(n, len(scripts)-1)]
	}
	if len(l.script) > 0 && l.script[0].act == startFails {
		p.cause(input.LaunchFailed{Code: l.script[0].number, Why: "the script says " + l.script[0].text, Transient: l.script[0].number == 125})
		return
	}
	l.alive = true
	in := input.Launched{PID: firstPID + e.Number}
	if e.Number > 1 {
		launch := p.world.setup(e.Profile)
		in.Setup = &launch
	}
	p.cause(in)
	if p.world.renews(e.Profile) {
		p.begins(e)
	}
	p.plan()
}

// plan computes when the next step is due.
func (p *player) plan() {
	l := &p.launch
	after, waits := time.Duration(0), false
	for l.next < len(l.script) && l.script[l.next].act == wait {
		after, waits = min(after+l.script[l.next].wait, maxTime), true
		l.next++
	}
	if !waits {
		after = tick
	}
	l.due = p.now.Add(after)
}

func (p *player) ended(in input.ChildExited) {
	p.launch.alive, p.launch.held = false, false
	if p.launch.waits != "" {
		p.cause(input.HookClosed{Hook: p.launch.waits})
	}
	p.cause(in)
}

// step performs the next step of the launch.
func (p *player) step() {
	l := &p.launch
	if l.next == len(l.script) {
		p.ended(input.ChildExited{})
		return
	}
	s := l.script[l.next]
	l.next++
	switch s.act {
	case output:
		p.resumes()
		l.written += int64(len(s.text))
		p.feed(input.OutputSeen{Total: l.written, Text: []byte(s.text), Whole: true})
	case signal:
		p.signal(s)
	case checkpoint:
		p.feed(input.CheckpointSeen{Checkpoint: s.text})
	case fail:
		l.cause, l.words = s.cause, s.text
		p.feed(input.FailureSeen{Cause: s.cause, Source: source})
		if l.alive {
			p.ended(input.ChildExited{Code: p.world.failing()})
		}
	case exit:
		p.ended(input.ChildExited{Code: s.number})
	case killed:
		p.ended(input.ChildExited{Signal: s.number})
	case hang:
		l.due = time.Time{}
		return
	case ignoreTerm:
		l.ignores = true
	case tool:
		p.tool(s)
		return
	case reset:
		l.next, l.due = l.next-1, time.Time{} // the launch stays at this step until player.keys begins a reset
		return
	}
	if l.alive {
		p.plan()
	}
}

// failing returns the exit code of a launch that a fail step ends: the smallest,
// from 1, that does not mean success.
func (w World) failing() int {
	code := 1
	for w.success[code] {
		code++
	}
	return code
}

// resumes reports that a harness which was waiting for its user works again. It is
// called for output, and for any signal except needs_input, idle and alive.
func (p *player) resumes() {
	if p.launch.asking {
		p.launch.asking = false
		p.feed(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.Working, Source: source, Detail: "it continues"}}})
	}
}

// signal passes the signal of a step to the kernel, and stores the texts of the
// step, which facts do not contain.
func (p *player) signal(s step) {
	switch s.signal.Kind {
	case telemetry.NeedsInput:
		p.launch.asking = true
	case telemetry.Idle:
		p.launch.asking = false
	case telemetry.Alive:
	default:
		p.resumes()
	}
	sig := s.signal
	if sig.Kind == telemetry.Fault {
		p.launch.cause, p.launch.words = s.cause, s.text
		sig.Error = map[attempt.Cause]telemetry.ErrorKind{attempt.RateLimit: telemetry.ErrRateLimit, attempt.ServerError: telemetry.ErrServer,
			attempt.Network: telemetry.ErrNetwork, attempt.Unknown: telemetry.ErrUnknown}[s.cause]
	}
	before := uint64(len(p.result.Entries))
	var in input.Input = input.SignalsSeen{Signals: []telemetry.Signal{sig}}
	if sig.Kind == telemetry.Prompt && p.launch.hooks != "" {
		in = p.hook("prompt", telemetry.SlotFrame, sig)
	}
	out := p.feed(in)
	for i, f := range out.Facts {
		switch f := f.(type) {
		case kernel.ToolCalled:
			p.result.Texts[before+uint64(i)+1] = &Text{Arguments: s.in}
		case kernel.ToolReturned:
			if f.Tool == sig.Tool {
				p.result.Texts[before+uint64(i)+1] = &Text{Result: s.out, Words: s.text}
			}
		}
	}
	if sig.Kind == telemetry.Fault && sig.Error == "" { // the map above has no ErrorKind for this cause
		p.feed(input.FailureSeen{Cause: s.cause, Source: source})
	}
}

// sized returns the digest and size of a JSON text in its canonical form.
func sized(raw []byte) *telemetry.Sized {
	text, err := canon.Transform(raw)
	if err != nil {
		text = bytes.TrimSpace(raw) // the text has a number that canonical JSON cannot represent
	}
	return &telemetry.Sized{Digest: string(canon.Sum(text)), Size: int64(len(text))}
}

// waits returns the reason, in words, why nothing more can happen in the session.
func (p *player) waits() string {
	l := &p.launch
	switch {
	case l.held:
		return fmt.Sprintf("launch %d is paused, and no control resumes it", len(p.result.Launches))
	case l.alive && l.next < len(l.script) && l.script[l.next].act == reset:
		return fmt.Sprintf("launch %d waits at %s for a reset in place, and no renewal begins one", len(p.result.Launches), l.script[l.next].path)
	case l.alive:
		return fmt.Sprintf("launch %d hangs at %s, and no time-out and no control is left to end it", len(p.result.Launches), l.script[l.next-1].path)
	}
	return "the session is paused, and no control resumes it"
}
