package supervisor

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/control"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

// do sends a command to the session, as the door does, and returns the answer.
func (r *rig) do(name, body string) string {
	<-r.door.ready
	r.door.calls.Add(1)
	defer r.door.calls.Done()
	began := time.Now()
	var a CommandAnswer
	if err := json.Unmarshal(r.door.s.Do(r.door.ctx, control.Command{Name: name, Input: []byte(body)}), &a); err != nil {
		r.t.Errorf("%s %s: the answer cannot be decoded: %v", name, body, err)
	}
	if (a.FailureClass == "") != (a.Error == "") || a.RetryClass != a.FailureClass.DefaultRetry() {
		r.t.Errorf("%s %s: inconsistent answer %+v", name, body, a)
	}
	if took := time.Since(began); took > time.Second {
		r.t.Errorf("%s %s was answered after %s", name, body, took)
	}
	if a.FailureClass == "" {
		return "done"
	}
	return fmt.Sprintf("%s: %s", a.FailureClass, a.Error)
}

func TestCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.launcher.child.ignore = true
		late := ""
		r.launcher.play = func(func(input.Input)) {
			time.Sleep(time.Second)
			r.hook("Start", "")
			for _, c := range []struct{ name, input, want string }{
				{"frame", `{"do":"open","frame_id":"f1"}`, "done"},
				{"frame", `{"do":"open","frame_id":"f1"}`, "state_conflict: frame f1 is already open"},
				{"frame", `{"do":"turn"}`, `invalid_request: the input is not a valid frame command; expected a JSON object with "do": "open" or "do": "close"`},
				{"frame", ``, `invalid_request: the input is not a valid frame command; expected a JSON object with "do": "open" or "do": "close"`},
				{"renew", `{"reason":"full"}`, "capability_unsupported: no renewal profile is active (start the session with --profile NAME)"},
				{"resume", ``, "state_conflict: no command paused the session"},
				{"pause", `{"reason":"lunch"}`, "done"},
				{"pause", ``, "state_conflict: the session is already paused"},
				{"resume", ``, "done"},
				{"pause", `[]`, "invalid_request: the input is not a valid pause command"},
				{"pause", `{"reason":"a\nb"}`, "invalid_request: the reason must be one line without control characters"},
				{"abort", `{"reason":"` + strings.Repeat("x", 257) + `"}`, "invalid_request: the reason has 257 bytes; the limit is 256"},
				{"quit", ``, `invalid_request: unknown command "quit"`},
				{"abort", `{"reason":"enough"}`, "done"},
				{"pause", ``, "state_conflict: the session is ABORTING"},
				{"abort", ``, "done"}, // has the same effect as the first abort
				{"abort", ``, "done"}, // ends the grace period
			} {
				if c.name == "abort" && c.input == "" {
					time.Sleep(time.Second)
				}
				if got := r.do(c.name, c.input); got != c.want {
					t.Errorf("%s %s: answer %q, want %q", c.name, c.input, got, c.want)
				}
			}
			r.door.calls.Go(func() {
				<-r.door.ctx.Done()
				late = r.do("renew", "")
			})
		}
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, kernel.Result{State: session.Aborted, Code: 137, Signal: 9}, result)
		require.Equal(t, []string{"1s    hold", "1s    free", "1s    signal 15", "3s    kill"}, r.lines("hold", "free", "signal", "kill"))
		require.Equal(t, "state_conflict: the session has ended", late)
		require.Contains(t, r.ledger.facts, kernel.Fact(kernel.SessionMoved{From: session.Running, To: session.Aborting, Reason: "enough"}))
	})
}

// TestCommandsAtTheEnd sends commands from the end of the harness to the end of the
// session, while a client and the ledger are slow.
func TestCommandsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.answers["notes"] = asleep(100 * time.Millisecond)
		r.ledger.slow = func(int) { time.Sleep(20 * time.Millisecond) }
		answers := map[string]int{}
		r.launcher.play = func(func(input.Input)) {
			time.Sleep(time.Second)
			r.launcher.child.end(input.ChildExited{})
			r.door.calls.Go(func() {
				for over := false; !over; time.Sleep(time.Millisecond) {
					got := r.do("resume", "")
					answers[got]++
					over = got == "state_conflict: the session has ended"
				}
			})
		}
		result, err := r.run()
		require.NoError(t, err)
		require.Equal(t, kernel.Result{State: session.Completed}, result)
		require.Greater(t, answers["state_conflict: no command paused the session"], 5)
		require.Len(t, answers, 2, "%v", answers)
	})
}

