// Package kernel is the whole program with the world taken out.
//
// [Kernel.Step] takes one [Input] and a clock reading and returns a [Turn]:
// the facts that became true and the effects that must now be performed. The
// shell appends the facts to the ledger first and performs the effects second;
// the results of effects come back as further inputs.
//
// The kernel starts no goroutine, reads no clock, holds no lock, opens no file
// and logs nothing. The same inputs give the same turns, byte for byte, and
// applying the recorded facts to a fresh kernel gives the same hard state. No
// turn has an effect without a fact: whatever is done can be accounted for.
//
//	k := kernel.New(cfg)
//	turn := k.Step(now, kernel.Start{})
//	append(turn.Facts); sync if turn.Sync; perform(turn.Effects)
//	// wake me at k.Deadline(); stop when k.Done()
//
// Where to look: fact.go holds what can be true, told.go how an event reaches
// its clients and becomes receipts, identity.go and frames.go what signals
// mean, hooks.go and place.go how a payload reaches the model, attempts.go what
// is tried, and tried again, wishes.go what may be asked for, restart.go how a
// session is taken up, shutdown.go the end.
package kernel

import (
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/session"
	"lifeloop/synth"
	"lifeloop/telemetry"
)

// SelfClient is the client that a run without clients has, so that a bare run
// still leaves receipts (DECISIONS L4).
const SelfClient = "lifeloop-wrap"

// An Input is something the world tells the kernel.
type Input interface{ isInput() }

type (
	// Start asks for the session to begin.
	Start struct{}
	// Launched says that the harness runs. Setup is what this launch turned out
	// to be; nil where Config describes it: for the first one of a session that
	// was not taken up.
	Launched struct {
		PID   int
		Setup *Setup
	}
	// LaunchFailed says that it could not be started. Code is the exit code
	// that a shell would give: 126 not executable, 127 not found, 125 other.
	LaunchFailed struct {
		Code int
		Why  string // a sentence for the person
		// Transient says that another moment may be a better one.
		Transient bool
	}
	// OutputSeen says that this launch has written Total bytes so far. Text is
	// what was written since the last one, where the policy looks at it; Whole
	// says that it is one piece of its own.
	OutputSeen struct {
		Total int64
		Text  []byte
		Whole bool
	}
	// FailureSeen says that somebody told, by a typed cause, why this attempt is
	// about to fail. It counts once the attempt has ended, and not before.
	FailureSeen struct {
		Cause  attempt.Cause
		Code   string    // of a network's error, where it has one
		Until  time.Time // when a limit is lifted; zero when that is not told
		Source string
	}
	// CheckpointSeen says that a continuation from here became possible.
	// Checkpoint is its id, never its text.
	CheckpointSeen struct{ Checkpoint string }
	// SignalsSeen carries the decoded signals of one telemetry record.
	SignalsSeen struct {
		Signals  []telemetry.Signal
		Position *Position // where the source was read to; nil for sources without one
	}
	// HookCalled says that the harness called a hook and waits for the answer
	// until Deadline at the latest.
	HookCalled struct {
		Hook     string // our id of this call
		Call     telemetry.HookCall
		Deadline time.Time
	}
	// HookClosed says that the hook is over: the answer was written whole to a
	// hook that still listened (Delivered), or it was not.
	HookClosed struct {
		Hook      string
		Delivered bool
	}
	// Returned carries the outcome of one dispatch: a valid Response, or the
	// Failure with a few words on Why.
	Returned struct {
		Call     string
		Response *lifeloop.CallbackResponse
		Failure  lifeloop.FailureClass
		Why      string
	}
	// ChildExited says that the harness is gone and its terminal drained.
	ChildExited struct {
		Code     int  // exit code, when Signal is 0
		Signal   int  // the signal that ended it
		Leftover int  // processes of its tree that outlived it and are being ended
		Lost     bool // the guard was lost, so the rest is not known
		// OutputLost says that output could not be written where it was to go.
		OutputLost bool
	}
	// SourcesDrained says that every watched file was read to its end after
	// the harness was gone.
	SourcesDrained struct{}
	// ChildStopped and ChildContinued tell of job control.
	ChildStopped   struct{ Signal int }
	ChildContinued struct{}
	// AbortAsked says that the wrapper itself was told to end: by a signal, or
	// by somebody at the session's door, whom Ask names.
	AbortAsked struct {
		Signal int
		Ask    string
		Reason string
	}
	// PauseAsked, ResumeAsked and RenewAsked come by the session's door.
	PauseAsked  struct{ Ask, Reason string }
	ResumeAsked struct{ Ask, Reason string }
	RenewAsked  struct{ Ask, Reason string }
	// Restarted asks for a session to go on whose wrapper died. It is the first
	// input of a kernel that replayed the ledger. PID is the new wrapper's.
	Restarted struct{ PID int }
	// SourceTrouble says that a watched file cannot be read as it should.
	SourceTrouble struct {
		Source string
		What   string
	}
	// UnknownSeen says how many records of each type a source has told so far
	// that nobody understands.
	UnknownSeen struct {
		Source string
		Types  map[string]int
	}
	// FrameRequested is a client's wish to open or close a frame of its own.
	FrameRequested struct {
		Ask     string // our id of the question
		Open    bool   // else close
		Frame   string
		Parent  string // of a frame to open; empty for a top-level one
		Outcome string // of a frame to close; empty for completed
	}
	// LedgerLost says that the ledger refused a write and the run goes on
	// without it.
	LedgerLost struct{}
	// Wake says that the time returned by Deadline has come.
	Wake struct{}
)

