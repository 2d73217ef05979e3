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
// that catch these signals. It does nothing if no shell could continue the job.
func (c *Child) passTogether() {
	if underShell() {
		unix.Kill(-c.pid, syscall.SIGTSTP)
		unix.Kill(-c.pid, syscall.SIGCONT)
	}
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

// settle is the time in which a thread starts the handler of a signal that it has taken from
// the pending signals. It needs some microseconds, or more on a busy machine.
const settle = time.Millisecond

// stopGroup stops this process and its group, unless the watch passed as since has seen a
// SIGCONT. stopGroup returns after the group was continued.
//
// The stop signal first waits in the thread, which blocks it. If a SIGCONT arrives
// from then on, the kernel removes the stop signal. An earlier SIGCONT is found among the
// pending signals or, once another thread has taken it and the time settle has passed, in
// the watch. Missed is only a SIGCONT that is sent between the look at the pending signals
// and the stop signal, which removes it. These are two system calls in immediate
// succession. SIGSTOP cannot be blocked, so a SIGCONT between the check of the watch and
// the SIGSTOP is missed too.
func stopGroup(sig syscall.Signal, since *contWatch) (stopped bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	blocked, before := unix.Sigset_t{}, unix.Sigset_t{}
	blocked.Val[0] = 1<<(sig-1) | 1<<(unix.SIGCONT-1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before) != nil {
		return false
	}
	handler := setAction(sig, kernelAction{}) // set the default action, because Go's handler would catch the signal
	pid, thread := os.Getpid(), unix.Gettid()
	waits := contWaits() // read now, because a stop signal removes a pending SIGCONT
	if sig != unix.SIGSTOP && !waits {
		unix.RawSyscall(unix.SYS_TGKILL, uintptr(pid), uintptr(thread), uintptr(sig))
	}
	time.Sleep(settle)
	stopped = !since.end() && !waits
	if stopped {
		stopOthers(sig)
	} else {
		unwait(sig)
	}
	if stopped && sig == unix.SIGSTOP {
		unix.Kill(pid, sig)
	}
	unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	setAction(sig, handler)
	return stopped
}

// contWaits reports whether a SIGCONT is pending. The calling thread must block SIGCONT.
func contWaits() bool {
	var set unix.Sigset_t
	_, _, errno := unix.RawSyscall(unix.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&set)), 8, 0)
	return errno == 0 && set.Val[0]&(1<<(unix.SIGCONT-1)) != 0
}

// stopOthers sends a stop signal to the other processes of this process's group.
func stopOthers(sig syscall.Signal) {
	group := unix.Getpgrp()
	for _, p := range allProcs() {
		if p.pgrp == group && p.pid != os.Getpid() {
			unix.Kill(p.pid, sig)
		}
	}
}

// unwait removes a signal that is pending for this thread.
func unwait(sig syscall.Signal) {
	set, now := unix.Sigset_t{}, unix.Timespec{}
	set.Val[0] = 1 << (sig - 1)
	unix.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
}
