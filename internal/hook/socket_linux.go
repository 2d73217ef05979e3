package hook

import (
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A conn is a connected socket.
type conn struct{ stream }

// dial connects to the socket. It waits while the socket's queue is full, so
// that no hook is lost when many are called at once.
func dial(socket string, deadline time.Time) (conn, error) {
	left := time.Until(deadline)
	if left <= 0 {
		return conn{}, os.ErrDeadlineExceeded
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return conn{}, err
	}
	// SO_SNDTIMEO limits how long connect waits for a place in the queue. It is
	// rounded up because 0 means no limit.
	limit := unix.NsecToTimeval(int64(left + time.Microsecond))
	if err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
		for err == unix.EINTR {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
		}
	}
	c := conn{stream{fd, deadline}}
	if err == nil {
		err = checkPeer(fd)
	}
	if err == nil {
		return c, nil
	}
	c.close()
	if err == unix.EAGAIN {
		err = os.ErrDeadlineExceeded
	}
	return conn{}, err
}

// checkPeer returns an error unless the server belongs to the current user. The
// system recorded the server's user when the server began to listen.
func checkPeer(fd int) error {
	server, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return err
	}
	if int(server.Uid) != os.Geteuid() {
		return errors.New("the server belongs to user " + strconv.Itoa(int(server.Uid)))
	}
	return nil
}

// Write sends p and waits only while the socket's buffer is full.
func (c conn) Write(p []byte) (sent int, err error) {
	for sent < len(p) {
		n, err := unix.SendmsgN(c.fd, p[sent:], nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if err := c.ready(unix.POLLOUT); err != nil {
				return sent, err
			}
		case err != nil:
			return sent, err
		default:
			sent += n
		}
	}
	return sent, nil
}

func (c conn) close() { _ = unix.Close(c.fd) }

func newMemory() (fd int, err error) {
	return unix.MemfdCreate("hook-input", unix.MFD_CLOEXEC)
}

// replaceStdin writes the input to a file in memory and makes that file the stdin of
// this process, and so of the command that then replaces this process (becomeCommand).
// If that fails, the command cannot read the input again.
func replaceStdin(memory int, input []byte) {
	for len(input) > 0 {
		n, err := unix.Write(memory, input)
		if err != nil && err != unix.EINTR {
			return
		}
		input = input[max(n, 0):]
	}
	if _, err := unix.Seek(memory, 0, io.SeekStart); err == nil {
		_ = unix.Dup3(memory, unix.Stdin, 0)
	}
}
