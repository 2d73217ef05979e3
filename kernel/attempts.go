package kernel

import (
	"cmp"
	"fmt"
	"time"

	"lifeloop/attempt"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// This file is the life of attempts: how one begins, what is seen of it, and
// what follows its end. When its time is over stands in timers.go, and what its
// end means in verdict.go. The rules themselves are in package attempt; here
// they meet the process and the ledger.

// attempting is soft state of the attempt that is under way.
type attempting struct {
	watch   *attempt.Watch
	units   int64
	bytes   int64
	saved   int64             // units when a checkpoint was saved last
	lived   time.Time         // its first sign of life
	quiet   time.Time         // since when nothing was heard
	failure *FailureSeen      // why it is about to fail, as far as somebody told
	turn    telemetry.Outcome // how the last one ended; empty where none was told
	did     bool              // a turn or a tool was seen in it
	limited bool              // a rate limit was met, and acted on

	stopWhy attempt.Cause // why it is being stopped; empty while it is not
	detail  string
	final   bool
}

// longWait is how long a wait must be for a session to be paused meanwhile
// (DECISIONS H3).
const longWait = 5 * time.Second

// budget is what the session's attempts may use up, for who reads the ledger.
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

// launch begins an attempt: the first, or the one that follows n.
func (s *step) launch(cause string, n *AttemptEnded) {
	l := Launching{Run: s.cfg.NewID("run_"), Cause: cause, Attempt: s.hard.Spent.Launches + 1, Profile: s.hard.Spent.Profile}
	if n != nil && n.Next != l.Profile {
		l.Profile, l.Attempt = n.Next, 1
		s.cfg.Manifest = s.cfg.Manifests[n.Next]
	}
	l.Name, l.Adapter = s.profileName(l.Profile), s.cfg.Manifest.AdapterID
	id, why := s.cfg.HarnessSession, s.cause()
	if n != nil {
		s.soft.freshLaunch()
		id, why = "", "startup"
		switch {
		case s.goesOn(l.Profile):
			l.Checkpoint, l.CheckpointUnits = s.hard.Checkpoint, s.hard.CheckpointUnits
			id, why = l.Checkpoint, "resume"
		case cause == causeRestart && s.cfg.Resumes:
			if l.Checkpoint = s.talkedIn(); l.Checkpoint != "" {
				id, why = l.Checkpoint, "resume"
			}
		}
	}
	s.between = true
	s.soft.launchedAt = s.now
	s.soft.attempt = attempting{watch: attempt.NewWatch(&s.cfg.Policy)}
	s.activeBy(starting, wrapperSource, "launch", time.Time{})
	s.open(id, why, own("launch"))
	s.weakened()
	s.record(l)
	s.between = false
	s.do(Launch{Run: l.Run, Number: s.hard.Number, Profile: l.Profile, Resume: l.Checkpoint})
}

// freshLaunch forgets what was only true of the launch before.
func (s *soft) freshLaunch() {
	s.doing, s.tools = doing{}, tools{}
	s.gone, s.goneDue, s.idleSince = nil, time.Time{}, time.Time{}
	s.stopRung, s.stopBy, s.launchWhy = 0, 0, ""
	clear(s.watched)
	clear(s.signAt)
	clear(s.spoke)
	clear(s.silent)
	s.askedBy, s.named, s.worked, s.goesOn, s.answered = nil, false, "", "", ""
}

// weakened records what this launch cannot have and no launch before it lacked.
// It was known before anything was promised, so it is no degradation.
func (s *step) weakened() {
	for _, w := range s.cfg.Weak {
		if !s.hard.Weak[w.Capability] {
			s.record(w)
		}
	}
}

func (s *step) profileName(i int) string {
	if i < len(s.cfg.Policy.Profiles) {
		return s.cfg.Policy.Profiles[i].Name
	}
	return s.cfg.Manifest.AdapterID
}

// goesOn says whether the launch of a profile can be given the checkpoint. It is
// a harness session's, so another adapter can make nothing of it.
func (s *step) goesOn(profile int) bool {
	p, by := s.cfg.Policy, s.hard.CheckpointBy
	if !p.Continuation || s.hard.Checkpoint == "" {
		return false
	}
	if profile == by {
		return true
	}
	return max(profile, by) < len(p.Profiles) && p.Profiles[profile].AcceptsContinuation && p.Profiles[profile].Adapter == p.Profiles[by].Adapter
}

// living notes a sign of life of the attempt, from wherever it came: the
// silence is over.
func (s *step) living() {
	a := &s.soft.attempt
	a.quiet = s.now
	if !a.lived.IsZero() || !s.hard.Alive {
		return
	}
	a.lived = s.now
	if after := s.cfg.Policy.Inter; after > 0 {
		s.record(TimerSet{Timer: TimerInter, AfterMS: after.Milliseconds()})
	}
}

// wrote folds what the harness wrote.
func (s *step) wrote(in OutputSeen) {
	a := &s.soft.attempt
	a.bytes = in.Total
	if a.watch == nil {
		return // nothing was launched
	}
	if in.Text == nil {
		a.units++
	} else {
		for _, f := range a.watch.Text(in.Text, in.Whole) {
			s.found(f)
		}
		a.units = a.watch.Units()
	}
	every := s.cfg.Policy.CheckpointEvery
	if s.cfg.Policy.Continuation && s.hard.Checkpoint != "" && every > 0 && a.units-a.saved >= every && a.stopWhy == "" {
		a.saved = a.units
		s.record(CheckpointSaved{Checkpoint: s.hard.Checkpoint, Units: a.units})
	}
}

// found acts on what was seen in the output: a rule that nothing could mend,
// and a loop, end the attempt at once.
func (s *step) found(f attempt.Finding) {
	a := &s.soft.attempt
	if a.stopWhy != "" {
		return
	}
	if f.Drift {
		s.drifted()
		return
	}
	s.record(RulesChecked{Phase: "pre", Units: a.watch.Units(), Rules: f.Rules})
	if rule, ok := a.watch.Broken(); ok && rule.Stops() {
		a.final = true
		s.stopAttempt(attempt.Guardrail, rule.ID)
	}
}

func (s *step) drifted() {
	s.record(DriftSeen{Types: []string{"repetition"}, Confidence: 1, Units: s.soft.attempt.watch.Units()})
	s.stopAttempt(attempt.Drift, "")
}

// checkpoint notes that a continuation from here became possible.
func (s *step) checkpoint(id string) {
	if !s.cfg.Policy.Continuation || id == "" || !s.hard.Alive || id == s.hard.Checkpoint {
		return
	}
	s.soft.attempt.saved = s.soft.attempt.units
	s.record(CheckpointSaved{Checkpoint: id, Units: s.soft.attempt.units})
}

// failureSeen keeps why the attempt is about to fail. A rate limit may be
// acted on at once.
func (s *step) failureSeen(in FailureSeen) {
	if !s.hard.Alive {
		return
	}
	s.soft.attempt.failure = &in
	if in.Cause == attempt.RateLimit {
		s.limitMet(in)
	}
}

// limitMet does what the owner wants done about a rate limit.
func (s *step) limitMet(in FailureSeen) {
	a, action := &s.soft.attempt, s.cfg.Policy.OnLimit
	if action == attempt.LimitOff || a.limited || a.stopWhy != "" {
		return
	}
	a.limited = true
	f := LimitMet{Action: action, Source: in.Source}
	if !in.Until.IsZero() {
		until := in.Until.UTC()
		f.Until = &until
	}
	s.record(f)
	if action != attempt.LimitWait && s.hard.Alive {
		s.stopAttempt(attempt.RateLimit, "")
	}
}

// attemptSignal folds what a signal means for the attempt.
func (s *step) attemptSignal(sig telemetry.Signal) {
	a := &s.soft.attempt
	if a.watch == nil {
		return
	}
	switch sig.Kind {
	case telemetry.Prompt:
		a.did, a.turn, a.failure = true, "", nil
		if s.cfg.Resumes { // there is nothing to go on from before the first prompt
			s.checkpoint(s.current().ID)
		}
	case telemetry.UsageSeen:
		if a.stopWhy == "" {
			a.failure = nil // the model answered after all
		}
	case telemetry.TurnStop, telemetry.TurnEnd:
		a.did = true
		if sig.Kind == telemetry.TurnEnd {
			a.turn = sig.Outcome
		}
		if sig.Outcome == telemetry.Failed {
			s.faulty(sig)
		}
	case telemetry.LimitWait:
		if sig.Error == "" {
			sig.Error = telemetry.ErrRateLimit
		}
		s.faulty(sig)
	case telemetry.Fault:
		s.faulty(sig)
	}
}

// faulty keeps the cause of an error that a source told. One of which it knows
// no cause says no more than the exit code will.
func (s *step) faulty(sig telemetry.Signal) {
	if c := causeOf(sig.Error); c != "" {
		s.failureSeen(FailureSeen{Cause: c, Until: sig.Until, Source: sig.Source})
	}
}

// causeOf is the cause that a source's typed error is: fatal where the same
// command line will meet it again, and empty where nothing is known of it.
func causeOf(e telemetry.ErrorKind) attempt.Cause {
	switch e {
	case telemetry.ErrRateLimit, telemetry.ErrQuota:
		return attempt.RateLimit
	case telemetry.ErrServer:
		return attempt.ServerError
	case telemetry.ErrNetwork:
		return attempt.Network
	case telemetry.ErrAuth, telemetry.ErrBilling, telemetry.ErrInvalidRequest:
		return attempt.Fatal
	case telemetry.ErrContextFull: // by what was said, not by the command line
		return attempt.Model
	case "", telemetry.ErrUnknown:
	}
	return ""
}

// stopAttempt ends the attempt, the harness's own way first.
func (s *step) stopAttempt(why attempt.Cause, detail string) {
	a := &s.soft.attempt
	a.stopWhy, a.detail = why, detail
	if s.hard.Held { // what it had written before was only looked at now
		s.free(ending)
		if s.hard.State == session.Paused {
			s.move(session.Running, ending)
		}
	}
	if s.hard.Alive && s.soft.stopRung == 0 {
		s.soft.stopBy = cmp.Or(s.cfg.Quit, sigTERM)
		s.nextRung()
	}
}

// attemptOver records how the attempt ended and what follows.
func (s *step) attemptOver() {
	a, e := &s.soft.attempt, s.hard.Exit
	v := s.judge()
	if v.Cause == attempt.RateLimit {
		s.limitMet(FailureSeen{Cause: v.Cause, Until: v.until, Source: v.evidence})
	}
	f := AttemptEnded{Run: s.hard.Run, Attempt: s.hard.Spent.Launches, Profile: s.hard.Spent.Profile,
		Name: s.profileName(s.hard.Spent.Profile), Cause: v.Cause, Detail: v.detail, Evidence: v.evidence,
		Code: e.Code, Signal: e.Signal, Units: a.units, Bytes: a.bytes, Next: s.hard.Spent.Profile}
	if !a.lived.IsZero() {
		f.DurationMS = s.now.Sub(a.lived).Milliseconds()
	}
	if s.cfg.Policy.Loop.Launches > 0 && s.now.Sub(s.soft.launchedAt) < s.cfg.Policy.Loop.Within {
		f.Short = s.hard.Spent.Short + 1
	}
	if v.Cause != "" {
		s.plan(&f, v)
	}
	s.record(f)
	s.follow()
}

// plan fills in what follows a failure.
func (s *step) plan(f *AttemptEnded, v verdict) {
	f.Failure = failureClass(v.Cause, s.hard.Exit != nil && s.hard.Exit.NotStarted)
	f.Reason = sentence(v.Cause, v.detail, s.hard.Exit)
	spent := s.hard.Spent
	spent.Short = f.Short
	next := s.cfg.Policy.After(spent, v.Failure, s.cfg.Session)
	if s.hard.TimedOut != nil || s.hard.AbortAsked || s.soft.lame {
		next = attempt.Next{Recovery: attempt.Halt, Profile: spent.Profile, GaveUp: next.GaveUp}
	}
	f.Recovery, f.Next, f.GaveUp = next.Recovery, next.Profile, next.GaveUp
	for _, i := range next.Skipped {
		f.Skipped = append(f.Skipped, s.profileName(i)+": "+s.cfg.Policy.Profiles[i].Missing)
	}
	if next.Recovery == attempt.Retry {
		f.Retry = &RetryPlan{Number: next.Retry, Of: s.cfg.Policy.Attempts, Counted: next.Counted,
			DelayMS: next.Delay.Milliseconds(), Wait: next.Wait, At: s.now.Add(next.Delay).UTC()}
	}
}

// noAttempt records the end of a session that waits for its next attempt.
func (s *step) noAttempt(cause attempt.Cause, detail string) {
	s.record(AttemptEnded{Attempt: s.hard.Spent.Launches, Profile: s.hard.Spent.Profile, Name: s.profileName(s.hard.Spent.Profile),
		Cause: cause, Detail: detail, Evidence: "no attempt was under way", Failure: failureClass(cause, false),
		Recovery: attempt.Halt, Reason: sentence(cause, detail, nil), Next: s.hard.Spent.Profile})
	s.follow()
}

// follow does what the end of an attempt asks for.
func (s *step) follow() {
	n := s.hard.Next
	if n == nil {
		s.beginDrain()
		return
	}
	if s.cfg.Policy.Continuation && s.hard.Checkpoint != "" {
		switch by := s.profileName(s.hard.CheckpointBy); {
		case s.hard.Broke != "": // who goes on from there goes on with what broke it
			s.dropCheckpoint("what would be gone on with broke guardrail " + s.hard.Broke)
		case n.Recovery == attempt.Fallback && !s.goesOn(n.Next):
			s.dropCheckpoint(fmt.Sprintf("profile %s cannot go on from a checkpoint of %s", s.profileName(n.Next), by))
		}
	}
	if n.Retry == nil || s.hard.Held {
		return // attemptTimers launches it
	}
	if n.Retry.DelayMS >= longWait.Milliseconds() && s.hard.State == session.Running {
		s.move(session.Paused, string(n.Retry.Wait))
	}
}

// dropCheckpoint gives up the continuation: the next launch is a fresh start,
// and its clients are warned (DECISIONS Z9).
func (s *step) dropCheckpoint(why string) {
	s.record(CheckpointDropped{Checkpoint: s.hard.Checkpoint, Reason: why})
	for _, client := range warned("", s.cfg.Clients) {
		s.soft.warnings[client] = append(s.soft.warnings[client], why)
	}
}
