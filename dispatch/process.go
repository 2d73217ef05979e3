package dispatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A call uses one thread, which runs one poll(2) loop over the client's pipes, its
// pidfd and an eventfd that reports the end of the context. os/exec would need a
// goroutine to copy each stream, and each switch between these goroutines costs
// about as much as starting the client. A persistent client uses the same loop,
// which returns at the end of a line and is entered again.

const (
	// lingerGrace limits the wait for a process that a client left behind and
	// that still holds the client's stdout. It also limits the wait for the exit
	// of a persistent client that has closed its stdout.
	lingerGrace = 25 * time.Millisecond
	// blindPoll is the interval at which the client's exit is checked on a kernel
	// without pidfds (before 5.2).
	blindPoll = 2 * time.Millisecond
)

// testOnlyNoPidfd makes every call behave as on a kernel without pidfds.
var testOnlyNoPidfd bool

// An end is the reason why an exchange with a client ended.
type end int

const (
	exited       end = iota // the client exited
	timedOut                // the call timed out
	canceled                // the context ended
	tooLarge                // the answer is too large
	pollFailed              // poll or the creation of its eventfd returned an error
	answered                // the client ended a line; line mode only
	closedStdout            // the client closed its stdout and still runs; line mode only
)

// A process is one running client. A descriptor that is not open is -1, which
// poll ignores.
type process struct {
	pid, pidfd            int
	stdin, stdout, stderr int
	inLines               bool   // line mode, in which an answer is a line and stdin stays open
	unsent                []byte // the input not yet written to stdin
	answer                []byte // the output read from stdout since the last envelope
	stderrTail            tail
	buf                   [8 << 10]byte // used by read
	err                   error         // the cause of pollFailed
}

// start creates the pipes, writes as much to stdin as the pipe holds, so that
// the client need not wait for input, and starts the client.
func (cfg *Config) start(input []byte, inLines bool) (_ *process, err error) {
	path := cfg.Command[0]
	if !strings.Contains(path, "/") {
		if path, err = exec.LookPath(path); err != nil {
			return nil, err
		}
	}

	c := &process{pid: -1, pidfd: -1, stdin: -1, stdout: -1, stderr: -1, inLines: inLines, unsent: input}
	theirs := [3]int{-1, -1, -1}
	defer func() {
		for i := range theirs {
			closeFD(&theirs[i])
		}
		if err != nil {
			c.closeAll()
		}
	}()
	if theirs[0], c.stdin, err = pipe(); err != nil {
		return nil, err
	}
	if c.stdout, theirs[1], err = pipe(); err != nil {
		return nil, err
	}
	if cfg.StderrFile != "" {
		c.stderr, theirs[2], err = pipe()
	} else {
		theirs[2], err = unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open stderr: %w", err)
	}
	for _, fd := range []int{c.stdin, c.stdout, c.stderr} {
		if fd < 0 {
			continue
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	c.send()

	cfg.Forks.Lock()
	defer cfg.Forks.Unlock()
	if c.pid, c.pidfd, err = cfg.fork(path, theirs); err != nil {
		return nil, err
	}
	cfg.Started(c.pid)
	if testOnlyNoPidfd {
		closeFD(&c.pidfd)
	}
	return c, nil
}

// exchange writes to the client and reads from it until the client has answered
// with a whole line (line mode), or has exited and all its output is read, or until
// the deadline, ctx or maxAnswer ends the exchange.
func (c *process) exchange(ctx context.Context, deadline time.Time, maxAnswer int) end {
	done, release, err := doneFD(ctx)
	if err != nil {
		c.err = err
		return pollFailed
	}
	defer release()

	exit := c.pidfd // exit and done become -1 once the client's exit was detected
	blind := c.pidfd < 0
	ended, outClosed := false, false
	for {
		left := max(0, time.Until(deadline))
		overdue := left == 0 // the loop still polls once more: if the wrapper was stopped for a while, the answer may have arrived in time
		if blind && !ended {
			left = min(left, blindPoll)
		}
		fds := [...]unix.PollFd{
			{Fd: int32(c.writable()), Events: unix.POLLOUT},
			{Fd: int32(c.stdout), Events: unix.POLLIN},
			{Fd: int32(c.stderr), Events: unix.POLLIN},
			{Fd: int32(exit), Events: unix.POLLIN},
			{Fd: int32(done), Events: unix.POLLIN},
		}
		if _, err := unix.Poll(fds[:], milliseconds(left)); err != nil && err != unix.EINTR {
			c.err = os.NewSyscallError("poll", err)
			return pollFailed
		}

		// The exit is detected before the streams are read, so that all that the
		// client wrote is in the pipes. Once the client has exited, its output is its
		// answer, even if the deadline has passed or the context has ended.
		if !ended && (fds[3].Revents != 0 || blind && hasExited(c.pid)) {
			ended, outClosed, overdue = true, false, false
			exit, done = -1, -1
			closeFD(&c.stdin) // close stdin, so that processes which inherited the other end read the end of the input
			deadline = time.Now().Add(lingerGrace)
		}
		if fds[0].Revents != 0 && !ended {
			c.send()
		}
		if fds[2].Revents != 0 || ended {
			c.read(&c.stderr, func(b []byte) bool { c.stderrTail.add(b); return true })
		}
		if fds[1].Revents != 0 || ended {
			c.read(&c.stdout, func(b []byte) bool {
				c.answer = append(c.answer, b...)
				return len(c.answer) <= maxAnswer && !(c.inLines && bytes.IndexByte(b, '\n') >= 0)
			})
		}
		if c.inLines {
			if line, _, whole := bytes.Cut(c.answer, newline); whole && len(line) <= maxAnswer {
				return answered
			}
		}
		if len(c.answer) > maxAnswer {
			return tooLarge
		}
		if c.inLines && c.stdout < 0 && !ended && !outClosed {
			outClosed = true // the client will probably exit soon, so wait for its status
			if soon := time.Now().Add(lingerGrace); soon.Before(deadline) {
				deadline, overdue = soon, false
			}
		}
		switch {
		case ended && (c.stdout < 0 || overdue):
			return exited
		case ended:
		case fds[4].Revents != 0:
			return canceled
		case overdue && outClosed:
			return closedStdout
		case overdue:
			return timedOut
		}
	}
}

// writable returns stdin if there is something to write, or -1.
func (c *process) writable() int {
	if len(c.unsent) == 0 {
		return -1
	}
	return c.stdin
}

// sendLine begins the next call in line mode.
func (c *process) sendLine(line []byte) {
	c.answer, c.unsent = nil, line
	c.send()
}

// idle reports whether the client is ready for a line: it runs, its stdin is
// open, and it has printed nothing since its last answer.
func (c *process) idle() bool {
	if c.stdin < 0 || c.stdout < 0 || c.pidfd < 0 && hasExited(c.pid) {
		return false
	}
	fds := [...]unix.PollFd{
		{Fd: int32(c.stdin)}, // polled to detect that the other end is closed
		{Fd: int32(c.stdout), Events: unix.POLLIN},
		{Fd: int32(c.pidfd), Events: unix.POLLIN},
	}
	for {
		// The runtime's own signals can interrupt even a poll that does not wait.
		if n, err := unix.Poll(fds[:], 0); err != unix.EINTR {
			return n == 0 && err == nil
		}
	}
}

// shutDown closes the client's stdin and waits up to CloseGrace for its exit.
// Its output is dropped.
func (c *process) shutDown() {
	closeFD(&c.stdin)
	c.answer, c.unsent, c.inLines = nil, nil, false
	c.exchange(context.Background(), time.Now().Add(CloseGrace), DefaultMaxAnswer)
}

// send writes as much to stdin as is possible without blocking. It closes stdin
// after the last byte, except in line mode. It also closes stdin if the client
// has closed the other end, which is not an error.
func (c *process) send() {
	for len(c.unsent) > 0 {
		n, err := unix.Write(c.stdin, c.unsent)
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			return
		}
		if err != nil {
			closeFD(&c.stdin)
			break
		}
		c.unsent = c.unsent[n:]
	}
	c.unsent = nil
	if !c.inLines {
		closeFD(&c.stdin)
	}
}

// read passes the content of the pipe to take until take returns false. It
// reads at most twice the size of a pipe, so that endless output cannot keep the
// loop from its deadline. It closes *fd at the end of the stream.
func (c *process) read(fd *int, take func([]byte) bool) {
	for range 16 {
		if *fd < 0 {
			return
		}
		n, err := unix.Read(*fd, c.buf[:])
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			return
		}
		if n <= 0 {
			closeFD(fd)
			return
		}
		if !take(c.buf[:n]) {
			return
		}
	}
}

