package harness

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// SeparateNetwork makes cmd begin in a network of its own. The program that cmd runs
// has to start the loopback interface with [Loopback]. A user other than root may
// create a network only in a user namespace. So cmd gets a user namespace too, in which
// the user and the group have the same ids as outside. SeparateNetwork also does what
// [EndWithParent] does.
func SeparateNetwork(cmd *exec.Cmd) {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN} // Loopback needs this capability
	}
	cmd.SysProcAttr = attr
}

// EndWithParent makes cmd get SIGTERM when the thread that starts cmd ends. The caller
// must call runtime.LockOSThread before it starts cmd, and keep the lock until cmd has
// ended.
func EndWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}

// Loopback starts the loopback interface of a separate network. Loopback also locks the
// calling goroutine to its thread, and clears the ambient capabilities of this thread.
// Programs that the goroutine starts later then do not inherit CAP_NET_ADMIN.
func Loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return err
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	runtime.LockOSThread() // capabilities belong to a thread
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}
