package harness

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file stops the wrapper's own job. A SIGCONT may arrive at any time between
// the reason for the stop and the stop itself. It was sent to continue the job, so the
// job must then not stop: nothing would continue it.

// together is the time in which two signals count as sent together. Package os/signal
// delivers signals that arrive together in the order of their numbers, SIGCONT before
// SIGTSTP, so their true order is unknown. The SIGCONT counts as the later one, because
// a job that stays stopped is worse than one that was not stopped. Usually handleSignals
// finds both signals waiting. The constant is for a SIGTSTP that is delivered a little
// later than the SIGCONT.
const together = 5 * time.Millisecond

// A contWatch receives every SIGCONT between its creation and its end.
type contWatch struct{ signals chan os.Signal }

func watchCont() *contWatch {
	w := &contWatch{make(chan os.Signal, 1)}
	signal.Notify(w.signals, syscall.SIGCONT)
	return w
}

// end ends the watch, which may be nil or ended, and reports whether it has seen a
// SIGCONT. It waits for a signal that was caught but not yet delivered to the
// channel.
func (w *contWatch) end() (seen bool) {
	if w == nil {
		return false
	}
	signal.Stop(w.signals)
	return len(w.signals) > 0
}

// A passedStop is a SIGTSTP that the wrapper passed on to the harness. It is kept
// until the harness's stop or a SIGCONT was handled.
type passedStop struct {
	mu    sync.Mutex // guards the field since; matchStop holds it while it checks the harness's state
	since *contWatch // nil if no SIGTSTP is pending
}

func (p *passedStop) set(since *contWatch) (before *contWatch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.since = p.since, since
	return before
}

func (p *passedStop) take() *contWatch { return p.set(nil) }

// matchStop reports whether the harness is stopped, and not by Hold. If so, matchStop
// also returns c.passed.since and sets that field to nil. The field is the watch of a
// SIGTSTP that was passed on, or nil.
func (c *Child) matchStop() (passed *contWatch, stopped bool) {
	c.passed.mu.Lock()
	defer c.passed.mu.Unlock()
	if c.outdated(true) {
		return nil, false
	}
	passed, c.passed.since = c.passed.since, nil
	return passed, true
}

// passTogether passes on a SIGTSTP and a SIGCONT that were caught together, for programs
// that catch these signals. The harness may stop for a moment. The lock keeps matchStop from
// taking that for a stop that lasts.
func (c *Child) passTogether() {
	c.passed.mu.Lock()
	defer c.passed.mu.Unlock()
	unix.Kill(-c.pid, syscall.SIGTSTP)
	unix.Kill(-c.pid, syscall.SIGCONT)
}

// continueAfterStop continues the harness if the wrapper has passed on a SIGTSTP, and has
// not yet handled the stop that this signal causes.
func (c *Child) continueAfterStop() {
	c.passed.mu.Lock()
	defer c.passed.mu.Unlock()
	if c.passed.since != nil {
		unix.Kill(-c.pid, syscall.SIGCONT)
		c.passed.since.end()
		c.passed.since = nil
	}
}

// settle is the time that a thread gets to begin the handler of a signal that it has taken
// from the pending signals.
const settle = time.Millisecond

// stopGroup stops this process and its group, unless the watch passed as since has seen a
// SIGCONT or a SIGCONT is pending. stopGroup returns after the group was continued.
//
// The stop signal first waits in the thread, which blocks it. If a SIGCONT arrives from
// then on, the kernel removes the stop signal. An earlier SIGCONT is found among the
// pending signals or, if another thread has taken it, in the watch, after the time settle.
// A SIGCONT can be missed if its handler takes longer than settle to begin, or if it is
// sent between the look at the pending signals and the stop signal, which removes it.
// SIGSTOP cannot be blocked, so a SIGCONT between the check of the watch and the SIGSTOP
// can be missed too.
func stopGroup(sig syscall.Signal, since *contWatch) (stopped bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	blocked, before := unix.Sigset_t{}, unix.Sigset_t{}
	blocked.Val[0] = 1<<(sig-1) | 1<<(unix.SIGCONT-1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before) != nil {
		return false
	}
	pid, thread := os.Getpid(), unix.Gettid()
	unix.Tgkill(pid, thread, 0) // loads the code, so that no page fault lengthens the time until the stop signal
	waits := contWaits()        // read now, because a stop signal removes a pending SIGCONT
	var others []int
	if !waits {
		if sig != unix.SIGSTOP {
			unix.Tgkill(pid, thread, sig)
		}
		others = othersOfGroup() // before the check, because it takes longer than the rest
		time.Sleep(settle)
	}
	if since.end() || waits {
		unwait(sig)
		unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
		return false
	}
	for _, p := range others {
		unix.Kill(p, sig)
	}
	handler := setAction(sig, kernelAction{}) // the default action, because Go's handler would catch the signal
	if sig == unix.SIGSTOP {
		unix.Kill(pid, sig)
	}
	unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) // the stop signal that waits takes effect
	setAction(sig, handler)
	return true
}

// contWaits reports whether a SIGCONT is pending. The calling thread must block SIGCONT.
func contWaits() bool {
	var set unix.Sigset_t
	_, _, errno := unix.RawSyscall(unix.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&set)), 8, 0)
	return errno == 0 && set.Val[0]&(1<<(unix.SIGCONT-1)) != 0
}

// othersOfGroup returns the other processes of this process's group.
func othersOfGroup() (pids []int) {
	group := unix.Getpgrp()
	for _, p := range allProcs() {
		if p.pgrp == group && p.pid != os.Getpid() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// unwait removes a signal that is pending for this thread.
func unwait(sig syscall.Signal) {
	set, now := unix.Sigset_t{}, unix.Timespec{}
	set.Val[0] = 1 << (sig - 1)
	unix.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
}
