package watchers

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// eventRoom is how many events may wait for Run. Events that arrive while it
// works are then handled together, in one round.
const eventRoom = 1024

// notifier is the one fsnotify instance that serves all folders.
type notifier struct {
	*fsnotify.Watcher
	faults  chan error // has room for one: handling it looks at every file
	receive sync.WaitGroup
}

// newNotifier starts two goroutines, fsnotify's reader and the receiver of its
// errors; close waits for both. The errors need a receiver of their own:
// fsnotify may report one while it holds the lock that Add and Remove take.
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
			default: // the error that waits has the same effect, or this one comes again
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

// remove ends the watch on a folder. That the folder is gone is no error.
func (n *notifier) remove(dir string) { _ = n.Remove(dir) }

func (n *notifier) close() {
	_ = n.Close() // nothing was written through it
	n.receive.Wait()
}
