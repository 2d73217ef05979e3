package kernel

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"lifeloop/attempt"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// attempts holds the newest launch of the harness and the observations of the current
// attempt. The launch of a renewal continues the attempt; every other launch begins a
// new attempt. timers.go ends an attempt that takes too long, and verdict.go decides
// how an attempt ended. The recovery machine decides what follows, by the rules of
// package attempt.
//
//	launching ──► running ──► exited ──► sources drained ──► attempt_ended
//	     │           └── stop: time-out, guardrail, drift, limit ──▲
//	     └── not started ──────────────────────────────────────────┘
type attempts struct {
	hard struct {
		Run    string        // harness_run_id of the newest launch
		Number int           // the number of launches so far
		Alive  bool          // the harness runs
		Exit   *Exited       // how the newest launch ended; nil until it has ended
		Last   *AttemptEnded // how the newest attempt ended
		Broke  []string      // the guardrails that this attempt broke, oldest first; not those of severity warning
		Stop   stopReason    // why the attempt is being ended; empty if it is not
		Limit  *LimitMet     // the newest rate limit of this launch
		// Turn is the outcome of the last turn that ended; empty during a turn, and
		// before the first turn of a launch or of an observed harness session.
		Turn telemetry.Outcome
	}
	soft struct {
		attempting
		// launchedAt is when the launch was decided. If a source reports a record with an
		// earlier time, another process wrote that record.
		launchedAt time.Time
		launchWhy  string // why the harness could not be started
		next       string // harness_run_id of a launch before its Launching is recorded
	}
}

// attempting holds the observations of the current attempt.
type attempting struct {
	watch   *attempt.Watch
	units   int64              // lines of output so far, in all launches of the attempt
	bytes   int64              // bytes of output so far, in all launches of the attempt
	saved   int64              // units at the last checkpoint
	lived   time.Time          // the first sign of life in this launch
	quiet   time.Time          // start of the present silence; usually the last sign of life
	failure *input.FailureSeen // the last reported failure; nil after a later prompt, or after the model has answered
	turn    telemetry.Outcome  // the outcome of the last turn; empty if unknown
	closed  time.Time          // when the last turn ended or the last failure was reported
	did     bool               // a turn or a tool call was reported in this attempt
	limited bool               // the policy's action for a rate limit was taken
	unseen  bool               // a wrapper that died has read the output of this launch
	earlier earlierCost
}

// A stopReason is why an attempt is being ended. It is set by the apply method of a
// fact, such as [DriftSeen]. The fact is in the ledger, so the reason survives a crash
// of the wrapper.
type stopReason struct {
	cause  attempt.Cause
	detail string
}

// An earlierCost counts the output of earlier launches of the same attempt. lived
// is the time of the attempt's first sign of life; zero in its first launch.
type earlierCost struct {
	units, bytes int64
	lived        time.Time
}

// renewed returns the state for a launch by a renewal. The launch belongs to the same
// attempt: earlier output and broken rules still count, but the timers restart.
func (a attempting) renewed() attempting {
	first := a.earlier.lived
	if first.IsZero() {
		first = a.lived
	}
	return attempting{watch: a.watch, units: a.units, bytes: a.bytes, saved: a.saved, did: a.did, earlier: earlierCost{a.units, a.bytes, first}}
}

