package watchers

import "golang.org/x/sys/unix"

// The names of the system calls in the notifier's errors.
const initCall, addCall = "inotify_init", "inotify_add_watch"

// lowerPriority makes this thread run only when no other thread wants to run. If that
// is not allowed, it sets the weakest nice value; if that is not allowed either, the
// priority stays.
func lowerPriority() {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19)
	}
}
