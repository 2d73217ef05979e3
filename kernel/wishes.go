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
		s.refuseWish("pause", in.Ask, lifeloop.StateConflict, why)
		return
	}
	s.record(PauseRequested{Reason: in.Reason})
	s.soft.heldAt = s.now
	if s.hard.Alive {
		s.do(Hold{})
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
	case !s.hard.Alive && s.hard.Next == nil:
		return "nothing runs that could be paused"
	}
	return ""
}

// resumeAsked lets go on what pauseAsked stopped.
func (s *step) resumeAsked(in ResumeAsked) {
	if !s.hard.Held {
		s.refuseWish("resume", in.Ask, lifeloop.StateConflict, "nobody paused the session")
		return
	}
	f := ResumeRequested{Reason: in.Reason}
	stood := s.now.Sub(s.soft.heldAt)
	if n := s.hard.Next; n != nil && n.Retry != nil {
		at := n.Retry.At.Add(stood)
		f.RetryAt = &at
	}
	s.record(f)
	s.stoodStill(stood)
	if s.hard.Alive {
		s.do(Free{})
	}
	// A wait that is long enough to pause a session goes on pausing it.
	if n := s.hard.Next; s.hard.State == session.Paused && (n == nil || n.Retry == nil || n.Retry.At.Sub(s.now) < longWait) {
		s.move(session.Running, cmp.Or(in.Reason, "resumed"))
	}
	s.do(Reply{Ask: in.Ask})
}

// stoodStill moves the timers of the attempt on by the time that it was paused.
func (s *step) stoodStill(d time.Duration) {
	a := &s.soft.attempt
	a.quiet = a.quiet.Add(d)
	for id, call := range a.tools {
		if !call.began.IsZero() {
			call.began = call.began.Add(d)
			a.tools[id] = call
		}
	}
	s.soft.eventAt = s.now
	s.soft.doing.sign = s.now
	s.soft.heldAt = time.Time{}
}

// free lets go on what was paused, for it is about to be ended: a stopped
// process hears nothing but KILL.
func (s *step) free() {
	s.record(ResumeRequested{Reason: "it is being ended"})
	s.soft.heldAt = time.Time{}
	if s.hard.Alive {
		s.do(Free{})
	}
}

// renewAsked says that a renewal cannot be had.
func (s *step) renewAsked(in RenewAsked) {
	s.refuseWish("renew", in.Ask, lifeloop.CapabilityUnsupported, "this version renews no session")
}

// refuseWish records and answers what is not done.
func (s *step) refuseWish(what, ask string, class lifeloop.FailureClass, why string) {
	s.record(Asked{What: what, Failure: class})
	s.do(Reply{Ask: ask, Failure: class, Why: why})
}
