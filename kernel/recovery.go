package kernel

import (
	"cmp"
	"fmt"
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

// recovery decides what follows the end of an attempt. The decision depends on the
// policy and on the budgets that the attempts have not used up:
//
//	attempt_ended ──► retry ─────► wait, until a time ──► launch of the same profile
//	           │ │└──► fallback ───────────────────────► launch of the next profile
//	           │ └───► halt ──► drain
//	           └─ completed ──► drain
//
// Only a pause, or the wait for the gate's decision about the launch (see guards), delays
// the next launch beyond its planned time.
type recovery struct {
	hard struct {
		Spent attempt.Spent
		Name  string        // name of the profile that was launched last
		Asked *RetryAsked   // the open question to the program retry.decide; nil if there is none
		Next  *AttemptEnded // the end of the last attempt, if the next launch is planned and has not begun; otherwise nil
		// Checkpoint is the id of the checkpoint from which the next launch may continue;
		// empty if there is none. CheckpointUnits is how many units of output were
		// counted when it was saved, and CheckpointBy the index of the profile that
		// created it.
		Checkpoint      string
		CheckpointUnits int64
		CheckpointBy    int
	}
	soft struct {
		due   time.Time // when the next retry begins, on the clock of step.now (see timerAt)
		asked time.Time // when the program retry.decide was asked the open question, on the same clock
	}
}

type (
	// AttemptEnded records how an attempt ended and what follows. It is written
	// when the harness has exited and its sources were read to their ends, when a
	// planned attempt is given up, or after a crash of the wrapper.
	AttemptEnded struct {
		AttemptRef
		Cause attempt.Cause `json:"cause,omitempty"` // empty if the attempt completed
		// Detail of the cause: which timer, which rule, the code of a network
		// error.
		Detail  string                `json:"detail,omitempty"`
		Failure lifeloop.FailureClass `json:"failure_class,omitempty"`
		// Evidence names what shows that the attempt completed or failed, such as a
		// timer, a rule, a source or the exit status.
		Evidence string `json:"evidence"`
		Code     int    `json:"code"`
		Signal   int    `json:"signal"`
		// Recovery says what follows a failure; empty after a completed attempt.
		Recovery attempt.Recovery `json:"recovery,omitempty"`
		Reason   string           `json:"reason,omitempty"` // the reason in words for people
		Retry    *RetryPlan       `json:"retry,omitempty"`
		// Next is the index of the profile that is launched next. If no launch follows,
		// it is the index of the attempt's own profile. Skipped lists the fallbacks that
		// cannot be launched, each with the reason.
		Next    int      `json:"next"`
		Skipped []string `json:"skipped,omitempty"`
		GaveUp  bool     `json:"gave_up,omitempty"` // see attempt.Next
		AttemptCost
	}
	// An AttemptRef names an attempt.
	AttemptRef struct {
		Run     string `json:"run"` // empty if no launch was in progress
		Attempt int    `json:"attempt"`
		Profile int    `json:"profile"`
		Name    string `json:"name"`
	}
	// An AttemptCost counts what an attempt used.
	AttemptCost struct {
		// Short is how many launches in a row, this one included, lasted less than
		// attempt.CrashLoop.Within.
		Short      int   `json:"short,omitempty"`
		Units      int64 `json:"units"`
		Bytes      int64 `json:"bytes"`
		DurationMS int64 `json:"duration_ms"` // the time from the first sign of life to the end of the attempt; 0 if there was no sign
	}
	// A Budget limits the attempts of a session, as the policy configures.
	Budget struct {
		Attempts   int      `json:"attempts"`    // limit of the counted retries of one profile; see RetryPlan.Counted
		MaxRetries int      `json:"max_retries"` // limit of all retries in the session, except free ones; see RetryPlan.Free
		Profiles   []string `json:"profiles"`    // the primary, then the fallbacks
	}
	// A RetryPlan says when the next attempt begins, and why it waits until then.
	// Counted says whether the retry counts toward the profile's budget, and Free
	// whether it counts toward none.
	RetryPlan struct {
		Number  int          `json:"number"` // number among this profile's retries, from 1
		Of      int          `json:"of"`     // the budget of counted retries of this profile
		Counted bool         `json:"counted"`
		Free    bool         `json:"free,omitempty"`
		DelayMS int64        `json:"delay_ms"`
		Wait    attempt.Wait `json:"wait"`
		At      time.Time    `json:"at"`
	}
	// CheckpointSaved records that a later launch can continue from a checkpoint.
	// CheckpointDropped records that no launch will, because the next profile cannot
	// use the checkpoint, or because the checkpoint's conversation broke a guardrail.
	CheckpointSaved struct {
		Checkpoint string `json:"checkpoint"`
		Units      int64  `json:"units"`
	}
	CheckpointDropped struct {
		Checkpoint string `json:"checkpoint"`
		Reason     string `json:"reason"`
	}
)

func (CheckpointSaved) key() (string, bool) { return "checkpoint_saved", true }
func (f CheckpointSaved) apply(k *Kernel) {
	h := &k.recovery.hard
	h.Checkpoint, h.CheckpointUnits, h.CheckpointBy = f.Checkpoint, f.Units, h.Spent.Profile
}

func (CheckpointDropped) key() (string, bool) { return "checkpoint_dropped", true }
func (CheckpointDropped) apply(k *Kernel) {
	h := &k.recovery.hard
	h.Checkpoint, h.CheckpointUnits, h.CheckpointBy = "", 0, 0
}

func (AttemptEnded) key() (string, bool) { return "attempt_ended", true }
func (f AttemptEnded) apply(k *Kernel) {
	k.attempts.ended(&f)
	h := &k.recovery.hard
	h.Asked, h.Next, h.Spent.Short = nil, nil, f.Short
	switch f.Recovery {
	case attempt.Retry:
		h.Next = &f
		h.Spent.Total++
		if f.Retry.Free {
			h.Spent.Free++
		}
		if f.Retry.Wait == attempt.WaitQuarantine {
			h.Spent.Short = 0
		}
		if f.Retry.Counted {
			h.Spent.Counted++
		} else {
			h.Spent.Uncounted++
		}
	case attempt.Fallback:
		h.Next = &f
	}
}

func (r *recovery) launched(f Launching) {
	h := &r.hard
	h.Next, h.Name = nil, f.Name
	if f.Profile != h.Spent.Profile {
		h.Spent = attempt.Spent{Profile: f.Profile, Total: h.Spent.Total, Free: h.Spent.Free}
	}
	h.Spent.Launches = f.Attempt
}

// postponed sets a new time for the planned retry. It does nothing if no retry is
// planned, or if the new time is nil.
func (r *recovery) postponed(to *time.Time) {
	if n := r.hard.Next; to != nil && n != nil && n.Retry != nil {
		next, retry := *n, *n.Retry
		retry.At, next.Retry = *to, &retry
		r.hard.Next = &next
	}
}

func (r *recovery) spent() attempt.Spent   { return r.hard.Spent }
func (r *recovery) planned() *AttemptEnded { return r.hard.Next }

// between reports whether the attempt has ended, and another one is planned or the
// program retry.decide is being asked about one.
func (r *recovery) between() bool      { return r.hard.Next != nil || r.hard.Asked != nil }
func (r *recovery) checkpoint() string { return r.hard.Checkpoint }

// retryAt returns when the next attempt begins; zero if no retry is planned.
func (r *recovery) retryAt() (at time.Time) {
	if n := r.hard.Next; n != nil && n.Retry != nil {
		at = r.soft.due
	}
	return at
}

// arm sets the timer of the next retry to the time in hard.Next.
func (r *recovery) arm(s *step) {
	if n := r.hard.Next; n != nil && n.Retry != nil {
		r.soft.due = s.timerAt(n.Retry.At)
	}
}

// current returns the reference by which a fact names the newest attempt. run is the id
// of the launch in progress; empty if there is none.
func (r *recovery) current(s *step, run string) AttemptRef {
	p := r.hard.Spent
	return AttemptRef{Run: run, Attempt: p.Launches, Profile: p.Profile, Name: cmp.Or(r.hard.Name, s.profileName(p.Profile))}
}

func (s *step) profileName(i int) string {
	if i < len(s.cfg.Policy.Profiles) {
		return s.cfg.Policy.Profiles[i].Name
	}
	return s.cfg.Manifest.AdapterID
}

// longWait is the shortest wait for a retry that moves the session to PAUSED
// (DECISIONS H3). A shorter wait does not change the session's state.
const longWait = 5 * time.Second

// budget returns the limits for the session's attempts; nil if there is only
// one attempt.
func (s *step) budget() *Budget {
	p := s.cfg.Policy
	if p.MaxRetries == 0 && len(p.Profiles) < 2 {
		return nil
	}
	b := &Budget{Attempts: p.Attempts, MaxRetries: p.MaxRetries, Profiles: []string{}}
	for i := range p.Profiles {
		b.Profiles = append(b.Profiles, p.Profiles[i].Name)
	}
	return b
}

func (r *recovery) launch(s *step) {
	s.attempts.launch(s, r.launching(s, "first", r.hard.Spent.Profile, r.hard.Spent.Launches+1), s.cfg.HarnessSession, s.startCause())
}

func (r *recovery) launching(s *step, cause string, profile, number int) Launching {
	return Launching{Run: s.cfg.NewID("run_"), Cause: cause, Attempt: number, Profile: profile,
		Name: s.profileName(profile), Adapter: s.cfg.Manifest.AdapterID}
}

// launching resets state that belongs only to the previous launch.
func (s *step) launching() {
	s.activity.launching()
	s.scopes.launching()
	s.turns.launching()
	s.ending.launching()
	s.health.launching()
}

// relaunch begins the planned attempt.
func (r *recovery) relaunch(s *step) {
	n := r.hard.Next
	number := r.hard.Spent.Launches + 1
	if n.Next != r.hard.Spent.Profile {
		number = 1
		s.cfg.Manifest, s.cfg.Weak = s.cfg.Manifests[n.Next], nil
		s.pressure.forget(s.cfg.Synth)
	}
	cause := n.launchCause()
	l := r.launching(s, cause, n.Next, number)
	s.launching()
	start := "startup"
	if l.Checkpoint = r.continuation(s, l.Profile, cause == causeRestart); l.Checkpoint != "" {
		start = "resume"
	}
	if l.Checkpoint == r.hard.Checkpoint {
		l.CheckpointUnits = r.hard.CheckpointUnits
	}
	s.attempts.launch(s, l, l.Checkpoint, start)
}

// renew launches the harness again within the same attempt. The launch continues the
// harness session with the id old. If old is empty, the launch begins a fresh session.
func (r *recovery) renew(s *step, old string) {
	s.launching()
	l := r.launching(s, causeRenewal, r.hard.Spent.Profile, r.hard.Spent.Launches)
	l.Checkpoint = old
	start := causeRenewal
	if old != "" {
		start = "resume"
	}
	s.attempts.launch(s, l, old, start)
}

// launchCause returns the cause of the launch that follows this end of an attempt.
func (f *AttemptEnded) launchCause() string {
	if f.Retry != nil && f.Retry.Wait == attempt.WaitRestart {
		return causeRestart
	}
	return string(f.Recovery)
}

// continuation returns the checkpoint from which the launch of a profile
// continues; empty for a fresh start. A restart after a crash of the wrapper
// continues the harness session even if the policy saves no checkpoints, but not a
// session that broke a guardrail.
func (r *recovery) continuation(s *step, profile int, restart bool) string {
	switch {
	case r.continues(s, profile):
		return r.hard.Checkpoint
	case restart && s.cfg.Resumes && s.attempts.broken() == "":
		return s.scopes.prompted()
	}
	return ""
}

// continues reports whether the launch of a profile can continue from the saved
// checkpoint. A checkpoint is a harness session, so another adapter cannot use it.
func (r *recovery) continues(s *step, profile int) bool {
	p, by := s.cfg.Policy, r.hard.CheckpointBy
	if !p.Continuation || r.hard.Checkpoint == "" {
		return false
	}
	if profile == by {
		return true
	}
	return max(profile, by) < len(p.Profiles) && p.Profiles[profile].AcceptsContinuation && p.Profiles[profile].Adapter == p.Profiles[by].Adapter
}

// plan decides what follows a failed attempt with verdict v, and adds it to f.
func (r *recovery) plan(s *step, f *AttemptEnded, v verdict) {
	e := s.attempts.exit()
	f.Failure = failureClass(v.Cause, e)
	f.Reason = sentence(v.Cause, v.detail, e)
	spent := r.hard.Spent
	spent.Short = f.Short
	next := s.cfg.Policy.After(spent, v.Failure, s.cfg.Session)
	if s.session.timeout() != "" || s.ending.requested() || s.session.ledgerLost() {
		next = attempt.Next{Recovery: attempt.Halt, Profile: spent.Profile, GaveUp: next.GaveUp}
	}
	f.Recovery, f.Next, f.GaveUp = next.Recovery, next.Profile, next.GaveUp
	for _, i := range next.Skipped {
		f.Skipped = append(f.Skipped, s.profileName(i)+": "+s.cfg.Policy.Profiles[i].Missing)
	}
	if next.Recovery == attempt.Retry {
		f.Retry = &RetryPlan{Number: next.Retry, Of: s.cfg.Policy.Attempts, Counted: next.Counted, Free: next.Free,
			DelayMS: next.Delay.Milliseconds(), Wait: next.Wait, At: s.now.Add(next.Delay).UTC()}
	}
}

// giveUp ends a session that waits for its next attempt. The fact names no
// launch, because none is in progress.
func (r *recovery) giveUp(s *step, cause attempt.Cause, detail string) {
	f := AttemptEnded{AttemptRef: r.current(s, ""), Cause: cause, Detail: detail, Evidence: "no attempt was under way",
		Failure: failureClass(cause, nil), Recovery: attempt.Halt, Reason: sentence(cause, detail, nil)}
	f.Next = f.Profile
	s.record(f)
	r.follow(s)
}

// follow performs what the recorded end of an attempt decided. The next launch
// begins in wake.
func (r *recovery) follow(s *step) {
	n := r.hard.Next
	if n == nil {
		s.ending.drain(s)
		return
	}
	r.arm(s)
	s.session.planned(s.now)
	if broken := s.attempts.broken(); s.cfg.Policy.Continuation && r.hard.Checkpoint != "" {
		switch {
		case broken != "":
			r.dropBroken(s, broken)
		case n.Recovery == attempt.Fallback && !r.continues(s, n.Next):
			r.drop(s, fmt.Sprintf("profile %s cannot continue a checkpoint of profile %s", s.profileName(n.Next), s.profileName(r.hard.CheckpointBy)))
		}
	}
	if n.Retry != nil && !s.session.pausedByCommand() && n.Retry.DelayMS >= longWait.Milliseconds() && s.session.is(session.Running) {
		s.session.move(s, session.Paused, string(n.Retry.Wait))
	}
}

// drop discards the checkpoint: the next launch is a fresh start, and the clients
// are warned (DECISIONS Z9).
func (r *recovery) drop(s *step, why string) {
	s.record(CheckpointDropped{Checkpoint: r.hard.Checkpoint, Reason: why})
	s.router.warn(s, "", why)
}

// dropBroken discards a checkpoint whose conversation broke a guardrail: the
// continued conversation would break it again.
func (r *recovery) dropBroken(s *step, rule string) {
	r.drop(s, "the conversation of the checkpoint broke guardrail "+rule)
}

func (r *recovery) next(k *Kernel) time.Time {
	n := r.hard.Next
	if r.hard.Asked != nil && !r.soft.asked.IsZero() && !k.State().Terminal() {
		return r.soft.asked.Add(k.cfg.Policy.Decide)
	}
	if n == nil || k.session.pausedByCommand() || k.State().Terminal() {
		return time.Time{}
	}
	if n.Retry == nil {
		return k.step.now // a fallback begins without a wait
	}
	return r.soft.due
}

// wake begins the planned attempt once its wait is over. It also applies the policy's
// own rule if the program retry.decide has not answered in time.
func (r *recovery) wake(s *step) {
	if r.hard.Asked != nil {
		r.settle(s, lifeloop.Timeout, "the program did not answer in time")
		r.follow(s)
		if !s.due(r.next(s.Kernel)) {
			return
		}
	}
	if s.session.is(session.Paused) {
		s.session.move(s, session.Running, string(r.hard.Next.Recovery))
	}
	r.relaunch(s)
}
