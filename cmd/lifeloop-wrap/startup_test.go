//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Harnesses start a hook at every turn and wait for it. Each start initializes every
// linked package, whatever the command. The test counts the allocations of the
// initialization and not its time, because only its time depends on the machine.
func TestStartingIsCheap(t *testing.T) {
	const (
		ours      = 2        // objects for each package of ours: tables and patterns belong in functions
		others    = 32       // objects for any other package: one compiled pattern has more
		otherSize = 16 << 10 // bytes for any other package: the tables of package unicode have 11 KiB
	)
	// These packages are needed to read databases and servers of harnesses, and to
	// parse shell commands for the gate. Each costs about 0.05 ms. Normally a harness
	// starts lifeloop-hook, which does not link these packages.
	paid := map[string]int{"github.com/dustin/go-humanize": 128, "net/http": 64, "mvdan.cc/sh/v3/fileutil": 128}
	packages := started(t, built(t, product), "hook", "Stop")
	for _, p := range packages {
		mine := p.name == "main" || strings.HasPrefix(p.name, "lifeloop/")
		switch {
		case mine && p.objects > ours:
			t.Errorf("the start of %s allocates %d objects; our packages may allocate %d", p.name, p.objects, ours)
		case p.objects <= paid[p.name]:
		case !mine && (p.objects > others || p.bytes > otherSize):
			t.Errorf("the start of %s allocates %d objects, %d bytes: too much for a hook", p.name, p.objects, p.bytes)
		}
	}
	if len(packages) < 10 {
		t.Errorf("the trace lists only %d packages: %v", len(packages), packages)
	}
}

// lifeloop-hook exists for its fast start: it links little more than package os.
func TestStartingTheHookIsCheap(t *testing.T) {
	const (
		most        = 18 // packages that are initialised at all
		mostObjects = 48 // objects of all packages together
		mostBytes   = 4 << 10
	)
	packages := started(t, filepath.Join(built(t, besides), "lifeloop-hook"), "Stop")
	objects, size := 0, 0
	for _, p := range packages {
		objects, size = objects+p.objects, size+p.bytes
	}
	if len(packages) > most || objects > mostObjects || size > mostBytes {
		t.Errorf("%d packages allocate %d objects, %d bytes; they may be %d, %d and %d: %v",
			len(packages), objects, size, most, mostObjects, mostBytes, packages)
	}
	if len(packages) < 5 {
		t.Errorf("the trace lists only %d packages: %v", len(packages), packages)
	}
	linked, err := exec.Command("go", "list", "-deps", "lifeloop/cmd/lifeloop-hook").Output()
	require.NoError(t, err)
	for _, large := range []string{"fmt", "net", "context", "bufio", "regexp", "encoding/json", "os/signal", "os/exec", "path/filepath"} {
		if slices.Contains(strings.Fields(string(linked)), large) {
			t.Errorf("%s is linked in", large)
		}
	}
}

// An initialised is a package and the allocations of its initialization.
type initialised struct {
	name           string
	bytes, objects int
}

// started starts a program and returns its trace.
func started(t *testing.T, program string, args ...string) (packages []initialised) {
	t.Helper()
	start := exec.Command(program, args...)
	start.Env = []string{"GODEBUG=inittrace=1"}
	out, err := start.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for line := range strings.Lines(string(out)) {
		// init strings @0.5 ms, 0.1 ms clock, 312 bytes, 7 allocs
		f := strings.Fields(line)
		if len(f) != 11 || f[0] != "init" || f[8] != "bytes," || f[10] != "allocs" {
			t.Errorf("not a line of the trace: %q", line)
			continue
		}
		size, err := strconv.Atoi(f[7])
		require.NoError(t, err)
		objects, err := strconv.Atoi(f[9])
		require.NoError(t, err)
		packages = append(packages, initialised{f[1], size, objects})
	}
	return packages
}
