// Package kernel decides what happens in a session, without doing any of it.
//
// [Kernel.Step] takes one [Input] and a clock reading and returns a [Turn]:
// the facts that became true and the effects that must now be performed. The
// shell appends the facts to the ledger first and performs the effects second;
// the results of effects come back as further inputs.
//
//	k := kernel.New(cfg)
//	turn := k.Step(now, kernel.Start{})
//	append(turn.Facts); sync if turn.Sync; perform(turn.Effects)
//	// call Step with Wake at k.Deadline(); stop when k.Done()
//
// The times of the steps never go back. Where they have a monotonic reading, as
// those of time.Now, no timer of this process depends on how the machine's
// clock is set. Instants in facts have none, because another process may read
// them.
//
// The kernel starts no goroutine, reads no clock, holds no lock, opens no file
// and logs nothing. The same inputs give the same turns, byte for byte, and
// applying the recorded facts to a fresh kernel gives the same hard state. No
// turn has an effect without a fact.
//
// A [Kernel] is a set of machines, each in the file of its name: session,
// scopes (with identity.go), turns (nested.go), pressure, books, activity
// (tools.go), health (degrade.go, version.go), router (receipt.go), slots
// (payload.go), attempts (timers.go, verdict.go), recovery, ending. A machine
// owns its state: only its own methods select its fields. Its hard part is the fold of the
// facts and survives a crash; its soft part is lost on purpose. Facts stand
// beside the machine that they change. start.go and restart.go begin a session
// and recover one; input.go lists what goes in and out.
package kernel

import (
	"cmp"
	"time"

	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/session"
)

// Kernel is the state of one wrapped session.
type Kernel struct {
	cfg  Config
	step step // the newest one; a field, so that a step allocates nothing

	session  sessionMachine
	scopes   scopes
	turns    turns
	pressure pressure
	books    books
	activity activity
	health   health
	router   router
	slots    slots
	attempts attempts
	recovery recovery
	ending   ending
}

// A machine with timers says when it must wake next, zero for never, and then
// does what is due.
type machine interface {
	next(k *Kernel) time.Time
	wake(s *step)
}

// machines are those with timers, in the order in which they wake. Attempts,
// the session and its recovery come first, for they may continue a session
// that is paused.
func (k *Kernel) machines() [12]machine {
	return [...]machine{&k.attempts, &k.session, &k.recovery, &k.health, &k.scopes, &k.turns,
		&k.pressure, &k.activity, &k.books, &k.slots, &k.router, &k.ending}
}

// New returns a kernel before its first input.
func New(cfg Config) *Kernel {
	cfg.FirstHook = cmp.Or(cfg.FirstHook, 10*time.Second)
	cfg.ClientPatience = cmp.Or(cfg.ClientPatience, time.Second)
	cfg.WedgedAfter = cmp.Or(cfg.WedgedAfter, 5*time.Minute)
	if cfg.Observing { // it may read the past of a file faster than any client answers
		cfg.MaxQueue, cfg.Manifest = cmp.Or(cfg.MaxQueue, observerQueue), negotiate.Observed(cfg.Manifest)
	}
	cfg.MaxQueue = cmp.Or(cfg.MaxQueue, 64)
	cfg.Setup = cfg.Setup.valid()
	return &Kernel{cfg: cfg, scopes: newScopes(), turns: newTurns(), pressure: newPressure(cfg.Synth), activity: newActivity(),
		health: newHealth(), router: newRouter(), slots: newSlots()}
}

// Step advances the kernel by one input. Whatever the input was, every machine
// then does what is due, so a timer that raced with an input changes nothing.
func (k *Kernel) Step(now time.Time, in Input) Turn {
	if k.State().Terminal() {
		return Turn{} // inputs that were still queued change nothing
	}
	k.step = step{Kernel: k, now: now}
	s := &k.step
	in.handle(s)
	for _, m := range k.machines() {
		if s.due(m.next(k)) {
			m.wake(s)
		}
	}
	k.slots.review(s)
	k.router.pump(s)
	k.ending.finish(s)
	return s.turn
}

