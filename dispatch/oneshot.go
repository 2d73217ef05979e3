// Package dispatch carries one dispatch envelope to a client and its answer
// back. A [Oneshot] is a program started anew for each call: bytes in on
// stdin, bytes out on stdout. A [Persistent] client is one process for a
// session: a line in, a line out. A [Func] is a function of this program.
//
// It refuses to judge an answer, to use a shell, to retry, and to leave
// anything running: a program gets a process group of its own, and when the
// call returns, for whatever reason, or the persistent client is closed or
// replaced, that whole group has been killed. (A process that moved itself to
// another group or session is out of its reach.) What a client prints is never
// quoted in an error.
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
	// was when the client was made.
	Env []string
	// Timeout bounds one call from its start to the client's exit, or of a
	// [Persistent] client to the end of its line. A context that ends earlier ends the call earlier.
	Timeout time.Duration
	// MaxAnswer is how many bytes an answer may have; one more ends the call.
	MaxAnswer int
	// StderrFile receives the last [StderrKept] bytes of a process's stderr
	// after each call that heard some; it is replaced whole, mode 0600. It is evidence and
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
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Oneshot{cfg}, nil
}

// complete checks cfg and fills in its defaults.
func (c Config) complete() (Config, error) {
	if err := c.validate(); err != nil {
		return Config{}, err
	}
	c.Command = slices.Clone(c.Command)
	c.Env = slices.Clone(c.Env)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = DefaultMaxAnswer
	}
	return c, nil
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
	Body     []byte        // the client's stdout, whole, or its line without the newline
	ExitCode int           // 0 with a nil error; -1 when there was none
	Duration time.Duration // from the start of the call to the client's reaping, or the end of its line
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
		return Answer{ExitCode: -1}, o.cfg.ended(ctx)
	}
	// The kernel sends the parent-death signal when the thread that started
	// the client ends, not when the process does. Holding the thread keeps
	// others from locking it meanwhile and taking it down with them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := o.cfg.start(env, false)
	if err != nil {
		return Answer{ExitCode: -1, Duration: time.Since(began)}, o.cfg.cannotStart(err)
	}
	if o.cfg.Started != nil {
		o.cfg.Started(c.pid)
	}
	end := c.converse(ctx, began.Add(o.cfg.Timeout), o.cfg.MaxAnswer)
	status, waitErr := c.finish()
	if o.cfg.Ended != nil {
		o.cfg.Ended(c.pid)
	}
	o.cfg.keepStderr(c)

	a := Answer{ExitCode: -1, Duration: time.Since(began)}
	if f := o.cfg.failure(ctx, c, end, status, waitErr); f != nil {
		a.ExitCode = f.ExitCode
		return a, f
	}
	a.ExitCode, a.Body = 0, c.answer
	return a, nil
}
