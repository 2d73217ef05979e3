package watchers

import "runtime"

// ahead is how many bytes of one file are read at once. A file with more unread
// bytes is read at low priority.
const ahead = 1 << 20

// atLowPriority runs f on a thread of its own with the lowest priority, and waits for
// it: reading hundreds of megabytes must not delay the keyboard of the harness, which
// this process serves too. The thread ends with f, because its priority may not be
// raised again.
func atLowPriority(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an unlock, so that the thread ends
		lowerPriority()
		f()
	}()
	<-done
}