func (Start) isInput()          {}
func (Launched) isInput()       {}
func (LaunchFailed) isInput()   {}
func (OutputSeen) isInput()     {}
func (SignalsSeen) isInput()    {}
func (HookCalled) isInput()     {}
func (HookClosed) isInput()     {}
func (Returned) isInput()       {}
func (ChildExited) isInput()    {}
func (SourcesDrained) isInput() {}
func (ChildStopped) isInput()   {}
func (ChildContinued) isInput() {}
func (AbortAsked) isInput()     {}
func (FailureSeen) isInput()    {}
func (CheckpointSeen) isInput() {}
func (PauseAsked) isInput()     {}
func (ResumeAsked) isInput()    {}
func (RenewAsked) isInput()     {}
func (Restarted) isInput()      {}
func (SourceTrouble) isInput()  {}
func (UnknownSeen) isInput()    {}
func (FrameRequested) isInput() {}
func (LedgerLost) isInput()     {}
func (Wake) isInput()           {}

// An Effect is something the shell must do once the turn's facts are durable.
type Effect interface{ isEffect() }

type (
	// Launch starts the harness of a profile. Number counts the launches of the
	// session from 1. Resume is the checkpoint that it goes on from: the id of
	// the harness session to resume; empty for a fresh start.
	Launch struct {
		Run     string
		Number  int
		Profile int
		Resume  string
	}
	// Stop sends Signal to the harness's process group; Tree sends it to
	// everything below us.
	Stop struct {
		Signal int
		Tree   bool
	}
	// Suspend stops every process below the wrapper; Continue lets them run again.
	Suspend  struct{}
	Continue struct{}
	// Watch begins to read a file that a signal named.
	Watch struct{ Path string }
	// Dispatch calls a client. The envelope may hold payload bodies.
	Dispatch struct {
		Call     string
		Client   string
		Envelope lifeloop.DispatchEnvelope
		Timeout  time.Duration
	}
	// Cancel gives up a dispatch that is still running.
	Cancel struct{ Call string }
	// HookAnswer closes a hook with the context for the model, which is empty
	// when there is none.
	HookAnswer struct {
		Hook    string
		Event   string
		Context lifeloop.Opaque
	}
	// Reply answers what was asked by the session's door; Failure is empty when
	// it was done.
	Reply struct {
		Ask     string
		Failure lifeloop.FailureClass
		Why     string
	}
	// Release gives the terminal back: the harness is gone.
	Release struct{}
	// DrainSources reads every watched file to its end once more.
	DrainSources struct{}
)

func (Launch) isEffect()       {}
func (Stop) isEffect()         {}
func (Suspend) isEffect()      {}
func (Continue) isEffect()     {}
func (Watch) isEffect()        {}
func (Dispatch) isEffect()     {}
func (Cancel) isEffect()       {}
func (HookAnswer) isEffect()   {}
func (Reply) isEffect()        {}
func (Release) isEffect()      {}
func (DrainSources) isEffect() {}

// A Turn is the result of one Step.
type Turn struct {
	Facts   []Fact   // append these, in order, before anything else
	Effects []Effect // then perform these; their results return as Inputs
	Sync    bool     // the append must reach the disk first (DECISIONS F3)
}

