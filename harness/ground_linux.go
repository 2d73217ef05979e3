package harness

import (
	"bytes"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file handles the background: another process group has the terminal. In the
// background the wrapper changes neither modes nor attributes, and reads no key. It
// writes output of the harness only where the kernel would let the harness itself
// write it. The kernel would stop a background job that writes to a terminal with
// `stty tostop`, or that changes the attributes, as every full-screen program does
// before it draws. In these cases the wrapper stops the harness and the wrapper's own
// process group, and the output waits. The attributes of the pty show whether the
// harness has changed them.
//
// In these cases the wrapper's group is stopped only once until it is in the foreground
// again. If a shell continues it in the background (bg), only the harness is stopped
// again: a wrapper that stopped whenever it is continued would never read the signal that
// is to end it.

// groundPause is the pause between two checks of a terminal that another process
// group has. The system does not report when a running job gets the terminal.
const groundPause = 200 * time.Millisecond

// ground is the state of a child that may be in the background.
type ground struct {
	fresh    unix.Termios // the attributes of the pty before the harness changed any
	frozen   atomic.Bool  // freeze has stopped the harness, because it must not write in the background
	parked   atomic.Bool  // the job was stopped because the harness must not write; false again in the foreground
	passed   passedStop   // a SIGTSTP that the wrapper passed on to the harness
	stopping atomic.Bool  // the harness was asked to end
	taking   sync.Mutex   // held by the goroutine that takes the terminal for the child
	moved    bell         // rings after a move to the foreground, a continuation or a call of Stop
}

// inBackground reports whether another process group has the terminal.
func (t *Terminal) inBackground() bool {
	if t.job < 0 {
		return false
	}
	group, err := unix.IoctlGetInt(t.job, unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}

// findJob finds the controlling terminal among the three files and sets job to its
// descriptor.
func (t *Terminal) findJob() {
	t.job = -1
	for i, f := range t.outer {
		if _, err := unix.IoctlGetInt(fdOf(f), unix.TIOCGPGRP); err == nil && t.isTTY[i] {
			t.job = fdOf(f)
			return
		}
	}
}

// leave records that another process group has the terminal, so that neither
// wrapper nor guard restores it.
func (t *Terminal) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.behind.Swap(true) {
		return
	}
	if !t.undone {
		t.shelved = t.modes
	}
	t.modes, t.changed = modes{}, false
	t.publish()
}

// suspend restores the terminal and saves the modes that the child has set, so that
// surface can set them again.
func (t *Terminal) suspend() {
	t.mu.Lock()
	if !t.behind.Load() {
		t.shelved, t.undone = t.modes, true
	}
	t.mu.Unlock()
	t.Restore()
}

// surface sets the attributes for the child again, and the modes that suspend has
// undone.
func (t *Terminal) surface() {
	if t.enter() != nil || t.inBackground() {
		return
	}
	t.mu.Lock()
	m, redo := t.shelved, t.undone
	back := t.behind.Swap(false) || redo
	t.undone = false
	t.mu.Unlock()
	if !back {
		return
	}
	t.setModes(m)
	if s := m.redo(); redo && s != "" {
		undoOn(t.screen, s)
	}
}

// surface is called when the wrapper is in the foreground. It takes the terminal for the
// child, and continues the harness if the harness was stopped.
func (c *Child) surface() {
	c.taking.Lock()
	defer c.taking.Unlock()
	c.terminal.surface()
	if c.ptmx != nil {
		c.resize()
	}
	asleep, frozen, parked := c.asleep.Swap(false), c.frozen.Swap(false), c.parked.Swap(false)
	if asleep || frozen {
		unix.Kill(-c.pid, syscall.SIGCONT)
	}
	if asleep && !parked {
		unix.Kill(-c.pid, syscall.SIGWINCH) // makes the harness redraw its screen
	}
	c.moved.ring()
}

// resume is called after the wrapper received SIGCONT. It continues the harness and, in
// the foreground, takes the terminal.
func (c *Child) resume() {
	if !c.terminal.inBackground() {
		c.surface()
		return
	}
	c.terminal.leave()
	c.frozen.Store(false)
	if c.asleep.Swap(false) {
		unix.Kill(-c.pid, syscall.SIGCONT)
	}
	c.moved.ring()
}

// mayWrite reports whether the kernel would let the harness write in the background if the
// harness ran without the wrapper. The kernel stops a background job with SIGTTOU if the job
// writes while TOSTOP is set, or changes the attributes of the terminal.
func (c *Child) mayWrite() bool {
	t := c.terminal
	if startedIgnoring().has(unix.SIGTTOU) {
		return true
	}
	tostop, changed := false, false
	if attrs, err := unix.IoctlGetTermios(t.job, unix.TCGETS); err == nil {
		tostop = attrs.Lflag&unix.TOSTOP != 0
	}
	if c.ptmx != nil {
		attrs, err := getTermios(c.ptmx)
		changed = err == nil && !sameTermios(attrs, &c.fresh)
	}
	// The kernel stops a background job only if a shell could continue it.
	return !tostop && !changed || !underShell()
}

// ashore is called for the output b of s when the wrapper is, or was, in the
// background. It returns the bytes to write to the terminal for b. If nothing may be
// written yet, it waits for the foreground.
func (c *Child) ashore(s *source, b []byte) []byte {
	t := c.terminal
	for t.inBackground() {
		t.leave()
		if c.mayWrite() {
			if s.tracker != nil && c.endsLinesTwice() {
				return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
			}
			return b
		}
		moved := c.moved.wait()
		if c.stopping.Load() {
			return nil // the output is dropped: without the wrapper, the stopped harness would have ended before it wrote this
		}
		c.freeze()
		select {
		case <-moved:
		case <-time.After(groundPause):
		case <-c.abandoned:
			return nil
		}
	}
	if t.behind.Load() {
		c.surface()
	}
	return b
}

// endsLinesTwice reports whether both the pty and the terminal add a carriage return to
// the end of a line. In the foreground, Terminal.enter prevents that, unless the terminal
// is shared with the other programs of a pipeline (see share_linux.go).
func (c *Child) endsLinesTwice() bool {
	const both = unix.OPOST | unix.ONLCR
	inner, err1 := getTermios(c.ptmx)
	outer, err2 := unix.IoctlGetTermios(c.terminal.job, unix.TCGETS)
	return err1 == nil && err2 == nil && inner.Oflag&both == both && outer.Oflag&both == both
}

// freeze stops the harness. When the guard reports this, Child.stopped stops the job. A
// harness that waits in vfork for a child causes no report: then the next call of freeze
// stops the job. If the harness has ended, freeze stops the job at once.
func (c *Child) freeze() {
	switch {
	case !c.ended.Load() && !c.frozen.Swap(true):
		unix.Kill(-c.pid, syscall.SIGSTOP)
		if c.stopping.Load() { // the harness was just asked to end, which it could not do while stopped
			unix.Kill(-c.pid, syscall.SIGCONT)
		}
	case !c.parked.Swap(true):
		since := watchCont()
		c.asleep.Store(true)
		c.stopJob(syscall.SIGTTOU, since)
	}
}

// atFront reports whether the wrapper is in the foreground, and waits a moment if it
// is not.
func (c *Child) atFront() bool {
	t := c.terminal
	if t.inBackground() {
		t.leave()
		moved := c.moved.wait()
		select {
		case <-moved:
		case <-time.After(groundPause):
		case <-c.endCh:
		}
		return false
	}
	if t.behind.Load() {
		c.surface()
	}
	return true
}

// blockTTIN makes a read of this thread in the background fail with EIO, instead of
// stopping the job. A check before the read is not enough: the terminal may move to
// another group between the check and the read.
func blockTTIN() (unblock func()) {
	runtime.LockOSThread()
	set, before := unix.Sigset_t{}, unix.Sigset_t{}
	set.Val[0] = 1 << (unix.SIGTTIN - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &before) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		if unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) == nil {
			runtime.UnlockOSThread()
		}
	}
}

