package dispatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// One call is one thread in one poll(2) loop over the client's pipes, its
// pidfd and an eventfd that the context rings. os/exec would need a copying
// goroutine per stream, and each hand-over between them costs about what the
// kernel needs to start the client. A persistent client is the same process
// and the same loop, left at the end of a line and entered again.

const (
	// lingerGrace is how long a client that has exited may have its stdout
	// held open by a process it left behind.
	lingerGrace = 25 * time.Millisecond
	// blindPoll is how often we look for the client's end on a kernel that
	// gives no pidfd (before 5.2).
	blindPoll = 2 * time.Millisecond
)

// testOnlyNoPidfd makes every call behave as on such a kernel.
var testOnlyNoPidfd bool

// An end is why a conversation with a client was over.
type end int

const (
	exited    end = iota // the client ended by itself
	tooSlow              // its time was up
	calledOff            // the context ended
	tooLarge             // it said more than it may
	broken               // poll itself failed
	answered             // it ended a line; only of a client that speaks in lines
	hungUp               // it closed its stdout and stayed; likewise
)

// A process is one running client. Descriptors that are closed, or never were
// opened, are -1: poll skips those.
type process struct {
	pid, pidfd            int
	stdin, stdout, stderr int
	inLines               bool   // an answer is a line; stdin stays open for the next envelope
	unsent                []byte // what stdin has not taken yet
	answer                []byte // what stdout said since the last envelope
	stderrTail            tail
	buf                   [8 << 10]byte // hear's
	err                   error         // why end is broken
}

// start makes the pipes, fills stdin as far as it goes, so that the client
// never has to wait for us, and starts the client.
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

	if c.pid, c.pidfd, err = cfg.fork(path, theirs); err != nil {
		return nil, err
	}
	if testOnlyNoPidfd {
		closeFD(&c.pidfd)
	}
	return c, nil
}

