package gate

import (
	"slices"
	"time"
)

// A Limiter counts acts for the rate limits of a policy. Its zero value is ready
// for use. It is not safe for concurrent use.
type Limiter struct{ used map[bucket]int }

// A bucket identifies acts that are counted together: the acts with the same tool, the
// same identity or both, as the scope says, in one minute or hour.
type bucket struct {
	window, scope, key string
	from               time.Time
}

// Apply counts the act of an allowed decision, and blocks it if a limit is used up
// in the current window. Decisions other than allow are not counted.
func (l *Limiter) Apply(p *Policy, d Decision, in Intent, now time.Time) Decision {
	if d.Result.Verdict != Allow || len(d.RateLimits) == 0 {
		return d
	}
	var counted []bucket
	for _, limit := range d.RateLimits {
		b := limit.bucket(in, now)
		if l.used[b] >= limit.Requests {
			o := outcome{Block, append(slices.Clone(d.Result.ReasonCodes), "rate_limit_exceeded"), []string{"rate_limit_exceeded"}}
			p.conclude(&d, in, o, d.Result.ProducerVersion)
			return d
		}
		counted = append(counted, b)
	}
	kept := map[bucket]int{}
	for b, n := range l.used {
		if now.Sub(b.from) < 2*time.Hour { // older windows are over
			kept[b] = n
		}
	}
	for _, b := range counted {
		kept[b] = l.used[b] + 1
	}
	l.used = kept
	return d
}

func (l RateLimit) bucket(in Intent, now time.Time) bucket {
	b := bucket{window: l.Window, scope: l.Scope, from: now.UTC().Truncate(time.Minute)}
	if l.Window == "hour" {
		b.from = now.UTC().Truncate(time.Hour)
	}
	switch l.Scope {
	case "tool":
		b.key = in.ToolName
	case "identity":
		b.key = in.Context.Identity
	default:
		b.key = in.ToolName + "|" + in.Context.Identity
	}
	return b
}