// finish kills the whole group, then reaps the client. The order matters: until
// the client is reaped, its pid and so the group's id belong to no other process.
func (cfg *Config) finish(c *process) (syscall.WaitStatus, error) {
	defer c.closeAll()
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	_ = unix.Kill(c.pid, unix.SIGKILL) // the client may have left the group
	awaitExit(c.pid)
	cfg.Forks.Lock()
	defer cfg.Forks.Unlock()
	defer cfg.Ended(c.pid)
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(c.pid, &status, 0, nil)
		if err != syscall.EINTR {
			return status, os.NewSyscallError("wait4", err)
		}
	}
}

func (c *process) closeAll() {
	for _, fd := range []*int{&c.stdin, &c.stdout, &c.stderr, &c.pidfd} {
		closeFD(fd)
	}
}

// doneFD returns a descriptor that becomes readable when ctx ends, and the
// function that closes it. The descriptor is -1 for a context that cannot end.
func doneFD(ctx context.Context) (fd int, release func(), err error) {
	if ctx.Done() == nil {
		return -1, func() {}, nil
	}
	if fd, err = newEvent(); err != nil {
		return -1, nil, err
	}
	written := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_, _ = unix.Write(fd, binary.NativeEndian.AppendUint64(nil, 1))
		close(written)
	})
	return fd, func() {
		if !stop() {
			<-written // wait, because after Close another file may get the number fd, and the write would reach that file
		}
		_ = unix.Close(fd)
	}, nil
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
		*fd = -1
	}
}

// milliseconds rounds up, because with a wait rounded down to 0 the loop would
// not sleep.
func milliseconds(d time.Duration) int {
	return int((min(d, time.Hour) + time.Millisecond - 1) / time.Millisecond)
}

var newline = []byte{'\n'}

// A tail holds the last MaxStderr bytes of a stream.
type tail struct {
	b       []byte
	changed bool // written to since it was last saved
}

func (t *tail) add(p []byte) {
	t.changed = true
	t.b = append(t.b, p...)
	if len(t.b) > 8*MaxStderr {
		t.b = append(t.b[:0], t.bytes()...)
	}
}

func (t *tail) bytes() []byte { return t.b[max(0, len(t.b)-MaxStderr):] }

// replaceFile replaces the file atomically: a reader sees the old content or the new
// one, never a mixture.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // creates the file with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// saveStderr writes the end of c's stderr to StderrFile if it has changed since
// the last time.
func (cfg *Config) saveStderr(c *process) {
	if !c.stderrTail.changed {
		return
	}
	c.stderrTail.changed = false
	_ = replaceFile(cfg.StderrFile, c.stderrTail.bytes()) // see StderrFile: errors are ignored
}
