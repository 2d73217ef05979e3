//go:build unix && !linux

package watchers

// The calls that an error of the notifier names.
const initCall, addCall = "kqueue", "watch"

// lowerPriority leaves the priority as it is: outside of Linux, setpriority
// would lower the whole process.
func lowerPriority() {}
