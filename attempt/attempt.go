// Package attempt decides what follows a failed attempt: another try, the next
// profile, or the end. It holds the rules of the L0 lifecycle about retries,
// fallbacks, back-off and guardrails, and neither a clock nor a process: times
// go in as durations, and randomness comes out of a digest, so that the same
// inputs give the same decisions.
//
// It refuses to judge words: what went wrong is a [Cause] that somebody typed
// (an exit code, a signal, a timer, an API's own error), never a substring of a
// message. And it refuses to read what a model wrote: a [Rule] is a pattern
// that its owner gave.
//
//	next := policy.After(spent, attempt.Failure{Cause: attempt.Model}, session)
//	switch next.Recovery { case attempt.Retry: … case attempt.Fallback: … case attempt.Halt: … }
package attempt

import "time"

// A Cause is why an attempt failed. The empty cause is success.
type Cause string

const (
	Model       Cause = "model" // the harness failed: an exit code, a signal, its own typed error
	Network     Cause = "network"
	RateLimit   Cause = "rate_limit"
	ServerError Cause = "server_error"
	Timeout     Cause = "timeout"     // a timer of ours
	Guardrail   Cause = "guardrail"   // a rule was broken
	Drift       Cause = "drift"       // it did the same thing over and over
	ZeroOutput  Cause = "zero_output" // it ended well and said nothing
	Unknown     Cause = "unknown"
	Fatal       Cause = "fatal" // nothing that another try could mend: no permission, no program
	Aborted     Cause = "abort"
)

// Causes are those that a policy may retry, in the order in which they are
// documented.
func Causes() []Cause {
	return []Cause{Model, Network, Timeout, RateLimit, ServerError, Guardrail, Drift, ZeroOutput, Unknown}
}

// Counted reports whether a retry for this cause counts toward the budget of
// its profile (DECISIONS Z3). The others count only toward the session's.
func (c Cause) Counted() bool {
	switch c {
	case Model, Guardrail, Drift, ZeroOutput, Unknown:
		return true
	}
	return false
}

// A Policy says how the attempts of one session are supervised. In its zero
// value everything is off: the first attempt is the only one, and nothing but
// its own end ends it.
type Policy struct {
	Profiles []Profile // the primary, then the fallbacks in order
	Retries
	Timeouts
	Continuation    bool
	CheckpointEvery int64 // units between two checkpoints, once one is possible
	Checks
}

// Retries bounds the retries and says when they happen.
type Retries struct {
	Attempts   int            // counted retries of one profile
	MaxRetries int            // retries of every kind in one session
	On         map[Cause]bool // the causes that are retried
	Backoff    Backoff
	Loop       CrashLoop
	OnLimit    OnLimit
}

// Timeouts are the timers of an attempt and of the session; 0 is off.
type Timeouts struct {
	Initial time.Duration `yaml:"initial,ms"` // longest silence before the first sign of life
	Inter   time.Duration `yaml:"inter,ms"`   // longest silence after it
	Tool    time.Duration `yaml:"tool,ms"`    // longest call of a tool
	Session time.Duration `yaml:"session,ms"` // longest session, from its start on
	Idle    time.Duration `yaml:"idle,ms"`    // longest time without an event
}

// Checks are what the output of an attempt is checked for.
type Checks struct {
	Rules      []Rule
	Repeat     int  // repetitions of one line or tool call that count as drift; 0: off
	ZeroOutput bool // an attempt without output failed
}

// A Profile is one way to launch a harness, as far as the rules go.
type Profile struct {
	Name                string
	Adapter             string
	AcceptsContinuation bool
	// Missing says why it cannot be launched at all, so that nothing falls back
	// to it; empty when it can.
	Missing string
}

// A CrashLoop is a row of launches that each ended soon after they began. The
// next one waits: a harness that dies at once will die at once again.
type CrashLoop struct {
	Launches   int           `yaml:"launches"`         // how many in a row; 0 is off
	Within     time.Duration `yaml:"within_ms,ms"`     // how soon
	Quarantine time.Duration `yaml:"quarantine_ms,ms"` // how long the next launch waits
}

// DefaultCrashLoop is what a crash loop is when a policy wants to hear of one
// and does not say.
func DefaultCrashLoop() CrashLoop {
	return CrashLoop{Launches: 5, Within: 10 * time.Second, Quarantine: 5 * time.Minute}
}

// OnLimit is what to do when the harness meets a rate limit.
type OnLimit string

