package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/session"
)

// Output is reported at most once a second, and no report follows the last output.
// Nevertheless, a harness that writes more often than its time-outs require is not
// ended.
func TestOutputBetweenTwoReportsIsASignOfLife(t *testing.T) {
	for name, timeouts := range map[string]attempt.Timeouts{
		"initial": {Initial: 100 * time.Millisecond}, "inter": {Inter: 100 * time.Millisecond}, "idle": {Idle: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.policy.Timeouts = timeouts
				child := r.launcher.child
				child.outputs(func() time.Time { return r.began.Add(time.Since(r.began).Truncate(90 * time.Millisecond)) })
				r.launcher.play = func(post func(input.Input)) {
					for range 5 {
						time.Sleep(time.Second)
						post(input.OutputSeen{Total: int64(time.Since(r.began))})
					}
					child.outputs(time.Now)
					child.end(input.ChildExited{})
				}
				result, err := r.run()
				require.NoError(t, err)
				require.Equal(t, session.Completed, result.State)
				require.Empty(t, r.lines("signal", "kill"))
			})
		})
	}
}

// A sign of life has the time at which it was read, however long the loop was busy.
// Each case is run several times, because select chooses randomly between two ready
// channels.
func TestSignsThatWaitForABusyLoop(t *testing.T) {
	for name, stall := range map[string]time.Duration{
		"the inbox holds them": time.Second,
		"the inbox is full":    batch * 90 * time.Millisecond * 3 / 2,
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					r.policy.Inter = 100 * time.Millisecond
					stalls := 0
					r.ledger.slow = func(n int) {
						if stalls++; stalls%3 == 0 { // only every third append is slow
							time.Sleep(stall)
						}
					}
					r.launcher.play = func(post func(input.Input)) {
						for i := range 500 {
							post(input.OutputSeen{Total: int64(i)})
							post(input.UnknownSeen{Source: "transcript", Types: map[string]int{"x": 1}})
							time.Sleep(90 * time.Millisecond)
						}
						r.launcher.child.end(input.ChildExited{})
					}
					result, err := r.run()
					require.NoError(t, err)
					require.Equal(t, session.Completed, result.State)
					require.Empty(t, r.lines("signal", "kill"))
				})
			}
		})
	}
}

// One call of gather takes all waiting inputs, even if a sign of life is added before each
// input. settle needs this: it returns when all earlier inputs are on the ledger.
func TestATurnTakesTheWholeInbox(t *testing.T) {
	s := &supervisor{inbox: make(chan posted, batch)}
	for range batch {
		s.inbox <- posted{of: 1, Input: input.OutputSeen{}}
	}
	require.Len(t, s.gather(posted{Input: input.Wake{}}), 2*batch)
	require.Empty(t, s.inbox)
}

// A silent harness is ended when its time-out and then SignDelay have passed.
func TestASilentHarnessIsEndedInTime(t *testing.T) {
	const limit = 100 * time.Millisecond
	for name, timeouts := range map[string]attempt.Timeouts{
		"initial": {Initial: limit}, "inter": {Inter: limit}, "idle": {Idle: limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.policy.Timeouts, r.limits.SignDelay = timeouts, SignDelay
				r.launcher.play = func(post func(input.Input)) {
					if name != "initial" {
						r.launcher.child.outputs(func() time.Time { return r.began })
						post(input.OutputSeen{Total: 1})
					}
				}
				_, err := r.run()
				require.NoError(t, err)
				require.Equal(t, []string{"200ms signal 15"}, r.lines("signal", "kill"))
			})
		})
	}
}

// Each fact has the time of the input that caused it, although one write
// commits the facts of many inputs.
func TestAFactHasTheTimeOfItsInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var at []time.Duration
		r.committed = func(entries []kernel.Entry) {
			for _, e := range entries {
				if f, ok := e.Fact.(kernel.UnknownCounted); ok && f.Source == "transcript" {
					at = append(at, e.At.Sub(r.began))
				}
			}
		}
		r.ledger.slow = func(int) { time.Sleep(time.Second) }
		r.launcher.play = func(post func(input.Input)) {
			time.Sleep(10 * time.Second)
			for range 4 {
				post(input.UnknownSeen{Source: "transcript", Types: map[string]int{"x": 1}})
				time.Sleep(100 * time.Millisecond)
			}
			r.launcher.child.end(input.ChildExited{})
		}
		_, err := r.run()
		require.NoError(t, err)
		const s, ms = time.Second, time.Millisecond
		require.Equal(t, []time.Duration{11 * s, 11*s + 100*ms, 11*s + 200*ms, 11*s + 300*ms}, at)
	})
}