// A Client is one subscriber, as the kernel sees it.
type Client struct {
	ID      string
	Events  map[lifeloop.Event]bool // what it subscribed to
	Wants   []negotiate.Want
	Timeout time.Duration // of one dispatch
}

// Config is fixed for the life of a Kernel.
type Config struct {
	Session string // our own session id, the HCP session
	Clients []Client
	Wants   []negotiate.Want // what the wrapper's owner requires
	// Setup is of the first launch. Another one brings its own.
	Setup
	// Policy says how attempts are supervised. Its profiles may be left out of
	// one that has no fallback.
	Policy attempt.Policy
	// Manifests are those of the policy's profiles, by index.
	Manifests []lifeloop.Manifest

	// Observing says that nothing was launched: mode telemetry_only.
	Observing bool
	// OneHook says that one call of a hook is all there will be: what happened
	// before is not known, and nothing durable is claimed.
	OneHook bool
	// Ledger says that facts are kept, so that receipts may be numbered.
	Ledger bool

	Tick         time.Duration // supervisor.tick to those who name it; 0 is off
	ClientDrain  time.Duration // how long clients have after the harness ended
	AbortGrace   time.Duration // from the first signal to KILL
	WedgedAfter  time.Duration // of silence in the midst of work; 0 is 5 min
	HookPatience time.Duration // how long after the launch the first hook may take; 0 is 10 s
	MaxQueue     int           // dispatches waiting per client; 0 is 64
	Began        Began         // what the first fact says of this run
	NewID        func(prefix string) string
}

// A Setup is what one launch is like: which harness, and what can be heard of
// it.
type Setup struct {
	Manifest lifeloop.Manifest
	Synth    synth.Config

	// HarnessSession is the id that the harness was told to use; empty when it
	// chooses its own. Of an observer it is the only session that is asked for,
	// out of sources that may hold others; empty is the first that is told of.
	HarnessSession string
	// Cause is why the harness session begins, as far as its command line
	// tells; empty is startup. A sign of life that names a cause knows better.
	Cause string
	// Hooks says that hooks were injected and are expected to be heard.
	Hooks bool
	// Expected are sources that tell of every turn, so that their silence is
	// news.
	Expected []string
	// NoTelemetry says that no telemetry of this harness is understood: then the
	// running process itself is the only sign of a live session.
	NoTelemetry bool
	// Tested are the versions of the harness that its claims were tested with;
	// empty where none was, and then none is held against them.
	Tested []string
	// Weak lists capabilities that this launch cannot have, with the reason.
	Weak []Weakened

	// Quit is the signal that is the harness's own way out; 0 when TERM is as
	// good as any.
	Quit int
	// Ends says what its end means.
	Ends Ends
	// Resumes says that it can be launched to go on with a harness session of
	// its own that is named by its id.
	Resumes bool
	// Interactive says that a person talks with it: when it is idle, it waits for
	// them.
	Interactive bool
}

// Ends says what the end of a harness means, beyond what every program's does.
// The zero value is a program that says by its exit code how it went.
type Ends struct {
	Success map[int]bool          // exit codes of a completed attempt; nil is 0 alone
	Codes   map[int]attempt.Cause // exit codes with a cause of their own
	// ByTurn says that an exit code of success says too little, for the harness
	// exits so too when it is cut short: a last turn that was told must have
	// completed.
	ByTurn bool
}

// Kernel is the state of one wrapped session.
type Kernel struct {
	cfg  Config
	hard hard      // the fold of every fact so far; survives a crash
	last time.Time // of the last fact that was replayed
	soft soft      // the rest; lost in a crash, on purpose
}

