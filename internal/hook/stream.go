package hook

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A stream is a file descriptor whose reads and writes end at a deadline. It
// replaces os.File, which does not support deadlines for inherited pipes.
// A write to a closed pipe returns an error, even on stdout, where os.File
// would end the process by SIGPIPE.
type stream struct {
	fd       int
	deadline time.Time
}

func (s stream) Read(p []byte) (int, error) {
	for {
		if err := s.ready(unix.POLLIN); err != nil {
			return 0, err
		}
		n, err := unix.Read(s.fd, p)
		switch {
		case err == unix.EINTR, err == unix.EAGAIN:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes in pieces that are small enough not to block when the pipe is
// ready.
func (s stream) Write(p []byte) (sent int, err error) {
	const atOnce = 4096 // the constant PIPE_BUF
	for sent < len(p) {
		if err := s.ready(unix.POLLOUT); err != nil {
			return sent, err
		}
		n, err := unix.Write(s.fd, p[sent:min(sent+atOnce, len(p))])
		switch {
		case err == unix.EINTR, err == unix.EAGAIN:
		case err != nil:
			return sent, err
		default:
			sent += n
		}
	}
	return sent, nil
}

// ready waits until the descriptor can be read or written without blocking.
func (s stream) ready(events int16) error {
	for {
		left := max(0, time.Until(s.deadline).Milliseconds())
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: events}}, int(left))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return os.ErrDeadlineExceeded
		default:
			return nil
		}
	}
}
