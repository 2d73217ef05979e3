package attempt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Backoff says how long to wait before a retry.
type Backoff struct {
	Kind   BackoffKind   `yaml:"kind"`
	Base   time.Duration `yaml:"base_ms,ms"`
	Max    time.Duration `yaml:"max_ms,ms"` // 0 means no limit
	Jitter Jitter        `yaml:"jitter"`
}

// A BackoffKind says how the wait grows with each retry.
type BackoffKind string

const (
	Fixed       BackoffKind = "fixed"       // base each time
	Linear      BackoffKind = "linear"      // base, 2 base, 3 base, …
	Exponential BackoffKind = "exponential" // base, 2 base, 4 base, …
)

// A Jitter spreads the waits of sessions that failed at the same time.
type Jitter string

const (
	NoJitter    Jitter = "none"
	FullJitter  Jitter = "full"  // between 0 and the whole wait
	FixedJitter Jitter = "fixed" // between the wait and 1.5 times the wait
)

// Delay returns the wait before a retry. If this retry is counted, n is the number of
// earlier counted retries of the same profile. If it is not counted, n is the number of
// earlier uncounted retries of that profile.
// Jitter is computed from seed, which identifies the session, and number, which
// identifies the retry. So the same retry always has the same delay.
func (b Backoff) Delay(n int, seed string, number int) time.Duration {
	d := b.Base
	switch b.Kind {
	case Linear:
		d = times(b.Base, float64(n+1))
	case Exponential:
		d = times(b.Base, math.Pow(2, float64(n)))
	}
	if b.Max > 0 {
		d = min(d, b.Max)
	}
	switch b.Jitter {
	case FullJitter:
		d = times(d, fraction(seed, number))
	case FixedJitter:
		d = times(d, 1+fraction(seed, number)/2)
	}
	return d.Truncate(time.Millisecond)
}

// longest limits a wait that grows or has jitter.
const longest = 365 * 24 * time.Hour

func times(d time.Duration, by float64) time.Duration {
	if f := float64(d) * by; f < float64(longest) {
		return time.Duration(f)
	}
	return longest
}

// fraction returns a number in [0,1), computed from the seed and a retry's number.
func fraction(seed string, number int) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/retry/%d", seed, number))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}
