package main

import (
	"lifeloop/harness"
	"lifeloop/lifeloop"
)

// The number of threads that a command needs, and that the wrapper, the guard and, roughly,
// the harness need together.
const (
	commandTasks = 8
	sessionTasks = 32
)

// enough returns an error if fewer than needed threads may be started. If Go's runtime
// needs a thread and cannot start one, it ends the program with a trace that does not name
// the reason. Package minimum makes the same check for files.
func enough(needed int, what string) error {
	room, limited := harness.TaskRoom()
	if !limited || room >= needed {
		return nil
	}
	return refused(lifeloop.InternalError, "only %d more processes and threads may be started, and %s needs %d", room, what, needed).
		withHint("ulimit -u and pids.max of the control group are the limits; end other processes, or raise the limit")
}
