package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a session, doctor checks the state directory in the place of a session's folder,
// or the nearest existing folder above the state directory. Other paths are not replaced.
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