// soft state is lost in a crash: bodies of payloads, hooks that wait, timers
// of the running process, and the fold of signals.
type soft struct {
	now          time.Time
	synth        *synth.State
	hooks        map[string]*hook
	hookOrder    []string
	waiting      []*parcel // payloads without a slot yet, oldest first
	queue        map[string][]string
	flying       map[string]flight // by client
	hookDue      time.Time         // when the first hook must have been heard; zero once it was
	tickDue      time.Time
	doing        doing
	meter        synth.Meter
	metered0     synth.Usage // what was counted before the wrapper was started again
	metered      bool        // since it was last recorded
	meteredAt    time.Time
	spoke        map[string]bool   // sources that spoke in this turn
	silent       map[string]int    // turns that an expected source passed over
	refused      map[string]bool   // ids of other sessions that were told
	early        []SourceTrouble   // told before there was a session
	gone         *telemetry.Signal // told the end of a session whose turn has not ended
	goneDue      time.Time
	signAt       map[string]time.Time // when the last ActivitySeen of a source was recorded
	sourceAt     map[string]time.Time
	openedAt     time.Time           // when the newest frame was opened
	askedAt      time.Time           // when its prompt was made, by the clock of what told it
	askedBy      []string            // the sources that told it
	named        bool                // one of them knew the turn by a name
	worked       string              // the frame that the harness was seen to work in
	goesOn       string              // the frame that stopped, and was said to go on
	answered     string              // the frame whose newest call of the model was an answer
	idleSince    time.Time           // it said idle in that frame without having stopped
	idleBy       telemetry.Signal    // what said so
	watched      map[string]bool     // files that signals named
	warnings     map[string][]string // what negotiation left to say, by client
	attempt      attempting
	tools        tools
	eventAt      time.Time   // when anything was recorded or heard last
	heldAt       time.Time   // when somebody paused the session; zero while nobody has
	abortedEarly *AbortAsked // asked for before there was a session
	stopRung     int
	stopBy       int // the signal of the first rung
	// launchedAt is when the launch was decided; what is older, another process
	// wrote.
	launchedAt time.Time
	launchWhy  string // why the harness could not be started
	stopDue    time.Time
	drainDue   time.Time
	draining   bool
	lame       bool // the ledger is lost: nothing is acted on any more
}

// New returns a kernel before its first input.
func New(cfg Config) *Kernel {
	if cfg.HookPatience == 0 {
		cfg.HookPatience = 10 * time.Second
	}
	if cfg.WedgedAfter == 0 {
		cfg.WedgedAfter = wedgedAfter
	}
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 64
	}
	return &Kernel{cfg: cfg, hard: newHard(), soft: soft{
		synth: synth.New(cfg.Synth), hooks: map[string]*hook{}, queue: map[string][]string{},
		flying: map[string]flight{}, signAt: map[string]time.Time{}, sourceAt: map[string]time.Time{}, watched: map[string]bool{},
		spoke: map[string]bool{}, silent: map[string]int{}, refused: map[string]bool{}, warnings: map[string][]string{},
	}}
}

// Step advances the kernel by one input.
func (k *Kernel) Step(now time.Time, in Input) Turn {
	if k.hard.State.Terminal() {
		return Turn{} // what still waited in the inbox changes nothing any more
	}
	s := step{Kernel: k, now: now}
	k.soft.now = now
	switch in := in.(type) {
	case Start:
		s.start()
	case Launched:
		s.launched(in)
	case LaunchFailed:
		s.launchFailed(in)
	case OutputSeen:
		s.output(in)
	case SignalsSeen:
		s.signals(in)
	case HookCalled:
		s.hookAsked(in)
	case HookClosed:
		s.hookClosed(in)
	case Returned:
		s.returned(in)
	case ChildExited:
		s.childExited(in)
	case SourcesDrained:
		s.sourcesDrained()
	case ChildStopped:
		s.childStopped(in)
	case ChildContinued:
		s.childContinued()
	case AbortAsked:
		s.abortAsked(in)
	case FailureSeen:
		s.failureSeen(in)
	case CheckpointSeen:
		s.checkpoint(in.Checkpoint)
	case PauseAsked:
		s.pauseAsked(in)
	case ResumeAsked:
		s.resumeAsked(in)
	case RenewAsked:
		s.renewAsked(in)
	case Restarted:
		s.restarted(in)
	case SourceTrouble:
		s.sourceTrouble(in)
	case UnknownSeen:
		s.unknownSeen(in)
	case FrameRequested:
		s.frameAsked(in)
	case LedgerLost:
		s.ledgerLost()
	case Wake:
		// Every timer is checked below, whatever the input was.
	}
	s.timers()
	s.pump()
	s.finish()
	return s.turn
}

// step is one Step in progress. record makes a fact true at once, so later
// decisions of the same step see it; do queues an effect.
type step struct {
	*Kernel
	now  time.Time
	turn Turn
	inv  string // the invocation that all events of this step share
	// between says that the launch before is over, and the next not recorded.
	between bool
}

func (s *step) record(f Fact) {
	s.soft.eventAt = s.now
	s.apply(f)
	s.turn.Facts = append(s.turn.Facts, f)
	if mustSync(f) {
		s.turn.Sync = true
	}
}

func (s *step) do(e Effect) { s.turn.Effects = append(s.turn.Effects, e) }

