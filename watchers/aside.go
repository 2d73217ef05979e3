package watchers

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// ahead is how much of one file is read at once. Whoever has more than that
// before him is catching up, and does so aside.
const ahead = 1 << 20

// aside runs f on a thread of its own, which gives way to every other: to read
// hundreds of megabytes must not be felt at the keyboard of the harness that
// this process also serves. The thread ends with f, for one that was lowered
// may not be raised again. The caller waits, so nothing runs at the same time.
func aside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocks: so the thread ends
		lower()
		f()
	}()
	<-done
}

// lower makes this thread one that runs when no other wants to, or nearly so.
// Where neither is allowed it stays as it is.
func lower() {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19)
	}
}
