//go:build linux

package harness

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// forkers is a harness with processes in its own group, and with orphans in other
// sessions. A process of the group and an orphan start other processes all the time.
const forkers = `(setsid sh -c 'while :; do sleep 0.003; done' &); while :; do sleep 0.002; done & (setsid sleep 300 &); echo ready; wait`

// states returns the state letters of the living processes below a root.
func states(root int) string {
	var b strings.Builder
	for _, p := range alive(descendants(allProcs(), root, nil)) {
		b.WriteByte(p.state)
	}
	return b.String()
}

func allStopped(root int) bool {
	s := states(root)
	return len(s) >= 4 && strings.Trim(s, "TD") == "" // D: blocked in vfork until its stopped child continues
}

// Hold stops every process, and no new one appears. Free does not continue a
// process that another program has stopped.
func TestHoldAndFree(t *testing.T) {
	for _, mode := range []Mode{Always, Never} {
		t.Run(string(mode), func(t *testing.T) {
			term, stdout, _ := onFiles(t, mode, nil)
			e := &recorder{}
			c := begin(t, sh(`sleep 300 & kill -STOP $!; `+forkers), term, e)
			eventually(t, "it is ready, and has stopped one itself", func() bool {
				return strings.Contains(string(stdout()), "ready") && strings.Count(states(c.guard.pid), "T") == 1
			})
			for range 5 {
				require.NoError(t, c.Hold())
				before := treeOf(c.guard.pid)
				eventually(t, "all have stopped, even on a busy machine", func() bool { return allStopped(c.guard.pid) })
				require.NoError(t, c.Hold(), "the second Hold")
				require.Equal(t, before, treeOf(c.guard.pid))
				require.NoError(t, c.Free())
				eventually(t, "all run but the one that it had stopped itself", func() bool {
					return strings.Count(states(c.guard.pid), "T") == 1 && len(treeOf(c.guard.pid)) >= 4
				})
			}
			require.NoError(t, c.Hold())
			require.NoError(t, unix.Kill(c.pid, unix.SIGCONT)) // as another program may do; Hold then stops it again
			eventually(t, "the continuation is reported", func() bool { return e.snapshot().conts > 0 })
			require.NoError(t, c.Hold())
			eventually(t, "all have stopped again", func() bool { return allStopped(c.guard.pid) })
			require.NoError(t, c.KillTree(), "a stopped process can be killed")
			require.Equal(t, syscall.SIGKILL, c.Wait().Signal)
			require.ErrorIs(t, c.Hold(), os.ErrProcessDone)
			require.NoError(t, c.Free())
		})
	}
}

// relay is a harness with two chains of processes. Each process of a chain starts its
// successor and ends at once.
const relay = `next='sh -c "$next" & exit'; export next; (setsid sh -c "$next" &); sh -c "$next" & echo ready; wait; sleep 300`

// Hold does not miss the successor of a process that ends while Hold looks for it,
// or the child of a thread that has not stopped yet.
func TestHoldMissesNone(t *testing.T) {
	for name, spec := range map[string]Spec{"successors": sh(relay), "threads": as("starter")} {
		t.Run(name, func(t *testing.T) {
			term, stdout, _ := onFiles(t, Never, nil)
			c := begin(t, spec, term, &recorder{})
			eventually(t, "it is ready", func() bool { return strings.Contains(string(stdout()), "ready") })
			for range 20 {
				require.NoError(t, c.Hold())
				held := treeOf(c.guard.pid)
				// Hold returns after holdTime, even if a busy machine has not run a process since
				// its SIGSTOP. Such a process stops before it can start another.
				eventually(t, "all have stopped", func() bool { return strings.Trim(states(c.guard.pid), "TD") == "" })
				for range 20 {
					require.Empty(t, strings.Trim(states(c.guard.pid), "TD"))
					require.Equal(t, held, treeOf(c.guard.pid))
				}
				require.NoError(t, c.Free())
				eventually(t, "it starts others again", func() bool { return !slices.Equal(held, treeOf(c.guard.pid)) })
			}
			require.NoError(t, c.KillTree())
			require.Equal(t, syscall.SIGKILL, c.Wait().Signal)
		})
	}
}

// However quickly Hold and Free follow each other, no stop is reported. A stop by
// another program is reported afterwards.
func TestAHoldIsNotReportedAsAStop(t *testing.T) {
	e := &recorder{}
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh(`echo ready; while :; do sleep 0.01; done`), term, e)
	eventually(t, "it is ready", func() bool { return strings.Contains(string(stdout()), "ready") })
	for range 100 {
		require.NoError(t, c.Hold())
		require.NoError(t, c.Free())
	}
	require.Empty(t, e.snapshot().stops)
	require.NoError(t, unix.Kill(c.pid, unix.SIGSTOP))
	eventually(t, "the stop is reported", func() bool { return len(e.snapshot().stops) > 0 })
	require.NoError(t, c.KillTree())
	require.Equal(t, syscall.SIGKILL, c.Wait().Signal)
}

