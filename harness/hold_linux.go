package harness

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Hold waits until those that it has stopped stand still, for one of them may
// just be starting another; but not for ever.
const (
	holdTime = 500 * time.Millisecond
	// Who stays deep in the kernel is as good as still. A parent of vfork waits
	// there for its child, which stands still.
	deepTime = 50 * time.Millisecond
)

// Hold stops everything that the harness has started, wherever it went: what
// is in other sessions and groups too, until there is nothing new. It may be
// called again, when somebody else let one go on. The wrapper itself goes on.
func (c *Child) Hold() error {
	if c.ended.Load() {
		return os.ErrProcessDone
	}
	c.holding.Lock()
	defer c.holding.Unlock()
	c.paused.Store(true) // before the guard can tell of it
	var refused error
	for begin, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		running, deep, fresh := false, false, false
		// Parents come first: none is to see its child stop.
		for _, p := range alive(descendants(allProcs(), c.guard.pid, nil)) {
			if p.stopped() {
				continue
			}
			if !slices.ContainsFunc(c.held, func(q proc) bool { return q.pid == p.pid && q.start == p.start }) {
				c.held, fresh = append(c.held, p), true
			}
			if err := p.kill(unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
				refused = fmt.Errorf("stop process %d: %w", p.pid, err)
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

// Free lets everything go on that Hold has stopped, and nothing that somebody
// else has.
func (c *Child) Free() error {
	c.holding.Lock()
	defer c.holding.Unlock()
	held := c.held
	c.held = nil
	c.paused.Store(false)
	var refused error
	// Children first: none of them stands still when its parent looks.
	for _, p := range slices.Backward(held) {
		if err := p.kill(unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
			refused = fmt.Errorf("let process %d go on: %w", p.pid, err)
		}
	}
	return refused
}

// outdated says that what the guard tells of the harness, that it was stopped or
// went on, is no news: it is held, or that is over again already. Whoever holds
// and frees quickly would else be told of stops that nobody made.
func (c *Child) outdated(stopped bool) bool {
	c.holding.Lock() // half-way through one of the two nothing can be said
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

// stopped tells a process that stands still, by a signal or for its debugger.
func (p proc) stopped() bool { return p.state == 'T' || p.state == 't' }
