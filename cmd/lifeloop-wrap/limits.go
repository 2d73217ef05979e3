package main

import (
	"lifeloop/harness"
	"lifeloop/lifeloop"
)

// neededTasks is the number of threads that the wrapper, the guard and, roughly, the
// harness need together.
const neededTasks = 32

// enough returns an error if fewer threads may be started than a session needs. If Go's runtime needs a thread and cannot start one, it ends the program
// with a trace that does not name the reason. Package minimum makes the same
// check for files.
func enough() error {
	room, limited := harness.TaskRoom()
	if !limited || room >= neededTasks {
		return nil
	}
	return refused(lifeloop.InternalError, "only %d more processes and threads may be started, and a session needs %d", room, neededTasks).
		withHint("ulimit -u and pids.max of the control group are the limits; end other processes, or raise the limit")
}
