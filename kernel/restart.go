package kernel

import (
	"iter"
	"strconv"
	"time"

	"lifeloop/attempt"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

// This file recovers a session whose wrapper died. Its state is computed from the
// ledger. Open calls get receipts with a failure class, open frames are ended, and
// an action that may have had an effect is not repeated (DECISIONS, Crashes).

const (
	// The reasons of the moves that a recovery makes: to PAUSED with
	// supervisorLost, and back to RUNNING with one of the next two (DECISIONS H3).
	// causeRestart is the cause of the launch.
	supervisorLost = "supervisor_lost"
	recovered      = "recovered"
	fromCheckpoint = "recovered_from_checkpoint"
	causeRestart   = "restart"
)

// Replay returns a kernel in the state that the facts of a ledger give. Its
// first input is [input.Restarted] or [input.CloseAsked].
func Replay(cfg Config, entries iter.Seq[Entry]) *Kernel {
	k := New(cfg)
	for e := range entries {
		k.Fold(e)
	}
	return k
}

func (s *step) recover(in input.Restarted) {
	if !s.session.began() { // the wrapper died before its first fact
		s.start()
		return
	}
	s.record(Resumed{PID: in.PID, LastAt: s.session.lastReplayed().UTC(), Budget: s.budget()})
	s.session.arm(s)
	s.recovery.arm(s)
	s.books.recovered()
	s.guards.settleLost(s)
	if i := s.recovery.spent().Profile; i > 0 && i < len(s.cfg.Manifests) {
		// A fallback was active, but Weak may still describe the first profile.
		s.cfg.Manifest, s.cfg.Weak = s.cfg.Manifests[i], nil
	}
	if s.session.is(session.None) || s.session.is(session.Pending) {
		s.begin()
		return
	}
	if s.session.is(session.Running) {
		s.session.move(s, session.Paused, supervisorLost)
	}
	if s.cfg.Observing {
		s.recoverObserved()
		return
	}
	if s.session.pausedByCommand() { // a recovery ends the pause, which has delayed the next attempt
		s.session.resumeWait(s, supervisorLost)
	}
	s.router.failOpen(s)
	lost := s.exitUnseen()
	s.endRecoveredScope(lost)
	s.recovery.settleLost(s)
	continues := s.ending.signal() == 0 && s.session.timeout() == "" && !s.attempts.stopped()
	done, renewing := s.renewals.recover(s, continues)
	if done {
		return
	}
	again := (lost || renewing) && s.attemptOpen() && continues
	if again {
		s.recovery.saveContinuation(s)
	}
	if s.session.is(session.Paused) {
		s.session.move(s, session.Running, s.recovery.reason(s, again))
	}
	s.followRecovered(again)
}

// exitUnseen records the end of the harness that ran when the wrapper died, and
// reports whether a harness ran.
func (s *step) exitUnseen() bool {
	if s.attempts.run() == "" || s.attempts.exit() != nil {
		return false
	}
	s.record(Exited{Run: s.attempts.run(), Unseen: true})
	s.activity.own(s, stopped, supervisorLost)
	return true
}

// endRecoveredScope ends the harness session that was open when the wrapper died.
// lost says whether the harness ran at that time. If so, the end of the harness was not
// observed.
func (s *step) endRecoveredScope(lost bool) {
	hs := s.scopes.current()
	if hs == nil || hs.Ended {
		return
	}
	if !hs.Starting { // session.starting is missing: the power failed while the facts of a step were written
		s.emit(emission{event: lifeloop.SessionStarting, evidence: own("launch"), data: map[string]any{"cause": hs.Cause}})
	}
	reason, why := supervisorLost, "the wrapper died, and how the harness ended is unknown"
	if !lost && s.attempts.exit() != nil {
		reason = s.attempts.endReason()
		why = "process: " + reason
	}
	s.endScope(reason, own(why))
}

// attemptOpen reports whether an attempt has begun whose end is not recorded.
func (s *step) attemptOpen() bool {
	run, last := s.attempts.run(), s.attempts.last()
	return run != "" && (last == nil || last.Run != run && s.recovery.planned() == nil && last.Recovery != attempt.Halt)
}

// followRecovered continues the session after the crash; again means that the
// lost attempt is repeated.
func (s *step) followRecovered(again bool) {
	switch {
	case s.attemptOpen():
		s.attempts.recovered(s)
		if again {
			s.attemptLost()
			return
		}
		s.attempts.over(s)
	case s.attempts.run() == "" && s.attempts.last() == nil:
		s.recovery.launch(s)
	case s.recovery.planned() == nil:
		s.ending.drain(s)
	case s.ending.signal() != 0: // the wrapper died before it recorded that no attempt follows
		s.ending.aborting(s)
		s.recovery.giveUp(s, attempt.Aborted, "")
	case s.session.timeout() != "":
		s.recovery.giveUp(s, attempt.Timeout, string(s.session.timeout()))
	default:
		s.recovery.follow(s)
	}
}

// saveContinuation saves the harness session of the lost attempt as a
// checkpoint, even if the policy saves none, so that the recovery can continue
// it.
func (r *recovery) saveContinuation(s *step) {
	if id := s.scopes.prompted(); s.cfg.Resumes && id != "" && id != r.checkpoint() && s.attempts.broken() == "" {
		s.record(CheckpointSaved{Checkpoint: id})
	}
}

// reason returns the reason of the move with which a recovery continues the
// session. It names a checkpoint only if the next launch continues one (DECISIONS
// H3).
func (r *recovery) reason(s *step, again bool) string {
	profile, n := r.hard.Spent.Profile, r.hard.Next
	switch {
	case n != nil:
		profile, again = n.Next, n.launchCause() == causeRestart
	case !again:
		return recovered
	}
	if s.attempts.broken() == "" && r.continuation(s, profile, again) != "" {
		return fromCheckpoint
	}
	return recovered
}

// attemptLost records the end of the attempt that was in progress when the
// wrapper died. The attempt is repeated even if no budget is left: this is the purpose
// of a recovery. The retry counts toward no budget (DECISIONS Z3).
func (s *step) attemptLost() {
	e, spent := s.attempts.exit(), s.recovery.spent()
	s.record(AttemptEnded{AttemptRef: s.recovery.current(s, s.attempts.run()),
		Cause: attempt.Unknown, Detail: supervisorLost, Evidence: "the wrapper died", Failure: lifeloop.TransportError,
		Code: e.Code, Signal: e.Signal, Recovery: attempt.Retry, Reason: "the wrapper died, and how the harness ended is unknown",
		Retry: &RetryPlan{Number: spent.Retries() + 1, Of: s.cfg.Policy.Attempts, Free: true, Wait: attempt.WaitRestart, At: s.now.UTC()},
		Next:  spent.Profile})
	s.recovery.arm(s)
	if rule := s.attempts.broken(); rule != "" && s.recovery.checkpoint() != "" {
		s.recovery.dropBroken(s, rule)
	}
}

// closeLost ends a session whose wrapper died. Nothing is launched and no client is
// called. Open calls get receipts with a failure class, and open frames are ended
// (DECISIONS H8).
func (s *step) closeLost(in input.CloseAsked) {
	if !s.session.began() {
		return
	}
	s.record(CommandReceived{What: "abort", Reason: in.Reason})
	s.session.closeLost()
	s.guards.settleLost(s)
	if s.session.is(session.None) {
		s.session.move(s, session.Pending, "start")
	}
	if s.session.is(session.Pending) {
		s.session.move(s, session.Rejected, supervisorLost)
		return
	}
	s.router.failOpen(s)
	s.endRecoveredScope(s.exitUnseen())
	s.recovery.settleLost(s)
	s.renewals.conclude(s, "the wrapper died")
	if open := s.attemptOpen(); open || s.recovery.planned() != nil {
		s.recovery.abandon(s, open)
	}
	s.router.failAll(s, lifeloop.TransportError, "the wrapper died, and the session was closed without calling a client")
	s.ending.drain(s)
}

// abandon records the end of an attempt. When the wrapper died, the attempt was in
// progress (open is true) or only planned.
func (r *recovery) abandon(s *step, open bool) {
	f := AttemptEnded{AttemptRef: r.current(s, ""), Cause: attempt.Unknown, Detail: supervisorLost, Evidence: "the wrapper died",
		Failure: lifeloop.TransportError, Recovery: attempt.Halt, Reason: "the wrapper died, and the session was closed"}
	if open {
		f.Run, f.Code, f.Signal = s.attempts.run(), s.attempts.exit().Code, s.attempts.exit().Signal
	}
	var cause attempt.Cause
	var detail string
	switch t := s.session.timeout(); {
	case s.ending.signal() != 0:
		cause, detail = attempt.Aborted, supervisorLost
		s.ending.aborting(s)
	case t != "":
		cause, detail = attempt.Timeout, string(t)
	case open:
		cause, detail = s.attempts.stopReason()
	}
	if cause != "" {
		f.Cause, f.Detail, f.Failure, f.Reason = cause, detail, failureClass(cause, nil), sentence(cause, detail, nil)
	}
	f.Next = f.Profile
	s.record(f)
}

// recoverObserved continues an observation. The harness did not depend on the
// observer, so its session and its frame stay open. [Kernel.Recall] restores the soft
// state, which is computed again from the records that were read before the crash.
func (s *step) recoverObserved() {
	s.router.failOpen(s)
	s.pressure.extend(s)
	why := own("the observer had read a record, and died before it had written all events about it")
	if hs := s.scopes.current(); hs != nil && !hs.Ended {
		if !hs.Starting {
			s.emit(emission{event: lifeloop.SessionStarting, evidence: why, data: map[string]any{"cause": hs.Cause}})
		}
		s.scopes.start(s, hs.Cause, why, nil)
	}
	if f := s.turns.top(); f != nil {
		s.openFrame(f.ID, why)
	}
	if s.session.is(session.Paused) {
		s.session.move(s, session.Running, recovered)
	}
}

// Rehearsal returns a new kernel for [Kernel.Recall]. Given the records that an observer
// read before it died, the new kernel computes the soft state of that observer. k is the
// kernel that replayed the observer's ledger. The new kernel calls no client and stores
// nothing.
func (k *Kernel) Rehearsal() *Kernel {
	cfg, n := k.cfg, 0
	cfg.Clients, cfg.Wants, cfg.Ledger = nil, nil, false
	cfg.NewID = func(prefix string) string {
		n++
		return prefix + strconv.Itoa(n)
	}
	return New(cfg)
}

// Recall copies the soft state of past to k, which has had no input yet. past is a
// kernel that was given the records that the dead observer had read, at the same times.
// k then handles the next record as if the observer had never died.
func (k *Kernel) Recall(past *Kernel) {
	k.scopes.recall(&past.scopes)
	k.turns.recall(&past.turns)
	k.pressure.recall(&past.pressure)
	k.activity.recall(&past.activity)
	k.books.recall(&past.books)
	k.health.recall(&past.health)
}

// Redo handles a record for the second time, because only some of its facts were written
// to the ledger. The parameter named in has the signals of the record. entries are the
// entries of the ledger before these facts. past is a kernel that was given all earlier
// records. again is a kernel in the state after the record, facts are all facts of the
// record, and ids are the new ids in these facts.
func (k *Kernel) Redo(entries iter.Seq[Entry], past *Kernel, at time.Time, in input.SignalsSeen) (again *Kernel, facts []Fact, ids []string) {
	cfg := k.cfg
	cfg.NewID = func(prefix string) string {
		id := k.cfg.NewID(prefix)
		ids = append(ids, id)
		return id
	}
	again = Replay(cfg, entries)
	again.Recall(past)
	again.step = step{Kernel: again, now: at}
	again.step.handle(in) // handle does not look at timers: those that are due fire after the recovery
	return again, again.step.out.Facts, ids
}

// Fold applies the next fact of the ledger to a kernel that is replaying it.
func (k *Kernel) Fold(e Entry) {
	e.Fact.apply(k)
	k.session.replayed(e)
}

// LastReplayed returns the time of the last fact that was replayed.
func (k *Kernel) LastReplayed() time.Time { return k.session.lastReplayed() }
