package dispatch

import (
	"cmp"
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

// A Failure is the reason why a call returned no answer. Class and Why may be
// stored in a receipt, because they contain nothing that the client printed.
type Failure struct {
	Client   string // id of the client; empty for a [Func], which has no id
	Class    lifeloop.FailureClass
	Why      string // a few words: "exit status 3", "not found"
	ExitCode int    // the client's exit code; -1 if it has none
	Err      error  // the cause, or nil
}

func (f *Failure) Error() string {
	client := "client"
	if f.Client != "" {
		client += " " + f.Client
	}
	return fmt.Sprintf("%s: %s (%s)", client, f.Why, f.Class)
}

// Unwrap returns the cause: [context.DeadlineExceeded] for a time-out, the
// context's cause if the context ended the call, or the error that made the call
// fail, for example an errno or what a [Func] returned.
func (f *Failure) Unwrap() error { return f.Err }

func (cfg *Config) fail(class lifeloop.FailureClass, why string, cause error) *Failure {
	return &Failure{Client: cfg.ID, Class: class, Why: why, ExitCode: -1, Err: cause}
}

// canceled is the failure of a call that the context ended. The class is
// timeout both for a cancelled and for an expired context, because in both
// cases the client did not answer in time. For example, clients have limited time after
// the end of the harness. A call that exceeds this time fails with timeout (DECISIONS L18).
func (cfg *Config) canceled(ctx context.Context) *Failure {
	why := "canceled before it answered"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = "no answer in time"
	}
	return cfg.fail(lifeloop.Timeout, why, context.Cause(ctx))
}

func (cfg *Config) timedOut() *Failure {
	return cfg.fail(lifeloop.Timeout, fmt.Sprintf("no answer within %v", cfg.Timeout), context.DeadlineExceeded)
}

// failure returns the reason why the exchange with a client failed; e is how the
// exchange ended. The client has been reaped. The result is nil if e is exited or
// answered, and the client exited with 0.
func (cfg *Config) failure(ctx context.Context, c *process, e end, status syscall.WaitStatus, waitErr error) *Failure {
	switch e {
	case timedOut:
		return cfg.timedOut()
	case canceled:
		return cfg.canceled(ctx)
	case tooLarge:
		return cfg.fail(lifeloop.InvalidRequest, fmt.Sprintf("answer larger than %d bytes", cfg.MaxAnswer), nil)
	case pollFailed:
		return cfg.fail(lifeloop.TransportError, "cannot wait for the client", c.err)
	case closedStdout:
		return cfg.fail(lifeloop.TransportError, "closed its stdout without an answer", nil)
	case exited, answered:
	}
	switch {
	case waitErr != nil:
		return cfg.fail(lifeloop.TransportError, "cannot read its exit status", waitErr)
	case status.Signaled():
		return cfg.killed(status.Signal())
	case status.ExitStatus() != 0:
		f := cfg.fail(lifeloop.TransportError, fmt.Sprintf("exit status %d", status.ExitStatus()), nil)
		f.ExitCode = status.ExitStatus()
		return f
	}
	return nil
}

func (cfg *Config) killed(sig syscall.Signal) *Failure {
	name := cmp.Or(unix.SignalName(sig), fmt.Sprintf("signal %d", int(sig)))
	return cfg.fail(lifeloop.TransportError, "killed by "+name, nil)
}

func (cfg *Config) cannotStart(err error) *Failure {
	why := "cannot start"
	errno, isErrno := errors.AsType[syscall.Errno](err)
	switch {
	case cfg.dirMissing():
		why = "working directory not found"
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		why = "not found"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, exec.ErrDot), errors.Is(err, syscall.ENOEXEC):
		why = "not executable"
	case isErrno:
		why = "cannot start: " + errno.Error()
	}
	return cfg.fail(lifeloop.TransportError, why, err)
}

// dirMissing distinguishes a missing directory from a missing program: the
// kernel returns ENOENT for both.
func (cfg *Config) dirMissing() bool {
	if cfg.Dir == "" {
		return false
	}
	info, err := os.Stat(cfg.Dir)
	return err != nil || !info.IsDir()
}
