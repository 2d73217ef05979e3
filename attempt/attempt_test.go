package attempt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func policy(change func(*Policy)) *Policy {
	p := &Policy{Profiles: []Profile{{Name: "one"}, {Name: "gone", Missing: "not found"}, {Name: "two"}},
		Retries: Retries{Attempts: 2, MaxRetries: 6, On: DefaultOn(), Backoff: Backoff{Kind: Linear, Base: time.Second}}}
	if change != nil {
		change(p)
	}
	return p
}

func TestAfter(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Policy)
		spent  Spent
		fail   Failure
		want   Next
	}{
		{"the first retry counts", nil, Spent{Launches: 1}, Failure{Cause: Model},
			Next{Recovery: Retry, Retry: 1, Delay: time.Second, Wait: WaitBackoff, Counted: true}},
		{"the second waits longer", nil, Spent{Launches: 2, Counted: 1, Total: 1}, Failure{Cause: Model},
			Next{Recovery: Retry, Retry: 2, Delay: 2 * time.Second, Wait: WaitBackoff, Counted: true}},
		{"a retry for the network does not count toward the profile's budget", nil, Spent{Launches: 3, Counted: 2, Total: 2}, Failure{Cause: Network},
			Next{Recovery: Retry, Retry: 3, Delay: time.Second, Wait: WaitBackoff}},
		{"it counts toward the session's budget", nil, Spent{Launches: 7, Uncounted: 6, Total: 6}, Failure{Cause: Network},
			Next{Recovery: Fallback, Profile: 2, Skipped: []int{1}}},
		{"retries that count toward no budget leave it", nil, Spent{Launches: 7, Uncounted: 6, Total: 6, Free: 1}, Failure{Cause: Network},
			Next{Recovery: Retry, Retry: 7, Delay: 7 * time.Second, Wait: WaitBackoff}},
		{"a profile without budget gives up, and the next usable one follows", nil, Spent{Launches: 3, Counted: 2, Total: 2}, Failure{Cause: Model},
			Next{Recovery: Fallback, Profile: 2, GaveUp: true, Skipped: []int{1}}},
		{"the last profile halts", nil, Spent{Profile: 2, Launches: 3, Counted: 2, Total: 4}, Failure{Cause: Model},
			Next{Recovery: Halt, Profile: 2, GaveUp: true}},
		{"a cause that is not retried falls back without giving up", nil, Spent{Launches: 1}, Failure{Cause: Unknown},
			Next{Recovery: Fallback, Profile: 2, Skipped: []int{1}}},
		{"a fatal failure is not retried", func(p *Policy) { p.On[Fatal] = true }, Spent{Launches: 1}, Failure{Cause: Fatal},
			Next{Recovery: Fallback, Profile: 2, Skipped: []int{1}}},
		{"a final failure is not retried", nil, Spent{Launches: 1}, Failure{Cause: Guardrail, Final: true},
			Next{Recovery: Fallback, Profile: 2, Skipped: []int{1}}},
		{"an abort launches nothing", nil, Spent{Launches: 1}, Failure{Cause: Aborted}, Next{Recovery: Halt}},
		{"without a budget nothing is retried", func(p *Policy) { p.MaxRetries = 0 }, Spent{Profile: 2, Launches: 1}, Failure{Cause: Network},
			Next{Recovery: Halt, Profile: 2}},
		{"the network is retried without a counted budget", func(p *Policy) { p.Attempts = 0 }, Spent{Launches: 1}, Failure{Cause: Network},
			Next{Recovery: Retry, Retry: 1, Delay: time.Second, Wait: WaitBackoff}},
		{"a retry waits for a limit", func(p *Policy) { p.OnLimit = LimitWait }, Spent{Launches: 1}, Failure{Cause: RateLimit, Limit: time.Hour},
			Next{Recovery: Retry, Retry: 1, Delay: time.Hour, Wait: WaitLimit, Free: true}},
		{"it does so without a budget", func(p *Policy) { p.OnLimit, p.MaxRetries = LimitWait, 0 }, Spent{Launches: 1}, Failure{Cause: RateLimit, Limit: time.Hour},
			Next{Recovery: Retry, Retry: 1, Delay: time.Hour, Wait: WaitLimit, Free: true}},
		{"a limit of unknown length gets a minute", func(p *Policy) { p.OnLimit = LimitWait }, Spent{Launches: 1}, Failure{Cause: RateLimit},
			Next{Recovery: Retry, Retry: 1, Delay: time.Minute, Wait: WaitLimit}},
		{"a limit falls back", func(p *Policy) { p.OnLimit = LimitFallback }, Spent{Launches: 1}, Failure{Cause: RateLimit},
			Next{Recovery: Fallback, Profile: 2, Skipped: []int{1}}},
		{"a limit ends the session", func(p *Policy) { p.OnLimit = LimitExit }, Spent{Launches: 1}, Failure{Cause: RateLimit}, Next{Recovery: Halt}},
		{"by default a limit is a failure like others", nil, Spent{Launches: 1}, Failure{Cause: RateLimit, Limit: time.Hour},
			Next{Recovery: Retry, Retry: 1, Delay: time.Second, Wait: WaitBackoff}},
		{"limits that are lifted at once are a crash loop", func(p *Policy) {
			p.OnLimit, p.MaxRetries = LimitWait, 0
			p.Loop = CrashLoop{Launches: 2, Within: time.Second, Quarantine: time.Minute}
		}, Spent{Launches: 2, Total: 1, Short: 2}, Failure{Cause: RateLimit, Limit: time.Millisecond},
			Next{Recovery: Retry, Retry: 1, Delay: time.Minute, Wait: WaitLimit, Free: true}},
		{"a crash loop waits in quarantine", func(p *Policy) { p.Loop = CrashLoop{Launches: 2, Within: time.Second, Quarantine: time.Minute} },
			Spent{Launches: 2, Counted: 1, Total: 1, Short: 2}, Failure{Cause: Model},
			Next{Recovery: Retry, Retry: 2, Delay: time.Minute, Wait: WaitQuarantine, Counted: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, policy(c.change).After(c.spent, c.fail, "s"))
		})
	}
}