type (
	// Launching records that the harness is about to be started, and the attempt
	// to which this launch belongs.
	Launching struct {
		Run   string `json:"run"`   // harness_run_id
		Cause string `json:"cause"` // first, retry, fallback, restart or renewal
		// Attempt counts the attempts of the profile, from 1. Profile is the index of
		// the profile, and Name is the name of the profile.
		Attempt int    `json:"attempt"`
		Profile int    `json:"profile"`
		Name    string `json:"name"`
		Adapter string `json:"adapter_id"`
		// Checkpoint is the checkpoint from which this launch continues; empty for a
		// fresh start. CheckpointUnits is the number of units (lines of output) that had
		// been counted when the checkpoint was saved.
		Checkpoint      string `json:"checkpoint,omitempty"`
		CheckpointUnits int64  `json:"checkpoint_units,omitempty"`
	}
	// Running records that the harness runs.
	Running struct {
		Run string `json:"run"`
		PID int    `json:"pid"`
		// Hooks is the reason why hooks were injected. It is empty if no hooks were
		// injected, or if this harness always gets hooks.
		Hooks string `json:"hooks,omitempty"`
		// Containment names the means that ends the launch if wrapper and guard are
		// killed together: cgroup, or empty if there is none.
		Containment string `json:"containment,omitempty"`
	}
	// Exited records how a launch ended.
	Exited struct {
		Run      string `json:"run"`
		Code     int    `json:"code"`
		Signal   int    `json:"signal"`
		Leftover int    `json:"leftover"` // how many descendants of the harness still ran when it ended
		// Lost means that the guard was lost, so Code and Signal are unknown.
		Lost bool `json:"lost,omitempty"`
		// Unseen means that no wrapper observed the exit, because the wrapper had
		// died.
		Unseen bool `json:"unseen,omitempty"`
		// OutputLost says that some output could not be written to its
		// destination.
		OutputLost bool `json:"output_lost,omitempty"`
		// Interrupted says that the user typed the interrupt key shortly before.
		Interrupted bool `json:"interrupted,omitempty"`
		// NotStarted means that no process was started.
		NotStarted bool `json:"not_started,omitempty"`
		// Transient means that a later launch may succeed.
		Transient bool `json:"passing,omitempty"`
		// Refused says that the gate did not allow the launch.
		Refused bool `json:"refused,omitempty"`
		// Withheld says that the launch was not tried, because the session was aborted
		// or timed out before the gate had decided.
		Withheld bool `json:"withheld,omitempty"`
	}
	// RulesChecked records the results of guardrails in one phase. The results of phase
	// pre are of the rules about single lines. They are recorded each time that a line
	// breaks a rule that no earlier line broke, or at the attempt's end if none of these
	// rules was broken. The results of phase post are of the rules about the output as a
	// whole (its last 4 MiB).
	RulesChecked struct {
		Phase string               `json:"phase"`
		Units int64                `json:"units"`
		Rules []attempt.RuleResult `json:"rules"`
	}
	// DriftSeen records that the harness repeats the same output or tool call.
	DriftSeen struct {
		Types      []string `json:"types"`
		Confidence float64  `json:"confidence"`
		Units      int64    `json:"units"`
	}
	// LimitMet records a rate limit of the harness, and the action that the policy
	// takes for it.
	LimitMet struct {
		Until  *time.Time      `json:"until"`
		Action attempt.OnLimit `json:"action"`
		Source string          `json:"source"`
	}
)

func (Launching) key() (string, bool) { return "launching", true }
func (f Launching) apply(k *Kernel) {
	h := &k.attempts.hard
	h.Run, h.Number, h.Exit, h.Stop, h.Limit, h.Turn = f.Run, h.Number+1, nil, stopReason{}, nil, ""
	if f.Cause != causeRenewal { // a renewal continues the attempt
		h.Broke = nil
	}
	k.scopes.launched(f)
	k.recovery.launched(f)
	k.renewals.launching(f)
	k.health.launched()
}

func (Running) key() (string, bool)   { return "running", false }
func (Running) apply(k *Kernel)       { k.attempts.hard.Alive = true }
func (Exited) key() (string, bool)    { return "exited", true }
func (f Exited) apply(k *Kernel)      { k.attempts.hard.Alive, k.attempts.hard.Exit = false, &f }
func (DriftSeen) key() (string, bool) { return "drift_seen", true }
func (DriftSeen) apply(k *Kernel)     { k.attempts.stopFor(attempt.Drift, "") }
func (LimitMet) key() (string, bool)  { return "limit_met", true }
func (f LimitMet) apply(k *Kernel) {
	k.attempts.hard.Limit = &f
	if f.Action != attempt.LimitWait && k.attempts.alive() {
		k.attempts.stopFor(attempt.RateLimit, "")
	}
}

