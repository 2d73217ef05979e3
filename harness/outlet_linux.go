package harness

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// writeAll writes output to the user. It does not use File.Write, which ends the
// process if stdout is a closed pipe. It also handles a terminal that another
// program has made non-blocking. It waits for a slow reader without limit, even after
// Child.Abandon. But after Abandon, Child.Wait no longer waits for writeAll.
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

// undoTime is how long undoOn tries to write to a terminal that takes no output.
const undoTime = time.Second

// undoOn writes sequences that restore a terminal. It opens the terminal again: the
// write must not block, but f must stay blocking, because the shell shares f.
func undoOn(f *os.File, b string) {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fdOf(f)), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		writeBounded(fdOf(f), []byte(b), undoTime)
		return
	}
	defer unix.Close(fd)
	writeBounded(fd, []byte(b), undoTime)
}

// pumpGrace is how long an abandoned reader may still read.
const pumpGrace = 50 * time.Millisecond

// Abandon ends the wait for the user's reader of this child's output: Wait
// returns even if the reader has stalled, and output that it has not read is
// lost. A call of Abandon cannot be undone.
func (c *Child) Abandon() { c.abandon.Do(func() { close(c.abandoned) }) }

// awaitPumps returns when all output has reached the user, or pumpGrace after
// Abandon. A pump may still hang in a write after that. Such a pump ends when the
// write returns or the process exits.
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
