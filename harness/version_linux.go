package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dotted returns the first version number in a program's output, or "".
func dotted(output []byte) string {
	// Compiled here, because most runs ask for no version.
	number := regexp.MustCompile(`(?:^|[^0-9A-Za-z.])v?(\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.]+)?)`)
	if m := number.FindSubmatch(output); m != nil {
		return string(m[1])
	}
	return ""
}

// Version runs PROGRAM --version, which starts no session of a harness, and
// returns the dotted number in its output. The program has no terminal and no
// input, and runs in the root folder, with our environment or with env. After its
// exit, or after patience, its process group is killed.
func Version(path string, patience time.Duration, env ...string) (string, error) {
	var out head
	cmd := exec.Command(path, "--version")
	cmd.Dir, cmd.Stdout, cmd.Env = "/", &out, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 100 * time.Millisecond // do not wait long for a process that left the group and holds the pipe open
	if err := cmd.Start(); err != nil {
		return "", err
	}
	killed := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		close(killed)
	})
	// Wait without reaping: until the program is reaped, no other process gets its
	// pid, and its group can be killed safely.
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	late := !timer.Stop()
	if late {
		<-killed
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	err := cmd.Wait()
	version := dotted(out.Bytes())
	switch {
	case late:
		return "", fmt.Errorf("%w after %s", ErrSlow, patience)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", err
	case version == "":
		return "", errors.New("its output contains no version number")
	}
	return version, nil
}

// head stores the first bytes that are written to it and drops the rest.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	const most = 64 << 10
	h.Buffer.Write(p[:min(len(p), max(0, most-h.Len()))])
	return len(p), nil
}
