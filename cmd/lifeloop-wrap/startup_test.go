//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A harness starts this program at every turn and waits for it, and each start
// runs the initialisation of every package that is linked in, whatever the
// command. What that allocates is the same on every machine, unlike the time
// it takes, so it stands in for the time here.
func TestStartingIsCheap(t *testing.T) {
	const (
		ours      = 2        // objects: tables and patterns belong into functions
		others    = 32       // objects: one compiled pattern has more
		otherSize = 16 << 10 // bytes: the tables of package unicode have 11 KiB
	)
	program := filepath.Join(t.TempDir(), "lifeloop-wrap")
	build := exec.Command("go", "build", "-trimpath", "-o", program, ".") // as the Makefile does, to share its cache
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	hook := exec.Command(program, "hook", "Stop")
	hook.Env = []string{"GODEBUG=inittrace=1"}
	out, err = hook.CombinedOutput()
	require.NoError(t, err, "%s", out)

	seen := 0
	for line := range strings.Lines(string(out)) {
		// init strings @0.5 ms, 0.1 ms clock, 312 bytes, 7 allocs
		f := strings.Fields(line)
		if len(f) != 11 || f[0] != "init" || f[8] != "bytes," || f[10] != "allocs" {
			t.Errorf("not a line of the trace: %q", line)
			continue
		}
		seen++
		size, err := strconv.Atoi(f[7])
		require.NoError(t, err)
		objects, err := strconv.Atoi(f[9])
		require.NoError(t, err)
		mine := f[1] == "main" || strings.HasPrefix(f[1], "lifeloop/")
		switch {
		case mine && objects > ours:
			t.Errorf("the start of %s allocates %d objects, of our packages none may have more than %d", f[1], objects, ours)
		case !mine && (objects > others || size > otherSize):
			t.Errorf("the start of %s allocates %d objects, %d bytes: too much for every hook to pay for", f[1], objects, size)
		}
	}
	if seen < 10 {
		t.Errorf("the trace tells of %d packages only:\n%s", seen, out)
	}
}
