//go:build unix

package fakeharness

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// child starts a process and, unless it lingers, waits for it. A signal that ends
// the harness leaves the process behind, as in the real programs.
func (h *harness) child(c childStep) error {
	cmd := exec.Command(c.Cmd[0], c.Cmd[1:]...)
	if c.TTY {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = h.term.in, h.term.out, h.term.out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: c.Setsid}
	if err := cmd.Start(); err != nil {
		return err
	}
	if c.PIDFile != "" {
		if err := os.WriteFile(c.PIDFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
			return err
		}
	}
	if c.Linger {
		return cmd.Process.Release()
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its exit code does not matter
		close(ended)
		h.term.wake(unix.SIGCHLD)
	}()
	for {
		_, sig, err := h.term.wait(false, -1)
		if err != nil {
			return err
		}
		select {
		case <-ended:
			if sig != unix.SIGCHLD {
				return h.signalled(sig)
			}
			return nil
		default:
		}
		if err := h.signalled(sig); err != nil {
			return err
		}
	}
}

// orphan starts a process in a new session whose parent ends at once.
func (h *harness) orphan(c childStep) error {
	file := c.PIDFile
	if file == "" {
		file = os.DevNull
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", `"$@" & echo $! >"$0"`, file}, c.Cmd...)...)
	if c.TTY {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = h.term.in, h.term.out, h.term.out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("orphan: %w", err)
	}
	return nil
}

// killSelf dies by sig. The Go runtime turns some signals into an exit code, so
// the process becomes a shell, which does not.
func killSelf(sig syscall.Signal) error {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // leave no core file
	err := unix.Exec("/bin/sh", []string{"sh", "-c", fmt.Sprintf("kill -%d $$; exec sleep 5", sig)}, os.Environ())
	return fmt.Errorf("die by %s: %w", sig, err)
}
