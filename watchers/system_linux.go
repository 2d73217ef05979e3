package watchers

import "golang.org/x/sys/unix"

// The calls that an error of the notifier names.
const initCall, addCall = "inotify_init", "inotify_add_watch"

// lowerPriority makes this thread run only when no other thread wants to run, or at the
// lowest nice value where that is not allowed. Where neither is allowed, the
// priority stays.
func lowerPriority() {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19)
	}
}