// Under a shell with job control, Hold does not act like Ctrl-Z: the wrapper
// continues to run. After Free, Ctrl-Z works again.
func TestAHoldDoesNotStopTheWrapper(t *testing.T) {
	d := newDesk(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	cmd, reports := startWrapper(t, d, []string{"HOLD=yes"}, []*os.File{r}, "shell", "stopper")
	r.Close()
	d.shows(t, "ready")
	eventually(t, "the wrapper listens", func() bool { return len(reports()["wrapper"]) == 1 })
	wrapper, harness := reports()["wrapper"][0], reports()["harness"][0]
	state := func(pid int) string {
		p, err := readProc(pid)
		require.NoError(t, err)
		return string(p.state)
	}
	for round := 1; round <= 3; round++ {
		require.NoError(t, unix.Kill(wrapper, unix.SIGUSR1))
		eventually(t, "the harness is stopped", func() bool { return len(reports()["held"]) == round })
		require.Equal(t, "T", state(harness))
		require.NoError(t, unix.Kill(wrapper, unix.SIGUSR2))
		eventually(t, "the harness runs again", func() bool { return len(reports()["freed"]) == round && state(harness) != "T" })
		require.NotEqual(t, "T", state(wrapper))
	}
	require.Empty(t, reports()["stopped"], "the shell has seen its job stop")
	d.key(t, "z")
	eventually(t, "a Ctrl-Z stops the wrapper", func() bool { return len(reports()["stopped"]) == 1 })
	_, err = w.WriteString("fg\n")
	require.NoError(t, err)
	d.shows(t, "\x1b[?2004hback")
	d.key(t, "q")
	require.NoError(t, cmd.Wait())
	require.Equal(t, []int{5}, reports()["exit"])
}

// If the wrapper is killed during Hold, the guard ends the stopped processes.
func TestTheWrapperIsKilledWhileItHolds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	cmd, reports := startWrapper(t, d, []string{"HOLD=yes"}, nil, "wrapper", "messy")
	eventually(t, "the mess is made", func() bool { return strings.Contains(d.text(), "mess") && len(reports()["wrapper"]) == 1 })
	guard := reports()["guard"][0]
	require.NoError(t, cmd.Process.Signal(syscall.SIGUSR1))
	eventually(t, "it holds", func() bool { return len(reports()["held"]) == 1 })
	require.True(t, allStopped(guard), states(guard))
	pids := append(treeOf(guard), guard)
	require.NoError(t, cmd.Process.Kill())
	cmd.Wait()
	eventually(t, "no process is left", func() bool {
		for _, pid := range pids {
			if living(pid) {
				return false
			}
		}
		return true
	})
	d.shows(t, "\x1b[?2004l\x1b[?25h\x1b[<1u\x1b[?1049l\x1b]112\x1b\\\x1b[0m")
}

// After Free, the processes of a tree that was on hold can handle SIGTERM.
func TestATreeOnHoldCanBeEnded(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh(`trap 'echo bye; exit 7' TERM; (setsid sleep 300 &); echo ready; while :; do sleep 0.01; done`), term, &recorder{})
	eventually(t, "it is ready", func() bool { return strings.Contains(string(stdout()), "ready") })
	require.NoError(t, c.Hold())
	require.NoError(t, c.Free())
	require.NoError(t, c.Signal(syscall.SIGTERM))
	require.Equal(t, 7, c.Wait().Code)
	<-c.Gone()
	require.Equal(t, "ready\nbye\n", string(stdout()))
	require.NoError(t, exec.Command("true").Run(), "other children of the wrapper are not affected")
}

// Continue continues a group that another program has stopped, and sends nothing to
// one that runs. A program that receives SIGCONT may redraw its screen.
func TestContinueOnlyWhatIsStopped(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh(`for s in USR1 CONT; do trap "echo $s" $s; done; trap 'echo bye; over=1' TERM
		echo ready; while test -z "$over"; do sleep 0.01; done; exit 7`), term, &recorder{})
	shows := func(text string) {
		eventually(t, "it prints "+text, func() bool { return strings.HasSuffix(string(stdout()), text+"\n") })
	}
	shows("ready")
	require.NoError(t, c.Continue())
	require.NoError(t, c.Signal(syscall.SIGUSR1))
	shows("USR1")
	require.NoError(t, unix.Kill(-c.pid, unix.SIGSTOP))
	eventually(t, "it is stopped", func() bool { return strings.Trim(states(c.guard.pid), "TD") == "" })
	require.NoError(t, c.Continue())
	shows("CONT")
	require.NoError(t, c.Signal(syscall.SIGTERM))
	require.Equal(t, 7, c.Wait().Code)
	require.Equal(t, "ready\nUSR1\nCONT\nbye\n", string(stdout()))
	require.ErrorIs(t, c.Continue(), os.ErrProcessDone)
}
