package kernel_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/telemetry"
)

// A machineClock gives times as time.Now does: with a monotonic reading, which only
// grows, and a time of day, which can be set.
type machineClock struct {
	began   time.Time
	elapsed time.Duration
	set     time.Duration // the change of the time of day so far
}

func (c *machineClock) now() time.Time {
	at := c.began.Add(c.elapsed + c.set) // Add changes the time of day and the monotonic reading
	// The monotonic reading is the second word of a Time.
	(*[2]int64)(unsafe.Pointer(&at))[1] -= int64(c.set)
	return at
}

func TestMachineClock(t *testing.T) {
	c := &machineClock{began: time.Now()}
	before := c.now()
	c.elapsed, c.set = time.Second, time.Hour
	require.Equal(t, time.Second, c.now().Sub(before), "the monotonic reading elapses")
	require.Equal(t, time.Hour+time.Second, c.now().Round(0).Sub(before.Round(0)), "the time of day was set")
}

// No timer depends on how the machine's clock is set, forwards or backwards.
func TestASetClockChangesNoTimer(t *testing.T) {
	live := input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.SessionLive, Source: "hook", Session: "S1"}}}
	on := map[attempt.Cause]bool{attempt.Model: true}
	for _, c := range []struct {
		name   string
		policy attempt.Policy
		before func(c *machineClock, step func(input.Input)) // does what must happen before the clock is set
		wait   time.Duration                                 // how long after the change of the clock the timer is due
		want   kernel.Fact                                   // a fact of the kind that is recorded when the timer is due, and not earlier
	}{
		{"the first sign", attempt.Policy{Timeouts: attempt.Timeouts{Initial: time.Minute}}, nil, time.Minute, kernel.TimedOut{}},
		{"silence", attempt.Policy{Timeouts: attempt.Timeouts{Inter: time.Minute}},
			func(_ *machineClock, step func(input.Input)) { step(live) }, time.Minute, kernel.TimedOut{}},
		{"an idle session", attempt.Policy{Timeouts: attempt.Timeouts{Idle: time.Minute}}, nil, time.Minute, kernel.TimedOut{}},
		{"the session's time", attempt.Policy{Timeouts: attempt.Timeouts{Session: time.Minute}}, nil, time.Minute, kernel.TimedOut{}},
		{"a retry", attempt.Policy{Retries: attempt.Retries{Attempts: 1, MaxRetries: 1, On: on, Backoff: attempt.Backoff{Kind: attempt.Fixed, Base: time.Minute}}},
			func(_ *machineClock, step func(input.Input)) {
				step(input.ChildExited{Code: 1})
				step(input.SourcesDrained{})
			}, time.Minute, kernel.Launching{}},
		{"a program that decides", attempt.Policy{Retries: attempt.Retries{Attempts: 1, MaxRetries: 1, On: on, Decide: time.Minute}},
			func(_ *machineClock, step func(input.Input)) {
				step(input.ChildExited{Code: 1})
				step(input.SourcesDrained{})
			}, time.Minute, kernel.Launching{}},
		{"a rate limit", attempt.Policy{Timeouts: attempt.Timeouts{Inter: time.Minute}},
			func(c *machineClock, step func(input.Input)) {
				step(live)
				step(input.SignalsSeen{Signals: []telemetry.Signal{{Kind: telemetry.LimitWait, Source: "hook", Session: "S1", Until: c.now().Round(0).Add(time.Minute)}}})
			}, 2 * time.Minute, kernel.TimedOut{}},
	} {
		for _, set := range []time.Duration{-time.Hour, 0, time.Hour} {
			t.Run(c.name+" "+set.String(), func(t *testing.T) {
				clock := &machineClock{began: time.Now()}
				cfg := defaults()
				cfg.Policy = c.policy
				k := kernel.New(cfg)
				var facts []kernel.Fact
				step := func(in input.Input) { facts = k.Step(clock.now(), in).Facts }
				step(input.Start{})
				step(input.Launched{PID: 1})
				if c.before != nil {
					c.before(clock, step)
				}
				clock.set = set
				clock.elapsed += c.wait - time.Millisecond
				step(input.Wake{})
				require.Empty(t, of(c.want, facts), "it is not due yet")
				clock.elapsed += time.Millisecond
				at, ok := k.Deadline()
				require.True(t, ok)
				require.Zero(t, clock.now().Sub(at))
				step(input.Wake{})
				require.NotEmpty(t, of(c.want, facts), "it is due")
			})
		}
	}
}

// of returns the facts of a kind.
func of(kind kernel.Fact, facts []kernel.Fact) (found []kernel.Fact) {
	for _, f := range facts {
		if kernel.Kind(f) == kernel.Kind(kind) {
			found = append(found, f)
		}
	}
	return found
}
