//go:build linux

package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

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
	defer conn.Close()

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
	return conn.Close()
}

// ask dials and sends the whole request.
func ask(socket, op, event string, input io.Reader, deadline time.Time) (*net.UnixConn, error) {
	body, err := io.ReadAll(io.LimitReader(input, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the input of hook %s: %w", event, err)
	}
	if len(body) > MaxBody {
		return nil, fmt.Errorf("input of hook %s is larger than %d bytes", event, MaxBody)
	}
	line, err := json.Marshal(request{Op: op, Event: event, Bytes: len(body)})
	if err != nil {
		return nil, err
	}
	conn, err := dial(socket, deadline)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(deadline); err != nil {
		conn.Close()
		return nil, err
	}
	message := append(append(line, '\n'), body...)
	if _, err := conn.Write(message); err != nil {
		conn.Close()
		return nil, fmt.Errorf("send hook %s: %w", event, err)
	}
	return conn, nil
}

// dial connects, and tries again while the door's queue is full: a burst of
// hooks must not lose any.
func dial(socket string, deadline time.Time) (*net.UnixConn, error) {
	addr := &net.UnixAddr{Name: socket, Net: "unix"}
	for {
		conn, err := net.DialUnix("unix", nil, addr)
		if err == nil || !errors.Is(err, syscall.EAGAIN) || !time.Now().Before(deadline) {
			return conn, err
		}
		time.Sleep(time.Millisecond)
	}
}

func readReply(r *bufio.Reader) ([]byte, error) {
	var head reply
	if err := readLine(r, &head); err != nil {
		return nil, err
	}
	if head.Error != "" {
		return nil, fmt.Errorf("refused: %s", head.Error)
	}
	return readBody(r, head.Bytes)
}

// readLine reads one line of JSON into v. The line must fit r's buffer.
func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("line longer than %d bytes", r.Size())
	}
	if err == io.EOF && len(line) > 0 {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
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