// Aborts at about the same time count as one: each is answered, and the harness keeps
// its whole grace period.
func TestParallelAborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.launcher.child.ignore = true
		r.launcher.play = func(func(input.Input)) {
			time.Sleep(time.Second)
			r.hook("Start", "")
			for i := range 10 {
				r.door.calls.Go(func() {
					time.Sleep(time.Duration(i) * 199 * time.Millisecond)
					if got := r.do("abort", ""); got != "done" {
						t.Errorf("answer %q", got)
					}
				})
			}
			time.Sleep(time.Second)
			r.signals <- syscall.SIGTERM
		}
		_, err := r.run()
		require.NoError(t, err)
		require.Equal(t, []string{"1s    signal 15", "6s    kill"}, r.lines("signal", "kill"))
		aborts := 0
		for _, f := range r.ledger.facts {
			if _, ok := f.(kernel.AbortRequested); ok {
				aborts++
			}
		}
		require.Equal(t, 1, aborts)
	})
}

// A command whose facts cannot be written is answered with internal_error. Later
// commands get the same failure, except for an abort if the session continues.
func TestCommandsWithoutALedger(t *testing.T) {
	for name, keep := range map[string]bool{"it ends": false, "it continues": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.options.KeepGoing = keep
				r.launcher.child.ignore = true // the harness ignores TERM
				var first, then, last string
				r.launcher.play = func(func(input.Input)) {
					time.Sleep(time.Second)
					r.hook("Start", "")
					r.ledger.refuse = r.ledger.n + 1
					first = r.do("renew", "")
					then = r.do("frame", `{"do":"open","frame_id":"f1"}`)
					last = r.do("abort", "")
					time.Sleep(2 * time.Second)
					r.do("abort", "")
				}
				began := time.Now()
				result, err := r.run()
				require.Equal(t, "internal_error: the ledger could not be written", first)
				require.Contains(t, then, "internal_error: the ledger ")
				require.Less(t, time.Since(began), 4*time.Second, "the second abort skips the grace")
				if keep {
					require.NoError(t, err)
					require.Equal(t, "done", last)
					require.Equal(t, kernel.Result{State: session.Aborted, Code: 137, Signal: 9}, result)
					return
				}
				require.ErrorIs(t, err, ErrLedger)
				require.Equal(t, "internal_error: the ledger could not be written, and the session is being ended", last)
				require.Equal(t, kernel.Result{Code: 125, Failure: lifeloop.InternalError}, result)
			})
		})
	}
}

// Without a grace, a harness that ignores TERM is killed as soon as the ledger is lost.
func TestNoGraceWithoutALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.options.Grace = -1
		r.launcher.child.ignore = true
		r.launcher.play = func(func(input.Input)) {
			time.Sleep(time.Second)
			synctest.Wait() // the loop waits, and writes nothing
			r.ledger.refuse = r.ledger.n + 1
			r.do("renew", "")
		}
		began := time.Now()
		_, err := r.run()
		require.ErrorIs(t, err, ErrLedger)
		require.Less(t, time.Since(began), 2*time.Second)
	})
}

// A panic of the loop is passed on at once, without waiting for goroutines, so that
// this process ends and the guard ends the harness.
func TestAPanicEndsTheRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.ledger.slow = func(n int) {
			if n == 3 {
				panic("a bug")
			}
		}
		r.launcher.play = func(func(input.Input)) {
			time.Sleep(time.Second)
			r.hook("Start", "")
		}
		require.PanicsWithValue(t, "a bug", func() { _, _ = r.run() })
		require.Equal(t, time.Second, time.Since(r.began))
		r.launcher.child.end(input.ChildExited{}) // end the harness, as the guard would
		time.Sleep(time.Second)
	})
}

// A command from a process of the harness's own tree needs the session's token.
func TestCommandsFromInsideNeedTheToken(t *testing.T) {
	const inside, outside = 7, 8
	s := &supervisor{o: Options{Token: "secret", Inside: func(pid int) bool { return pid == inside }}}
	for _, c := range []struct {
		pid   int
		token string
		want  bool
	}{
		{outside, "", true}, {outside, "secret", true}, {outside, "wrong", false},
		{inside, "", false}, {inside, "secret", true}, {inside, "wrong", false},
	} {
		if got := s.admits(control.Command{PID: c.pid, Token: c.token}); got != c.want {
			t.Errorf("process %d with token %q: %v, want %v", c.pid, c.token, got, c.want)
		}
	}
	s.o.Token = "" // a session without a ledger
	for _, token := range []string{"", "secret"} {
		if s.admits(control.Command{PID: inside, Token: token}) {
			t.Errorf("token %q is accepted although the session has none", token)
		}
	}
}
