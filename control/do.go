package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// A Command is one command of a user or a client.
type Command struct {
	Name  string
	Input []byte
	// Token is the session's token, if the peer sent it.
	Token string
	// PID is the process that connected. The server sets it. 0 means that the process
	// has no pid in the server's pid namespace.
	PID int
}

// A Doer is a Handler that also executes commands. Do is called in the connection's
// own goroutine and may block. ctx ends when the server ends. Do must then return soon,
// and the answer that Do returns is still sent.
type Doer interface {
	Do(ctx context.Context, c Command) (answer []byte)
}

// dial connects to a server of the current user.
func dial(socket string, deadline time.Time) (*net.UnixConn, error) {
	conn, err := net.DialTimeout("unix", socket, time.Until(deadline))
	if err != nil {
		return nil, err
	}
	peer := conn.(*net.UnixConn)
	_, uid, err := peerOf(peer)
	if err == nil && uid != os.Geteuid() {
		err = fmt.Errorf("%s: the server belongs to user %d; remove the socket", socket, uid)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return peer, nil
}

// Do sends a command to the session behind socket and returns its answer.
func Do(socket string, c Command, deadline time.Time) ([]byte, error) {
	conn, err := dial(socket, deadline)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if err := send(conn, request{Op: opDo, Key: c.Token, Event: c.Name, Bytes: len(c.Input)}, c.Input); err != nil {
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
