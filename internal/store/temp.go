//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
		dir, err := os.MkdirTemp("", tempPrefix())
		if err != nil {
			return nil, err
		}
		lock, err := durable.Lock(tempLock(dir))
		if _, locked := errors.AsType[*durable.LockedError](err); locked || errors.Is(err, fs.ErrNotExist) {
			continue // RemoveTemps found the folder before it was locked
		}
		if err != nil {
			_ = os.RemoveAll(dir)
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
	_ = os.RemoveAll(string(t.Folder))
	_ = t.lock.Unlock()
}

// RemoveTemps removes the folders that killed processes have left.
func RemoveTemps() {
	temp, err := os.Open(os.TempDir())
	if err != nil {
		return
	}
	defer temp.Close()
	names, _ := temp.Readdirnames(-1) // only the names, because there may be very many entries
	prefix := tempPrefix()
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		dir := filepath.Join(os.TempDir(), name)
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || durable.IsPrivate(dir) != nil {
			continue
		}
		if lock, err := durable.Lock(tempLock(dir)); err == nil {
			(&Temp{Folder(dir), lock}).Remove()
		}
	}
}

func tempPrefix() string { return fmt.Sprintf("lifeloop-run-%d-", os.Geteuid()) }

func tempLock(dir string) string { return filepath.Join(dir, "lock") }
