//go:build unix

package durable

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a regular file as os.OpenFile does. It follows no symbolic link in the
// last element of the path and never waits: if that element is a FIFO, a device, a
// folder or a link, it returns an error.
func Open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm)
	if err != nil {
		// A FIFO without a reader, a socket and a link fail with errors that do not
		// name the cause.
		if info, statErr := os.Lstat(path); statErr == nil && !info.Mode().IsRegular() {
			return nil, irregular(path, info)
		}
		return nil, err
	}
	return regular(path, f)
}

// regular returns f if it is a regular file. Otherwise it closes f and returns an error.
func regular(path string, f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = irregular(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func irregular(path string, info fs.FileInfo) error {
	what := "a special file"
	switch info.Mode().Type() {
	case fs.ModeDir:
		what = "a folder"
	case fs.ModeSymlink:
		what = "a symbolic link"
	case fs.ModeNamedPipe:
		what = "a FIFO"
	case fs.ModeSocket:
		what = "a socket"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		what = "a device"
	}
	return fmt.Errorf("%s is %s and not a regular file (remove or rename it)", path, what)
}

// maxRead is the size of the largest file that [ReadFile] reads.
const maxRead = 256 << 20

// ReadFile reads a file that [Open] accepts. A file of more than 256 MiB is an error,
// because another program may have put a file there that does not fit into memory.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, maxRead)
}

func readAtMost(f *os.File, limit int64) ([]byte, error) {
	tooLarge := fmt.Errorf("%s has more than %d bytes", f.Name(), limit)
	if info, err := f.Stat(); err != nil || info.Size() > limit {
		return nil, cmp.Or(err, tooLarge)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit { // the file has grown, or Stat does not know its size, as in /proc
		return nil, tooLarge
	}
	return data, err
}

// OpenLinked opens a regular file for reading. The path may be a symbolic link to
// it. It never waits: a FIFO, a device or a folder is an error.
func OpenLinked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return regular(path, f)
}

// ReadLinked reads a regular file of at most limit bytes. The path may be a
// symbolic link to it. It never waits: a FIFO, a device or a folder is an error.
func ReadLinked(path string, limit int64) ([]byte, error) {
	f, err := OpenLinked(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, limit)
}

// PutFile replaces the content of a file that [Open] accepts. A new file has mode 0600.
// A crash can leave a part of the data; see [WriteFile].
func PutFile(path string, data []byte) error {
	f, err := Open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
