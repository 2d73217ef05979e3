//go:build unix && !linux

package watchers

// The names of the operations in the notifier's errors.
const initCall, addCall = "kqueue", "watch"

// lowerPriority does nothing: on other systems than Linux, setpriority would
// lower the priority of the whole process.
func lowerPriority() {}
