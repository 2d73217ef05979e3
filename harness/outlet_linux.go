package harness

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// writeAll gives output to the user. It does not use File.Write, which ends
// the whole process when stdout is a pipe that nobody reads any more, and it
// bears with a terminal that some other program has made non-blocking. A slow
// reader is waited for as long as it takes; who does not want to wait calls
// Child.Abandon.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if n > 0 {
			b = b[n:]
		}
		switch {
		case err == nil, errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
		default:
			return err
		}
	}
	return nil
}

// lastWords bounds how long the bytes that bring a terminal back are offered
// to one that takes nothing.
const lastWords = time.Second

// undoOn writes the bytes that bring a terminal back. It does so on an open
// file of our own: the one we were given is shared with the shell, which
// expects it to block, and this must not.
func undoOn(f *os.File, b string) {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fdOf(f)), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		writeBounded(fdOf(f), []byte(b), lastWords)
		return
	}
	defer unix.Close(fd)
	writeBounded(fd, []byte(b), lastWords)
}

// pumpGrace is how long an abandoned reader still takes what it will take.
const pumpGrace = 50 * time.Millisecond

// Abandon says that nobody wants to wait for the reader of this child's output
// any more: a Wait that waited for one that has stalled returns, and what it has
// not taken is lost. It cannot be taken back.
func (c *Child) Abandon() { c.abandon.Do(func() { close(c.abandoned) }) }

// awaitPumps returns when all output has reached the user, or, when the reader
// is abandoned, after a moment. A pump that is stuck in a write then ends with
// it, or with the process.
func (c *Child) awaitPumps(pumped <-chan struct{}) {
	select {
	case <-pumped:
	case <-c.abandoned:
		select {
		case <-pumped:
		case <-time.After(pumpGrace):
		}
	}
}