// canSuspend reports whether a shell with job control takes over when this process
// stops.
func (t *Terminal) canSuspend() bool {
	if !t.typed || startedIgnoring().has(unix.SIGTSTP) {
		return false
	}
	session, err := unix.IoctlGetInt(fdOf(t.keys), unix.TIOCGSID)
	if own, ownErr := unix.Getsid(0); err != nil || ownErr != nil || session != own {
		return false // not the controlling terminal: no shell waits for this process
	}
	return underShell()
}

// underShell reports whether some ancestor could continue this process after a
// stop: one in the same session and in another process group.
func underShell() bool {
	self, err := readProc(os.Getpid())
	if err != nil {
		return false
	}
	for p := self; p.ppid > 0; {
		parent, err := readProc(p.ppid)
		if err != nil || parent.session != self.session {
			return false
		}
		if parent.pgrp != self.pgrp {
			return true
		}
		p = parent
	}
	return false
}

// stopJob stops the wrapper's whole process group, as Ctrl-Z would: in a script or a
// pipeline, the shell waits until every process of the group has stopped. stopJob
// returns after the continuation. If the watch passed as since has seen a SIGCONT, the
// job was already continued, and another stop might never end. In this case stopJob
// continues the harness and stops nothing.
func (c *Child) stopJob(sig syscall.Signal, since *contWatch) {
	switch sig {
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
	default:
		sig = unix.SIGSTOP
	}
	moved := c.moved.wait()
	if !stopGroup(sig, since) {
		c.resume()
		return
	}
	select {
	case <-moved:
	case <-time.After(termGrace): // the kernel has not stopped the job
	case <-c.endCh:
	}
}

// kernelAction is at least as large as the kernel's struct sigaction on any architecture.
// A value of zeros is the default action. Package os/signal cannot set it:
// signal.Reset restores Go's handler, which prints a stack trace for some signals.
type kernelAction [4]uint64

func setAction(sig syscall.Signal, action kernelAction) (before kernelAction) {
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), uintptr(unsafe.Pointer(&before)), 8, 0, 0)
	return before
}

// A bell wakes all goroutines that wait for it.
type bell struct {
	mu sync.Mutex // guards ch
	ch chan struct{}
}

func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
