//go:build linux

package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This side runs in a process that lives for a millisecond, at every turn of
// the harness. It speaks to the socket by plain blocking calls: package net
// would first set up its poller, and a thread or two with it.

// AskHook tells the session behind socket of a hook call and writes the answer
// to out, all of it or nothing. It reads input to its end before it calls.
// Whatever fails, and if the deadline passes, it returns an error and out has
// seen nothing, unless out itself failed.
//
// The deadline bounds the conversation; a read from input or a write to out
// that does not return is the caller's to bound.
func AskHook(socket, event string, input io.Reader, out io.Writer, deadline time.Time) error {
	conn, err := ask(socket, opHook, event, input, deadline)
	if err != nil {
		return err
	}
	defer conn.close()

	answer, err := readReply(bufio.NewReaderSize(conn, maxLine))
	if err != nil {
		return fmt.Errorf("read the answer to hook %s: %w", event, err)
	}
	if len(answer) > 0 {
		if _, err := out.Write(answer); err != nil {
			return fmt.Errorf("write the answer to hook %s: %w", event, err)
		}
	}
	if _, err := io.WriteString(conn, ackLine); err != nil {
		return fmt.Errorf("acknowledge the answer to hook %s: %w", event, err)
	}
	return nil
}

// TellHook is AskHook for a caller that wants no answer and does not wait for
// one: it returns as soon as the kernel has taken everything.
func TellHook(socket, event string, input io.Reader, deadline time.Time) error {
	conn, err := ask(socket, opTell, event, input, deadline)
	if err != nil {
		return err
	}
	conn.close()
	return nil
}

// ask dials and sends the whole request.
func ask(socket, op, event string, input io.Reader, deadline time.Time) (*conn, error) {
	body, err := io.ReadAll(io.LimitReader(input, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the input of hook %s: %w", event, err)
	}
	if len(body) > MaxBody {
		return nil, fmt.Errorf("input of hook %s is larger than %d bytes", event, MaxBody)
	}
	line, err := request{Op: op, Event: event, Bytes: len(body)}.line()
	if err != nil {
		return nil, err
	}
	c, err := dial(socket, deadline)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(append(line, body...)); err != nil {
		c.close()
		return nil, fmt.Errorf("send hook %s: %w", event, err)
	}
	return c, nil
}

// A conn is a blocking socket whose reads and writes end at the deadline.
type conn struct {
	fd       int
	deadline time.Time
}

// dial connects. While the door's queue is full it waits: a burst of hooks
// must not lose any.
func dial(socket string, deadline time.Time) (*conn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	c := &conn{fd, deadline}
	if err = c.bound(unix.SO_SNDTIMEO); err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
		for err == unix.EINTR {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
		}
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("dial %s: %w", socket, timedOut(err))
	}
	return c, nil
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		if err := c.bound(unix.SO_RCVTIMEO); err != nil {
			return 0, err
		}
		n, err := unix.Read(c.fd, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, timedOut(err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		if err := c.bound(unix.SO_SNDTIMEO); err != nil {
			return sent, err
		}
		n, err := unix.SendmsgN(c.fd, p[sent:], nil, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return sent, timedOut(err)
		}
		sent += n
	}
	return sent, nil
}

// bound gives the next call the time that is left.
func (c *conn) bound(option int) error {
	left := time.Until(c.deadline)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	// Rounded up: to the kernel, no time at all means for ever.
	tv := unix.NsecToTimeval(int64(left + time.Microsecond))
	return os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, option, &tv))
}

// timedOut translates what the kernel says when the time is up.
func timedOut(err error) error {
	if err == unix.EAGAIN {
		return os.ErrDeadlineExceeded
	}
	return err
}

func (c *conn) close() { _ = unix.Close(c.fd) }

// The two lines of a call are nearly always the plain ones below. Those are
// written and read by hand: what encoding/json does when it first meets a type
// takes longer than all else that a hook does, and a harness waits for it.

// line is r as a peer reads it.
func (r request) line() ([]byte, error) {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	if r.Event == "" || strings.Trim(r.Event, plain) != "" {
		line, err := json.Marshal(r)
		return append(line, '\n'), err
	}
	return []byte(`{"op":"` + r.Op + `","event":"` + r.Event + `","bytes":` + strconv.Itoa(r.Bytes) + "}\n"), nil
}

func parseReply(line []byte) (reply, error) {
	if rest, ok := strings.CutPrefix(string(line), `{"bytes":`); ok {
		if n, err := strconv.Atoi(strings.TrimSuffix(rest, "}\n")); err == nil {
			return reply{Bytes: n}, nil
		}
	}
	var r reply
	err := json.Unmarshal(line, &r)
	return r, err
}

func readReply(r *bufio.Reader) ([]byte, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	head, err := parseReply(line)
	if err != nil {
		return nil, err
	}
	if head.Error != "" {
		return nil, fmt.Errorf("refused: %s", head.Error)
	}
	return readBody(r, head.Bytes)
}

// readLine reads one line, which must fit r's buffer and stays there until the
// next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("line longer than %d bytes", r.Size())
	}
	if err == io.EOF && len(line) > 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return line, err
}

// readBody reads exactly n bytes. It makes room as they come: a peer that only
// says a large number gets no memory for it.
func readBody(r io.Reader, n int) ([]byte, error) {
	if n < 0 || n > MaxBody {
		return nil, fmt.Errorf("body of %d bytes, want at most %d", n, MaxBody)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return nil, err
	}
	if len(body) < n {
		return nil, io.ErrUnexpectedEOF
	}
	return body, nil
}
