package dispatch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fork starts path as the client, in a new process group, with the three given
// files. The kernel kills the client when the calling thread ends. The pidfd is
// -1 on a kernel that has none.
func (cfg *Config) fork(path string, files [3]int) (pid, pidfd int, err error) {
	pidfd = -1
	sys := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd}
	if cfg.Cgroup != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, int(cfg.Cgroup.Fd())
	}
	pid, err = syscall.ForkExec(path, cfg.Command, &syscall.ProcAttr{
		Dir:   cfg.Dir,
		Env:   cfg.Env,
		Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])},
		Sys:   sys,
	})
	return pid, pidfd, err
}

// hasExited reports whether a child has ended, without reaping it.
func hasExited(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == unix.ECHILD || err == nil && info.Signo != 0
}

// awaitExit waits until a child has ended, without reaping it.
func awaitExit(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// newEvent returns a descriptor that is readable once 8 bytes are written to it.
func newEvent() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, os.NewSyscallError("eventfd", err)
	}
	return fd, nil
}

func pipe() (r, w int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, os.NewSyscallError("pipe2", err)
	}
	return p[0], p[1], nil
}
