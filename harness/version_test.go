//go:build linux

package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVersionNumbers(t *testing.T) {
	for output, want := range map[string]string{
		"2.1.197 (Claude Code)":            "2.1.197",
		"codex-cli 0.169.0":                "0.169.0",
		"0.61.0\n":                         "0.61.0",
		"v1.18.33":                         "1.18.33",
		"OpenClaw 2026.9.6":                "2026.9.6",
		"it 0.170.0-alpha.2":               "0.170.0-alpha.2", // a pre-release, which is not version 0.170.0
		"warning: /lib64 is old\nit 1.2.3": "1.2.3",
		"build7.8":                         "",
		"version 7":                        "",
		"":                                 "",
	} {
		if got := dotted([]byte(output)); got != want {
			t.Errorf("%q has the version %q, want %q", output, got, want)
		}
	}
}

// Neither a program that does not exit nor the child that a program leaves
// behind runs after Version.
func TestVersionLeavesNoProcess(t *testing.T) {
	dir := t.TempDir()
	program := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
		return path
	}
	pids := filepath.Join(dir, "pids")

	_, err := Version(program("hangs", "echo $$ >"+pids+"\necho 1.2.3\nsleep 1000\n"), 300*time.Millisecond)
	require.ErrorIs(t, err, ErrSlow)
	version, err := Version(program("forks", "sleep 1000 &\necho $! >>"+pids+"\necho it 1.2.3\n"), patience)
	require.NoError(t, err)
	require.Equal(t, "1.2.3", version)
	_, err = Version(program("fails", "echo 1.2.3\nexit 3\n"), patience)
	require.ErrorContains(t, err, "exit status 3")
	_, err = Version(filepath.Join(dir, "nothing"), patience)
	require.Error(t, err)

	data, err := os.ReadFile(pids)
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(data)), 2)
	for _, pid := range strings.Fields(string(data)) {
		require.Eventually(t, func() bool { return !running(pid) }, patience, 10*time.Millisecond, "process %s is still there", pid)
	}
}

// running reports whether a process exists and is not a zombie.
func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
