// Package harness runs one program in a pty or on pipes, and ends all its
// processes.
//
// Three processes take part:
//
//	wrapper ──socketpair──> guard ──parent of──> harness and all it starts
//	   └── pty master                 └── owns the pty's session, as a shell would
//
// The wrapper copies bytes. The guard is a second process of the same binary. It
// owns the harness's process tree and can restore the user's terminal. If one of
// the two dies, even by SIGKILL, the other ends the tree. The wrapper writes the
// terminal's state into a page of shared memory, so that a change costs no
// system call and the guard can read the last state of a killed wrapper.
//
// The package is transparent. In the mode [Auto], the child's stdin is a terminal if
// and only if the wrapper's stdin is one. The same is true of stdout and, if stdin
// or stdout is a terminal, of stderr. Bytes are copied unchanged, and the exit status
// is the child's. The package interprets the user's keys only to recognize signal keys
// such as Ctrl-C and, if [Spec].Line is set, to follow the input line. It prints only
// sequences that undo or redo terminal modes. It signals no process that it has not
// identified.
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

// Mode selects when a child gets a pty.
type Mode string

const (
	// Auto means a pty if stdin or stdout is a terminal. The pty is used for those
	// of the three files that are terminals for the wrapper. The others are pipes,
	// but a stdin that is not a terminal is inherited.
	Auto Mode = "auto"
	// Always means a pty for all three files.
	Always Mode = "always"
	// Never means pipes and no pty. A stdin that is not a terminal is inherited.
	Never Mode = "never"
)

// Spec describes what to start.
type Spec struct {
	// Argv is the program and its arguments. A name without a slash is looked
	// up in the PATH of Env.
	Argv []string
	// Env is the child's environment; nil means the caller's.
	Env []string
	// Dir is the child's working directory; empty means the caller's.
	Dir string
	// Guard is the command that calls GuardMain; nil means
	// {"/proc/self/exe", "guard"}.
	Guard []string
	// OSC lists the numbers of the operating system commands (ESC ] number ; text)
	// whose text is passed to the Sink. Only output on the pty is parsed.
	OSC []int
	// Text makes the Sink receive the child's output.
	Text bool
	// Line follows the user's keys on the pty, so that Child.Type knows whether the user has
	// begun a line. Without Line, Child.Type types nothing.
	Line bool
	// Cursor says that the program hides the cursor exactly while its input line is not
	// on the screen, for example in a dialog. Child.Type then types nothing while the
	// cursor is hidden.
	Cursor bool
	// SameInput makes each child read the same input if stdin is a file or a pipe.
	// If SameInput is false, a child begins to read where the previous child stopped.
	SameInput bool
}

// A Sink receives the events of a running child. The methods of a Sink are called from
// goroutines of this package, sometimes from two at once, but never from a goroutine
// that copies the child's input or output. The methods must not block for long.
type Sink interface {
	// Output reports how many bytes and lines the child has written so far: at its
	// first output, then at most once a second while it writes, and at the end if a
	// number has changed. At the end, an unfinished last line counts too. Output is
	// not called if Spec.Text is set.
	Output(total, lines int64)
	// Text passes the child's output in the order in which it was read, all of it
	// before Wait returns. stream is the number of an output. The outputs are counted
	// from 0 in this order: the pty, and stdout and stderr if they are pipes. If stdout
	// and stderr are one file, they share a pipe. total is how many bytes the child has
	// written so far, to all outputs. The Sink may retain b.
	Text(stream int, b []byte, total int64)
	// TextLost reports how many bytes were dropped because the Sink was too slow,
	// and how many line ends were among them.
	TextLost(bytes, lines int64)
	// OSC passes the text of an operating system command whose number is in Spec.OSC. A
	// command of more than 4 KiB is dropped.
	OSC(number int, text string)
	// Line reports, if Spec.Line is set, that the user has begun a line (begun is true) or
	// has sent it (false). If Spec.Cursor is set, an open dialog counts as a begun line.
	Line(begun bool)
	// Stopped reports that a signal stopped the child.
	Stopped(sig syscall.Signal)
	// Continued reports that a stopped child was continued.
	Continued()
}

// Exit describes how a child ended.
type Exit struct {
	// Code is the exit code as a shell reports it: 128 plus the number for a
	// death by signal, or 125 if the child's status is unknown.
	Code int
	// Signal is the signal that killed the child, or 0.
	Signal syscall.Signal
	// Leftover is the number of descendants that were alive when the child ended. They
	// get SIGTERM at once. They get SIGKILL a second later, or at the end of the grace
	// period of Child.Stop if that end is later.
	Leftover int
	// GuardLost means that the guard died before it reported the child's end, and that
	// the wrapper ended the tree.
	GuardLost bool
	// OutputLost is the error that prevented some of the child's output from being
	// written, for example a full disk. If a reader has closed an output, that is not
	// reported here, because the child gets the error itself.
	OutputLost error
	// Interrupted means that the user typed the interrupt key at most 10 s before
	// the end.
	Interrupted bool
}

// Killed names the processes of a child's tree to which this package sent
// SIGKILL.
type Killed struct {
	Processes []KilledProcess // the first ones, at most maxKilled
	More      int             // how many other processes got SIGKILL
}

// A KilledProcess is a process that got SIGKILL. Name is the system's name of the process,
// which has at most 15 bytes.
type KilledProcess struct {
	PID  int
	Name string
}

// maxKilled is how many killed processes of a child are named.
const maxKilled = 32

// A Process identifies one process of this machine. The system reuses pids, but not
// the pair of pid and start time. Start is in clock ticks since boot.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// ErrSlow means that a program took too long to print its version. The error that
// Version returns adds the time: "still running after 20s".
var ErrSlow = errors.New("still running")

// StartError means that nothing was started. Code is the exit code that env(1)
// and timeout(1) use for it: 127 not found, 126 not executable, 125 for an error
// of the wrapper.
type StartError struct {
	Code int
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

func wrapperError(format string, args ...any) *StartError {
	return &StartError{Code: 125, Err: fmt.Errorf(format, args...)}
}
