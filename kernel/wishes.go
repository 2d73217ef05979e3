package kernel

import (
	"cmp"
	"time"

	"lifeloop/lifeloop"
	"lifeloop/session"
)

// This file is what somebody at the session's door may ask of a session: to
// stand still, to go on, to renew. To end is in shutdown.go.

// pauseAsked stops everything below us and the timers of the attempt. The
// session's own time runs on (DECISIONS H2).
func (s *step) pauseAsked(in PauseAsked) {
	if why := s.pauseRefusal(); why != "" {
		s.refuseWish("pause", in.Ask, in.Reason, lifeloop.StateConflict, why)
		return
	}
	s.record(PauseRequested{Reason: in.Reason})
	s.soft.heldAt = s.now
	if s.hard.Alive {
		s.do(Suspend{})
	}
	if s.hard.State == session.Running {
		s.move(session.Paused, cmp.Or(in.Reason, "paused"))
	}
	s.do(Reply{Ask: in.Ask})
}

func (s *step) pauseRefusal() string {
	switch {
	case s.hard.Held:
		return "the session is paused already"
	case s.soft.lame:
		return "the ledger is lost, and nothing is acted on any more"
	case s.hard.State != session.Running && s.hard.State != session.Paused:
		return "the session is " + string(s.hard.State)
	case s.cfg.Observing, s.cfg.OneHook:
		return "what is only observed cannot be paused"
	case s.hard.Alive && s.soft.stopRung > 0:
		return "the harness is being ended"
	case s.hard.Alive, s.hard.Next != nil:
		return ""
	case s.hard.Exit == nil:
		return "the harness is being started"
	}
	return "the harness has ended"
}

// resumeAsked lets go on what pauseAsked stopped, or a signal did.
func (s *step) resumeAsked(in ResumeAsked) {
	if why := s.resumeRefusal(); why != "" {
		s.refuseWish("resume", in.Ask, in.Reason, lifeloop.StateConflict, why)
		return
	}
	f := ResumeRequested{Reason: in.Reason}
	var stood time.Duration
	if !s.soft.heldAt.IsZero() {
		stood = s.now.Sub(s.soft.heldAt)
	}
	if n := s.hard.Next; n != nil && n.Retry != nil {
		at := n.Retry.At.Add(stood)
		f.RetryAt = &at
	}
	s.record(f)
	s.stoodStill(stood)
	if s.hard.Alive {
		s.do(Continue{})
	}
	// A wait that is long enough to pause a session goes on pausing it.
	if n := s.hard.Next; s.hard.State == session.Paused && (n == nil || n.Retry == nil || n.Retry.At.Sub(s.now) < longWait) {
		s.move(session.Running, cmp.Or(in.Reason, "resumed"))
	}
	s.do(Reply{Ask: in.Ask})
}

func (s *step) resumeRefusal() string {
	switch {
	case s.hard.Held, s.stopped():
		return ""
	case s.hard.State != session.Running && s.hard.State != session.Paused:
		return "the session is " + string(s.hard.State)
	case s.hard.State == session.Paused && s.hard.Next != nil && s.hard.Next.Retry != nil:
		return "nobody paused the session: it waits for its next attempt until " + s.hard.Next.Retry.At.Format(time.RFC3339)
	}
	return "nobody paused the session"
}

// stopped says that a signal stopped the harness, and nobody at the door did.
func (k *Kernel) stopped() bool {
	return k.hard.State == session.Paused && k.hard.Alive && !k.hard.Held
}

// stoodStill moves the timers of the attempt on by the time that it was paused.
func (s *step) stoodStill(d time.Duration) {
	later := func(t time.Time) time.Time {
		if t = t.Add(d); t.After(s.now) {
			return s.now // what was told only while it stood still
		}
		return t
	}
	a := &s.soft.attempt
	a.quiet = later(a.quiet)
	for id, call := range s.soft.tools.flying {
		call.began = later(call.began)
		s.soft.tools.flying[id] = call
	}
	s.soft.eventAt = s.now
	s.soft.heldAt = time.Time{}
	s.goesOnAgain()
}

// goesOnAgain begins anew the time in which a harness that stood still must
// show that it lives.
func (s *step) goesOnAgain() {
	s.soft.doing.sign = s.now
	if !s.soft.hookDue.IsZero() {
		s.soft.hookDue = s.now.Add(s.cfg.HookPatience)
	}
}

// heldAgain stops once more what goes on although it is paused. Somebody let it
// go on, in its terminal or by a signal: whoever paused it at the door is to let
// it go on there. Or the word of an earlier time came late, which does no harm.
func (s *step) heldAgain() {
	s.record(PausedAgain{})
	s.do(Suspend{})
}

// free lets go on what was paused, for it is about to be ended: a stopped
// process hears nothing but KILL.
func (s *step) free(why string) {
	s.record(ResumeRequested{Reason: why})
	s.soft.heldAt = time.Time{}
	if s.hard.Alive {
		s.do(Continue{})
	}
}

// ending is why what was paused goes on.
const ending = "it is being ended"

// renewAsked says that a renewal cannot be had.
func (s *step) renewAsked(in RenewAsked) {
	s.refuseWish("renew", in.Ask, in.Reason, lifeloop.CapabilityUnsupported, "this version renews no session")
}

// refuseWish records and answers what is not done.
func (s *step) refuseWish(what, ask, reason string, class lifeloop.FailureClass, why string) {
	s.record(CommandReceived{What: what, Reason: reason, Failure: class})
	s.do(Reply{Ask: ask, Failure: class, Why: why})
}