func (RulesChecked) key() (string, bool) { return "rules_held", true }
func (f RulesChecked) apply(k *Kernel) {
	h := &k.attempts.hard
	for _, r := range f.Rules {
		if r.Passed || r.Severity == attempt.Warning {
			continue
		}
		if !slices.Contains(h.Broke, r.ID) {
			h.Broke = append(h.Broke, r.ID)
		}
		if f.Phase == "pre" && !r.Recoverable {
			k.attempts.stopFor(attempt.Guardrail, r.ID)
		}
	}
}

// stopFor sets the reason for ending the attempt, unless it already has one.
func (a *attempts) stopFor(why attempt.Cause, detail string) {
	if a.hard.Stop.cause == "" {
		a.hard.Stop = stopReason{why, detail}
	}
}

func (a *attempts) ended(f *AttemptEnded) { a.hard.Last = f }

func (a *attempts) run() string         { return a.hard.Run }
func (a *attempts) alive() bool         { return a.hard.Alive }
func (a *attempts) exit() *Exited       { return a.hard.Exit }
func (a *attempts) last() *AttemptEnded { return a.hard.Last }
func (a *attempts) launchError() string { return a.soft.launchWhy }

// broken returns the first guardrail that this attempt broke; empty if it broke none.
func (a *attempts) broken() string {
	if len(a.hard.Broke) == 0 {
		return ""
	}
	return a.hard.Broke[0]
}

// stopped reports whether the attempt is being ended for a reason of the attempt
// itself, such as a time-out.
func (a *attempts) stopped() bool { return a.hard.Stop.cause != "" }

// stopReason returns the cause for which the attempt is being ended, and its
// detail.
func (a *attempts) stopReason() (attempt.Cause, string) { return a.hard.Stop.cause, a.hard.Stop.detail }

func (a *attempts) completed() bool { return a.hard.Last != nil && a.hard.Last.Cause == "" }

// limited reports whether a rate limit ended the newest attempt.
func (a *attempts) limited() bool {
	return a.hard.Limit != nil && a.hard.Last != nil && a.hard.Last.Cause == attempt.RateLimit
}

// exitsByLimit reports whether a rate limit ended the newest attempt, and the
// policy's action for that is to exit.
func (a *attempts) exitsByLimit() bool {
	return a.limited() && a.hard.Limit.Action == attempt.LimitExit
}

// launchedAfter reports whether the launch was decided after t, the time of day in a
// record. The clock may have been set since the launch. So the launch's time of day is
// computed by the present clock: now, minus the duration since the launch.
func (a *attempts) launchedAfter(t, now time.Time) bool {
	return t.Before(now.Add(-now.Sub(a.soft.launchedAt)).Round(0))
}

// id returns a pointer to the harness_run_id of the newest launch, for a JSON member that
// may be null. It returns nil before the first launch. When a launch opens a harness
// session, the events of the opening are emitted before the fact Launching is recorded.
// Even then id returns the id of the new launch, so these events have that id.
func (a *attempts) id() *string {
	if run := cmp.Or(a.soft.next, a.hard.Run); run != "" {
		return &run
	}
	return nil
}

func (a *attempts) launch(s *step, l Launching, id, cause string) {
	a.soft.next, a.soft.launchedAt, a.soft.launchWhy = l.Run, s.now, ""
	if a.soft.attempting = a.soft.attempting.renewed(); l.Cause != causeRenewal || a.soft.watch == nil {
		a.soft.attempting = attempting{watch: attempt.NewWatch(&s.cfg.Policy)}
	}
	s.activity.own(s, starting, "launch")
	s.scopes.open(s, id, cause, own("launch"), nil)
	s.record(l)
	a.soft.next = ""
	s.guards.launch(s, effect.Launch{Run: l.Run, Number: a.hard.Number, Profile: l.Profile, Resume: l.Checkpoint,
		Fresh: l.Cause == causeRenewal && l.Checkpoint == ""})
}

