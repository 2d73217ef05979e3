//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/store/storetest"
)

// Recovering a session with ten times the entries needs about the same memory,
// because its ledger is folded while it is read.
func TestResumeStreams(t *testing.T) {
	dir := t.TempDir()
	runtime, err := os.MkdirTemp("", "ll") // a short name: sockets have little room
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	peak := func(id string, entries int) int {
		state := filepath.Join(dir, "state")
		require.NoError(t, storetest.Long(state, id, entries))
		cmd := exec.Command("lifeloop-wrap", "run", "--resume", id, "--", "sh", "-c", "echo runs; read end")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_RUNTIME_DIR="+runtime, "LIFELOOP_STATE_DIR="+state)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "runs\n", line)
		kib := peakOf(t, cmd.Process.Pid)
		require.NoError(t, in.Close())
		_ = cmd.Wait() // read fails at the end of its input
		return kib
	}
	few := peak("11111111-1111-4111-8111-111111111111", 4_000)
	many := peak("22222222-2222-4222-8222-222222222222", 40_000)
	t.Logf("%d KiB with 4,000 entries, %d KiB with 40,000", few, many)
	require.Less(t, 2*many, 3*few)
}

// peakOf is the largest resident memory that a process had, in KiB.
func peakOf(t *testing.T, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	require.True(t, found)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n
}
