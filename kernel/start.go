package kernel

import (
	"cmp"
	"fmt"

	"lifeloop/kernel/effect"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/session"
)

// This file begins a session: negotiation, then the first launch.

// abortedBeforeStart is the reason of the move to REJECTED if the session was aborted
// before its first launch.
const abortedBeforeStart = "aborted_before_start"

func (s *step) start() {
	began := s.cfg.Began
	began.Budget = s.budget()
	s.record(began)
	s.begin()
}

// begin performs the start of a session after its first fact, up to its first
// launch or its refusal.
func (s *step) begin() {
	if s.session.is(session.None) {
		s.session.move(s, session.Pending, "start")
	}
	if in := s.ending.early(); in != nil {
		s.record(AbortRequested{Signal: in.Signal, Reason: in.Reason})
		if in.Ask != "" {
			s.do(effect.Reply{Ask: in.Ask})
		}
	}
	if s.ending.requested() { // an abort was requested from this wrapper, or from an earlier one that died
		s.session.move(s, session.Rejected, abortedBeforeStart)
		return
	}
	if why, class := s.negotiate(); class != "" {
		s.refuse(why, class)
		return
	}
	if s.cfg.guarded() {
		s.guards.admit(s)
		return
	}
	s.approved()
}

// approved continues the start of a session that neither negotiation nor the gate
// refused.
func (s *step) approved() {
	s.session.move(s, session.Running, "approved")
	if s.cfg.Observing || s.cfg.OneHook {
		return
	}
	if d := s.cfg.Policy.Session; d > 0 {
		s.record(DeadlineSet{Timer: timerSession, At: s.now.Add(d).UTC()})
		s.session.arm(s)
	}
	s.recovery.launch(s)
}

// startCause returns the cause of the first harness session of this launch.
func (s *step) startCause() string { return cmp.Or(s.cfg.Cause, "startup") }

// negotiate evaluates the requirements of the owner, who configured the wrapper, and of
// the clients, and records each result. why and class describe the first required
// capability that is not satisfied, for which begin refuses the session; class is empty
// if there is none.
func (s *step) negotiate() (why string, class lifeloop.FailureClass) {
	evaluate := func(client string, wants []negotiate.Want) {
		for _, r := range negotiate.Capabilities(s.claims(), wants, s.cfg.profiles()...) {
			s.record(negotiatedOf(client, r))
			if r.Warning != "" {
				s.router.warn(s, client, r.Warning)
			}
			if r.Failure == "" || class != "" {
				continue
			}
			class = r.Failure
			why = fmt.Sprintf("required capability %s is %s", r.Want.Capability, r.Have)
			if class == lifeloop.InvalidRequest {
				why = r.Want.Validate().Error()
			}
			if client != "" {
				why = fmt.Sprintf("client %s: %s", client, why)
			}
		}
	}
	evaluate("", s.cfg.Wants)
	for _, c := range s.cfg.Clients {
		evaluate(c.ID, c.Wants)
	}
	return why, class
}

// refuse ends a session that is not RUNNING yet. It issues a failed receipt for each
// client, and emits no lifecycle event (DECISIONS H5).
func (s *step) refuse(why string, class lifeloop.FailureClass) {
	s.record(HarnessSessionOpened{Scope: 1, ID: s.cfg.HarnessSession, Cause: s.startCause()})
	s.activity.own(s, stopped, "refused")
	for _, c := range s.cfg.receivers() {
		s.router.receipt(s, &call{Client: c.ID, origin: origin{Event: lifeloop.SessionStarting, EventID: s.cfg.NewID("evt_"),
			Invocation: s.invocationID(), Mode: s.modeOf(nil), Scope: 1, Adapter: s.cfg.Manifest.AdapterID, Session: s.scopes.id(1)}}, outcome{status: lifeloop.Failed, failure: class, warnings: []string{why}})
	}
	s.session.reject(s, why, class)
}

// claims returns the adapter's manifest without the capabilities that this session
// cannot have: those that cfg.Weak lists, those that need a renewal profile which is not
// active, and, if cfg.OneHook is set, those that need more than one hook call.
func (s *step) claims() lifeloop.Manifest {
	m := s.cfg.Manifest
	if m.Renewal != nil {
		m = negotiate.Within(m, s.cfg.profiles()...)
	}
	if s.cfg.OneHook {
		m = negotiate.OneCall(m)
	}
	for _, w := range s.cfg.Weak {
		m = negotiate.Weaken(m, w.Capability, lifeloop.Unavailable)
	}
	return m
}
