// Package hook is the program that a harness starts as its hook. It sends the
// harness's input to the session behind a socket and prints the answer, for which
// the harness waits. Package control is the session's end of the socket.
//
// The hook fails open: after any error it prints nothing and its exit code is 0, because
// a harness must continue without its wrapper. Only a hook with --guard, which asks
// whether a tool may run, fails closed. The hook reads no configuration and no ledger,
// and does not interpret its input.
//
//	func main() { os.Exit(hook.Main(os.Args[1:])) }
//	// or without a separate process:
//	err := hook.Call(socket, key, "SessionStart", input, os.Stdout, time.Now().Add(10*time.Second))
//
// The hook must start as fast as an empty program, so it imports very little: each
// linked package must be read from disk and initialised at every call. It imports
// neither fmt nor encoding/json, although the first line of a request and the first
// line of an answer are JSON. For socket and pipes it uses plain system calls, because
// package net and pollable files would first start a poller and threads.
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
	// The user's status line command starts only after the session was notified, so
	// the notification must be quick. inputTime limits the wait for more of the input,
	// and notifyTime the notification itself.
	inputTime  = time.Second
	notifyTime = 200 * time.Millisecond
)

// Main runs `lifeloop-hook [--key=FILE] [--guard=MS] EVENT [--then CMD]`, and `lifeloop-wrap
// hook` with the same arguments. It sends stdin to the session behind LIFELOOP_SOCKET,
// prints the answer and returns the exit code 0. With --then it only notifies the session
// and then replaces itself by `sh -c CMD` with the same stdin. It then returns only if
// sh cannot be started, with 127.
//
// FILE contains the key of the launch. The key is neither an argument, which every user
// could read, nor a variable, which every process below the harness would inherit.
//
// Without --then and --guard, a single deadline limits the whole call: 10 s or
// LIFELOOP_HOOK_TIMEOUT_MS.
//
// With --guard the hook asks whether a tool may run, and prints the session's refusal or
// nothing. It fails closed: without an answer within MS milliseconds, Main returns 2. On
// exit code 2, Claude Code, Codex and Gemini CLI refuse the tool and use the text on
// stderr as the reason.
func Main(args []string) int {
	call := parse(args)
	socket := os.Getenv("LIFELOOP_SOCKET")
	if call.hasThen {
		return becomeCommand(call, socket)
	}

	if call.guard > 0 {
		return guard(call, socket)
	}

	deadline := time.Now().Add(limit(os.Getenv("LIFELOOP_HOOK_TIMEOUT_MS")))
	stdin := stream{unix.Stdin, deadline}
	// Read to the end even if there is no session, because a harness may not
	// expect that its hook closes the pipe early.
	input, err := io.ReadAll(io.LimitReader(stdin, MaxBody+1))
	if len(input) > MaxBody {
		_, _ = io.Copy(io.Discard, stdin)
		return 0
	}
	if err == nil && socket != "" && call.event != "" {
		_ = Call(socket, readKey(call.keyFile), call.event, input, stream{unix.Stdout, deadline}, deadline) // fails open
	}
	return 0
}

// A command holds the parsed arguments of Main.
type command struct {
	keyFile, event, then string
	hasThen              bool
	guard                time.Duration // how long a hook with --guard waits; 0 without --guard
}

// parse ignores unknown arguments, because a settings file of another version
// must not break the harness.
func parse(args []string) (c command) {
	for i := 0; i < len(args); i++ {
		then, joined := strings.CutPrefix(args[i], "--then=")
		keyFile, isKey := strings.CutPrefix(args[i], "--key=")
		ms, isGuard := strings.CutPrefix(args[i], "--guard=")
		switch {
		case isGuard:
			c.guard = limit(ms)
		case joined:
			c.then, c.hasThen = then, true
		case isKey:
			c.keyFile = keyFile
		case args[i] == "--then" && i+1 < len(args):
			i++
			c.then, c.hasThen = args[i], true
		case c.event == "" && !strings.HasPrefix(args[i], "-"):
			c.event = args[i]
		}
	}
	return c
}

// readKey reads the key of a launch. The session treats a call without a key as
// the call of a foreign process.
func readKey(path string) string {
	if path == "" {
		return ""
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var key [64]byte
	n, err := unix.Read(fd, key[:])
	if err != nil {
		return ""
	}
	return string(key[:n])
}

// limit reads a number of milliseconds; for anything else it returns the
// default.
func limit(ms string) time.Duration {
	n, err := strconv.Atoi(ms)
	if err != nil || n <= 0 {
		return timeLimit
	}
	return time.Duration(n) * time.Millisecond
}

// A steadyInput reads stdin. Each Read waits at most inputTime; the whole input may take
// longer, because a busy machine can deliver it in pieces.
type steadyInput struct{}

func (steadyInput) Read(p []byte) (int, error) {
	return stream{unix.Stdin, time.Now().Add(inputTime)}.Read(p)
}

// becomeCommand notifies the session and then replaces this process by the
// command. So output, exit code and signals are those of the command, and no
// process is left behind. The notification takes only some 100 µs, because
// this process does not wait until the session has read the message.
func becomeCommand(call command, socket string) int {
	// The command reads the input again from a file in memory. If that file cannot
	// be created, the input is not read here, so that the command can read it.
	if memory, err := newMemory(); err == nil {
		// If the input is incomplete, the session is not notified.
		input, err := io.ReadAll(steadyInput{})
		if err == nil && socket != "" && call.event != "" {
			_ = Notify(socket, readKey(call.keyFile), call.event, input, time.Now().Add(notifyTime)) // fails open
		}
		replaceStdin(memory, input)
	}
	err := syscall.Exec("/bin/sh", []string{"sh", "-c", call.then}, os.Environ())
	_, _ = os.Stderr.WriteString("lifeloop-hook: run the status line command: " + err.Error() + "\n")
	return 127
}
