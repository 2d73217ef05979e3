// Package attempt decides what follows a failed attempt: a retry, the next profile,
// or the end. It contains the rules for retries, fallbacks, back-off and guardrails, from
// the L0 Deterministic Lifecycle Specification (docs/contract/l0.md). It has no clock and
// no process: times are arguments, and jitter comes from a digest, so that the same inputs
// give the same decisions.
//
// It does not interpret error messages: the [Cause] of an error comes from a typed source
// (an exit code, a signal, a timer, an API error). It does not judge the model's output:
// a [Watch] only matches it against the user's patterns ([Rule]), and detects repetition
// and missing output.
//
//	next := policy.After(spent, attempt.Failure{Cause: attempt.Model}, session)
//	switch next.Recovery { case attempt.Retry: … case attempt.Fallback: … case attempt.Halt: … }
package attempt

import "time"

// A Cause is why an attempt failed. The empty cause is success.
type Cause string

const (
	Model       Cause = "model" // the harness failed: an exit code, a signal, a typed error
	Network     Cause = "network"
	RateLimit   Cause = "rate_limit"
	ServerError Cause = "server_error"
	Timeout     Cause = "timeout"     // a timer of the policy expired
	Guardrail   Cause = "guardrail"   // a rule was broken
	Drift       Cause = "drift"       // the harness repeated the same output or tool call
	ZeroOutput  Cause = "zero_output" // the harness succeeded without visible output, turn or tool call
	Unknown     Cause = "unknown"
	Fatal       Cause = "fatal" // a retry cannot help: no permission, no program
	Aborted     Cause = "abort"
)

// Causes returns the causes that a policy may retry, in the documented order.
func Causes() []Cause {
	return []Cause{Model, Network, Timeout, RateLimit, ServerError, Guardrail, Drift, ZeroOutput, Unknown}
}

// Counted reports whether a retry for this cause counts toward the budget of its
// profile (DECISIONS Z3). Retries for the other causes count only toward the
// session's budget.
func (c Cause) Counted() bool {
	switch c {
	case Model, Guardrail, Drift, ZeroOutput, Unknown:
		return true
	}
	return false
}

// A Policy configures the supervision of one session's attempts. Its zero value
// turns everything off: there is one attempt, and it ends by itself.
type Policy struct {
	Profiles []Profile // the primary profile, then the fallbacks in order
	Retries
	Timeouts
	Continuation    bool  // a later launch continues the harness session of the last checkpoint, if its profile can use it
	CheckpointEvery int64 // units of output between two checkpoints; a unit is a line, or the text of one call of Watch.Text with whole set
	Checks
}

// Retries limits the retries and their delays.
type Retries struct {
	Attempts   int            // limit of the counted retries of one profile; see Cause.Counted
	MaxRetries int            // limit of all retries of a session; free retries do not count (see Next.Free)
	On         map[Cause]bool // the causes that are retried
	Backoff    Backoff
	Loop       CrashLoop
	OnLimit    OnLimit
	// Decide is how long the program of the policy (retry.decide) may take to
	// answer; 0: there is no program. Its answer may refuse a retry or choose the
	// delay of the retry.
	Decide time.Duration
}

// Timeouts are the timers of an attempt and of the session; 0 is off. A sign of life is
// output, a hook call or another signal from the harness.
type Timeouts struct {
	Initial time.Duration `yaml:"initial,ms"` // longest time from the launch to the first sign of life
	Inter   time.Duration `yaml:"inter,ms"`   // longest time between two signs of life, unless the reason for the silence is known
	Tool    time.Duration `yaml:"tool,ms"`    // longest tool call
	Session time.Duration `yaml:"session,ms"` // longest session, from its start
	Idle    time.Duration `yaml:"idle,ms"`    // longest time without a new ledger entry or a sign of life
}

// Checks configures the checks of an attempt's output.
type Checks struct {
	Rules      []Rule
	Repeat     int  // equal lines or tool calls in a row that count as drift; 0: off
	ZeroOutput bool // an attempt without visible output, turn or tool call counts as failed
}

// A Profile is one way to launch a harness, reduced to what the rules need.
type Profile struct {
	Name                string
	Adapter             string
	AcceptsContinuation bool
	// Missing says why the profile cannot be launched, and so cannot be a fallback.
	// It is empty for a usable profile.
	Missing string
}

// A CrashLoop limits launches that each end soon after their start. After a series of
// such launches, the next retry is delayed, because its launch would probably end soon
// too.
type CrashLoop struct {
	Launches   int           `yaml:"launches"`         // how many short launches in a row make a series; 0 is off
	Within     time.Duration `yaml:"within_ms,ms"`     // a launch that ends within this time is short
	Quarantine time.Duration `yaml:"quarantine_ms,ms"` // minimum delay of a retry after a series of short launches
}

// DefaultCrashLoop returns the limits that apply if the user wrote none.
func DefaultCrashLoop() CrashLoop {
	return CrashLoop{Launches: 5, Within: 10 * time.Second, Quarantine: 5 * time.Minute}
}

// OnLimit is the reaction to a rate limit.
type OnLimit string

const (
	LimitOff      OnLimit = ""         // handle a rate limit like any other failure
	LimitWait     OnLimit = "wait"     // wait until the limit is lifted
	LimitFallback OnLimit = "fallback" // launch the next profile
	LimitExit     OnLimit = "exit"     // end the session
)

// DefaultOn returns the causes that are retried by default: all but Unknown.
func DefaultOn() map[Cause]bool {
	on := map[Cause]bool{}
	for _, c := range Causes() {
		on[c] = c != Unknown
	}
	return on
}

