package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// Datasync makes the content of f durable, with its size but without the
// times that fsync would also write.
func Datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
