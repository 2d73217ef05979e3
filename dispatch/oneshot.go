//go:build linux

// Package dispatch carries one dispatch envelope to a client program and its
// answer back: bytes in on stdin, bytes out on stdout, one process a call.
//
// It refuses to know what the bytes mean, to use a shell, to retry, and to
// leave anything running: a client gets a process group of its own, and when
// the call returns, for whatever reason, that whole group has been killed.
// (A process that moved itself to another group or session is out of its
// reach.) What a client prints is never quoted in an error.
//
//	notes, err := dispatch.NewOneshot(dispatch.Config{ID: "notes", Command: []string{"/usr/bin/notes-client"}})
//	answer, err := notes.Call(ctx, envelope)
//	var failed *dispatch.Failure
//	if errors.As(err, &failed) { receipt.FailureClass = &failed.Class }
//	response, err := lifeloop.ParseCallbackResponse(answer.Body)
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"lifeloop/lifeloop"
)

const (
	// DefaultTimeout is how long a client has when [Config] does not say
	// (DECISIONS L18).
	DefaultTimeout = 5 * time.Second
	// DefaultMaxAnswer bounds a client's stdout when [Config] does not say.
	DefaultMaxAnswer = 1 << 20
	// StderrKept is how much of the end of a client's stderr is kept.
	StderrKept = 4 << 10
)

// A Config says how to run one client. The zero value of a field but ID and
// Command means its default.
type Config struct {
	// ID is the client's id, as receipts name it.
	ID string
	// Command is the program and its arguments, run without a shell. A bare
	// name is looked up in PATH at each call; a relative path is relative to Dir.
	Command []string
	// Dir is the working directory; "" is our own.
	Dir string
	// Env is the client's environment, "KEY=value" each; nil is our own as it
	// was when [NewOneshot] was called.
	Env []string
	// Timeout bounds one call from its start to the client's exit.
	// A context that ends earlier ends the call earlier.
	Timeout time.Duration
	// MaxAnswer is how many bytes of stdout are taken; one more ends the call.
	MaxAnswer int
	// StderrFile receives the last [StderrKept] bytes of stderr after each call
	// that wrote some; it is replaced whole, mode 0600. It is evidence and
	// never the reason for a call to fail: if it cannot be written, it is not
	// there. "" throws stderr away.
	StderrFile string
	// Started is told the client's pid, which is its process group's id too,
	// right after the start; Ended the same pid when the client has been
	// reaped and its group killed. They run on the calling goroutine.
	Started, Ended func(pid int)
}

// A Oneshot is a client that is started anew for each call. It is immutable
// and safe for concurrent use.
type Oneshot struct{ cfg Config }

// NewOneshot checks cfg and fills in its defaults. It starts nothing and does
// not look for the program: clients come and go while a session runs.
func NewOneshot(cfg Config) (*Oneshot, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Command = slices.Clone(cfg.Command)
	cfg.Env = slices.Clone(cfg.Env)
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.MaxAnswer == 0 {
		cfg.MaxAnswer = DefaultMaxAnswer
	}
	return &Oneshot{cfg}, nil
}

func (c Config) validate() error {
	if c.ID == "" {
		return errors.New("client without an id")
	}
	if len(c.Command) == 0 || c.Command[0] == "" {
		return fmt.Errorf("client %s: no command to run", c.ID)
	}
	for i, arg := range c.Command {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("client %s: command word %d holds a NUL byte", c.ID, i)
		}
	}
	if strings.ContainsRune(c.Dir, 0) {
		return fmt.Errorf("client %s: working directory holds a NUL byte", c.ID)
	}
	for i, kv := range c.Env {
		if strings.ContainsRune(kv, 0) || !strings.Contains(kv, "=") {
			return fmt.Errorf("client %s: environment entry %d is not KEY=value", c.ID, i)
		}
	}
	if c.Timeout < 0 {
		return fmt.Errorf("client %s: time-out %v is negative", c.ID, c.Timeout)
	}
	if c.MaxAnswer < 0 {
		return fmt.Errorf("client %s: answer bound %d is negative", c.ID, c.MaxAnswer)
	}
	return nil
}

// An Answer is what one call brought. Beside an error only Duration and
// ExitCode mean anything.
type Answer struct {
	Body     []byte        // the client's stdout, whole
	ExitCode int           // 0 with a nil error; -1 when there was none
	Duration time.Duration // from the start of the call to the client's reaping
}

// Call starts the client, hands it env, and returns what it printed once it
// has exited with 0. Every error is a [*Failure]. A client need not read env.
//
// The call occupies the calling goroutine's thread and starts no goroutine.
// If a process the client left behind still holds its stdout, Call waits for
// it no longer than a moment.
func (o *Oneshot) Call(ctx context.Context, env []byte) (Answer, error) {
	began := time.Now()
	if ctx.Err() != nil {
		return Answer{ExitCode: -1}, o.ended(ctx)
	}

	// The kernel sends the parent-death signal when the thread that started
	// the client ends, not when the process does. Holding the thread keeps
	// others from locking it meanwhile and taking it down with them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	c, err := o.start(env)
	if err != nil {
		return Answer{ExitCode: -1, Duration: time.Since(began)}, o.cannotStart(err)
	}
	if o.cfg.Started != nil {
		o.cfg.Started(c.pid)
	}
	end := c.converse(ctx, began.Add(o.cfg.Timeout), o.cfg.MaxAnswer)
	status, waitErr := c.finish()
	if o.cfg.Ended != nil {
		o.cfg.Ended(c.pid)
	}
	if kept := c.stderrTail.bytes(); len(kept) > 0 {
		_ = replaceFile(o.cfg.StderrFile, kept) // see StderrFile: never a reason to fail
	}

	a := Answer{ExitCode: -1, Duration: time.Since(began)}
	switch end {
	case tooSlow:
		return a, o.fail(lifeloop.Timeout, fmt.Sprintf("no answer within %v", o.cfg.Timeout), context.DeadlineExceeded)
	case calledOff:
		return a, o.ended(ctx)
	case tooLarge:
		return a, o.fail(lifeloop.InvalidRequest, fmt.Sprintf("answer larger than %d bytes", o.cfg.MaxAnswer), nil)
	case broken:
		return a, o.fail(lifeloop.TransportError, "cannot wait for the client", c.err)
	case exited:
	}
	if waitErr != nil {
		return a, o.fail(lifeloop.TransportError, "exit status lost", waitErr)
	}
	if status.Signaled() {
		return a, o.killed(status.Signal())
	}
	a.ExitCode = status.ExitStatus()
	if a.ExitCode != 0 {
		f := o.fail(lifeloop.TransportError, fmt.Sprintf("exit status %d", a.ExitCode), nil)
		f.ExitCode = a.ExitCode
		return a, f
	}
	a.Body = c.answer
	return a, nil
}
