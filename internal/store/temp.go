//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"lifeloop/internal/durable"
)

// A Temp is a folder below the system's folder for temporary files. Sessions without a
// ledger use one, and so do commands that play a session, such as the demonstration. Its
// lock shows that the process that created the folder still runs.
type Temp struct {
	Folder
	lock *durable.FileLock
}

// CreateTemp creates a folder that no other user can use.
func CreateTemp() (*Temp, error) {
	for {
		parent, prefix := tempParent(), ""
		if err := os.Mkdir(parent, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		switch err := durable.IsPrivateFolder(parent); {
		case errors.Is(err, fs.ErrNotExist):
			continue // another process has removed the parent, because it was empty
		case err != nil: // the name is taken, for example by another user
			parent, prefix = os.TempDir(), filepath.Base(parent)+"-"
		}
		dir, err := os.MkdirTemp(parent, prefix)
		if errors.Is(err, fs.ErrNotExist) && prefix == "" {
			continue // another process has removed the parent, because it was empty
		}
		if err != nil {
			return nil, err
		}
		lock, err := durable.Lock(tempLock(dir))
		if _, locked := errors.AsType[*durable.LockedError](err); locked || errors.Is(err, fs.ErrNotExist) {
			continue // RemoveTemps locked or removed the folder before this process could lock it
		}
		if err != nil {
			removeTemp(dir)
			return nil, err
		}
		if _, err := os.Lstat(tempLock(dir)); err != nil {
			_ = lock.Unlock() // RemoveTemps has removed the file that was locked
			continue
		}
		t := &Temp{Folder(dir), lock}
		if err := durable.IsPrivate(dir); err != nil {
			t.Remove()
			return nil, err
		}
		return t, nil
	}
}

// Remove removes the folder.
func (t *Temp) Remove() {
	removeTemp(string(t.Folder))
	_ = t.lock.Unlock()
}

func removeTemp(dir string) {
	_ = os.RemoveAll(dir)
	if parent := tempParent(); filepath.Dir(dir) == parent {
		_ = syscall.Rmdir(parent) // Rmdir removes only an empty folder, and never a link
	}
}

// RemoveTemps removes the folders that killed processes have left.
func RemoveTemps() {
	parent := tempParent()
	var left []string
	switch err := durable.IsPrivateFolder(parent); {
	case err == nil:
		left = durable.Beginning(parent, "")
	case !errors.Is(err, fs.ErrNotExist): // the name is taken, for example by another user
		left = durable.Beginning(os.TempDir(), filepath.Base(parent)+"-")
	}
	for _, dir := range left {
		if durable.IsPrivateFolder(dir) != nil {
			continue
		}
		if lock, err := durable.Lock(tempLock(dir)); err == nil {
			(&Temp{Folder(dir), lock}).Remove()
		}
	}
}

// tempParent returns the folder of all temporary folders of this user. So RemoveTemps
// need not read the system's folder, which may have very many entries, unless this name
// is taken.
func tempParent() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("lifeloop-run-%d", os.Geteuid()))
}

func tempLock(dir string) string { return filepath.Join(dir, "lock") }