func TestZeroPolicyRetriesNothing(t *testing.T) {
	var p Policy
	require.False(t, p.Acts())
	require.False(t, p.Reads())
	for _, c := range append(Causes(), Fatal, Aborted) {
		require.Equal(t, Next{Recovery: Halt}, p.After(Spent{Launches: 1}, Failure{Cause: c}, "s"), c)
	}
}

func TestDefaults(t *testing.T) {
	require.Equal(t, []int{0, 6, 6, 12}, []int{DefaultMaxRetries(0, 3), DefaultMaxRetries(1, 1), DefaultMaxRetries(2, 3), DefaultMaxRetries(4, 3)})
	on := DefaultOn()
	require.False(t, on[Unknown], "unknown causes are retried only if the policy says so")
	require.False(t, on[Fatal])
	require.True(t, on[Network] && on[Model] && on[ZeroOutput])
}

func TestBackoff(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name string
		b    Backoff
		want [5]time.Duration
	}{
		{"fixed", Backoff{Kind: Fixed, Base: s}, [5]time.Duration{s, s, s, s, s}},
		{"linear", Backoff{Kind: Linear, Base: s}, [5]time.Duration{s, 2 * s, 3 * s, 4 * s, 5 * s}},
		{"exponential", Backoff{Kind: Exponential, Base: s, Max: 10 * s}, [5]time.Duration{s, 2 * s, 4 * s, 8 * s, 10 * s}},
		{"none", Backoff{}, [5]time.Duration{}},
		{"below a millisecond", Backoff{Kind: Exponential, Base: 300 * time.Microsecond}, [5]time.Duration{0, 0, ms, 2 * ms, 4 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got [5]time.Duration
			for n := range got {
				got[n] = c.b.Delay(n, "s", n)
			}
			require.Equal(t, c.want, got)
		})
	}
	require.Equal(t, longest, Backoff{Kind: Exponential, Base: s}.Delay(4000, "s", 0), "the exponential wait has a limit")
}

// TestJitterIsDeterministic checks that jitter differs among sessions and retries,
// and is the same for the same retry of the same session.
func TestJitterIsDeterministic(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := Backoff{Kind: Fixed, Base: time.Duration(rapid.IntRange(0, 100_000).Draw(r, "base")) * time.Millisecond}
		seed, n := rapid.String().Draw(r, "session"), rapid.IntRange(0, 50).Draw(r, "retry")
		plain := b.Delay(n, seed, n)
		b.Jitter = FullJitter
		full := b.Delay(n, seed, n)
		require.Equal(r, full, b.Delay(n, seed, n))
		require.True(r, 0 <= full && full <= plain, "%s of %s", full, plain)
		b.Jitter = FixedJitter
		fixed := b.Delay(n, seed, n)
		require.True(r, plain <= fixed && fixed <= plain+plain/2+time.Millisecond, "%s of %s", fixed, plain)
	})
	b := Backoff{Kind: Fixed, Base: time.Hour, Jitter: FullJitter}
	require.NotEqual(t, b.Delay(0, "one", 0), b.Delay(0, "another", 0))
	require.NotEqual(t, b.Delay(0, "one", 0), b.Delay(0, "one", 1))
}

// TestEverySessionEnds checks that a session ends whatever fails, and that no policy
// exceeds its budgets.
func TestEverySessionEnds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := policy(func(p *Policy) {
			p.Attempts, p.MaxRetries = rapid.IntRange(0, 3).Draw(r, "attempts"), rapid.IntRange(0, 8).Draw(r, "max")
		})
		s := Spent{Launches: 1}
		for step := 0; ; step++ {
			require.LessOrEqual(r, step, p.MaxRetries+len(p.Profiles))
			c := rapid.SampledFrom(append(Causes(), Fatal)).Draw(r, "cause")
			next := p.After(s, Failure{Cause: c}, "s")
			switch next.Recovery {
			case Retry:
				require.Equal(r, s.Retries()+1, next.Retry)
				if s.Launches, s.Total = s.Launches+1, s.Total+1; next.Counted {
					s.Counted++
				} else {
					s.Uncounted++
				}
				require.LessOrEqual(r, s.Counted, p.Attempts)
				require.LessOrEqual(r, s.Total, p.MaxRetries)
			case Fallback:
				require.Greater(r, next.Profile, s.Profile)
				require.Empty(r, p.Profiles[next.Profile].Missing)
				s = Spent{Profile: next.Profile, Launches: 1, Total: s.Total}
			case Halt:
				return
			}
		}
	})
}
