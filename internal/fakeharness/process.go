//go:build unix

package fakeharness

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// child starts a process and, unless it lingers, waits for it. If a signal ends
// the harness meanwhile, the process continues to run, as with real harnesses.
func (h *harness) child(c childStep) {
	cmd := h.command(c, c.Cmd, c.Setsid)
	must(cmd.Start())
	if c.PIDFile != "" {
		must(os.WriteFile(c.PIDFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
	}
	if c.Linger {
		must(cmd.Process.Release())
		return
	}
	go func() {
		_ = cmd.Wait() // the exit code of the child does not matter
		h.term.wake(unix.SIGCHLD)
	}()
	for {
		_, sig, err := h.term.wait(false, -1)
		must(err)
		if sig == unix.SIGCHLD {
			return
		}
		h.signalled(sig)
	}
}

// orphan starts a process in a new session (setsid); the parent of the process ends at once.
func (h *harness) orphan(c childStep) {
	cmd := h.command(c, append([]string{"/bin/sh", "-c", `"$@" & echo $! >"$0"`, cmp.Or(c.PIDFile, os.DevNull)}, c.Cmd...), true)
	if err := cmd.Run(); err != nil {
		must(fmt.Errorf("orphan: %w", err))
	}
}

func (h *harness) command(c childStep, argv []string, setsid bool) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	if c.TTY {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = h.term.in, h.term.out, h.term.out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
	return cmd
}

// killSelf ends the process by sig. The Go runtime would turn some signals into
// an exit code. So the process first replaces itself by a shell, which sends the
// signal to itself.
func killSelf(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // leave no core file
	err := unix.Exec("/bin/sh", []string{"sh", "-c", fmt.Sprintf("kill -%d $$; exec sleep 5", sig)}, os.Environ())
	must(fmt.Errorf("die by signal (%s): %w", sig, err))
}