// Deadline returns when the kernel wants a [Wake], if it wants one.
func (k *Kernel) Deadline() (at time.Time, ok bool) {
	if k.State().Terminal() {
		return at, false
	}
	for _, m := range k.machines() {
		at = sooner(at, m.next(k))
	}
	return at, !at.IsZero()
}

// sooner is the earlier of two times; a zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// A step is one Step in progress. record makes a fact true at once, so later
// decisions of the same step see it; do queues an effect.
type step struct {
	*Kernel
	now        time.Time
	turn       Turn
	invocation string // shared by all events of this step; empty before the first
}

func (s *step) record(f Fact) {
	s.session.recorded(s.now)
	f.apply(s.Kernel)
	s.turn.Facts = append(s.turn.Facts, f)
	_, durable := f.key()
	s.turn.Sync = s.turn.Sync || durable
}

func (s *step) do(e Effect) { s.turn.Effects = append(s.turn.Effects, e) }

// due says whether a time has come; the zero time never does.
func (s *step) due(at time.Time) bool { return !at.IsZero() && !s.now.Before(at) }

// timerAt is an instant of a fact or a record on the clock of the steps. Such
// an instant names a time of day. A timer counts from now instead, because the
// machine's clock may be set before it is due.
func (s *step) timerAt(instant time.Time) time.Time {
	if instant.IsZero() {
		return instant
	}
	return s.now.Add(instant.Sub(s.now))
}

// invocationID is the id that every event of one step shares, because one step
// is one event from outside.
func (s *step) invocationID() string {
	if s.invocation == "" {
		s.invocation = s.cfg.NewID("inv_")
	}
	return s.invocation
}

// State is the state of the session.
func (k *Kernel) State() session.State { return k.session.state() }

// A Result is how the session ended, for the exit code and the last message.
type Result struct {
	State   session.State
	Code    int                   // the code to exit with
	Failure lifeloop.FailureClass // set when it was refused or failed before the harness ran
	Why     string                // a sentence for the user, when Failure is set
}

// Done reports whether nothing more can happen, and how it ended.
func (k *Kernel) Done() (Result, bool) {
	if !k.State().Terminal() || k.State() == session.None {
		return Result{}, false
	}
	r := Result{State: k.State(), Code: k.exitCode()}
	r.Failure, r.Why = k.session.refusal()
	if e := k.attempts.exit(); e != nil && e.NotStarted {
		r.Failure, r.Why = lifeloop.AdapterUnavailable, k.attempts.launchError()
	} else if e != nil && e.Lost {
		r.Failure, r.Why = lifeloop.InternalError, "the guard of the harness was killed, so the harness was ended"
	} else if e != nil && e.OutputLost && r.Code == 125 {
		r.Failure, r.Why = lifeloop.InternalError, "the harness succeeded, but some of its output could not be written"
	}
	return r, true
}

// exitCode is the wrapper's exit code (CLI.md, run). Without a policy `run`
// only records: a harness that exits with success is then taken at its word,
// whatever else was seen.
func (k *Kernel) exitCode() int {
	e, by := k.attempts.exit(), k.ending.signal()
	acts := k.cfg.Policy.Acts() || k.cfg.Ends.Success != nil
	switch {
	case k.session.timeout() != "":
		return 124
	case k.attempts.exitsByLimit():
		return 75
	case (e == nil || e.Unseen) && by != 0:
		return 128 + by
	case e == nil, e.Lost, e.Unseen: // nil: refused, or nothing was launched
		return 125
	case e.NotStarted:
		return e.Code
	case e.Signal != 0:
		return 128 + e.Signal
	case e.Code == 0 && by != 0:
		return 128 + by
	case e.Code == 0 && e.OutputLost:
		return 125
	case e.Code == 0 && k.State() == session.Failed && acts:
		return 1
	}
	return e.Code
}
