//go:build linux

package harness

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An outlet is one of the user's files, to write to. A write waits for a slow
// reader as long as it takes, unless the terminal is abandoned meanwhile: then
// what the reader does not take at once is dropped, for somebody wants an end.
type outlet struct {
	fd   int
	ours *os.File // an open file of our own, non-blocking; nil where it cannot be had
	stop int      // eventfd, readable once the terminal is abandoned
}

// chunk is what a pipe that polls as writable takes without blocking. Only a
// file that could not be opened anew is written in such pieces.
const chunk = 4096

// newOutlet opens f once more, so that a write can be called off. The file as
// we got it is shared with the shell and others, who expect it to block. A
// regular file has a position that must be shared, and it never blocks.
func newOutlet(f *os.File, stop int) outlet {
	o := outlet{fd: fdOf(f), stop: stop}
	if info, err := f.Stat(); err != nil || info.Mode().IsRegular() {
		return o
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", o.fd), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return o
	}
	o.fd, o.ours = fd, os.NewFile(uintptr(fd), "outlet")
	return o
}

func (o outlet) close() {
	if o.ours != nil {
		o.ours.Close()
	}
}

// errAbandoned says that the rest was dropped.
var errAbandoned = errors.New("the terminal was abandoned")

// write gives b to the user. It does not use File.Write, which ends the whole
// process when stdout is a pipe that nobody reads any more.
func (o outlet) write(b []byte) error {
	for len(b) > 0 {
		piece := b
		if o.ours == nil {
			// This one may block; only when it is told to be ready, it does not.
			if err := o.ready(); err != nil {
				return err
			}
			piece = b[:min(len(b), chunk)]
		}
		n, err := unix.Write(o.fd, piece)
		if n > 0 {
			b = b[n:]
		}
		switch {
		case err == nil, errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if err := o.ready(); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// ready waits until the file takes something, or says that nobody wants to
// wait any more.
func (o outlet) ready() error {
	for {
		fds := []unix.PollFd{{Fd: int32(o.fd), Events: unix.POLLOUT}, {Fd: int32(o.stop), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case fds[0].Revents != 0:
			return nil
		case fds[1].Revents != 0:
			return errAbandoned
		}
	}
}

// lastWords bounds what is still tried on a terminal that was abandoned.
const lastWords = 300 * time.Millisecond

// undo writes the bytes that bring a terminal back: all of them, or on an
// abandoned one as many as it takes.
func (o outlet) undo(b []byte) {
	if err := o.write(b); errors.Is(err, errAbandoned) && o.ours != nil {
		writeBounded(o.fd, b, lastWords)
	}
}
