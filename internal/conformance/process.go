package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"lifeloop/dispatch"
)

// This file runs the client outside of a session. It does not call the client through
// package dispatch, because the author of a client needs more than a receipt contains:
// what the client has printed, whether it is still running, and which processes
// it left behind.

// maxErrors is how many bytes of the client's standard error are kept. The rest is
// discarded.
const maxErrors = 64 << 10

// A process is one process of the client.
type process struct {
	cmd    *exec.Cmd
	mark   string
	stdin  *os.File
	stdout *capture
	stderr *capture
	exited chan struct{} // closed after cmd.Wait has returned
}

// start starts the client in a process group of its own, which is killed when ctx ends.
func (k *kit) start(ctx context.Context) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, k.cfg.Command[0], k.cfg.Command[1:]...), mark: k.mark, exited: make(chan struct{})}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.Env = k.environment(sampleSession)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var theirs [3]*os.File
	defer func() {
		for _, f := range theirs {
			f.Close() // closing a nil file only returns an error
		}
	}()
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs[0], p.stdin = in, stdin
	for i, most := range []int{dispatch.DefaultMaxAnswer + 1, maxErrors} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		theirs[i+1] = w
		c := &capture{from: r, most: most, news: make(chan struct{}, 1), over: make(chan struct{})}
		go c.read()
		if i == 0 {
			p.stdout = c
		} else {
			p.stderr = c
		}
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the client: %w", err)
	}
	go func() {
		_ = p.cmd.Wait() // ignore the error, because ProcessState says how the client ended
		close(p.exited)
	}()
	return p, nil
}

// write sends text without waiting for the client to read it.
func (p *process) write(text []byte) {
	go func() { _, _ = p.stdin.Write(text) }() // ignore the error: a client need not read its stdin
}

// writeAll sends text and then the end of stdin.
func (p *process) writeAll(text []byte) {
	go func() {
		_, _ = p.stdin.Write(text)
		p.stdin.Close()
	}()
}

// ended waits for the client's exit until the deadline.
func (p *process) ended(deadline time.Time) bool {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
	}
	select {
	case <-p.exited: // the client may have exited just when the timer expired
		return true
	default:
		return false
	}
}

// status returns how the process ended, in the words of a receipt; empty for
// exit code 0.
func (p *process) status() string {
	switch s := p.cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case s.Signaled():
		return "killed by " + s.Signal().String()
	case s.ExitStatus() != 0:
		return fmt.Sprintf("exit status %d", s.ExitStatus())
	}
	return ""
}

// goodbyeTime is how long a process that the client started may run after the
// client has ended.
const goodbyeTime = 100 * time.Millisecond

// close ends the client and all processes that it started. It returns the command
// lines of the processes that still ran after the client had ended.
func (p *process) close() (left []string) {
	p.stdin.Close()
	clean := false
	select {
	case <-p.exited:
		pids, _ := marked(p.mark)
		if clean = len(pids) == 0; !clean {
			time.Sleep(goodbyeTime)
		}
	default: // the client is not reaped yet, so no other process group can have its id
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
	}
	var names []string
	if !clean {
		var pids []int
		pids, names = marked(p.mark)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for _, c := range []*capture{p.stdout, p.stderr} {
		c.close()
	}
	return names
}

// newMark returns an environment variable that only the client and its
// processes have.
func newMark() string { return "LIFELOOP_CLIENT_TEST=" + rand.Text() }

// marked lists the running processes that have the mark in their environment. On
// a system without /proc it finds none.
func marked(mark string) (pids []int, names []string) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, nil
	}
	defer proc.Close()
	entries, _ := proc.Readdirnames(-1)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry)
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + entry + "/environ") // fails for processes of other users and for ended processes
		if err != nil || !bytes.Contains(env, []byte(mark+"\x00")) {
			continue
		}
		words, _ := os.ReadFile("/proc/" + entry + "/cmdline")
		pids, names = append(pids, pid), append(names, strings.TrimSpace(strings.ReplaceAll(string(words), "\x00", " ")))
	}
	return pids, names
}

// A capture holds what a client printed to one stream.
type capture struct {
	from *os.File
	most int
	news chan struct{} // contains a token after text was added
	over chan struct{} // closed at the end of the stream

	mu   sync.Mutex // guards text
	text []byte
}

func (c *capture) read() {
	defer close(c.over)
	buf := make([]byte, 8<<10)
	for {
		n, err := c.from.Read(buf)
		c.mu.Lock()
		c.text = append(c.text, buf[:min(n, c.most-len(c.text))]...)
		full := len(c.text) == c.most
		c.mu.Unlock()
		select {
		case c.news <- struct{}{}:
		default:
		}
		if full {
			_, err = io.Copy(io.Discard, c.from)
		}
		if err != nil || full {
			return
		}
	}
}

// close waits for the end of the stream. It gives up after a while, because a
// process that removed the mark from its environment may still hold the stream
// open.
func (c *capture) close() {
	select {
	case <-c.over:
	case <-time.After(goodbyeTime):
	}
	c.from.Close()
	<-c.over
}

// all returns the text captured so far, without the lines that the method line has removed.
func (c *capture) all() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.text)
}

// full reports whether the captured text has reached c.most bytes. For stdout, that is
// one byte more than an answer may have.
func (c *capture) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.text) == c.most
}

// line removes and returns the first whole line, without its newline.
func (c *capture) line() ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, rest, whole := bytes.Cut(c.text, []byte("\n"))
	if !whole {
		return nil, false
	}
	line = bytes.Clone(line)
	c.text = rest
	return line, true
}

// nextLine waits for a line until the deadline, the end of stdout, or a full p.stdout.
func (p *process) nextLine(deadline time.Time) ([]byte, bool) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		if line, ok := p.stdout.line(); ok {
			return line, true
		}
		if p.stdout.full() {
			return nil, false
		}
		select {
		case <-p.stdout.news:
		case <-p.stdout.over:
			return p.stdout.line()
		case <-timer.C:
			return nil, false
		}
	}
}

// asJSON returns text as a member of a report; null if it is not JSON.
func asJSON(text []byte) json.RawMessage {
	if text = bytes.TrimSpace(text); json.Valid(text) && len(text) > 0 {
		return json.RawMessage(text)
	}
	return nil
}
