package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxSaved is how many bytes of a pipe are saved for the next child. Prompts are
// shorter. A longer input is taken for a stream, which cannot be read again.
const maxSaved = 16 << 20

// A feed is a stdin that is not a terminal and from which each child reads the same
// input. A file is rewound. What is read from a pipe is saved.
type feed struct {
	file  *os.File
	start int64 // where in a file the first child began to read; -1 for a pipe

	mu    sync.Mutex // held by the one goroutine that reads the pipe
	saved []byte
	ended bool // saved holds the whole input
	over  bool // the input is longer than maxSaved
}

// newFeed returns nil for a terminal or a device, which each child inherits.
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

// rewind makes the next child read the input from its beginning.
func (f *feed) rewind() error {
	if f.start >= 0 {
		_, err := unix.Seek(fdOf(f.file), f.start, io.SeekStart)
		return err
	}
	if !f.mu.TryLock() {
		return errors.New("standard input is still being copied to the harness of the previous launch")
	}
	defer f.mu.Unlock()
	if f.over {
		return fmt.Errorf("it has more than %d bytes, too many to be saved", maxSaved)
	}
	return nil
}

// pumpStdin writes the saved input to the child, and then copies what arrives
// on the pipe.
func (c *Child) pumpStdin() {
	f := c.terminal.stdin
	f.mu.Lock()
	defer f.mu.Unlock()
	from, next, buf := fdOf(f.file), f.saved, make([]byte, 64<<10)
	for !c.ended.Load() {
		if len(next) > 0 {
			n, err := c.stdin.Write(next)
			if err != nil {
				return // the child has closed its stdin
			}
			next = next[n:]
			continue
		}
		if f.ended {
			c.stdin.Close()
			return
		}
		n, ok := c.await(from, buf, false)
		if !ok {
			return
		}
		if n == 0 {
			f.ended = true
			continue
		}
		next = buf[:n]
		if f.over = f.over || len(f.saved)+n > maxSaved; f.over {
			f.saved = nil
			continue
		}
		f.saved = append(f.saved, next...)
	}
}
