package kernel

import (
	"time"

	"lifeloop/attempt"
	"lifeloop/session"
)

// This file holds the timers that end an attempt or a session, and the waits
// between attempts.

// attemptDue is when the next timer of the attempt ends it, and which.
func (k *Kernel) attemptDue() (at time.Time, which Timer, ok bool) {
	p, a := &k.cfg.Policy, &k.soft.attempt
	if !k.hard.Alive || k.hard.State != session.Running || a.stopWhy != "" || k.hard.AbortBy != 0 {
		return at, "", false
	}
	soonest := func(t time.Time, timer Timer) {
		if !ok || t.Before(at) {
			at, which, ok = t, timer, true
		}
	}
	_, oldest, tools := k.soft.tools.oldest()
	d := &k.soft.doing
	if p.Tool > 0 && tools && d.what != needsInput {
		began := oldest.began // or when a person let it begin
		if began.Before(d.freed) {
			began = d.freed
		}
		soonest(began.Add(p.Tool), TimerTool)
	}
	switch {
	case a.lived.IsZero():
		if p.Initial > 0 {
			soonest(a.quiet.Add(p.Initial), TimerInitial)
		}
	case tools, d.what == needsInput, d.what == idling && k.cfg.Interactive, p.Inter == 0:
		// It is known what is waited for (DECISIONS Z6).
	case d.what == limitWait && d.until.After(a.quiet): // and here, until when
		soonest(d.until.Add(p.Inter), TimerInter)
	default:
		soonest(a.quiet.Add(p.Inter), TimerInter)
	}
	return at, which, ok
}

// attemptTimers ends an attempt whose time is over, and begins one whose wait
// is.
func (s *step) attemptTimers() {
	if at, which, ok := s.attemptDue(); ok && !s.now.Before(at) {
		a := &s.soft.attempt
		f := TimedOut{Timer: which, ElapsedMS: s.now.Sub(a.quiet).Milliseconds()}
		if which == TimerTool {
			id, call, _ := s.soft.tools.oldest()
			f.Tool, f.ElapsedMS = id, s.now.Sub(call.began).Milliseconds()
		}
		s.record(f)
		s.stopAttempt(attempt.Timeout, string(which))
	}
	if at, which, ok := s.sessionDue(); ok && !s.now.Before(at) {
		s.sessionTimedOut(which)
	}
	if at, ok := s.retryDue(); ok && !s.now.Before(at) {
		s.retryNow()
	}
}

// retryDue is when the next try is made.
func (k *Kernel) retryDue() (time.Time, bool) {
	if k.hard.Next == nil || k.hard.Held || k.hard.State.Terminal() {
		return time.Time{}, false
	}
	if k.hard.Next.Retry == nil {
		return k.soft.now, true // a fallback waits for nothing
	}
	return k.hard.Next.Retry.At, true
}

func (s *step) retryNow() {
	n := s.hard.Next
	if s.hard.State == session.Paused {
		s.move(session.Running, string(n.Recovery))
	}
	s.launch(n.launchCause(), n)
}

// sessionDue is when the session's own time is over.
func (k *Kernel) sessionDue() (at time.Time, which Timer, ok bool) {
	switch k.hard.State {
	case session.Running, session.Paused:
	default:
		return at, "", false
	}
	if k.hard.TimedOut != nil || k.soft.draining || k.cfg.Observing || k.cfg.OneHook {
		return at, "", false
	}
	if !k.hard.SessionEnd.IsZero() {
		at, which, ok = k.hard.SessionEnd, TimerSession, true
	}
	if p := k.cfg.Policy; p.Idle > 0 && !k.hard.Held {
		if t := k.soft.eventAt.Add(p.Idle); !ok || t.Before(at) {
			at, which, ok = t, TimerIdle, true
		}
	}
	return at, which, ok
}

// sessionTimedOut ends the session, whatever it is doing.
func (s *step) sessionTimedOut(which Timer) {
	elapsed := s.now.Sub(s.hard.SessionEnd.Add(-s.cfg.Policy.Session))
	if which == TimerIdle {
		elapsed = s.now.Sub(s.soft.eventAt)
	}
	s.record(TimedOut{Timer: which, ElapsedMS: elapsed.Milliseconds()})
	if s.hard.State == session.Paused {
		s.move(session.Running, timeoutReason(which))
	}
	if s.hard.Held {
		s.free(ending)
	}
	switch {
	case s.hard.Alive:
		s.stopAttempt(attempt.Timeout, string(which))
	case s.hard.Next != nil:
		s.noAttempt(attempt.Timeout, string(which))
	}
}

// timeoutReason is the reason of a session that its own timer ended (DECISIONS
// H2, H4).
func timeoutReason(which Timer) string {
	if which == TimerIdle {
		return "idle_timeout"
	}
	return "timeout"
}
