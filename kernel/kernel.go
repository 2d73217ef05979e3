// Package kernel makes all decisions in a session, but performs none of the
// actions itself.
//
// [Kernel.Step] takes one [input.Input] and a clock reading and returns an [Output]: the
// facts that became true and the effects that must now be performed. The caller
// appends the facts to the ledger first and performs the effects second; the
// results of effects are passed back as further inputs.
//
//	k := kernel.New(cfg)
//	out := k.Step(now, input.Start{})
//	append(out.Facts); sync if out.Sync; perform(out.Effects)
//	// call Step with input.Wake at k.Deadline(); stop when k.Done()
//
// The caller must not pass a clock reading that is before the previous reading. If
// the readings are monotonic, as those of time.Now are, setting the system clock moves no
// timer of this process. Times in facts have no monotonic reading, because another
// process may read them.
//
// The kernel starts no goroutine, reads no clock, holds no lock, opens no file
// and logs nothing. The same configuration, with the same inputs at the same times,
// gives the same outputs, byte for byte. A fresh kernel that applies the recorded facts
// has the same hard state. An [Output] that has an effect also has a fact.
//
// A [Kernel] is a set of machines, each in the file of its name: session, scopes (with
// identity.go), turns (nested.go), pressure, books, activity (tools.go), health (degrade.go,
// version.go), router (receipt.go, keys.go, skips.go, bounds.go), slots (payload.go, place.go,
// deliver.go), attempts (timers.go, verdict.go), recovery (decide.go), renewals (renewal.go and
// renewal_*.go), guards (permits.go, approvals.go), ending. A machine owns its state: only its
// own methods, and the apply methods of the facts in its files, access its fields. The hard part
// of the state is computed from the facts and survives a crash; the soft part is lost in a crash
// by design. Each fact is declared in a file of one machine, usually of the one that records it.
// A fact changes other machines by their methods. start.go and restart.go begin a session and
// recover one; input.go passes each input to its machine.
package kernel

import (
	"cmp"
	"time"

	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/session"
)

// Kernel is the state of one wrapped session.
type Kernel struct {
	cfg  Config
	step step // the newest step; a field, so that Step does not allocate a step

	session sessionMachine
	scopes  scopes
	turns   turns
	gauges
	activity activity
	health   health
	router   router
	slots    slots
	attempts attempts
	recovery recovery
	renewals renewals
	guards   guards
	ending   ending
}

// gauges are the machines that only measure.
type gauges struct {
	pressure pressure
	books    books
}

// A machine is a part of the kernel that has timers. next returns when the machine must
// wake; the zero time means never. wake performs the actions whose time has come.
type machine interface {
	next(k *Kernel) time.Time
	wake(s *step)
}

// machines returns the machines that have timers, in the order in which they wake.
// Guards come first: if they refuse a launch, recovery may retry it in the same step.
// Attempts, the session, its recovery and its renewals come next, because they may
// continue a paused session.
func (k *Kernel) machines() [14]machine {
	return [...]machine{&k.guards, &k.attempts, &k.session, &k.recovery, &k.renewals, &k.health, &k.scopes, &k.turns,
		&k.pressure, &k.activity, &k.books, &k.slots, &k.router, &k.ending}
}

// New returns a kernel that has received no input.
func New(cfg Config) *Kernel {
	cfg.FirstHook = cmp.Or(cfg.FirstHook, 10*time.Second)
	cfg.ClientPatience = cmp.Or(cfg.ClientPatience, time.Second)
	cfg.WedgedAfter = cmp.Or(cfg.WedgedAfter, 5*time.Minute)
	if cfg.Observing { // large queues, because an observer may read old records faster than its clients answer
		cfg.MaxQueue, cfg.MaxCalls = cmp.Or(cfg.MaxQueue, observerQueue), cmp.Or(cfg.MaxCalls, observerQueue)
		cfg.Manifest = negotiate.Observed(cfg.Manifest)
	}
	cfg.MaxQueue, cfg.MaxCalls = cmp.Or(cfg.MaxQueue, 64), cmp.Or(cfg.MaxCalls, 1000)
	cfg.Launch = cfg.Launch.Valid()
	return &Kernel{cfg: cfg, scopes: newScopes(), turns: newTurns(), gauges: gauges{pressure: newPressure(cfg.Synth)}, activity: newActivity(),
		health: newHealth(), router: newRouter(), slots: newSlots(), guards: newGuards()}
}

