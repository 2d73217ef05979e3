package harness

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Die ends this process by a signal. So the parent process sees the same death as if
// it had started the harness without the wrapper. If group is set, the other
// processes of this process's group get the signal too. Die writes no core file: the
// harness may have written its own. Die returns only if the signal does not end this
// process, for example because the process is the first one of a container.
func Die(sig syscall.Signal, group bool) {
	runtime.LockOSThread() // the signal goes to this thread, which does not block it
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // the limit on core files does not apply to a core that is piped to a program
	setAction(sig, kernelAction{})
	unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil)
	if group {
		unix.Kill(0, sig)
	}
	unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}
