package hook

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// The words of the protocol, which package control describes.
const (
	OpAsk   = "hook"   // a hook that waits for its answer
	OpTell  = "tell"   // one that wants none
	Ack     = "ok\n"   // the answer has been written, whole
	MaxBody = 16 << 20 // bounds what a hook may bring and what it may be answered

	maxLine = 4 << 10
)

// Ask tells the session behind socket of a hook call and writes the answer to
// out, all of it or nothing. Whatever fails, and if the deadline passes, it
// returns an error and out has seen nothing, unless out itself failed.
//
// The deadline bounds the conversation; a write to out that does not return is
// the caller's to bound.
func Ask(socket, event string, input []byte, out io.Writer, deadline time.Time) error {
	c, err := call(socket, OpAsk, event, input, deadline)
	if err != nil {
		return err
	}
	defer c.close()

	answer, err := readAnswer(c)
	if err != nil {
		return &failure{"read the answer to hook " + event, err}
	}
	if len(answer) > 0 {
		if _, err := out.Write(answer); err != nil {
			return &failure{"write the answer to hook " + event, err}
		}
	}
	if _, err := c.Write([]byte(Ack)); err != nil {
		return &failure{"acknowledge the answer to hook " + event, err}
	}
	return nil
}

// Tell is Ask for a caller that wants no answer and does not wait for one: it
// returns as soon as the kernel has taken everything.
func Tell(socket, event string, input []byte, deadline time.Time) error {
	c, err := call(socket, OpTell, event, input, deadline)
	if err != nil {
		return err
	}
	c.close()
	return nil
}

// call dials and sends the whole request.
func call(socket, op, event string, input []byte, deadline time.Time) (conn, error) {
	if len(input) > MaxBody {
		return conn{}, errors.New("input of hook " + event + " is larger than " + strconv.Itoa(MaxBody) + " bytes")
	}
	c, err := dial(socket, deadline)
	if err != nil {
		return conn{}, &failure{"dial " + socket, err}
	}
	if _, err := c.Write(append(requestLine(op, event, len(input)), input...)); err != nil {
		c.close()
		return conn{}, &failure{"send hook " + event, err}
	}
	return c, nil
}

// A failure is an error with what was tried, as fmt would make it.
type failure struct {
	tried string
	err   error
}

func (f *failure) Error() string { return f.tried + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// requestLine is the line that a call begins with.
func requestLine(op, event string, size int) []byte {
	line := append(make([]byte, 0, 64), `{"op":"`...)
	line = append(line, op...)
	line = append(line, `","event":"`...)
	for i := 0; i < len(event); i++ {
		switch b := event[i]; {
		case b == '"', b == '\\':
			line = append(line, '\\', b)
		case b < ' ':
			const hex = "0123456789abcdef"
			line = append(line, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		default:
			line = append(line, b)
		}
	}
	line = append(line, `","bytes":`...)
	line = strconv.AppendInt(line, int64(size), 10)
	return append(line, '}', '\n')
}

// replySize reads the line that an answer begins with, without its newline:
// how many bytes follow. Members after that one are another version's.
func replySize(line []byte) (int, error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"bytes":`))
	end := bytes.IndexAny(rest, ",}")
	if !ok || end < 0 {
		return 0, errors.New("refused: " + string(line))
	}
	n, err := strconv.Atoi(string(rest[:end]))
	if err != nil || n < 0 || n > MaxBody {
		return 0, errors.New("body of " + string(rest[:end]) + " bytes, want at most " + strconv.Itoa(MaxBody))
	}
	return n, nil
}

// readAnswer reads a line and the body that it announces. It makes room for
// the body as it comes: a peer that only says a large number gets no memory.
func readAnswer(r io.Reader) ([]byte, error) {
	buf := make([]byte, 0, maxLine)
	end := -1
	for end < 0 {
		if len(buf) == cap(buf) {
			return nil, errors.New("line longer than " + strconv.Itoa(maxLine) + " bytes")
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return nil, err
		}
		buf = buf[:len(buf)+n]
		end = bytes.IndexByte(buf, '\n')
	}
	size, err := replySize(buf[:end])
	if err != nil {
		return nil, err
	}
	body := buf[end+1:]
	if len(body) >= size {
		return body[:size], nil
	}
	rest, err := io.ReadAll(io.LimitReader(r, int64(size-len(body))))
	if err != nil {
		return nil, err
	}
	if body = append(body, rest...); len(body) < size {
		return nil, io.ErrUnexpectedEOF
	}
	return body, nil
}
