package main

import (
	"lifeloop/harness"
	"lifeloop/lifeloop"
)

// neededTasks is the number of threads that the wrapper, the guard and, roughly, the
// harness need together.
const neededTasks = 32

// enough returns an error if this user may not start the threads that a session
// needs. If Go's runtime needs a thread and cannot start one, it ends the program
// with a trace that does not name the reason. Package minimum makes the same
// check for files.
func enough() error {
	room, limited := harness.TaskRoom()
	if !limited || room >= neededTasks {
		return nil
	}
	return refused(lifeloop.InternalError, "this user may start %d more processes and threads, and a session needs %d", room, neededTasks).
		withHint("ulimit -u shows the limit; end other processes of this user, or raise the limit")
}
