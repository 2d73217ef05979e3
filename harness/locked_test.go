//go:build linux

package harness

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() { parts["locks files"] = locksFiles }

// locksFiles opens and locks files until its input ends. Its first argument is the kind
// of lock: "write", "read", or "open" for none. With "below", another process takes write
// locks.
func locksFiles() int {
	how, files := os.Args[1], os.Args[2:]
	if how == "below" {
		cmd := exec.Command(os.Args[0], append([]string{"write"}, files...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return 1
		}
		return 0
	}
	kind := map[string]int{"write": unix.LOCK_EX, "read": unix.LOCK_SH, "open": unix.LOCK_UN}[how]
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		if err := unix.Flock(int(f.Fd()), kind); err != nil {
			panic(err)
		}
	}
	fmt.Print("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// Locked returns only the files of the given folder on which a process of the harness's
// own tree has a write lock.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	foreign, err := os.Create(filepath.Join(dir, "foreign.lock"))
	require.NoError(t, err)
	defer foreign.Close()
	require.NoError(t, unix.Flock(int(foreign.Fd()), unix.LOCK_EX))

	for _, c := range []struct {
		how  string
		want []string
	}{
		{"write", []string{"a.lock", "b.lock"}},
		{"below", []string{"a.lock", "b.lock"}},
		{"read", nil},
		{"open", nil},
	} {
		t.Run(c.how, func(t *testing.T) {
			d := newDesk(t)
			other := filepath.Join(t.TempDir(), "elsewhere.lock")
			child := begin(t, as("locks files", c.how, filepath.Join(dir, "b.lock"), filepath.Join(link, "a.lock"), other), d.terminal(t), &recorder{})
			d.shows(t, "held")
			require.Equal(t, c.want, child.Locked(dir))
			require.Equal(t, c.want, child.Locked(link))
			require.Nil(t, child.Locked(filepath.Join(dir, "none")))
			require.NoError(t, child.KillTree())
			child.Wait()
			eventually(t, "its locks are gone", func() bool { return child.Locked(dir) == nil })
		})
	}
}
