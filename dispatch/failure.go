//go:build linux

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"lifeloop/lifeloop"
)

// A Failure is why a call brought no answer. Class and Why are fit for a
// receipt: they hold no word a client printed.
type Failure struct {
	Client   string
	Class    lifeloop.FailureClass
	Why      string         // a few words: "exit status 3", "not found"
	ExitCode int            // the client's own exit code, -1 when it had none
	Signal   syscall.Signal // the signal that ended it, when it was not our KILL
	Err      error          // the cause, when there is one to inspect
}

func (f *Failure) Error() string {
	return fmt.Sprintf("client %s: %s (%s)", f.Client, f.Why, f.Class)
}

// Unwrap gives the cause: [context.DeadlineExceeded] for a time-out, the
// context's own cause when the context ended the call, an errno.
func (f *Failure) Unwrap() error { return f.Err }

func (o *Oneshot) fail(class lifeloop.FailureClass, why string, cause error) *Failure {
	return &Failure{Client: o.cfg.ID, Class: class, Why: why, ExitCode: -1, Err: cause}
}

// ended is a call the context ended. Called off or run out, the client did
// not answer in the time it was given: both are timeout (DECISIONS L18, "what
// is left ends failed/timeout").
func (o *Oneshot) ended(ctx context.Context) *Failure {
	why := "called off before it answered"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = "no answer before the deadline"
	}
	return o.fail(lifeloop.Timeout, why, context.Cause(ctx))
}

func (o *Oneshot) killed(sig syscall.Signal) *Failure {
	name := unix.SignalName(sig)
	if name == "" {
		name = fmt.Sprintf("signal %d", int(sig))
	}
	f := o.fail(lifeloop.TransportError, "killed by "+name, nil)
	f.Signal = sig
	return f
}

func (o *Oneshot) cannotStart(err error) *Failure {
	why := "cannot start"
	var errno syscall.Errno
	switch {
	case o.dirMissing():
		why = "working directory not found"
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		why = "not found"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, exec.ErrDot), errors.Is(err, syscall.ENOEXEC):
		why = "not executable"
	case errors.As(err, &errno):
		why = "cannot start: " + errno.Error()
	}
	return o.fail(lifeloop.TransportError, why, err)
}

// dirMissing tells a missing directory from a missing program: the kernel
// says ENOENT to both.
func (o *Oneshot) dirMissing() bool {
	if o.cfg.Dir == "" {
		return false
	}
	info, err := os.Stat(o.cfg.Dir)
	return err != nil || !info.IsDir()
}