// recovered sets up the soft state for the attempt that was in progress when the
// previous wrapper died. That wrapper had the output only in memory. So a rule about
// output counts as broken only if a fact in the ledger says so.
func (a *attempts) recovered(s *step) {
	a.soft.attempting = attempting{watch: attempt.NewWatch(&s.cfg.Policy), did: true, unseen: true}
	a.soft.watch.Recall(a.hard.Broke)
	// An abandoned turn is one whose end no source reported. Its outcome may be in a part
	// of a file that has not been read yet.
	if a.hard.Turn != abandoned {
		a.soft.turn = a.hard.Turn
	}
	limit := a.hard.Limit
	if limit == nil || limit.Until == nil {
		return
	}
	if a.hard.Stop.cause == attempt.RateLimit || limit.Until.After(s.now) { // a rate limit that still lasts has probably made the harness fail
		a.soft.limited = true
		a.soft.failure = &input.FailureSeen{Cause: attempt.RateLimit, Until: *limit.Until, Source: limit.Source}
	}
}

func (a *attempts) launched(s *step, in input.Launched) {
	s.record(Running{Run: a.hard.Run, PID: in.PID, Hooks: s.cfg.HooksFor, Containment: in.Containment})
	if in.Setup != nil {
		s.cfg.Launch = in.Setup.Valid()
		s.pressure.use(in.Setup.Synth)
		if id := s.cfg.HarnessSession; id != "" && s.scopes.current().ID == "" {
			s.scopes.bind(s, id, s.startCause(), "launch: the harness was given this id")
		}
	}
	s.health.weaken(s)
	s.health.relaunched(s)
	a.restartSilence(s.now)
	if after := s.cfg.Policy.Initial; after > 0 {
		s.record(TimerSet{Timer: TimerInitial, AfterMS: after.Milliseconds()})
	}
	s.health.began(s)
	s.health.version(s, telemetry.Signal{Version: s.cfg.Installed, Source: packageSource, Detail: "package.json"})
	s.router.startTicks(s)
	if s.cfg.NoTelemetry {
		s.scopes.start(s, "", own("the process runs"), nil)
		s.activity.own(s, working, "the process runs")
	}
	s.renewals.launched(s)
	if signal := s.ending.signal(); signal != 0 { // the abort was requested before the process was started
		s.ending.stop(s, signal)
	}
}

func (a *attempts) launchFailed(s *step, in input.LaunchFailed) {
	a.soft.launchWhy = in.Why
	s.activity.own(s, stopped, "not started")
	s.record(Exited{Run: a.hard.Run, Code: in.Code, NotStarted: true, Transient: in.Transient, Refused: in.Refused, Withheld: in.Withheld && !in.Refused})
	if !in.Withheld {
		s.do(effect.Release{})
	}
	s.sourcesDrained()
}

func (a *attempts) exited(s *step, in input.ChildExited) {
	s.health.stopExpecting()
	s.router.stopTicks()
	s.record(Exited{Run: a.hard.Run, Code: in.Code, Signal: in.Signal, Leftover: in.Leftover, Lost: in.Lost, OutputLost: in.OutputLost, Interrupted: in.Interrupted})
	s.ending.exited(s, in.Leftover)
	if a.soft.watch != nil {
		a.examineRest(s)
	}
	s.activity.own(s, stopped, a.endReason())
	s.do(effect.Release{})
	s.do(effect.DrainSources{})
}

// restartSilence restarts the wait for the next sign of life.
func (a *attempts) restartSilence(now time.Time) { a.soft.quiet = now }

// shift postpones the timers of the attempt by the length of a pause.
func (a *attempts) shift(pause time.Duration, now time.Time) {
	a.soft.quiet = shifted(a.soft.quiet, pause, now)
}