// DefaultMaxRetries returns the default of Retries.MaxRetries: attempts times profiles,
// but at least six. It returns 0 if attempts is 0 or less.
func DefaultMaxRetries(attempts, profiles int) int {
	if attempts <= 0 {
		return 0
	}
	return max(6, attempts*profiles)
}

// Acts reports whether the policy can change the course of a session.
func (p *Policy) Acts() bool {
	return p.MaxRetries > 0 || len(p.Profiles) > 1 || p.OnLimit != LimitOff || p.Initial+p.Inter+p.Tool+p.Session+p.Idle > 0 ||
		len(p.Rules) > 0 || p.Repeat > 0 || p.ZeroOutput || p.Continuation
}

// Reads reports whether the policy needs the text of the output.
func (p *Policy) Reads() bool {
	return len(p.Rules) > 0 || p.Repeat > 0 || p.ZeroOutput || p.Continuation && p.CheckpointEvery > 0
}

// Relaunches reports whether a second launch is possible.
func (p *Policy) Relaunches() bool {
	return p.MaxRetries > 0 || len(p.Profiles) > 1 || p.OnLimit == LimitWait
}

// Spent counts how much of its retry budgets a session has used.
type Spent struct {
	Profile   int // index of the current profile
	Launches  int // attempts of the current profile, including the first
	Counted   int // counted retries of the current profile
	Uncounted int // retries of the current profile that are not counted
	Total     int // retries of all kinds and profiles
	Free      int // retries that count toward no budget; they are included in Total
	Short     int // consecutive launches that ended within CrashLoop.Within
}

// Retries returns the number of retries of the current profile.
func (s Spent) Retries() int { return s.Counted + s.Uncounted }

// A Failure describes a failed attempt.
type Failure struct {
	Cause Cause
	// Final means that a retry of this profile cannot help: an unrecoverable rule
	// was broken.
	Final bool
	// Limit is how long the rate limit lasts; 0 if the harness did not report it.
	Limit time.Duration
}

// A Recovery says what follows a failed attempt. Its values are the names that the L0
// specification uses.
type Recovery string

const (
	Retry    Recovery = "retry"
	Fallback Recovery = "fallback"
	Halt     Recovery = "halt"
)

// Wait is the reason why a retry waits.
type Wait string

const (
	WaitBackoff    Wait = "backoff"
	WaitLimit      Wait = "limit"
	WaitQuarantine Wait = "quarantine"
	WaitRestart    Wait = "restart" // no wait, because the wrapper was restarted
)

// Next is the decision about what follows a failed attempt.
type Next struct {
	Recovery Recovery
	// Retry, Delay, Wait and Counted are set only for a retry. Retry is the number of
	// the retry within this profile, from 1. Delay is how long the retry waits, and Wait
	// is the reason. Counted means that the retry counts toward the profile's budget.
	Retry   int
	Delay   time.Duration
	Wait    Wait
	Counted bool
	// Free means that the retry counts toward no budget, because it waits for the known
	// end of a rate limit (DECISIONS Z3).
	Free bool
	// Profile is the index of the profile to launch next; for Halt, that of the current
	// profile.
	Profile int
	// GaveUp means that the current profile gets no more retries, after at least one
	// counted retry (DECISIONS Z2).
	GaveUp bool
	// Skipped has the indexes of the fallbacks that were skipped because they
	// cannot be launched.
	Skipped []int
}

// After decides what follows the failure f. s is what the session has spent so far.
// seed identifies the session, so that jitter differs between sessions.
func (p *Policy) After(s Spent, f Failure, seed string) Next {
	if f.Cause == Aborted {
		return Next{Recovery: Halt, Profile: s.Profile}
	}
	limited := f.Cause == RateLimit && p.OnLimit != LimitOff
	counted := f.Cause.Counted()
	// A retry that waits for the known end of a rate limit needs no budget.
	waits := limited && p.OnLimit == LimitWait && f.Limit > 0
	if waits || p.mayRetry(s, f) && (!limited || p.OnLimit == LimitWait) {
		n := s.Uncounted
		if counted {
			n = s.Counted
		}
		next := Next{Recovery: Retry, Retry: s.Retries() + 1, Wait: WaitBackoff, Counted: counted, Free: waits, Profile: s.Profile,
			Delay: p.Backoff.Delay(n, seed, s.Total)}
		if limited {
			limit := f.Limit
			if limit == 0 {
				limit = unknownLimit
			}
			if waits || limit > next.Delay {
				next.Delay, next.Wait = max(limit, next.Delay), WaitLimit
			}
		}
		if p.Loop.Launches > 0 && s.Short >= p.Loop.Launches && p.Loop.Quarantine > next.Delay {
			next.Delay = p.Loop.Quarantine
			if !waits { // a retry that waits for the known end of a rate limit keeps WaitLimit as its reason
				next.Wait = WaitQuarantine
			}
		}
		return next
	}
	next := Next{Recovery: Halt, Profile: s.Profile, GaveUp: s.Counted > 0}
	if limited && p.OnLimit == LimitExit {
		return next
	}
	for i := s.Profile + 1; i < len(p.Profiles); i++ {
		if p.Profiles[i].Missing == "" {
			next.Recovery, next.Profile = Fallback, i
			return next
		}
		next.Skipped = append(next.Skipped, i)
	}
	return next
}

// unknownLimit is how long a retry waits for a rate limit of unknown length.
const unknownLimit = time.Minute

// mayRetry reports whether the policy retries the failure f, and the budgets allow a
// retry of the same profile.
func (p *Policy) mayRetry(s Spent, f Failure) bool {
	switch {
	case f.Final, f.Cause == Fatal, !p.On[f.Cause]:
		return false
	case s.Total-s.Free >= p.MaxRetries:
		return false
	}
	return !f.Cause.Counted() || s.Counted < p.Attempts
}
