package harness

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// keptInput bounds what is kept of a pipe for the next child. A prompt is
// shorter; what is longer is a stream, of which nobody can begin anew.
const keptInput = 16 << 20

// A feed is a stdin that is no terminal, from which each child is to read the
// same. A file is only wound back. Of a pipe everything is kept that was read.
type feed struct {
	file  *os.File
	start int64 // where a file stood; -1 for a pipe

	mu    sync.Mutex // held by the one goroutine that reads the pipe
	kept  []byte
	ended bool // kept is all
	over  bool // more was read than is kept
}

// newFeed returns nil for what each child is given as it is: a terminal, a
// device.
func newFeed(f *os.File) *feed {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil
	case info.Mode().IsRegular():
		start, err := unix.Seek(fdOf(f), 0, io.SeekCurrent)
		if err != nil {
			return nil
		}
		return &feed{file: f, start: start}
	case info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0:
		return &feed{file: f, start: -1}
	}
	return nil
}

// windBack makes the next child read what the first one did.
func (f *feed) windBack() error {
	if f.start >= 0 {
		_, err := unix.Seek(fdOf(f.file), f.start, io.SeekStart)
		return err
	}
	if !f.mu.TryLock() {
		return errors.New("another program reads it, too")
	}
	defer f.mu.Unlock()
	if f.over {
		return errors.New("more was read of it than could be kept")
	}
	return nil
}

// pumpStdin gives the child what was read of the pipe so far, and then what
// more comes.
func (c *Child) pumpStdin() {
	f := c.terminal.stdin
	f.mu.Lock()
	defer f.mu.Unlock()
	from, next, buf := fdOf(f.file), f.kept, make([]byte, 64<<10)
	for !c.ended.Load() {
		if len(next) > 0 {
			n, err := c.stdin.Write(next)
			if err != nil {
				return // it does not read any more
			}
			next = next[n:]
			continue
		}
		if f.ended {
			c.stdin.Close()
			return
		}
		n, ok := c.await(from, buf)
		if !ok {
			return
		}
		if n == 0 {
			f.ended = true
			continue
		}
		next = buf[:n]
		if f.over = f.over || len(f.kept)+n > keptInput; f.over {
			f.kept = nil
			continue
		}
		f.kept = append(f.kept, next...)
	}
}