// sign handles a sign of life from any source.
func (a *attempts) sign(s *step, at time.Time) {
	if at.After(a.soft.quiet) {
		a.soft.quiet = at
	}
	if !a.soft.lived.IsZero() || !a.hard.Alive {
		return
	}
	a.soft.lived = at
	if after := s.cfg.Policy.Inter; after > 0 {
		s.record(TimerSet{Timer: TimerInter, AfterMS: after.Milliseconds()})
	}
}

func (a *attempts) output(s *step, in input.OutputSeen) {
	a.soft.bytes = a.soft.earlier.bytes + in.Total
	if a.soft.watch == nil {
		return // the harness was not launched
	}
	if in.Text == nil {
		a.soft.units = a.soft.earlier.units + in.Lines
		return
	}
	a.soft.watch.Skip(in.Skipped)
	for f := range a.soft.watch.Text(s.now, in.Stream, in.Text, in.Whole) {
		a.found(s, f)
	}
}

// partialTime is how long an incomplete line waits for its rest before it is
// checked against the rules (DECISIONS A1).
const partialTime = 200 * time.Millisecond

// examine checks incomplete lines whose rest did not arrive in time.
func (a *attempts) examine(s *step) {
	for f := range a.soft.watch.Examine(s.now.Add(-partialTime)) {
		a.found(s, f)
	}
}

// examineRest checks the last line of a harness that has ended.
func (a *attempts) examineRest(s *step) {
	for f := range a.soft.watch.Close() {
		a.found(s, f)
	}
}

// found handles the result of checking one line. Drift, a line that repeats earlier
// ones too often, ends the attempt at once, and so does a broken rule that is
// unrecoverable. Later lines are still checked until the harness has ended.
func (a *attempts) found(s *step, f attempt.Finding) {
	a.soft.units = f.Units
	if f.Rules != nil {
		s.record(RulesChecked{Phase: "pre", Units: f.Units, Rules: f.Rules})
		if rule, ok := a.soft.watch.Broken(); ok && rule.Stops() {
			a.stop(s)
		}
	}
	if f.Drift {
		a.drifted(s)
	}
	every, from := s.cfg.Policy.CheckpointEvery, s.recovery.checkpoint()
	if s.cfg.Policy.Continuation && a.hard.Alive && from != "" && every > 0 && f.Units-a.soft.saved >= every && !a.stopped() {
		a.soft.saved = f.Units
		s.record(CheckpointSaved{Checkpoint: from, Units: f.Units})
	}
}

func (a *attempts) drifted(s *step) {
	s.record(DriftSeen{Types: []string{"repetition"}, Confidence: 1, Units: a.soft.units})
	a.stop(s)
}

// worked records in soft state that a tool was called or returned.
func (a *attempts) worked() { a.soft.did = true }

// tool ends the attempt if tool calls with the same arguments repeat too often.
func (a *attempts) tool(s *step, name string, args *telemetry.Sized) {
	if args != nil && a.soft.watch != nil && !a.stopped() && a.soft.watch.Tool(name, args.Digest) {
		a.drifted(s)
	}
}

func (a *attempts) turnEnded(o telemetry.Outcome) { a.soft.turn = o }
func (a *attempts) lastTurn() telemetry.Outcome   { return a.hard.Turn }

// observed updates the outcome of the last turn from an event. The outcome becomes empty
// when a turn begins.
func (a *attempts) observed(k *Kernel, f Observed) {
	switch f.Record.Event {
	case lifeloop.SessionStarting:
		if k.cfg.Observing { // the last turn was in the previous harness session
			a.hard.Turn = ""
		}
	case lifeloop.FrameOpening:
		if !f.ByClient() {
			a.hard.Turn = ""
		}
	case lifeloop.FrameEnded:
		if !f.ByClient() {
			outcome, _ := f.Record.Data["outcome"].(string)
			a.hard.Turn = telemetry.Outcome(outcome)
		}
	}
}

