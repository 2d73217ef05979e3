package watchers

import "runtime"

// ahead is how many bytes of a file are read in one turn at normal priority. If more
// are unread, the next turns read them at low priority.
const ahead = 1 << 20

// atLowPriority runs f on a thread of its own with the lowest priority, and waits until
// f returns. Reading hundreds of megabytes must not delay the keyboard of the harness,
// which this process serves too. The thread ends with f, because a process may not be
// allowed to raise the thread's priority again.
func atLowPriority(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked, so that the thread ends with the goroutine
		lowerPriority()
		f()
	}()
	<-done
}
