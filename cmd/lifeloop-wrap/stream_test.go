//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/store/storetest"
)

// Recovering a session with ten times the entries needs about the same memory,
// because the ledger is replayed while it is read, and is not held in memory.
func TestResumeStreams(t *testing.T) {
	dir := t.TempDir()
	runtime, err := os.MkdirTemp("", "ll") // a short name, because the length of a socket's path is limited
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

// Resuming an observation of ten times the turns needs about the same memory, because
// the ledger and the old records of the transcript are read and not held in memory.
func TestResumeOfAnObservationStreams(t *testing.T) {
	peak := func(turns int) int {
		dir := t.TempDir()
		transcript := filepath.Join(dir, "t.jsonl")
		var text bytes.Buffer
		for n := range turns {
			text.WriteString(turnOf(n))
		}
		require.NoError(t, os.WriteFile(transcript, text.Bytes(), 0o600))
		observe := func(lines int, args ...string) int {
			cmd := exec.Command("lifeloop-wrap", append([]string{"observe", "--follow"}, args...)...)
			cmd.Env = append(os.Environ(), "HOME="+dir, "LIFELOOP_STATE_DIR="+filepath.Join(dir, "state"))
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			read := bufio.NewReader(out)
			for ended := 0; ended < lines; {
				line, err := read.ReadString('\n')
				require.NoError(t, err)
				if strings.Contains(line, `"frame.ended"`) {
					ended++
				}
			}
			kib := peakOf(t, cmd.Process.Pid)
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			return kib
		}
		observe(turns, "--adapter", "claude", "--from-start", "--ledger", "--source", "transcript", transcript)
		more, err := os.OpenFile(transcript, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = more.WriteString(turnOf(turns))
		require.NoError(t, err)
		require.NoError(t, more.Close())
		return observe(1, "--resume", "last")
	}
	few, many := peak(300), peak(3_000)
	t.Logf("%d KiB with 300 turns, %d KiB with 3,000", few, many)
	require.Less(t, 2*many, 3*few)
}

// turnOf is one turn of a transcript of Claude Code.
func turnOf(n int) string {
	var text strings.Builder
	for i, record := range []string{
		`"promptId":"p%d","type":"user","message":{"role":"user","content":"hello"},"permissionMode":"default","origin":{"kind":"human"},"promptSource":"typed"`,
		`"type":"assistant","requestId":"r%d","message":{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}`,
		`"type":"system","subtype":"turn_duration","durationMs":1000,"messageCount":%d,"isMeta":false`,
	} {
		at := time.Date(2026, 1, 1, 0, 0, 3*n+i, 0, time.UTC).Format(time.RFC3339)
		fmt.Fprintf(&text, `{%s,"uuid":"u%d","timestamp":"%s","userType":"external","entrypoint":"cli","cwd":"/","sessionId":"s1","version":"2.1.197","isSidechain":false}`+"\n", fmt.Sprintf(record, n), 3*n+i, at)
	}
	return text.String()
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