// unjudged reports whether the attempt's result is not known yet: the harness
// still runs, or its output and files are still being read.
func (a *attempts) unjudged(s *step) bool {
	return a.hard.Alive || a.hard.Exit != nil && !s.recovery.between() && !s.ending.draining() && !s.renewals.between()
}

// checkpoint records that a later launch can continue from id.
func (a *attempts) checkpoint(s *step, id string) {
	if !s.cfg.Policy.Continuation || id == "" || !a.unjudged(s) || id == s.recovery.checkpoint() {
		return
	}
	a.soft.saved = a.soft.units
	s.record(CheckpointSaved{Checkpoint: id, Units: a.soft.units})
}

// failureSeen stores the reported cause of a failure until the attempt has ended. If the
// cause is a rate limit, failureSeen takes the policy's action, if there is one, at once.
func (a *attempts) failureSeen(s *step, in input.FailureSeen) {
	if !a.unjudged(s) {
		return
	}
	a.soft.failure = &in
	if in.Cause == attempt.RateLimit {
		a.limitMet(s, in)
	}
}

// limitMet takes the policy's action for a rate limit, once for each limit.
func (a *attempts) limitMet(s *step, in input.FailureSeen) {
	action := s.cfg.Policy.OnLimit
	if action == attempt.LimitOff || a.soft.limited || a.stopped() {
		return
	}
	a.soft.limited = true
	f := LimitMet{Action: action, Source: in.Source}
	if !in.Until.IsZero() {
		f.Until = new(in.Until.UTC())
	}
	s.record(f)
	if action != attempt.LimitWait && a.hard.Alive {
		a.stop(s)
	}
}

// signal updates the attempt from a signal.
func (a *attempts) signal(s *step, sig telemetry.Signal) {
	if a.soft.watch == nil {
		return
	}
	switch sig.Kind {
	case telemetry.Prompt:
		a.soft.did = true
		if !a.late(sig) {
			a.soft.turn, a.soft.failure = "", nil
		}
		if s.cfg.Resumes { // a harness session can be continued only after its first prompt
			a.checkpoint(s, s.scopes.current().ID)
		}
	case telemetry.UsageSeen:
		if !a.stopped() && a.answers(sig) {
			a.soft.failure, a.soft.limited = nil, false // the model has answered, so the earlier error did not fail the turn
		}
	case telemetry.TurnStop, telemetry.TurnEnd:
		a.soft.did = true
		if sig.Kind == telemetry.TurnEnd {
			a.soft.turn = sig.Outcome
			a.close(s, sig)
		}
		if sig.Outcome == telemetry.Failed {
			a.failed(s, sig, sig.Error)
		}
	case telemetry.LimitWait:
		a.failed(s, sig, cmp.Or(sig.Error, telemetry.ErrRateLimit))
	case telemetry.Fault:
		a.failed(s, sig, sig.Error)
	}
}

// failed handles an error of the given kind that a signal reports. If consequences
// returns a cause for the kind, failed keeps it as the reported cause of the attempt's
// failure. Other errors are dropped, because the exit code shows the failure too.
func (a *attempts) failed(s *step, sig telemetry.Signal, kind telemetry.ErrorKind) {
	if c, _ := consequences(kind); c != "" {
		a.failureSeen(s, input.FailureSeen{Cause: c, Until: sig.Until, Source: sig.Source})
		a.close(s, sig)
	}
}

// close sets closed to the time at which a failure was reported or a turn ended: the
// time of the signal's record, or now if the record has none. A later time in closed
// is kept.
func (a *attempts) close(s *step, sig telemetry.Signal) {
	at := sig.At
	if at.IsZero() {
		at = s.now
	}
	if at.After(a.soft.closed) {
		a.soft.closed = at
	}
}

// answers reports whether a usage signal belongs to a model call after the reported
// failure. A status line repeats an older usage, and an estimate belongs to no
// call.
func (a *attempts) answers(sig telemetry.Signal) bool {
	return !a.late(sig) && sig.Source != statuslineSource && !sig.Usage.Estimate
}

