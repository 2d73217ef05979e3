package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// RemoveTemps removes the folder of a killed session. It keeps the folder of a live
// session, a folder outside of tempParent, a folder that others can write to, and a link.
func TestRemoveTemps(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	live, err := CreateTemp()
	require.NoError(t, err)
	killed, err := CreateTemp()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(string(killed.Folder), "door"), nil, 0o600))
	require.NoError(t, killed.lock.Unlock()) // as the system does when a process is killed
	other := filepath.Join(os.TempDir(), "lifeloop-run")
	require.NoError(t, os.Mkdir(other, 0o700))
	open := filepath.Join(tempParent(), "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777))
	link := filepath.Join(tempParent(), "link")
	require.NoError(t, os.Symlink(other, link))

	RemoveTemps()
	require.NoDirExists(t, string(killed.Folder))
	require.DirExists(t, string(live.Folder))
	for _, path := range []string{other, open, link} {
		_, err := os.Lstat(path)
		require.NoError(t, err)
	}
	live.Remove()
	require.NoDirExists(t, string(live.Folder))
}

// If the name that tempParent returns is taken by a link, or by a folder that others can
// write to, CreateTemp creates folders beside that entry. RemoveTemps does not remove the
// target of the link.
func TestTempsBesideATakenName(t *testing.T) {
	elsewhere := t.TempDir()
	require.NoError(t, os.Chmod(elsewhere, 0o700))
	private := filepath.Join(elsewhere, "private")
	require.NoError(t, os.Mkdir(private, 0o700))
	for what, take := range map[string]func(name string) error{
		"an open folder": func(name string) error { return errors.Join(os.Mkdir(name, 0o700), os.Chmod(name, 0o777)) },
		"a link":         func(name string) error { return os.Symlink(elsewhere, name) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			require.NoError(t, take(tempParent()))
			live, err := CreateTemp()
			require.NoError(t, err)
			killed, err := CreateTemp()
			require.NoError(t, err)
			require.NoError(t, killed.lock.Unlock()) // as the system does when a process is killed

			RemoveTemps()
			require.NoDirExists(t, string(killed.Folder))
			require.DirExists(t, string(live.Folder))
			live.Remove()
			left, err := os.ReadDir(os.TempDir())
			require.NoError(t, err)
			require.Len(t, left, 1, "only the taken name is left")
			require.DirExists(t, private)
		})
	}
}

// Without a folder for temporary files there is an error, and nothing is created.
func TestTempWithoutAPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("TMPDIR", file)
	_, err := CreateTemp()
	require.ErrorIs(t, err, syscall.ENOTDIR)

	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", filepath.Join(missing, "tmp"))
	_, err = CreateTemp()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoDirExists(t, missing)
}

// A folder that is being created is not removed, whatever the moment.
func TestTempsAreNotRemovedWhileTheyAreCreated(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var created sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		created.Go(func() {
			for range 200 {
				temp, err := CreateTemp()
				if !assert.NoError(t, err) {
					return
				}
				_, err = os.Stat(tempLock(string(temp.Folder)))
				assert.NoError(t, err)
				temp.Remove()
			}
		})
	}
	go func() {
		created.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			left, err := os.ReadDir(os.TempDir())
			require.NoError(t, err)
			require.Empty(t, left)
			return
		default:
			RemoveTemps()
		}
	}
}
