//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// patience is the time limit of one program.
const patience = time.Minute

func (b *bench) build(folders ...string) error {
	for _, folder := range folders {
		cmd := exec.Command("go", "build", "-trimpath", "-o", b.program(filepath.Base(folder)), "lifeloop/"+folder)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", folder, err, out)
		}
	}
	return nil
}

func (b *bench) program(name string) string { return filepath.Join(b.dir, name) }

// command returns a command that sees none of the user's files.
func (b *bench) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = b.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "HOME=" + b.dir, "XDG_RUNTIME_DIR=" + b.dir,
		"LIFELOOP_STATE_DIR=" + filepath.Join(b.dir, "state")}
	return cmd
}

// below returns the command line that runs argv under lifeloop-wrap.
func (b *bench) below(argv ...string) []string {
	return append([]string{b.wrap, "run", "--"}, argv...)
}

// faked returns the command line of a fakeharness with a script.
func (b *bench) faked(script string) []string {
	return []string{b.program("fakeharness"), "--script-json", script}
}

// A screen is a program in a terminal, with this process as the user.
type screen struct {
	cmd *exec.Cmd
	tty *os.File
}

func open(cmd *exec.Cmd) *screen {
	blocking := got(pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120}))
	defer blocking.Close()
	// The file from pty is in blocking mode, so it does not support deadlines.
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		must(errors.Join(err, cmd.Wait()))
	}
	s := &screen{cmd, os.NewFile(uintptr(fd), "screen")}
	must(s.tty.SetReadDeadline(time.Now().Add(patience)))
	return s
}

// until reads until text has appeared on the screen.
func (s *screen) until(text string) {
	var seen []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(seen, []byte(text)) {
		n, err := s.tty.Read(buf)
		seen = append(seen, buf[:n]...)
		if err != nil {
			must(fmt.Errorf("wait for %q; the output so far is %q: %w", text, seen, err))
		}
	}
}

// settle discards the output until there is no more.
func (s *screen) settle() {
	defer s.tty.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	for {
		must(s.tty.SetReadDeadline(time.Now().Add(20 * time.Millisecond)))
		_, err := s.tty.Read(buf)
		if os.IsTimeout(err) {
			return
		}
		must(err)
	}
}

// close discards the rest of the program's output, waits for the end of the program and
// returns the time of that end. An exit code other than 0 is an error.
func (s *screen) close() (ended time.Time) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, s.tty) // ends with EIO, or at the deadline that is set below
	}()
	watchdog := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	err := s.cmd.Wait()
	ended = time.Now()
	watchdog.Stop()
	// Another process may hold the terminal open after the program ended.
	_ = s.tty.SetReadDeadline(time.Now())
	<-drained
	must(errors.Join(err, s.tty.Close()))
	return ended
}

// kill ends a program that is no longer needed.
func (s *screen) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = s.tty.Close()
}

// took runs cmd without a terminal and returns the time from start to end.
func took(cmd *exec.Cmd) time.Duration {
	began := time.Now()
	must(cmd.Start())
	watchdog := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	must(cmd.Wait())
	return time.Since(began)
}
