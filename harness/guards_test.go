//go:build linux

package harness

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// After a wrapper was killed, the program that resumes the session waits for the guards
// of the wrapper. So Guards must list all: the guard of the child and the guard for the
// next child.
func TestGuardsListsEveryGuard(t *testing.T) {
	t.Parallel()
	term, _, _ := onFiles(t, Never, nil)
	require.Empty(t, term.Guards())
	require.NoError(t, term.Prepare(nil))
	waiting := term.Guards()
	require.Len(t, waiting, 1)
	require.True(t, Runs(waiting[0].PID, waiting[0].Start))

	c := begin(t, sh("sleep 300"), term, &recorder{})
	inCharge := term.Guards()
	require.Contains(t, inCharge, waiting[0], "the guard that waited is in charge now")
	require.NoError(t, c.KillTree())
	c.Wait()
	term.Close()
	for _, g := range inCharge {
		_, err := readProc(g.PID)
		require.ErrorIs(t, err, unix.ENOENT, "the guard is left, or not reaped")
	}
	require.False(t, Runs(waiting[0].PID, waiting[0].Start+1), "another process of the same number is none")
}

// Below finds the tree of a harness, orphans included, and nothing else: neither a
// client of the wrapper nor the wrapper itself.
func TestBelowFindsTheHarnessTree(t *testing.T) {
	t.Parallel()
	term, _, _ := onFiles(t, Never, nil)
	own := exec.Command("sleep", "300")
	require.NoError(t, own.Start())
	term.Own(own.Process.Pid)
	c := begin(t, sh("(sleep 301 &) ; exec sleep 302"), term, &recorder{})
	var tree []proc
	eventually(t, "the orphan runs", func() bool {
		tree = alive(descendants(allProcs(), term.Guards()[0].PID, nil))
		return len(tree) == 2 && slices.ContainsFunc(tree, func(p proc) bool { return p.pid != c.PID() && p.ppid != c.PID() && readName(p.pid) == "sleep" })
	})
	for _, p := range tree {
		require.True(t, term.Below(p.pid), "process %d of %v", p.pid, tree)
	}
	for _, pid := range []int{own.Process.Pid, os.Getpid(), os.Getppid(), 1} {
		require.False(t, term.Below(pid), "process %d", pid)
	}
	require.NoError(t, own.Process.Kill())
	_ = own.Wait()
	require.True(t, term.Below(own.Process.Pid), "a process that has ended")
	require.NoError(t, c.KillTree())
	c.Wait()
	term.Close()
}

// The signals with which users and terminals end or stop programs neither end nor stop a
// guard.
func TestAGuardOutlivesSignals(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Never, Always} {
		term, _, _ := onFiles(t, mode, nil)
		c := begin(t, sh("exec sleep 300"), term, &recorder{})
		guard := term.Guards()[0].PID
		for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
			unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2} {
			require.NoError(t, unix.Kill(guard, sig))
		}
		require.NoError(t, c.Stop(unix.SIGTERM, 0)) // carried out by the guard
		exit := c.Wait()
		require.Equal(t, unix.SIGTERM, exit.Signal)
		require.False(t, exit.GuardLost)
		term.Close()
	}
}

// A prepared guard that was killed is replaced when a child starts.
func TestKilledPreparedGuard(t *testing.T) {
	term, _, _ := onFiles(t, Never, nil)
	require.NoError(t, term.Prepare(nil))
	guards := term.Guards()
	require.Len(t, guards, 1)
	require.NoError(t, unix.Kill(guards[0].PID, unix.SIGKILL))
	eventually(t, "the guard is dead", func() bool { return !runsChild(guards[0].PID) })
	c := begin(t, sh("exit 3"), term, &recorder{})
	require.Equal(t, 3, c.Wait().Code)
}
