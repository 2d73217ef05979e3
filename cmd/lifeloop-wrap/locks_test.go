package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAbandon checks that abandon makes a lock's heartbeat old only if the owner of the
// lock was a process of this machine and has ended.
func TestAbandon(t *testing.T) {
	here, err := os.Hostname()
	require.NoError(t, err)
	ended := exec.Command("true")
	require.NoError(t, ended.Run())
	pid := ended.Process.Pid

	dir := t.TempDir()
	for name, c := range map[string]struct {
		meta string
		old  bool
	}{
		"ended":           {fmt.Sprintf(`{"pid":%d,"hostname":%q}`, pid, here), true},
		"alive":           {fmt.Sprintf(`{"pid":%d,"hostname":%q}`, os.Getpid(), here), false},
		"another machine": {fmt.Sprintf(`{"pid":%d,"hostname":%q}`, pid, here+"2"), false},
		"a group":         {fmt.Sprintf(`{"pid":%d,"hostname":%q}`, -pid, here), false},
		"no pid":          {fmt.Sprintf(`{"hostname":%q}`, here), false},
		"not JSON":        {`{`, false},
	} {
		lock := filepath.Join(dir, name)
		heartbeat := filepath.Join(lock, "heartbeat")
		require.NoError(t, os.Mkdir(lock, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(lock, "meta.json"), []byte(c.meta), 0o600))
		require.NoError(t, os.WriteFile(heartbeat, nil, 0o600))
		abandon([]string{lock, filepath.Join(dir, "none")})
		info, err := os.Stat(heartbeat)
		require.NoError(t, err)
		require.Equal(t, c.old, time.Since(info.ModTime()) > time.Hour, name)
	}
}
