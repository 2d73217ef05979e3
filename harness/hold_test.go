//go:build linux

package harness

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// forkers is a harness that has something in its own group, something in
// another session whose parent has ended, and in both something that goes on
// starting others.
const forkers = `(setsid sh -c 'while :; do sleep 0.003; done' &); while :; do sleep 0.002; done & (setsid sleep 300 &); echo ready; wait`

// states are those of the living processes below a root.
func states(root int) string {
	var b strings.Builder
	for _, p := range alive(descendants(allProcs(), root, nil)) {
		b.WriteByte(p.state)
	}
	return b.String()
}

func allStopped(root int) bool {
	s := states(root)
	return len(s) >= 4 && strings.Trim(s, "TD") == "" // D: it waits for a child of vfork, which stands still
}

// Everything stands still, and nothing new comes; what somebody else stopped
// before stays so.
func TestHoldAndFree(t *testing.T) {
	for _, mode := range []Mode{Always, Never} {
		t.Run(string(mode), func(t *testing.T) {
			term, stdout, _ := onFiles(t, mode, nil)
			e := &ears{}
			c := begin(t, sh(`sleep 300 & kill -STOP $!; `+forkers), term, e)
			eventually(t, "it is ready, and has stopped one itself", func() bool {
				return strings.Contains(string(stdout()), "ready") && strings.Count(states(c.guard.pid), "T") == 1
			})
			for range 5 {
				require.NoError(t, c.Hold())
				before := treeOf(c.guard.pid)
				require.True(t, allStopped(c.guard.pid), states(c.guard.pid))
				require.NoError(t, c.Hold(), "it holds already")
				require.Equal(t, before, treeOf(c.guard.pid))
				require.NoError(t, c.Free())
				eventually(t, "it goes on, but for what it had stopped itself", func() bool {
					return strings.Count(states(c.guard.pid), "T") == 1 && len(treeOf(c.guard.pid)) >= 4
				})
			}
			require.NoError(t, c.Hold())
			require.NoError(t, unix.Kill(c.pid, unix.SIGCONT)) // by somebody else
			eventually(t, "that is told", func() bool { return e.heard().conts > 0 })
			require.NoError(t, c.Hold())
			require.True(t, allStopped(c.guard.pid), states(c.guard.pid))
			require.NoError(t, c.KillTree(), "who stands still can be killed")
			require.Equal(t, syscall.SIGKILL, c.Wait().Signal)
			require.ErrorIs(t, c.Hold(), os.ErrProcessDone)
			require.NoError(t, c.Free())
		})
	}
}

// Whoever holds and frees as fast as they can is told of no stop, for nobody
// else made one; and of one that somebody else made, afterwards.
func TestAHoldIsNoNews(t *testing.T) {
	e := &ears{}
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh(`echo ready; while :; do sleep 0.01; done`), term, e)
	eventually(t, "it is ready", func() bool { return strings.Contains(string(stdout()), "ready") })
	for range 100 {
		require.NoError(t, c.Hold())
		require.NoError(t, c.Free())
	}
	require.Empty(t, e.heard().stops)
	require.NoError(t, unix.Kill(c.pid, unix.SIGSTOP))
	eventually(t, "that is told", func() bool { return len(e.heard().stops) > 0 })
	require.NoError(t, c.KillTree())
	require.Equal(t, syscall.SIGKILL, c.Wait().Signal)
}

// Under a shell with job control: a hold is no Ctrl-Z, so the wrapper goes on;
// after it a Ctrl-Z is one again.
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
		eventually(t, "the harness stands still", func() bool { return len(reports()["held"]) == round })
		require.Equal(t, "T", state(harness))
		require.NoError(t, unix.Kill(wrapper, unix.SIGUSR2))
		eventually(t, "the harness goes on", func() bool { return len(reports()["freed"]) == round && state(harness) != "T" })
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

// The wrapper is killed while everything stands still: nobody stays so.
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
	eventually(t, "nothing is left", func() bool {
		for _, pid := range pids {
			if living(pid) {
				return false
			}
		}
		return true
	})
	d.shows(t, "\x1b[?2004l\x1b[?25h\x1b[<1u\x1b[?1049l")
}

// What is asked to end is let go on first, and can end in its own way.
func TestAnEndAfterAHold(t *testing.T) {
	term, stdout, _ := onFiles(t, Never, nil)
	c := begin(t, sh(`trap 'echo bye; exit 7' TERM; (setsid sleep 300 &); echo ready; while :; do sleep 0.01; done`), term, &ears{})
	eventually(t, "it is ready", func() bool { return strings.Contains(string(stdout()), "ready") })
	require.NoError(t, c.Hold())
	require.NoError(t, c.Free())
	require.NoError(t, c.Signal(syscall.SIGTERM))
	require.Equal(t, 7, c.Wait().Code)
	<-c.Gone()
	require.Equal(t, "ready\nbye\n", string(stdout()))
	require.NoError(t, exec.Command("true").Run(), "our own processes are none of its")
}
