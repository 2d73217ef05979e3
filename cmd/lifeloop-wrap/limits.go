package main

import (
	"lifeloop/harness"
	"lifeloop/lifeloop"
)

const (
	commandTasks = 8  // the threads of a command
	sessionTasks = 32 // the threads of the wrapper, the guard and, roughly, the harness together
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
