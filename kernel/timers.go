package kernel

import (
	"time"

	"lifeloop/session"
)

// This file has the timers that end an attempt.

// A Timer is one of the timers that can end an attempt or a session.
type Timer string

const (
	TimerInitial Timer = "initial" // from the launch to the first sign of life
	TimerInter   Timer = "inter"   // between two signs of life
	TimerTool    Timer = "tool"    // the duration of one tool call
	timerSession Timer = "session" // the duration of the whole session
	timerIdle    Timer = "idle"    // the time without a new Fact or sign of life
)

// TimerSet records that the timer initial or inter was armed for the first time in
// this launch.
type TimerSet struct {
	Timer   Timer `json:"timer"`
	AfterMS int64 `json:"after_ms"`
}

func (TimerSet) key() (string, bool) { return "timer_set", false }
func (TimerSet) apply(*Kernel)       {}

// timer returns the timer of the attempt that fires next, and when. No timer for
// silence runs while the reason for the silence is known (DECISIONS Z6).
func (a *attempts) timer(k *Kernel) (at time.Time, which Timer) {
	p := &k.cfg.Policy
	if !a.hard.Alive || !k.session.is(session.Running) || a.stopped() || k.ending.signal() != 0 {
		return at, ""
	}
	soonest := func(t time.Time, timer Timer) {
		if at.IsZero() || t.Before(at) {
			at, which = t, timer
		}
	}
	asked := k.activity.is(needsInput) || k.guards.asksUser()
	if p.Tool > 0 && !asked && k.activity.toolRuns() {
		soonest(k.activity.toolBegan().Add(p.Tool), TimerTool)
	}
	switch limit := k.activity.limitEnds(); {
	case a.soft.lived.IsZero():
		if p.Initial > 0 {
			soonest(a.soft.quiet.Add(p.Initial+k.cfg.SignDelay), TimerInitial)
		}
	case k.activity.toolRuns(), asked, k.activity.atPrompt() && k.cfg.Interactive, p.Inter == 0:
	case k.activity.is(limitWait) && limit.After(a.soft.quiet):
		soonest(limit.Add(p.Inter+k.cfg.SignDelay), TimerInter)
	default:
		soonest(a.soft.quiet.Add(p.Inter+k.cfg.SignDelay), TimerInter)
	}
	return at, which
}

func (a *attempts) next(k *Kernel) time.Time {
	at, _ := a.timer(k)
	return sooner(at, a.examination())
}

// examination returns the time at which an incomplete line of output must be checked
// against the rules, or zero if there is no such line.
func (a *attempts) examination() time.Time {
	if a.soft.watch == nil || a.soft.watch.Oldest().IsZero() {
		return time.Time{}
	}
	return a.soft.watch.Oldest().Add(partialTime)
}

// wake checks the incomplete lines of output that are older than partialTime, and ends
// an attempt whose timer has fired.
func (a *attempts) wake(s *step) {
	if s.due(a.examination()) {
		a.examine(s)
	}
	at, which := a.timer(s.Kernel)
	if !s.due(at) {
		return
	}
	f := TimedOut{Timer: which, ElapsedMS: s.now.Sub(a.soft.quiet).Milliseconds()}
	if which == TimerTool {
		id, call := s.activity.oldest()
		f.Tool, f.ElapsedMS = id, s.now.Sub(call.began).Milliseconds()
	}
	s.record(f)
	a.stop(s)
}
