// Package harness runs one program in one pty, or on plain pipes, and leaves
// nothing behind.
//
// Three processes take part:
//
//	wrapper ──socketpair──> guard ──parent of──> harness and all it starts
//	   └── pty master                 └── owns the pty's session, as a shell would
//
// The wrapper moves bytes. The guard is the same binary started once more; it
// owns the harness's process tree and knows how to put the user's terminal
// back. Whichever of the two dies, even by SIGKILL, the other ends the tree.
// What the guard has to know about the terminal stands in one page of shared
// memory, so that a change costs the byte pump no system call and the last
// word of a killed wrapper is still readable.
//
// The package is transparent: the child sees a terminal on exactly those of
// its three files that are terminals outside, bytes are passed on unaltered
// before anything else is done with them, and the exit status is the child's.
// It refuses to interpret what the user types, to print anything of its own
// (apart from undoing terminal modes that a child left behind), and to signal
// a process it has not identified as its own.
//
//	func main() { if len(os.Args) > 1 && os.Args[1] == "guard" { os.Exit(harness.GuardMain()) } ... }
//
//	term, err := harness.OpenTerminal(os.Stdin, os.Stdout, os.Stderr, harness.Auto)
//	defer term.Close()
//	child, err := harness.Start(harness.Spec{Argv: []string{"claude"}}, term, sink)
//	exit := child.Wait()
package harness

import (
	"errors"
	"fmt"
	"syscall"
)

// Mode says when a child gets a pty.
type Mode string

const (
	// Auto gives a pty if stdin or stdout is a terminal, and then only on the
	// files that are terminals outside; the others are pipes.
	Auto Mode = "auto"
	// Always puts all three files on a pty.
	Always Mode = "always"
	// Never gives three pipes.
	Never Mode = "never"
)

// Spec says what to start.
type Spec struct {
	// Argv is the program and its arguments. A name without a slash is looked
	// up in the PATH of Env.
	Argv []string
	// Env is the child's environment; nil means ours.
	Env []string
	// Dir is the child's working directory; empty means ours.
	Dir string
	// Guard is the command that reaches GuardMain; nil means
	// {"/proc/self/exe", "guard"}.
	Guard []string
	// OSC lists the numbers of the operating system commands whose text the
	// Sink wants to hear. Only output on the pty is looked at.
	OSC []int
	// Text says that the Sink wants to read what the child writes.
	Text bool
	// SameInput says that each child is to read the same of a stdin that is a
	// file or a pipe. Without it what one child has read is gone for the next.
	SameInput bool
}

// Sink hears about a running child. Its methods are called from goroutines of
// this package, at times from two at once, but never from a byte pump; they
// must not block for long.
type Sink interface {
	// Output tells how many bytes the child has written so far: at once when
	// it begins, then at most once a second while it goes on, and once more at
	// the end if the last number told was not the last. It is not called where
	// the text is told.
	Output(total int64)
	// Text tells what the child has written, in order, and how many bytes it has
	// written so far; all of it before Wait returns. It is the Sink's to keep. b is
	// empty where what came is the beginning of a line that waits for its end.
	Text(b []byte, total int64)
	// TextLost tells that so many bytes were written meanwhile and not told,
	// because the Sink did not take them fast enough.
	TextLost(bytes int64)
	// OSC tells the text of a requested operating system command, at most
	// 4 KiB of it; longer ones are not told.
	OSC(number int, text string)
	// Stopped tells that the child was stopped by a signal.
	Stopped(sig syscall.Signal)
	// Continued tells that a stopped child goes on.
	Continued()
}

// Exit says how a child ended.
type Exit struct {
	// Code is the exit code as a shell would report it: 128 plus the number
	// for a death by signal, 125 if nobody saw how it ended.
	Code int
	// Signal is the signal it died of, or 0.
	Signal syscall.Signal
	// Leftover counts the descendants that were still alive when it ended.
	// They are told to terminate at once and are killed a second later.
	Leftover int
	// GuardLost says that the guard died first and we ended the tree ourselves.
	GuardLost bool
	// OutputLost is why some of its output could not be written, on a full disk
	// for instance. A reader that has gone is no such thing: the harness learns
	// of that itself.
	OutputLost error
}

// A Process is one process of this machine for good: the system uses a number
// again, but never the pair of number and start time, in clock ticks since boot.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// ErrSlow says that a program took too long to print its version.
var ErrSlow = errors.New("was not done")

// StartError says that nothing was started. Code is the exit code that env(1)
// and timeout(1) use for it: 127 not found, 126 not executable, 125 our own
// trouble.
type StartError struct {
	Code int
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

func ourTrouble(format string, args ...any) *StartError {
	return &StartError{Code: 125, Err: fmt.Errorf(format, args...)}
}