// late reports whether a record was written before the last turn ended or the
// failure was reported. Such a record may be read afterwards, because a hook can
// report the end or the failure before the record's file is read.
func (a *attempts) late(sig telemetry.Signal) bool {
	return !sig.At.IsZero() && sig.At.Before(a.soft.closed)
}

// stop ends the attempt. The caller has recorded the fact that says why. The
// harness first receives its own quit signal.
func (a *attempts) stop(s *step) {
	// Output from before a pause can be read during the pause, and can end the attempt.
	// Then the pause ends too.
	if s.session.pausedByCommand() {
		s.session.unpause(s, beingEnded)
		if s.session.is(session.Paused) {
			s.session.move(s, session.Running, beingEnded)
		}
	}
	if a.hard.Alive {
		s.ending.stop(s, cmp.Or(s.cfg.Quit, sigTERM))
	}
}

// over records how the attempt ended, and decides what follows.
func (a *attempts) over(s *step) {
	s.renewals.conclude(s, "the attempt ended")
	e, v := a.hard.Exit, a.judge(s)
	if v.Cause == attempt.RateLimit {
		a.limitMet(s, input.FailureSeen{Cause: v.Cause, Until: v.until, Source: v.evidence})
	}
	f := AttemptEnded{AttemptRef: s.recovery.current(s, a.hard.Run), Cause: v.Cause, Detail: v.detail, Evidence: v.evidence,
		Code: e.Code, Signal: e.Signal, AttemptCost: AttemptCost{Units: a.soft.units, Bytes: a.soft.bytes}}
	f.Next = f.Profile
	renewed := !a.soft.earlier.lived.IsZero()
	if since := a.soft.lived; renewed || !since.IsZero() {
		if renewed {
			since = a.soft.earlier.lived
		}
		f.DurationMS = s.now.Sub(since).Milliseconds()
	}
	if loop := s.cfg.Policy.Loop; loop.Launches > 0 && !renewed && s.now.Sub(a.soft.launchedAt) < loop.Within {
		f.Short = s.recovery.spent().Short + 1
	}
	refused := f
	if v.Cause != "" {
		s.recovery.plan(s, &f, v)
		v.Final = true
		s.recovery.plan(s, &refused, v)
	}
	s.recovery.conclude(s, f, refused)
}

// unharmed reports whether the harness still runs or exited with 0 by itself. If an abort
// was requested while a harness ran or a launch was planned, the result is false.
func (s *step) unharmed() bool {
	e := s.attempts.exit()
	return s.ending.signal() == 0 && (e == nil || e.Code == 0 && e.Signal == 0 && !e.Lost && !e.Unseen)
}

// failure returns the reason for the end of a session whose last attempt failed:
// the cause, or how the harness ended.
func (a *attempts) failure() string {
	last, e := a.hard.Last, a.hard.Exit
	switch {
	case last == nil, e == nil:
	case a.limited():
		return string(attempt.RateLimit)
	case last.Cause == attempt.Guardrail:
		return "guardrail " + last.Detail
	case last.Cause == attempt.Drift, last.Cause != "" && e.Code == 0 && e.Signal == 0 && !e.OutputLost && !e.Lost && !e.Unseen:
		return string(last.Cause)
	case last.Cause == attempt.Timeout:
		return last.Detail + " timeout"
	}
	return a.endReason()
}

// endReason returns the reason in session.ended if the harness reports none:
// how its process ended.
func (a *attempts) endReason() string {
	switch e := a.hard.Exit; {
	case e == nil:
		return "end of observation"
	case e.NotStarted:
		return "not started"
	case e.Unseen:
		return supervisorLost
	case e.Lost:
		return "guard lost"
	case e.Signal != 0:
		return signalName(e.Signal)
	default:
		return "exit " + strconv.Itoa(e.Code)
	}
}
