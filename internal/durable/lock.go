//go:build unix

package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A FileLock is held until Unlock or until the process ends. The file is not
// removed: if it were removed while another process opens it, two processes could
// hold locks with the same name.
type FileLock struct{ f *os.File }

// A LockedError means that another owner holds a lock.
type LockedError struct {
	Path string
	PID  int // the process id of the owner; 0 if the file does not contain it
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is locked by another process", e.Path)
	}
	return fmt.Sprintf("%s is locked by pid %d", e.Path, e.PID)
}

// probeWait is how long Lock waits for probes (see Locked), which hold a shared lock
// for some microseconds. If there is a real owner, Lock returns an error at once.
const probeWait = time.Second

// Lock takes the exclusive lock at path and writes the process id into the file, unless
// the disk is full. It creates the file (0600) if it does not exist. It does not wait
// for another owner: if there is one, the error is *LockedError.
func Lock(path string) (*FileLock, error) {
	f, err := Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := lockExclusive(f); err != nil {
		defer f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, &LockedError{Path: path, PID: owner(f)}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	sign(f)
	return &FileLock{f}, nil
}

func lockExclusive(f *os.File) error {
	for deadline := time.Now().Add(probeWait); ; {
		err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK {
			return err
		}
		// If a shared lock is possible, there is no owner. Only calls that probe the
		// lock, such as Locked, have shared locks, and they release them soon.
		if err := flock(f, unix.LOCK_SH|unix.LOCK_NB); err != nil {
			return err
		}
		if err := flock(f, unix.LOCK_UN); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return unix.EWOULDBLOCK
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// sign writes the process id, which is used only in error messages. A failed write is
// ignored, because Lock must succeed even on a full disk: a session that is removed to
// free space must be locked first.
func sign(f *os.File) {
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}

func owner(f *os.File) int {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// Unlock releases the lock. A second Unlock is an error and changes nothing.
func (l *FileLock) Unlock() error {
	// The file is emptied before the release, so that no process reads our process
	// id later. The lock is released explicitly, because a child between fork and
	// exec may have a copy of the descriptor.
	if err := cmp.Or(l.f.Truncate(0), flock(l.f, unix.LOCK_UN), l.f.Close()); err != nil {
		return fmt.Errorf("unlock %s: %w", l.f.Name(), err)
	}
	return nil
}

// Locked reports whether the lock at path is held. It creates nothing. It takes a
// shared lock and releases it at once, so it does not disturb others. If it cannot
// open the file, it returns false.
func Locked(path string) bool {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return flock(f, unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// AwaitUnlock returns when the exclusive lock at path is free, or when the file does
// not exist. It cannot be interrupted: a caller that may stop waiting calls it on a
// goroutine of its own, which ends with the process.
func AwaitUnlock(path string) error {
	f, err := Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return flock(f, unix.LOCK_SH)
}
