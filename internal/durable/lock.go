//go:build unix

package durable

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A FileLock is held until Unlock or the end of the process, however it ends.
// The file stays behind: removing a lock file while another process opens it
// would give two processes a lock of the same name.
type FileLock struct{ f *os.File }

// A LockedError says that another owner holds a lock.
type LockedError struct {
	Path string
	PID  int // of the owner; 0 if the file does not tell
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is locked by another process", e.Path)
	}
	return fmt.Sprintf("%s is locked by pid %d", e.Path, e.PID)
}

// probeWait is how long Lock puts up with probes (see Locked), which hold the
// file shared for some microseconds. A real owner is reported at once.
const probeWait = time.Second

// Lock takes the exclusive lock at path, creating the file (0600) if need be,
// and writes our process id into it. It does not wait: a *LockedError says
// who was first.
func Lock(path string) (*FileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := lockExclusive(f); err != nil {
		defer f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, &LockedError{Path: path, PID: owner(f)}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := sign(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: write the process id: %w", path, err)
	}
	return &FileLock{f}, nil
}

func lockExclusive(f *os.File) error {
	for deadline := time.Now().Add(probeWait); ; {
		err := flock(f, unix.LOCK_EX)
		if err != unix.EWOULDBLOCK {
			return err
		}
		// Where a shared lock can be had, there is no owner: only probes were
		// in the way, and they are gone in a moment.
		if err := flock(f, unix.LOCK_SH); err != nil {
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
		if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
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

// Unlock gives the lock back. A second Unlock is an error and changes nothing.
func (l *FileLock) Unlock() error {
	// Emptied while it is still ours, so that nobody reads our id there later;
	// released by name, because a child between fork and exec may hold a copy
	// of the descriptor.
	err := l.f.Truncate(0)
	if uerr := flock(l.f, unix.LOCK_UN); err == nil {
		err = uerr
	}
	if cerr := l.f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("unlock %s: %w", l.f.Name(), err)
	}
	return nil
}

// Locked reports whether someone holds the lock at path. It creates nothing
// and disturbs no one: what it takes to find out, it takes shared and gives
// back in the same instant. Where it cannot look, the answer is false.
func Locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return flock(f, unix.LOCK_SH) == unix.EWOULDBLOCK
}
