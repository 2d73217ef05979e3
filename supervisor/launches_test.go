package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// retrying is a policy that allows this number of retries, ten seconds apart.
func retrying(attempts int) attempt.Policy {
	return attempt.Policy{Retries: attempt.Retries{Attempts: attempts, MaxRetries: 6, On: attempt.DefaultOn(), Backoff: attempt.Backoff{Base: 10 * time.Second}}}
}

// ends returns the script of a harness that exits after a second.
func (r *rig) ends(code int) func(func(input.Input)) {
	return func(func(input.Input)) {
		time.Sleep(time.Second)
		r.launcher.child.end(input.ChildExited{Code: code})
	}
}

// prompt returns a signal without a session id, so it belongs to the current
// session.
func prompt(turn string) []telemetry.Signal {
	return []telemetry.Signal{{Kind: telemetry.Prompt, Source: "transcript", Turn: turn}}
}

// TestOneLaunchAfterAnother shows the order of a retry. The terminal is restored
// and the sources are read to their end before the next launch is prepared. Each
// launch has its own sources.
func TestOneLaunchAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.policy, r.options.Relaunch = retrying(1), true
		r.launcher.play = r.ends(3)
		r.launcher.again = []func(func(input.Input)){func(post func(input.Input)) {
			time.Sleep(time.Second)
			if c := r.hook("Prompt", "p2"); c.answers != 1 {
				t.Errorf("the second harness's hook got %d answers", c.answers)
			}
			r.launcher.child.end(input.ChildExited{})
		}}
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, kernel.Result{State: session.Completed}, result)
		require.Equal(t, strings.Split(strings.TrimSpace(aRetry), "\n"), r.lines("launch", "sources", "release", "signal", "answer", "close"))
	})
}

const aRetry = `
0s    launch
0s    sources know pid 42
1s    release
1s    sources read
11.005s launch 2
11.005s sources know pid 43
12.005s answer Prompt ""
12.005s release
12.005s sources read
12.01s close
`

// TestInputsOfAFinishedLaunchAreDropped lets the sources of the first launch post
// inputs long after the launch has ended: while no harness runs, and during the
// second launch.
func TestInputsOfAFinishedLaunchAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.policy, r.options.Relaunch = retrying(1), true
		r.policy.Backoff.Base = 30 * time.Second
		r.sources.last, r.sources.late = prompt("p9"), prompt("p10")
		r.launcher.play = func(post func(input.Input)) {
			time.AfterFunc(20*time.Second, func() { post(input.OutputSeen{Total: 99}) })
			r.ends(3)(post)
		}
		r.launcher.again = []func(func(input.Input)){func(func(input.Input)) {
			time.Sleep(2 * time.Minute)
			r.launcher.child.end(input.ChildExited{})
		}}
		r.later = map[int]*fakeSources{2: {rig: r, last: prompt("p2")}}
		_, err := r.run()
		require.NoError(t, err)
		var observed []string
		for _, f := range r.ledger.facts {
			switch f := f.(type) {
			case kernel.HarnessSessionOpened:
				observed = append(observed, "session")
			case kernel.Observed:
				if f.Record.FrameContext != nil {
					turn, _ := f.Record.Data["turn"].(string)
					observed = append(observed, strings.TrimSpace(string(f.Record.Event)+" "+turn))
				}
			case kernel.ActivitySeen:
				if f.Output == 99 {
					t.Error("an input of the finished launch was accepted")
				}
			}
		}
		require.Equal(t, []string{"session", "frame.opening p9", "frame.opened", "frame.ending", "frame.ended",
			"session", "frame.opening p2", "frame.opened", "frame.ending", "frame.ended"}, observed)
	})
}

// TestALeftoverProcessDelaysTheNextLaunch lets a process run longer than the first
// harness. The next launch waits for that process, because it may write to the
// same files, but not longer than treeTime.
func TestALeftoverProcessDelaysTheNextLaunch(t *testing.T) {
	for _, tt := range []struct {
		name    string
		lingers time.Duration
		want    string
	}{
		{"it ends", 2 * time.Second, "13.005s launch 2"},
		{"it cannot be killed", time.Hour, "14.005s launch 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.policy, r.options.Relaunch = retrying(1), true
				gone := make(chan struct{})
				r.launcher.child.gone = gone
				r.launcher.play = func(post func(input.Input)) {
					r.ends(3)(post)
					timer := time.AfterFunc(tt.lingers, func() { close(gone) })
					t.Cleanup(func() { timer.Stop() })
				}
				r.launcher.again = []func(func(input.Input)){r.ends(0)}
				_, err := r.run()
				require.NoError(t, err)
				require.Contains(t, r.lines("launch 2"), tt.want)
			})
		})
	}
}

