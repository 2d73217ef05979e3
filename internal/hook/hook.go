// Package hook is the process that a harness calls at every turn, and waits
// for: it carries the harness's input to the session behind a socket and
// brings the answer back. Package control is the other end.
//
// It fails open. Whatever goes wrong, it prints nothing and exits 0: a harness
// must not stumble because its wrapper is gone. It opens no configuration and
// no ledger, and does not look into what it carries.
//
//	func main() { os.Exit(hook.Main(os.Args[1:])) }
//	// or without a process of its own:
//	err := hook.Ask(socket, "SessionStart", input, os.Stdout, time.Now().Add(10*time.Second))
//
// It is held to the start-up time of an empty program, so it imports next to
// nothing: every package that is linked is read from the disk, faulted in and
// initialised at each call. It formats without fmt, writes and reads the two
// lines of JSON of a call by hand, and speaks to socket and pipes by plain
// system calls: package net, and files that can wait, would first set up a
// poller and a thread or two.
package hook

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	timeLimit = 10 * time.Second
	// A status line is drawn by the user's own command; telling us comes
	// beside it. thenInput bounds the wait for the end of the input, tellTime
	// the telling.
	thenInput = time.Second
	tellTime  = 200 * time.Millisecond
)

// Main is `lifeloop-hook EVENT [--then CMD]`, and `lifeloop-wrap hook` with
// the same arguments: it forwards stdin to the session named by
// LIFELOOP_SOCKET, prints the answer and returns the exit code, 0. With --then
// it only tells the session and becomes `sh -c CMD`, with the same stdin; then
// it does not return.
//
// All is bounded by one deadline, 10 s or LIFELOOP_HOOK_TIMEOUT_MS.
func Main(args []string) int {
	event, then, hasThen := parse(args)
	socket := os.Getenv("LIFELOOP_SOCKET")
	if hasThen {
		return becomeCommand(then, socket, event)
	}

	deadline := time.Now().Add(limit(os.Getenv("LIFELOOP_HOOK_TIMEOUT_MS")))
	stdin := stream{unix.Stdin, deadline}
	// Read to the end even if there is nobody to tell: a harness may not
	// expect that its hook closes the pipe on it.
	input, err := io.ReadAll(io.LimitReader(stdin, MaxBody+1))
	if len(input) > MaxBody {
		_, _ = io.Copy(io.Discard, stdin)
		return 0
	}
	if err == nil && socket != "" && event != "" {
		_ = Ask(socket, event, input, stream{unix.Stdout, deadline}, deadline) // fails open
	}
	return 0
}

// parse takes what it knows and passes over the rest: a settings file written
// by another version must not break the harness.
func parse(args []string) (event, then string, hasThen bool) {
	for i := 0; i < len(args); i++ {
		value, joined := strings.CutPrefix(args[i], "--then=")
		switch {
		case joined:
			then, hasThen = value, true
		case args[i] == "--then" && i+1 < len(args):
			i++
			then, hasThen = args[i], true
		case event == "" && !strings.HasPrefix(args[i], "-"):
			event = args[i]
		}
	}
	return event, then, hasThen
}

// limit reads a number of milliseconds; what is none means the usual limit.
func limit(ms string) time.Duration {
	n, err := strconv.Atoi(ms)
	if err != nil || n <= 0 {
		return timeLimit
	}
	return time.Duration(n) * time.Millisecond
}

// becomeCommand tells the session, then replaces this process by the command,
// so that output, exit code and signals are the command's own and nothing can
// be left behind. Telling is handing bytes to the kernel, some 100 µs; it
// waits for no reply, and a session that does not listen costs no more.
func becomeCommand(then, socket, event string) int {
	// Where the input is kept for the command. Without it, the input is left
	// to the command unread.
	if memory, err := newMemory(); err == nil {
		// What has not come in time is not waited for, and nobody is told half.
		input, err := io.ReadAll(stream{unix.Stdin, time.Now().Add(thenInput)})
		if err == nil && socket != "" && event != "" {
			_ = Tell(socket, event, input, time.Now().Add(tellTime)) // fails open
		}
		keep(memory, input)
	}
	err := syscall.Exec("/bin/sh", []string{"sh", "-c", then}, os.Environ())
	_, _ = os.Stderr.WriteString("lifeloop-hook: run the status line command: " + err.Error() + "\n")
	return 127
}
