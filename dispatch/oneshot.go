// Package dispatch sends a dispatch envelope, the JSON document about one event, to a
// client and returns the client's answer. A [Oneshot] is a program that is started for
// each call: it reads the envelope on stdin and writes the answer to stdout. A
// [Persistent] client is one process for a session: one line in, one line out. A [Func]
// is a Go function.
//
// The package does not validate a program's answer, use a shell or retry. It leaves no
// process running: each program has its own process group, and the whole group is
// killed when the call returns or the persistent client is closed or replaced. (A
// process that moved to another group or session continues to run. If the caller is a
// subreaper, it becomes the parent of that process.) An error never quotes what a client
// printed.
//
//	notes, err := dispatch.NewOneshot(dispatch.Config{ID: "notes", Command: []string{"/usr/bin/notes-client"}})
//	answer, err := notes.Call(ctx, envelope)
//	var failed *dispatch.Failure
//	if errors.As(err, &failed) { receipt.FailureClass = &failed.Class }
//	response, err := lifeloop.ParseCallbackResponse(answer.Body)
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"lifeloop/internal/environ"
)

const (
	// DefaultTimeout is the default of [Config.Timeout] (DECISIONS L18).
	DefaultTimeout = 5 * time.Second
	// DefaultMaxAnswer is the default of [Config.MaxAnswer].
	DefaultMaxAnswer = 1 << 20
	// MaxStderr is the number of bytes saved from the end of a client's stderr.
	MaxStderr = 4 << 10
)

// A Config says how to run one client. ID and Command are required; the zero
// value of any other field means its default.
type Config struct {
	// ID is the client's id in receipts.
	ID string
	// Command is the program and its arguments, run without a shell. A bare
	// name is looked up in PATH at each call; a relative path is relative to Dir.
	Command []string
	// Dir is the working directory; "" is the caller's.
	Dir string
	// Env is the client's environment, "KEY=value" each. nil means the part of the
	// caller's environment, at the time of NewOneshot or NewPersistent, that every
	// client inherits; see package environ.
	Env []string
	// Timeout limits one call, from its start to the client's exit or, for a
	// [Persistent] client, to the end of the line with the answer. The context may
	// end the call earlier.
	Timeout time.Duration
	// MaxAnswer is the largest size of an answer in bytes; a larger one ends the
	// call.
	MaxAnswer int
	// StderrFile receives the last [MaxStderr] bytes of a process's stderr
	// after each call that wrote some. It is replaced atomically, mode 0600. An
	// error of writing it is ignored: the call does not fail. "" discards stderr.
	StderrFile string
	// Started is called with the client's pid, which is also its process group,
	// right after the start. Ended is called with the same pid once the client
	// is reaped and its group killed. Both run during a call or Close.
	Started, Ended func(pid int)
	// Forks, if it is not nil, is held from the start of a process until Started has
	// returned, and from the client's reaping until Ended has returned. Code in this
	// process that reaps orphans must hold Forks too; otherwise a client could be
	// mistaken for an orphan.
	Forks sync.Locker
	// Cgroup is the folder of the control group to start a client in; nil means the
	// caller's group.
	Cgroup *os.File
}

// A Oneshot is a client that is started for each call. It is immutable and safe
// for concurrent use.
type Oneshot struct{ cfg Config }

// NewOneshot checks cfg and fills in its defaults. It starts nothing and does
// not look for the program, which may be installed later.
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
		c.Env = environ.Spec{}.Of(os.Environ())
	}
	c.Started, c.Ended = orNothing(c.Started), orNothing(c.Ended)
	if c.Forks == nil {
		c.Forks = new(sync.Mutex)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxAnswer = cmp.Or(c.MaxAnswer, DefaultMaxAnswer)
	return c, nil
}

func orNothing(f func(pid int)) func(pid int) {
	if f == nil {
		return func(int) {}
	}
	return f
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
			return fmt.Errorf("client %s: environment entry %d is not KEY=value, or holds a NUL byte", c.ID, i)
		}
	}
	if c.Timeout < 0 {
		return fmt.Errorf("client %s: time-out %v is negative", c.ID, c.Timeout)
	}
	if c.MaxAnswer < 0 {
		return fmt.Errorf("client %s: the largest size of an answer, %d bytes, is negative", c.ID, c.MaxAnswer)
	}
	return nil
}

// An Answer is the result of one call. After an error only Duration and
// ExitCode are meaningful.
type Answer struct {
	Body     []byte        // the client's whole stdout, or the line of a persistent client without its newline
	ExitCode int           // 0 if the error is nil; -1 if the client had no exit code
	Duration time.Duration // from the start of the call until the client was reaped, or a persistent client's line ended
}

// Call starts the client and writes env to its stdin. After the client has exited
// with 0, Call returns the client's stdout. Every error is a [*Failure]. A client need
// not read env.
//
// The call occupies the calling goroutine's thread and starts no goroutine. If
// a process that the client left behind still holds its stdout, Call waits for
// at most 25 ms.
func (o *Oneshot) Call(ctx context.Context, env []byte) (Answer, error) {
	began := time.Now()
	if ctx.Err() != nil {
		return result(began, nil, o.cfg.canceled(ctx))
	}
	// The kernel sends the parent-death signal when the thread that started the
	// client ends. Locking the thread prevents another goroutine from locking it
	// and ending it during the call.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := o.cfg.start(env, false)
	if err != nil {
		return result(began, nil, o.cfg.cannotStart(err))
	}
	end := c.exchange(ctx, began.Add(o.cfg.Timeout), o.cfg.MaxAnswer)
	status, waitErr := o.cfg.finish(c)
	o.cfg.saveStderr(c)
	return result(began, c.answer, o.cfg.failure(ctx, c, end, status, waitErr))
}

// result returns the body of a call, or the call's failure. The parameter began is the
// time at which the call began.
func result(began time.Time, body []byte, f *Failure) (Answer, error) {
	a := Answer{Body: body, Duration: time.Since(began)}
	if f != nil {
		a.Body, a.ExitCode = nil, f.ExitCode
		return a, f
	}
	return a, nil
}
