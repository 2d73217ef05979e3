//go:build unix

package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// AwaitUnlock returns when the exclusive lock at path is free, or when the file does
// not exist. It cannot be interrupted: a caller that may stop waiting calls it on a
// goroutine of its own, which ends with the process.
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