// converse feeds the client and listens to it until it has ended its line, or
// has exited and said everything, or until one of the bounds is met.
func (c *process) converse(ctx context.Context, deadline time.Time, maxAnswer int) end {
	bell, silence, err := ring(ctx)
	if err != nil {
		c.err = err
		return broken
	}
	defer silence()

	gone := c.pidfd // like bell, -1 once the exit has been seen
	blind := c.pidfd < 0
	ended, hasHungUp := false, false
	for {
		left := max(0, time.Until(deadline))
		overdue := left == 0 // one last look: we may have been stopped ourselves
		if blind && !ended {
			left = min(left, blindPoll)
		}
		fds := [...]unix.PollFd{
			{Fd: int32(c.writable()), Events: unix.POLLOUT},
			{Fd: int32(c.stdout), Events: unix.POLLIN},
			{Fd: int32(c.stderr), Events: unix.POLLIN},
			{Fd: int32(gone), Events: unix.POLLIN},
			{Fd: int32(bell), Events: unix.POLLIN},
		}
		if _, err := unix.Poll(fds[:], milliseconds(left)); err != nil && err != unix.EINTR {
			c.err = os.NewSyscallError("poll", err)
			return broken
		}

		// The exit is looked at before the streams are read: what the client
		// wrote before it is then sure to be in the pipes. From here on it has
		// answered, and neither deadline nor context can take that back.
		if !ended && (fds[3].Revents != 0 || blind && hasExited(c.pid)) {
			ended, hasHungUp, overdue = true, false, false
			gone, bell = -1, -1
			closeFD(&c.stdin) // whoever else holds the other end gets no more
			deadline = time.Now().Add(lingerGrace)
		}
		if fds[0].Revents != 0 && !ended {
			c.send()
		}
		if fds[2].Revents != 0 || ended {
			c.hear(&c.stderr, func(b []byte) bool { c.stderrTail.add(b); return true })
		}
		if fds[1].Revents != 0 || ended {
			c.hear(&c.stdout, func(b []byte) bool {
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
		if c.inLines && c.stdout < 0 && !ended && !hasHungUp {
			hasHungUp = true // most likely it is about to exit: its status says more
			if soon := time.Now().Add(lingerGrace); soon.Before(deadline) {
				deadline, overdue = soon, false
			}
		}
		switch {
		case ended && (c.stdout < 0 || overdue):
			return exited
		case ended:
		case fds[4].Revents != 0:
			return calledOff
		case overdue && hasHungUp:
			return hungUp
		case overdue:
			return tooSlow
		}
	}
}

// writable is stdin while there is something for it.
func (c *process) writable() int {
	if len(c.unsent) == 0 {
		return -1
	}
	return c.stdin
}

// ask begins the next line of a client that speaks in lines.
func (c *process) ask(line []byte) {
	c.answer, c.unsent = nil, line
	c.send()
}

// rests says whether a client that speaks in lines can be asked: it runs and
// reads, and has said nothing unasked.
func (c *process) rests() bool {
	if c.stdin < 0 || c.stdout < 0 || c.pidfd < 0 && hasExited(c.pid) {
		return false
	}
	fds := [...]unix.PollFd{
		{Fd: int32(c.stdin)}, // tells when nobody reads any more
		{Fd: int32(c.stdout), Events: unix.POLLIN},
		{Fd: int32(c.pidfd), Events: unix.POLLIN},
	}
	n, err := unix.Poll(fds[:], 0)
	return n == 0 && err == nil
}

// leave ends the client's stdin and lets it come to its end by itself, for a
// while. What it still says is nobody's answer.
func (c *process) leave() {
	closeFD(&c.stdin)
	c.answer, c.unsent, c.inLines = nil, nil, false
	c.converse(context.Background(), time.Now().Add(CloseGrace), DefaultMaxAnswer)
}

// send writes what stdin takes now, and closes it when nobody reads any more:
// a client may leave its stdin unread. After the last byte it closes it too,
// unless more lines will follow.
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

// hear takes what is in the pipe now and no more than two pipes full of it, so
// that a babbling stream cannot keep the loop from its clock. It closes *fd
// at the end of the stream, and stops early when take has had enough.
func (c *process) hear(fd *int, take func([]byte) bool) {
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

// finish kills the whole group, then reaps the client. In this order: as long
// as the client is not reaped its pid, and so the group's id, cannot have been
// given to anyone else.
func (c *process) finish() (syscall.WaitStatus, error) {
	defer c.closeAll()
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	_ = unix.Kill(c.pid, unix.SIGKILL) // it may have left its own group
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

// ring returns a descriptor that becomes readable when ctx ends, and what
// releases it. A context that cannot end gets no descriptor.
func ring(ctx context.Context) (fd int, release func(), err error) {
	if ctx.Done() == nil {
		return -1, func() {}, nil
	}
	if fd, err = newEvent(); err != nil {
		return -1, nil, err
	}
	rung := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_, _ = unix.Write(fd, binary.NativeEndian.AppendUint64(nil, 1))
		close(rung)
	})
	return fd, func() {
		if !stop() {
			<-rung // or it would write to whatever has this number next
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

// milliseconds rounds up: a wait rounded down to 0 would spin.
func milliseconds(d time.Duration) int {
	return int((min(d, time.Hour) + time.Millisecond - 1) / time.Millisecond)
}

var newline = []byte{'\n'}

// A tail keeps the last StderrKept bytes of a stream.
type tail struct {
	b    []byte
	news bool // something was added since it was written down
}

func (t *tail) add(p []byte) {
	t.news = true
	t.b = append(t.b, p...)
	if len(t.b) > 8*StderrKept {
		t.b = append(t.b[:0], t.bytes()...)
	}
}

func (t *tail) bytes() []byte { return t.b[max(0, len(t.b)-StderrKept):] }

// replaceFile swaps in a new file, so that a reader sees one call's stderr or
// another's, never a mixture.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// keepStderr writes down the end of what c has said on stderr, if it has said
// anything since the last time.
func (cfg *Config) keepStderr(c *process) {
	if !c.stderrTail.news {
		return
	}
	c.stderrTail.news = false
	_ = replaceFile(cfg.StderrFile, c.stderrTail.bytes()) // see StderrFile: never a reason to fail
}