const (
	LimitOff      OnLimit = ""         // a failure for it is retried like any other
	LimitWait     OnLimit = "wait"     // wait until the limit is lifted
	LimitFallback OnLimit = "fallback" // go to the next profile
	LimitExit     OnLimit = "exit"     // end the session
)

// DefaultOn is what is retried when a policy does not say: everything but what
// nobody could name.
func DefaultOn() map[Cause]bool {
	on := map[Cause]bool{}
	for _, c := range Causes() {
		on[c] = c != Unknown
	}
	return on
}

// DefaultMaxRetries is the session's budget when a policy does not say: enough
// for every counted retry of every profile, and for six where that is less.
func DefaultMaxRetries(attempts, profiles int) int {
	if attempts <= 0 {
		return 0
	}
	return max(6, attempts*profiles)
}

// Acts reports whether the policy could do anything but watch.
func (p *Policy) Acts() bool {
	return p.MaxRetries > 0 || len(p.Profiles) > 1 || p.OnLimit != LimitOff || p.Initial+p.Inter+p.Tool+p.Session+p.Idle > 0 ||
		len(p.Rules) > 0 || p.Repeat > 0 || p.ZeroOutput || p.Continuation
}

// Reads reports whether the policy must see the text of the output.
func (p *Policy) Reads() bool {
	return len(p.Rules) > 0 || p.Repeat > 0 || p.ZeroOutput || p.Continuation && p.CheckpointEvery > 0
}

// Spent is what a session has used up so far.
type Spent struct {
	Profile   int // index of the current one
	Launches  int // attempts of the current profile, its first one included
	Counted   int // counted retries of the current profile
	Uncounted int // the other retries of the current profile
	Total     int // retries of every kind and profile
	Short     int // launches in a row that ended within CrashLoop.Within
}

// Retries are the retries of the current profile.
func (s Spent) Retries() int { return s.Counted + s.Uncounted }

// A Failure is what is known of a failed attempt.
type Failure struct {
	Cause Cause
	// Final says that no other try of this profile could end otherwise: a rule
	// was broken beyond recovery.
	Final bool
	// Limit is how long the rate limit lasts that the harness met; 0 when it did
	// not say.
	Limit time.Duration
}

// A Recovery is what follows a failed attempt, in the words of L0.
type Recovery string

const (
	Retry    Recovery = "retry"
	Fallback Recovery = "fallback"
	Halt     Recovery = "halt"
)

// Wait says what a retry waits for.
type Wait string

const (
	WaitBackoff    Wait = "backoff"
	WaitLimit      Wait = "limit"
	WaitQuarantine Wait = "quarantine"
	WaitRestart    Wait = "restart" // nothing: the wrapper was started again
)

// Next is a decision.
type Next struct {
	Recovery Recovery
	// Of a retry: its number among the retries of this profile, from 1, how long
	// it waits and for what, and whether it counts toward the profile's budget.
	Retry   int
	Delay   time.Duration
	Wait    Wait
	Counted bool
	// Profile is the one that is launched next, or stays when nothing is.
	Profile int
	// GaveUp says that counted retries of this profile were made, and there will
	// be no other (DECISIONS Z2).
	GaveUp bool
	// Skipped are the fallbacks that cannot be launched and were passed over.
	Skipped []int
}

// After decides what follows a failure. Seed names the session, for jitter.
func (p *Policy) After(s Spent, f Failure, seed string) Next {
	if f.Cause == Aborted {
		return Next{Recovery: Halt, Profile: s.Profile}
	}
	limited := f.Cause == RateLimit && p.OnLimit != LimitOff
	counted := f.Cause.Counted()
	// Who waits for a limit to be lifted does not use up what failures may.
	waits := limited && p.OnLimit == LimitWait && f.Limit > 0
	if waits || p.mayRetry(s, f) && (!limited || p.OnLimit == LimitWait) {
		n := s.Uncounted
		if counted {
			n = s.Counted
		}
		next := Next{Recovery: Retry, Retry: s.Retries() + 1, Wait: WaitBackoff, Counted: counted, Profile: s.Profile,
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
			if !waits { // else it is the limit that allows it
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

// unknownLimit is how long a rate limit is waited for that nobody told the end
// of.
const unknownLimit = time.Minute

// mayRetry says whether the budgets allow another try of the same profile.
func (p *Policy) mayRetry(s Spent, f Failure) bool {
	switch {
	case f.Final, f.Cause == Fatal, !p.On[f.Cause]:
		return false
	case s.Total >= p.MaxRetries:
		return false
	}
	return !f.Cause.Counted() || s.Counted < p.Attempts
}