// Step advances the kernel by one input. After each input, every machine performs
// the actions whose time has come, so it does not matter whether an input or a
// Wake comes first.
func (k *Kernel) Step(now time.Time, in input.Input) Output {
	if k.State().Terminal() {
		return Output{} // the session has ended, so later inputs are ignored
	}
	k.step = step{Kernel: k, now: now}
	s := &k.step
	s.handle(in)
	for _, m := range k.machines() {
		if s.due(m.next(k)) {
			m.wake(s)
		}
	}
	k.renewals.review(s)
	k.slots.review(s)
	k.router.pump(s)
	k.ending.finish(s)
	return s.out
}

// Deadline returns when the kernel wants an [input.Wake], if it wants one.
func (k *Kernel) Deadline() (at time.Time, ok bool) {
	if k.State().Terminal() {
		return at, false
	}
	for _, m := range k.machines() {
		at = sooner(at, m.next(k))
	}
	return at, !at.IsZero()
}

// sooner returns the earlier of two times; a zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// A step is a call of Step in progress. record applies a fact at once, so that
// later decisions of the same step see it. do queues an effect.
type step struct {
	*Kernel
	now        time.Time
	out        Output
	invocation string // the id that all events of this step share; empty before the first event
}

func (s *step) record(f Fact) {
	s.session.recorded(s.now)
	f.apply(s.Kernel)
	s.out.Facts = append(s.out.Facts, f)
	_, durable := f.key()
	s.out.Sync = s.out.Sync || durable
}

func (s *step) do(e effect.Effect) { s.out.Effects = append(s.out.Effects, e) }

// due reports whether a time has come; the zero time never comes.
func (s *step) due(at time.Time) bool { return !at.IsZero() && !s.now.Before(at) }

// timerAt converts a wall clock time in a fact or a record to a time of Step's clock.
// The result is s.now plus the duration until that time, so that a timer fires after
// this duration even if the system clock is set meanwhile.
func (s *step) timerAt(instant time.Time) time.Time {
	if instant.IsZero() {
		return instant
	}
	return s.now.Add(instant.Sub(s.now))
}

// invocationID returns the id that all events of one step share, because one step
// handles one input.
func (s *step) invocationID() string {
	if s.invocation == "" {
		s.invocation = s.cfg.NewID("inv_")
	}
	return s.invocation
}

// State returns the state of the session.
func (k *Kernel) State() session.State { return k.session.state() }

// A Result is how the session ended, for the exit code and the last message.
type Result struct {
	State   session.State
	Code    int                   // the code to exit with
	Signal  int                   // the signal that ended the last launch, if this signal determines Code
	Failure lifeloop.FailureClass // set if the session was refused, the harness was not started, or the wrapper failed
	Why     string                // the reason in words for the user, if Failure is set
}

// Done reports whether nothing more can happen, and how the session ended.
func (k *Kernel) Done() (Result, bool) {
	if !k.State().Terminal() || k.State() == session.None {
		return Result{}, false
	}
	r := Result{State: k.State()}
	r.Code, r.Signal = k.exitStatus()
	r.Failure, r.Why = k.session.refusal()
	if e := k.attempts.exit(); e != nil && e.NotStarted && !e.Withheld {
		r.Failure, r.Why = lifeloop.AdapterUnavailable, k.attempts.launchError()
		if e.Refused {
			r.Failure = lifeloop.OperatorRequired
		}
	} else if e != nil && e.Lost {
		r.Failure, r.Why = lifeloop.InternalError, "the guard of the harness was killed, so the harness was ended"
	} else if e != nil && e.OutputLost && e.Code == 0 && r.Code == 125 {
		r.Failure, r.Why = lifeloop.InternalError, "the harness succeeded, but some of its output could not be written"
	}
	return r, true
}

// exitStatus returns the wrapper's exit code (CLI.md, run), and the signal that ended
// the last launch, if this signal determines the code. If the session was not completed,
// exit code 0 becomes 1 only under a policy, or if Ends.Success is set.
func (k *Kernel) exitStatus() (code, signal int) {
	e, by := k.attempts.exit(), k.ending.signal()
	acts := k.cfg.Policy.Acts() || k.cfg.Ends.Success != nil
	switch {
	case k.session.timeout() != "":
		return 124, 0
	case k.attempts.exitsByLimit():
		return 75, 0
	case (e == nil || e.Unseen || e.Withheld) && by != 0:
		return 128 + by, 0
	case e == nil, e.Lost, e.Unseen: // nil means that the session was refused or nothing was launched
		return 125, 0
	case e.NotStarted:
		return e.Code, 0
	case e.Signal != 0:
		return 128 + e.Signal, e.Signal
	case e.Code == 0 && by != 0:
		return 128 + by, 0
	case e.Code == 0 && e.OutputLost:
		return 125, 0
	case e.Code == 0 && k.State() != session.Completed && acts:
		return 1, 0
	}
	return e.Code, 0
}