// A launch that cannot be prepared counts as failed. The policy retries it only
// after a temporary error.
func TestALaunchThatCannotBePrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.policy, r.options.Relaunch = retrying(2), true
		r.launcher.play = r.ends(3)
		r.launcher.unfit = map[int]error{2: fmt.Errorf("start the guard: %w", syscall.EAGAIN)}
		r.launcher.again = []func(func(input.Input)){nil, r.ends(0)}
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, kernel.Result{State: session.Completed}, result)
		require.Equal(t, []string{"0s    launch", "11.005s unfit 2", "21.005s launch 3"}, r.lines("launch", "unfit"))
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.policy, r.options.Relaunch = retrying(2), true
		r.launcher.play = r.ends(3)
		r.launcher.unfit = map[int]error{2: errors.New("no room for its settings")}
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, kernel.Result{State: session.Failed, Code: 125, Failure: lifeloop.AdapterUnavailable, Why: "no room for its settings"}, result)
		require.Equal(t, []string{"0s    launch", "11.005s unfit 2"}, r.lines("launch", "unfit"))
	})
}

// A signal during a back-off ends the session at once.
func TestTheEndOfABackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.policy, r.options.Relaunch = retrying(1), true
		r.launcher.play = r.ends(3)
		time.AfterFunc(5*time.Second, func() { r.signals <- syscall.SIGINT })
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, session.Aborted, result.State)
		require.Equal(t, 3, result.Code, "the harness's own exit code, unless it is 0")
		require.Equal(t, []string{"0s    launch", "5s    close"}, r.lines("launch", "signal", "kill", "close"))
	})
}

// TestAPause stops the process tree after the pause is recorded, and continues the
// tree an hour later. The time-outs of the launch do not run during the pause.
func TestAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.policy = attempt.Policy{Timeouts: attempt.Timeouts{Initial: 5 * time.Second}}
		r.launcher.play = func(func(input.Input)) {
			time.Sleep(time.Second)
			r.post(input.PauseAsked{Reason: "lunch"})
			time.Sleep(time.Hour)
			r.post(input.ResumeAsked{})
			time.Sleep(3 * time.Second)
			r.launcher.child.end(input.ChildExited{})
		}
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, session.Completed, result.State)
		require.Equal(t, []string{"1s    hold", "1h0m1s free"}, r.lines("hold", "free", "signal", "kill"))
		require.Less(t, r.first("pause_requested"), r.first("hold"))
	})
}

// A stopped process handles no signal, so a paused session is continued before it is
// ended. After an abort during a pause, no launch follows.
func TestAnEndWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.policy, r.options.Relaunch = retrying(1), true
		r.launcher.child.ignore = true
		r.launcher.play = func(func(input.Input)) {
			time.Sleep(time.Second)
			r.post(input.PauseAsked{})
			time.Sleep(time.Second)
			r.signals <- syscall.SIGTERM
		}
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, kernel.Result{State: session.Aborted, Code: 137, Signal: 9}, result)
		require.Equal(t, []string{"0s    launch", "1s    hold", "2s    free", "2s    signal 15", "7s    kill"}, r.lines("launch", "hold", "free", "signal", "kill"))
	})
}

// A pause between launches delays the next launch.
func TestAPauseBetweenLaunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.policy, r.options.Relaunch = retrying(1), true
		r.launcher.play = r.ends(3)
		r.launcher.again = []func(func(input.Input)){r.ends(0)}
		time.AfterFunc(2*time.Second, func() { r.post(input.PauseAsked{}) })
		time.AfterFunc(time.Hour, func() { r.post(input.ResumeAsked{}) })
		_, err := r.run()
		require.NoError(t, err)
		require.Equal(t, []string{"0s    launch", "1h0m9.005s launch 2"}, r.lines("launch", "hold", "free", "signal", "kill"))
	})
}
