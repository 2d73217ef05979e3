package harness

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Hold waits until the processes that it signalled have stopped, because one of them
// may be starting another. holdTime limits this wait. After deepTime, a process that
// is blocked in the kernel counts as stopped: a parent in vfork waits there for its
// child, which is stopped.
const (
	holdTime = 500 * time.Millisecond
	deepTime = 50 * time.Millisecond
)

// Hold stops the harness and all its descendants, also those in other Unix sessions and
// process groups. Hold repeats its search for descendants until it finds no new process.
// Call Hold again if another program has continued a stopped process. The wrapper
// continues to run.
func (c *Child) Hold() error {
	if c.ended.Load() {
		return os.ErrProcessDone
	}
	c.holding.Lock()
	defer c.holding.Unlock()
	c.paused.Store(true) // before the guard can report a stop
	var refused error
	for begin, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		running, deep, fresh := false, false, false
		// Parents first, so that none sees its child stop.
		for _, p := range alive(descendants(allProcs(), c.guard.pid, nil)) {
			if p.stopped() {
				continue
			}
			if !slices.ContainsFunc(c.held, func(q proc) bool { return q.pid == p.pid && q.start == p.start }) {
				c.held, fresh = append(c.held, p), true
			}
			if err := p.kill(unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
				refused = fmt.Errorf("suspend process %d: %w", p.pid, err)
				continue
			}
			running, deep = running || p.state != 'D', deep || p.state == 'D'
		}
		age := time.Since(begin)
		if !fresh && (!running || age > holdTime) && (!deep || age > deepTime) {
			return refused
		}
		time.Sleep(pause)
	}
}

// Free continues the processes that Hold has stopped, but none that another
// program has stopped.
func (c *Child) Free() error {
	c.holding.Lock()
	defer c.holding.Unlock()
	held := c.held
	c.held = nil
	c.paused.Store(false)
	var refused error
	// Children first, so that each runs before its parent.
	for _, p := range slices.Backward(held) {
		if err := p.kill(unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
			refused = fmt.Errorf("continue process %d: %w", p.pid, err)
		}
	}
	return refused
}

// outdated reports whether a message of the guard must be dropped. The message says that
// the harness has stopped or, if stopped is false, that the harness was continued. Such a
// message is dropped if it is not true at present, or if Hold has caused the stop.
// Without this rule, a quick Hold and Free would be reported as a stop by another program.
func (c *Child) outdated(stopped bool) bool {
	c.holding.Lock() // wait for a running Hold or Free
	defer c.holding.Unlock()
	p, err := readProc(c.pid)
	if err != nil || p.dead() {
		return false
	}
	if stopped {
		return len(c.held) > 0 || !p.stopped()
	}
	return p.stopped()
}

// stopped reports whether a signal or a debugger has stopped the process.
func (p proc) stopped() bool { return p.state == 'T' || p.state == 't' }
