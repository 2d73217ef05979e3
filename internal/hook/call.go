package hook

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// Constants of the protocol, which package control describes. The strings are
// part of the wire format.
const (
	OpCall   = "hook"   // a hook that waits for its answer
	OpNotify = "tell"   // a hook that wants no answer
	Ack      = "ok\n"   // sent by the hook after it has written the whole answer
	MaxBody  = 16 << 20 // largest size in bytes of an input and of an answer

	maxLine = 4 << 10
)

// Call sends a hook's input to the session behind socket and writes the answer to
// out with one Write. The key proves that the launch injected the hook. If anything
// fails or the deadline passes, Call returns an error. If the failure is before
// the Write, nothing is written to out. Call sends nothing to a server of another user.
//
// The deadline limits the exchange with the session, not the write to out.
func Call(socket, key, event string, input []byte, out io.Writer, deadline time.Time) error {
	c, err := send(socket, OpCall, key, event, input, deadline)
	if err != nil {
		return err
	}
	defer c.close()

	answer, err := readAnswer(c)
	if err != nil {
		return &failure{"read the answer to hook " + event, err}
	}
	if len(answer) == 0 {
		return nil
	}
	if _, err := out.Write(answer); err != nil {
		return &failure{"write the answer to hook " + event, err}
	}
	if _, err := c.Write([]byte(Ack)); err != nil {
		return &failure{"acknowledge the answer to hook " + event, err}
	}
	return nil
}

// Notify is like Call, but gets no answer. It returns when the operating system has
// accepted all bytes.
func Notify(socket, key, event string, input []byte, deadline time.Time) error {
	c, err := send(socket, OpNotify, key, event, input, deadline)
	if err != nil {
		return err
	}
	c.close()
	return nil
}

// send connects and sends the whole request.
func send(socket, op, key, event string, input []byte, deadline time.Time) (conn, error) {
	if len(input) > MaxBody {
		return conn{}, errors.New("input of hook " + event + " is larger than " + strconv.Itoa(MaxBody) + " bytes")
	}
	c, err := dial(socket, deadline)
	if err != nil {
		return conn{}, &failure{"connect to " + socket, err}
	}
	if _, err := c.Write(append(requestLine(op, key, event, len(input)), input...)); err != nil {
		c.close()
		return conn{}, &failure{"send hook " + event, err}
	}
	return c, nil
}

// A failure is an error with the action that failed. It replaces fmt.Errorf,
// because this package does not import fmt.
type failure struct {
	action string
	err    error
}

func (f *failure) Error() string { return f.action + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// requestLine returns the first line of a request.
func requestLine(op, key, event string, size int) []byte {
	line := append(make([]byte, 0, 128), `{"op":"`...)
	line = append(line, op...)
	line = appendText(append(line, `","key":"`...), key)
	line = appendText(append(line, `","event":"`...), event)
	line = append(line, `","bytes":`...)
	line = strconv.AppendInt(line, int64(size), 10)
	return append(line, '}', '\n')
}

// appendText appends text, escaped as in a JSON string, without quotes.
func appendText(line []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"', b == '\\':
			line = append(line, '\\', b)
		case b < ' ':
			const hex = "0123456789abcdef"
			line = append(line, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		default:
			line = append(line, b)
		}
	}
	return line
}

// replySize reads the first line of an answer, without its newline, and returns
// how many bytes follow. Members after the first are ignored: a newer version may
// add some.
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

// readAnswer reads a line and the body that it announces. It allocates memory
// only as the body arrives, so that a peer that announces a large number and
// sends less uses little memory.
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
