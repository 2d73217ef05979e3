package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// A Doer is a Handler that also executes commands. Do is called in the
// connection's own goroutine and may block. When ctx ends, with the server, Do
// must return; its answer is still sent.
type Doer interface {
	Do(ctx context.Context, name string, input []byte) (answer []byte)
}

// Do sends a command to the session behind socket and returns its answer.
func Do(socket, name string, input []byte, deadline time.Time) ([]byte, error) {
	conn, err := net.DialTimeout("unix", socket, time.Until(deadline))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if err := send(conn, request{Op: opDo, Event: name, Bytes: len(input)}, input); err != nil {
		return nil, fmt.Errorf("send the command: %w", err)
	}
	in := bufio.NewReaderSize(conn, maxLine)
	line, err := readLine(in)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	answer, err := readBody(in, r.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return answer, nil
}
