package watchers

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// eventRoom is the number of events that can be queued for Run. Run handles all
// queued events in one round.
const eventRoom = 1024

// notifier is the one fsnotify instance that serves all folders.
type notifier struct {
	*fsnotify.Watcher
	faults  chan error // has room for one error: a single pending error makes Run check every file
	receive sync.WaitGroup
}

// newNotifier starts two goroutines, fsnotify's reader and the receiver of its
// errors; close waits for both. The errors need a separate receiver, because
// fsnotify may report one while it holds the lock that Add and Remove need.
func newNotifier() (*notifier, error) {
	fs, err := fsnotify.NewBufferedWatcher(eventRoom)
	if err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			err = os.NewSyscallError(initCall, errno)
		}
		return nil, err
	}
	n := &notifier{Watcher: fs, faults: make(chan error, 1)}
	n.receive.Go(func() {
		for err := range fs.Errors {
			select {
			case n.faults <- err:
			default: // drop the error: the pending one has the same effect, and a lasting error is reported again
			}
		}
	})
	return n, nil
}

func (n *notifier) add(dir string) error {
	if err := n.Add(dir); err != nil {
		return &os.PathError{Op: addCall, Path: dir, Err: err}
	}
	return nil
}

// remove ends the watch on a folder. A missing folder is not an error.
func (n *notifier) remove(dir string) { _ = n.Remove(dir) }

func (n *notifier) close() {
	_ = n.Close() // nothing was written, so an error of Close loses nothing
	n.receive.Wait()
}