func (s *step) move(to session.State, reason string) {
	from := s.hard.State
	if err := session.Check(from, to); err != nil {
		panic("kernel: " + err.Error()) // a bug here, never a fault of the world
	}
	s.record(SessionMoved{from, to, reason})
}

// Deadline returns when the kernel wants a [Wake], if it wants one.
func (k *Kernel) Deadline() (at time.Time, ok bool) {
	earliest := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	if k.hard.State.Terminal() {
		return at, false
	}
	if k.hard.State != session.Paused { // what stands still calls no hook
		earliest(k.soft.hookDue)
	}
	earliest(k.soft.tickDue)
	earliest(k.soft.stopDue)
	earliest(k.soft.drainDue)
	earliest(k.soft.goneDue)
	if !k.soft.idleSince.IsZero() {
		earliest(k.soft.idleSince.Add(idleSettles))
	}
	if t, waits := k.soft.synth.Deadline(); waits {
		earliest(t)
	}
	if t, waits := k.wedgeDue(); waits {
		earliest(t)
	}
	if k.soft.metered { // what a long tool call follows is on the books before it ends
		earliest(k.soft.meteredAt.Add(cursorEvery))
	}
	if t, _, waits := k.attemptDue(); waits {
		earliest(t)
	}
	if t, _, waits := k.sessionDue(); waits {
		earliest(t)
	}
	if t, waits := k.retryDue(); waits {
		earliest(t)
	}
	for _, h := range k.soft.hooks {
		if h.answered {
			continue
		}
		earliest(h.deadline)
		for _, free := range h.waitsFor {
			earliest(free)
		}
	}
	for _, p := range k.soft.waiting {
		if p.expires != nil && p.hook == "" { // in an answer it is beyond recall
			earliest(time.Unix(*p.expires, 0))
		}
	}
	return at, ok
}

// timers does whatever is due. It runs in every step, so a timer that raced
// with an input changes nothing.
func (s *step) timers() {
	due := func(t time.Time) bool { return !t.IsZero() && !s.now.Before(t) }
	s.attemptTimers() // first, for they may let a session go on that stood still
	if due(s.soft.hookDue) && s.hard.State != session.Paused {
		s.soft.hookDue = time.Time{}
		s.hooksUnheard()
	}
	if due(s.soft.goneDue) {
		s.goneAnyway()
	}
	if due(s.soft.idleSince.Add(idleSettles)) && !s.soft.idleSince.IsZero() {
		s.idleSettled()
	}
	for _, o := range s.soft.synth.Wake(s.now) {
		s.observed(o)
	}
	if t, waits := s.wedgeDue(); waits && due(t) {
		s.wedge()
	}
	s.keepBooks(false)
	s.patienceOver()
	for _, id := range append([]string(nil), s.soft.hookOrder...) {
		if h := s.soft.hooks[id]; h != nil && !h.answered && due(h.deadline) {
			s.answerHook(h)
		}
	}
	s.expirePayloads()
	if due(s.soft.tickDue) {
		s.tick()
	}
	if due(s.soft.stopDue) {
		s.nextRung()
	}
	if due(s.soft.drainDue) {
		s.soft.drainDue = time.Time{}
		s.drainOver()
	}
}

// A Result is how the session ended, for the exit code and the last message.
type Result struct {
	State   session.State
	Code    int                   // the code to exit with
	Failure lifeloop.FailureClass // set when it was refused or failed before the harness ran
	Why     string                // a sentence for the person, when Failure is set
}

// Done reports whether nothing more can happen, and how it ended.
func (k *Kernel) Done() (Result, bool) {
	if !k.hard.State.Terminal() || k.hard.State == session.None {
		return Result{}, false
	}
	r := Result{State: k.hard.State, Code: k.hard.exitCode(k.cfg.Policy.Acts() || k.cfg.Ends.Success != nil), Failure: k.hard.Refused, Why: k.hard.RefusedWhy}
	if e := k.hard.Exit; e != nil && e.NotStarted {
		r.Failure, r.Why = lifeloop.AdapterUnavailable, k.soft.launchWhy
	} else if e != nil && e.Lost {
		r.Failure, r.Why = lifeloop.InternalError, "the guard of the harness was killed, so the harness was ended"
	} else if e != nil && e.OutputLost && r.Code == 125 {
		r.Failure, r.Why = lifeloop.InternalError, "the harness ended well, but its output could not all be written"
	}
	return r, true
}
