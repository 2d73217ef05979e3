//go:build unix

package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// AwaitUnlock returns when nobody holds the lock at path exclusively any more:
// at once when nobody does, or when there is no such file. It cannot be
// interrupted; a caller that may lose interest runs it on a goroutine of its
// own and lets the end of the process end it.
func AwaitUnlock(path string) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != unix.EINTR {
			return err
		}
	}
}
