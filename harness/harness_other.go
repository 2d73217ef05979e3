//go:build !linux

package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// The package needs /proc, pidfds, a subreaper and memfds: only Linux has them
// all. On other systems OpenTerminal and Start return an error, so neither a
// Terminal nor a Child exists.

var errSystem = fmt.Errorf("not supported on %s: harnesses are wrapped on linux only", runtime.GOOS)

// Terminal is the outer terminal.
type Terminal struct{}

// OpenTerminal returns an error.
func OpenTerminal(stdin, stdout, stderr *os.File, mode Mode) (*Terminal, error) {
	return nil, fmt.Errorf("open terminal: %w", errSystem)
}

// Child is one running harness.
type Child struct{}

// Start returns a *StartError.
func Start(spec Spec, t *Terminal, sink Sink) (*Child, error) {
	return nil, wrapperError("start a harness: %w", errSystem)
}

// Installed returns a *StartError: a harness cannot be started here.
func Installed(program string, env []string) error {
	return wrapperError("start %s: %w", program, errSystem)
}

// Version returns an error.
func Version(path string, patience time.Duration, env ...string) (string, error) {
	return "", fmt.Errorf("ask %s for its version: %w", path, errSystem)
}

// GuardMain prints why there is no guard and returns 125.
func GuardMain() int {
	fmt.Fprintln(os.Stderr, "guard:", errSystem)
	return 125
}

// TaskRoom reports no limit: no harness is started here.
func TaskRoom() (room int, limited bool) { return 0, false }

// RemoveEmptyGroups does nothing.
func RemoveEmptyGroups() {}

// Containable returns an error.
func Containable() (string, error) { return "", errSystem }

// Runs reports false: no process of a wrapper can run here.
func Runs(pid int, start uint64) bool { return false }

// Die does nothing: no harness can have died here.
func Die(sig syscall.Signal, group bool) {}

// Reset returns an error.
func Reset(tty *os.File) error { return fmt.Errorf("reset the terminal: %w", errSystem) }

// Notify is signal.Notify.
func Notify(c chan<- os.Signal, signals ...os.Signal) { signal.Notify(c, signals...) }

// Orphans are empty: this package adopts orphans on Linux only.
type Orphans struct{}

// Adopt adopts nothing.
func Adopt() (*Orphans, error) { return &Orphans{}, nil }

// Reap does nothing.
func (*Orphans) Reap() {}

// End does nothing.
func (*Orphans) End() {}

// No Terminal exists on this system, so these methods are never called.

func (*Terminal) Pty() bool              { panic(errSystem) }
func (*Terminal) Prepare([]string) error { panic(errSystem) }
func (*Terminal) Guards() []Process      { panic(errSystem) }
func (*Terminal) Below(int) bool         { panic(errSystem) }
func (*Terminal) Restore()               { panic(errSystem) }
func (*Terminal) Close()                 { panic(errSystem) }
func (*Terminal) Dismiss()               { panic(errSystem) }
func (*Terminal) EndedByKey() bool       { panic(errSystem) }
func (*Terminal) Own(int)                { panic(errSystem) }
func (*Terminal) Mark() string           { panic(errSystem) }
func (*Terminal) Disown(int)             { panic(errSystem) }
func (*Terminal) Adopt() error           { panic(errSystem) }
func (*Terminal) Forks() sync.Locker     { panic(errSystem) }
func (*Terminal) Contain([]string) error { panic(errSystem) }
func (*Terminal) Cgroup() *os.File       { panic(errSystem) }
func (*Terminal) EndOrphans() Killed     { panic(errSystem) }

// No Child exists on this system, so these methods are never called.

func (*Child) PID() int                    { panic(errSystem) }
func (*Child) Signal(syscall.Signal) error { panic(errSystem) }
func (*Child) KillTree() error             { panic(errSystem) }

func (*Child) Stop(syscall.Signal, time.Duration) error { panic(errSystem) }
func (*Child) Wait() Exit                               { panic(errSystem) }
func (*Child) LastOutput() time.Time                    { panic(errSystem) }
func (*Child) Gone() <-chan struct{}                    { panic(errSystem) }
func (*Child) Killed() Killed                           { panic(errSystem) }
func (*Child) Hold() error                              { panic(errSystem) }
func (*Child) Free() error                              { panic(errSystem) }
func (*Child) Continue() error                          { panic(errSystem) }
func (*Child) Abandon()                                 { panic(errSystem) }

func (*Child) Type(context.Context, Typing) (Typed, error) { panic(errSystem) }
func (*Child) LineTaken()                                  { panic(errSystem) }
func (*Child) Locked(string) []string                      { panic(errSystem) }

// EndWithParent changes nothing: it is implemented for Linux only.
func EndWithParent(*exec.Cmd) {}

// SeparateNetwork changes nothing: only Linux has networks for one process.
func SeparateNetwork(*exec.Cmd) {}

// Loopback returns an error.
func Loopback() error { return errSystem }
