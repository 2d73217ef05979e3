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

// dotted finds a version as programs print it, among whatever else; empty when
// there is none.
func dotted(said []byte) string {
	// Made here: a run, which asks for no version, starts without it.
	number := regexp.MustCompile(`(?:^|[^0-9A-Za-z.])v?(\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.]+)?)`)
	if m := number.FindSubmatch(said); m != nil {
		return string(m[1])
	}
	return ""
}

// Version runs PROGRAM --version, which a harness answers without beginning a
// session, and picks the dotted number out of what it prints. The program has
// no terminal, no input and not our working folder, and when it is over, or
// patience is, nothing of its group is left.
func Version(path string, patience time.Duration) (string, error) {
	var out head
	cmd := exec.Command(path, "--version")
	cmd.Dir, cmd.Stdout = "/", &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 100 * time.Millisecond // for what left the group and holds the pipe
	if err := cmd.Start(); err != nil {
		return "", err
	}
	killed := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		close(killed)
	})
	// Until it is reaped its id is nobody else's, and its group can be killed.
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	late := !timer.Stop()
	if late {
		<-killed
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	err := cmd.Wait()
	told := dotted(out.Bytes())
	switch {
	case late:
		return "", fmt.Errorf("%w after %s", ErrSlow, patience)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", err
	case told == "":
		return "", errors.New("there is no number in what it says")
	}
	return told, nil
}

// head keeps the beginning of what is written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	const most = 64 << 10
	h.Buffer.Write(p[:min(len(p), max(0, most-h.Len()))])
	return len(p), nil
}
