package kernel

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

// This file takes a session up again whose wrapper died. What it was is the
// fold of the ledger; what was open is closed with the class that is true of
// it, and nothing that may have had an effect is done a second time
// (DECISIONS, Crashes).

const (
	// supervisorLost and recovered are the reasons of the moves that a restart
	// makes (DECISIONS H3).
	supervisorLost = "supervisor_lost"
	recovered      = "recovered_from_checkpoint"
	causeRestart   = "restart"
)

// Replay returns a kernel in the state that the facts of a ledger leave. Its
// first input is [Restarted].
func Replay(cfg Config, entries iter.Seq[Entry]) *Kernel {
	k := New(cfg)
	for e := range entries {
		k.apply(e.Fact)
		k.last = e.At
	}
	return k
}

// State is the state of the session.
func (k *Kernel) State() session.State { return k.hard.State }

func (s *step) restarted(in Restarted) {
	h := &s.hard
	if h.Began.SessionID == "" { // the wrapper died before its first word
		s.start()
		return
	}
	s.record(Resumed{PID: in.PID, LastAt: s.last.UTC(), Budget: s.budget()})
	s.soft.metered0 = h.Usage
	if i := h.Spent.Profile; i > 0 && i < len(s.cfg.Manifests) {
		s.cfg.Manifest = s.cfg.Manifests[i]
	}
	if h.State == session.None || h.State == session.Pending {
		s.begin()
		return
	}
	if h.State == session.Running {
		s.move(session.Paused, supervisorLost)
	}
	if h.Held {
		// Whoever takes it up lets it go on. A wait stood still all the while.
		f := ResumeRequested{Reason: supervisorLost}
		if n := h.Next; n != nil && n.Retry != nil {
			at := n.Retry.At.Add(s.now.Sub(s.last)).UTC()
			f.RetryAt = &at
		}
		s.record(f)
	}
	s.failOpenCalls()
	lost := h.Run != "" && h.Exit == nil
	if lost {
		s.record(Exited{Run: h.Run, Unseen: true})
	}
	if hs := s.current(); hs != nil && !hs.Ended {
		if !hs.Told { // the power went between two entries of one moment
			s.tell(telling{event: lifeloop.SessionStarting, evidence: own("launch"), data: map[string]any{"cause": hs.Cause}})
		}
		reason, why := supervisorLost, "the wrapper died, and nobody saw how the harness ended"
		if !lost && h.Exit != nil {
			reason = s.endReason()
			why = "process: " + reason
		}
		s.over(reason, own(why))
	}
	if h.State == session.Paused {
		s.move(session.Running, recovered)
	}
	switch {
	case h.Run != "" && (h.Last == nil || h.Last.Run != h.Run && h.Next == nil && h.Last.Recovery != attempt.Halt):
		// What the harness wrote was in memory alone, so what waits for its end
		// cannot be held against it any more.
		s.soft.attempt = attempting{watch: attempt.NewWatch(&attempt.Policy{}), did: true}
		if lost && h.AbortBy == 0 && h.TimedOut == nil {
			s.attemptLost()
			return
		}
		s.attemptOver()
	case h.Run == "" && h.Last == nil:
		s.launch("first", nil)
	case h.Next == nil:
		s.beginDrain()
	default:
		s.follow()
	}
}

// attemptLost records the attempt that was under way when the wrapper died. It
// is made again, for that is what whoever resumes a session asks for, and it
// counts toward no budget.
func (s *step) attemptLost() {
	h := &s.hard
	if id := s.talkedIn(); s.cfg.Resumes && id != "" && id != h.Checkpoint {
		s.record(CheckpointSaved{Checkpoint: id}) // where nobody asked for checkpoints, it is one now
	}
	s.record(AttemptEnded{Run: h.Run, Attempt: h.Spent.Launches, Profile: h.Spent.Profile, Name: s.profileName(h.Spent.Profile),
		Cause: attempt.Unknown, Detail: supervisorLost, Evidence: "the wrapper died", Failure: lifeloop.TransportError,
		Code: h.Exit.Code, Signal: h.Exit.Signal, Recovery: attempt.Retry, Reason: "the wrapper died, and nobody saw how the harness ended",
		Retry: &RetryPlan{Number: h.Spent.Retries() + 1, Of: s.cfg.Policy.Attempts, Wait: attempt.WaitRestart, At: s.now.UTC()},
		Next:  h.Spent.Profile})
}

// failOpenCalls gives every call that has no receipt yet the one that is true
// of it: nobody knows whether its client heard of it.
func (s *step) failOpenCalls() {
	open := slices.SortedFunc(maps.Values(s.hard.Calls), func(a, b *call) int { return cmp.Compare(a.N, b.N) })
	for _, k := range open {
		if k.Answer == nil {
			why := "the wrapper died before the client's answer was recorded"
			if !k.Dispatched {
				why = "the wrapper died before the client was called"
			}
			s.receiptFor(k, lifeloop.Failed, lifeloop.TransportError, "", []string{why})
			continue
		}
		for i, p := range k.Answer.Payloads {
			if k.Settled[i] == nil {
				s.record(PayloadSettled{Call: k.ID, Index: i, Placement: p.First, Status: lifeloop.Failed, Failure: lifeloop.PayloadRejected,
					Why: "the wrapper died with it in its memory"})
			}
		}
		s.closeCall(k)
	}
}

// talkedIn is the newest harness session in which something was asked, whatever
// came of it: the one that is worth going on with. It is the one that was
// recorded, never the newest that can be found.
func (s *step) talkedIn() string {
	for scope := s.hard.Scope; scope > 0; scope-- {
		if hs := s.hard.Sessions[scope]; hs != nil && hs.Asked && hs.ID != "" {
			return hs.ID
		}
	}
	return ""
}

// launchCause is the cause of a launch that follows n.
func (n *AttemptEnded) launchCause() string {
	if n.Retry != nil && n.Retry.Wait == attempt.WaitRestart {
		return causeRestart
	}
	return string(n.Recovery)
}
