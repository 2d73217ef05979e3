//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lifeloop/control"
)

// The hook is started by the harness at every turn and while it waits, so this
// file is held to the start-up time of an empty program: main comes here
// before it builds anything, and nothing is parsed that need not be.
//
// It fails open. Whatever goes wrong, it prints nothing and exits 0: a harness
// must not stumble because its wrapper is gone.

const (
	hookTimeout = 10 * time.Second
	// A status line is drawn by the user's own command; telling us comes
	// beside it. thenInput bounds the wait for the end of the input, tellTime
	// the telling.
	thenInput = time.Second
	tellTime  = 200 * time.Millisecond
)

// hookMain is `lifeloop-wrap hook EVENT [--then CMD]`: it forwards stdin to the
// session named by LIFELOOP_SOCKET and prints the answer. With --then it only
// tells the session and becomes `sh -c CMD`, with the same stdin; then it does
// not return.
//
// All is bounded by one deadline, 10 s or LIFELOOP_HOOK_TIMEOUT_MS.
func hookMain(args []string, stdin io.Reader, stdout io.Writer) int {
	event, then, hasThen := parseHook(args)
	socket := os.Getenv("LIFELOOP_SOCKET")
	if hasThen {
		return becomeCommand(then, socket, event, stdin)
	}

	deadline := time.Now().Add(hookTimeLimit())
	stdin = readUntil{stdin, deadline}
	// Read to the end even if there is nobody to tell: a harness may not
	// expect that its hook closes the pipe on it.
	input, err := io.ReadAll(io.LimitReader(stdin, control.MaxBody+1))
	if len(input) > control.MaxBody {
		_, _ = io.Copy(io.Discard, stdin)
		return 0
	}
	if err == nil && socket != "" && event != "" {
		// Without this, a harness that stopped listening would end us by a signal.
		signal.Ignore(syscall.SIGPIPE)
		_ = control.AskHook(socket, event, bytes.NewReader(input), writeUntil{stdout, deadline}, deadline) // fails open
	}
	return 0
}

// A readUntil is a reader bounded by a deadline.
type readUntil struct {
	r        io.Reader
	deadline time.Time
}

func (u readUntil) Read(p []byte) (int, error) {
	if err := ready(u.r, unix.POLLIN, u.deadline); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// A writeUntil is a writer bounded by a deadline. It writes no more at a time
// than a pipe that is ready is sure to take.
type writeUntil struct {
	w        io.Writer
	deadline time.Time
}

func (u writeUntil) Write(p []byte) (n int, err error) {
	const atOnce = 4096 // PIPE_BUF
	for n < len(p) {
		if err := ready(u.w, unix.POLLOUT, u.deadline); err != nil {
			return n, err
		}
		wrote, err := u.w.Write(p[n:min(n+atOnce, len(p))])
		n += wrote
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// ready waits until a file can be read or written without blocking. (A
// deadline of the file's own would not do: the runtime has none for the stdin
// and stdout that a harness hands us.) Whatever is no file, which only tests
// have, is always ready.
func ready(stream any, events int16, deadline time.Time) error {
	file, ok := stream.(*os.File)
	if !ok {
		return nil
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	n := 0
	var pollErr error
	err = raw.Control(func(fd uintptr) {
		for {
			left := max(0, time.Until(deadline).Milliseconds())
			n, pollErr = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, int(left))
			if pollErr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if pollErr == nil && n == 0 {
		return os.ErrDeadlineExceeded
	}
	return pollErr
}

// parseHook takes what it knows and passes over the rest: a settings file
// written by another version must not break the harness.
func parseHook(args []string) (event, then string, hasThen bool) {
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

func hookTimeLimit() time.Duration {
	ms, err := strconv.Atoi(os.Getenv("LIFELOOP_HOOK_TIMEOUT_MS"))
	if err != nil || ms <= 0 {
		return hookTimeout
	}
	return time.Duration(ms) * time.Millisecond
}

// becomeCommand tells the session, then replaces this process by the command,
// so that output, exit code and signals are the command's own and nothing can
// be left behind. Telling is handing bytes to the kernel, some 100 µs; it
// waits for no reply, and a session that does not listen costs no more.
func becomeCommand(then, socket, event string, stdin io.Reader) int {
	if input, err := spool(stdin); err == nil {
		if input.whole && socket != "" && event != "" {
			_ = control.TellHook(socket, event, input, time.Now().Add(tellTime)) // fails open
		}
		_ = unix.Dup3(input.fd, 0, 0) // else the command finds its stdin at its end
	}
	err := syscall.Exec("/bin/sh", []string{"sh", "-c", then}, os.Environ())
	fmt.Fprintf(os.Stderr, "lifeloop-wrap: run the status line command: %v\n", err)
	return 127
}

// A spooled is an input kept in memory, readable twice: by Read, and by
// whoever is given fd, which has an offset of its own.
type spooled struct {
	*io.SectionReader
	fd    int
	whole bool // to its end
}

// spool copies stdin to where a command can have it as its stdin. What has not
// come within thenInput is not waited for. With an error, nothing was read.
func spool(stdin io.Reader) (spooled, error) {
	fd, err := unix.MemfdCreate("hook-input", unix.MFD_CLOEXEC)
	if err != nil {
		return spooled{}, err
	}
	own, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return spooled{}, err
	}
	file := os.NewFile(uintptr(fd), "hook-input")
	n, err := io.Copy(file, readUntil{stdin, time.Now().Add(thenInput)})
	return spooled{io.NewSectionReader(file, 0, n), own, err == nil}, nil
}
