package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a session, there is no run directory. So when the function that guardedAs returns
// is asked about the run directory, it checks the state directory instead, or, if that does
// not exist, the nearest existing folder above it. Every other path is checked as given.
func TestGuardedWithoutASession(t *testing.T) {
	const runDir, rootsDir = "/nonexistent/run", "/proc/sys"
	if !guarded(rootsDir) {
		t.Skipf("%s does not belong to root here", rootsDir)
	}
	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o777))
	require.True(t, guardedAs(runDir, rootsDir+"/nonexistent/state")(runDir))
	require.False(t, guardedAs(runDir, rootsDir+"/nonexistent/state")(open))
	require.False(t, guardedAs(runDir, open)(runDir))
}
