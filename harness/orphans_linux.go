package harness

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adoption is the state of the wrapper as the parent of orphans. As a subreaper it adopts
// the processes that its clients leave behind, whatever their session or group. Each
// child that this process has started is reaped by the code that started it. So the
// reaper reaps only children that this process has not started.
type adoption struct {
	forks   sync.Mutex // held while a process is started and registered, or reaped and unregistered
	changes chan os.Signal
	stop    chan struct{} // closed to end the reaper
	stopped chan struct{} // closed when the reaper has ended
}

// Adopt makes this process the parent of every process that is orphaned below it.
// Until Close, a goroutine reaps the orphans that end, and continues a guard that a
// signal has stopped. If this process is killed, the guard ends the living orphans.
// After Adopt, the caller must hold Forks while it starts a process and registers it
// with Own.
func (t *Terminal) Adopt() error {
	if err := subreaper(); err != nil {
		return err
	}
	t.changes, t.stop, t.stopped = make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(t.changes, syscall.SIGCHLD)
	go func() {
		defer close(t.stopped)
		for {
			select {
			case <-t.changes:
				t.continueGuards()
				t.reap(firstThread())
			case <-t.stop:
				return
			}
		}
	}()
	return nil
}

// subreaper makes orphans children of this process.
func subreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return wrapperError("become the parent of orphans: %w", err)
	}
	return nil
}

// nothingLeft reports whether no harness is running and no registered process is left. The
// wrapper's own processes and orphans are registered. Without Adopt the result is false,
// because orphans were not registered.
func (t *Terminal) nothingLeft() bool {
	if t.stop == nil {
		return false
	}
	t.reap(firstThread())
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.owned) == 0 && !t.busy
}

// endAdoption ends the reaper.
func (t *Terminal) endAdoption() {
	if t.stop == nil {
		return
	}
	signal.Stop(t.changes)
	close(t.stop)
	<-t.stopped
	t.stop = nil
}

// Forks is held while a process of the wrapper is started and registered with Own,
// and while it is reaped and unregistered with Disown. Between these steps the process
// would look like an orphan.
func (t *Terminal) Forks() sync.Locker { return &t.forks }

// continueGuards continues the guards that a signal has stopped. A stopped guard
// neither reports the harness's end nor ends the harness.
func (t *Terminal) continueGuards() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for g := range t.guards {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, g.pid, &info, unix.WSTOPPED|unix.WNOHANG, nil); err == nil && info.Signo != 0 {
			// No other process can have the pid, because this child is not reaped yet.
			unix.Kill(g.pid, unix.SIGCONT)
		}
	}
}

// firstThread is the thread of this process to which the system gives orphans.
func firstThread() string { return strconv.Itoa(os.Getpid()) }

// reap handles the orphans of one thread, or of all threads if thread is "*". It reaps
// the orphans that have ended. It registers the others with the guards, except when
// they could be processes of a harness whose guard has ended.
func (t *Terminal) reap(thread string) {
	t.forks.Lock()
	defer t.forks.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	pids := children(thread)
	// While the guard runs, orphans of the harness become children of the guard. If the
	// guard still runs after the list was made, the list contains no such orphan.
	running := t.child == 0 || t.guard != nil && runsChild(t.guard.pid)
	for _, pid := range pids {
		o, known := t.owned[pid]
		if known && !o.adopted || pid == t.child || t.isGuard(pid) || t.inherited.has(pid) {
			continue
		}
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR): // the next SIGCHLD leads to another attempt
		case err != nil || got == pid:
			if known {
				t.unregister(pid)
			}
		case !known && running:
			t.register(pid, true)
		}
	}
}

// runsChild reports whether a child still runs. It does not reap a child that has ended.
func runsChild(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo == 0
}

// isGuard reports whether pid is a guard or the warden, the process that at the end
// kills what is left in the control group. Callers hold mu.
func (t *Terminal) isGuard(pid int) bool {
	if t.contained != nil && t.contained.warden == pid {
		return true
	}
	for g := range t.guards {
		if g.pid == pid {
			return true
		}
	}
	return false
}

// children lists the children of a thread of this process, or of all threads if thread
// is "*". The list includes children that have ended but are not reaped. A child leaves
// the list only when this process reaps it, and the orphans of a child are in the list
// before the child can be reaped. So an empty list means that no process is left, if no
// child was reaped while the list was made.
func children(thread string) (pids []int) {
	// Usually this process has no child, and waitid reports that faster than /proc.
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil); errors.Is(err, unix.ECHILD) {
		return nil
	}
	threads := []string{thread}
	if thread == "*" {
		dir, err := os.Open("/proc/self/task")
		if err != nil {
			return nil
		}
		threads, _ = dir.Readdirnames(-1)
		dir.Close()
	}
	for _, one := range threads {
		raw, err := readSystemFile("/proc/self/task/" + one + "/children")
		if errors.Is(err, unix.ENOENT) && one == firstThread() {
			return childrenByParent() // this kernel does not have the file that lists children
		}
		for _, word := range bytes.Fields(raw) {
			if pid, err := strconv.Atoi(string(word)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// childrenByParent lists the children of all threads of this process. It reads every
// process of the machine.
func childrenByParent() (pids []int) {
	for _, p := range allProcs() {
		if p.ppid == os.Getpid() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// EndOrphans ends the processes that clients left behind: SIGTERM, and a second
// later SIGKILL. It returns when none is left, or when one cannot be killed, and
// names those that got SIGKILL. All clients must have ended: a client that still runs
// would be taken for an orphan and killed.
func (t *Terminal) EndOrphans() Killed {
	return endTrees(func() []owned {
		t.reap("*") // a child of a client may belong to the thread that started the client (CLONE_PARENT)
		return t.adopted()
	})
}

// endTrees ends the processes that left() returns, with their descendants. endTrees calls
// left() repeatedly until the result is empty, or until a process cannot be killed.
func endTrees(left func() []owned) (killed Killed) {
	kills, notified := kills{}, map[int]bool{}
	for begin, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		roots := left()
		age := time.Since(begin)
		if len(roots) == 0 || age > 3*termGrace {
			return killed
		}
		procs := allProcs()
		for _, root := range roots {
			tree := alive(root.members(procs))
			if age > termGrace {
				added := kills.add(tree)
				killed.add(added, len(kills))
				continue
			}
			for _, p := range tree {
				if !notified[p.pid] {
					notified[p.pid] = true
					terminate([]proc{p})
				}
			}
		}
		time.Sleep(pause)
	}
}

// adopted returns the living orphans.
func (t *Terminal) adopted() (orphans []owned) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.owned {
		if o.adopted {
			orphans = append(orphans, o)
		}
	}
	return orphans
}

// strangers reports whether this process has an unknown child outside of the wrapper's
// own Unix session. The parameter session is the id of this Unix session. Such a child is
// a process of a harness whose guard has died. The known children are the guards, the
// processes in t.owned, and the children that this process had at its start.
func (t *Terminal) strangers(session int) bool {
	t.forks.Lock()
	defer t.forks.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pid := range children("*") {
		if _, known := t.owned[pid]; known || t.isGuard(pid) || t.inherited.has(pid) {
			continue
		}
		if p, err := readProc(pid); err == nil && p.session != session {
			return true
		}
	}
	return false
}

// Orphans are the processes that the clients of this process leave behind, in a
// command that runs clients without a harness and so without a [Terminal].
type Orphans struct{ inherited inherited }

// Adopt makes this process the parent of every process that is orphaned below it. If
// this process is killed, nothing ends the orphans.
func Adopt() (*Orphans, error) {
	if err := subreaper(); err != nil {
		return nil, err
	}
	return &Orphans{presentChildren()}, nil
}

// inherited are the children that this process had before it started any, by pid with
// their start times. A shell started them and then became this program (x & exec
// lifeloop-wrap …). They belong to the user, so this package neither ends nor reaps them.
type inherited map[int]uint64

func presentChildren() inherited {
	present := make(inherited)
	for _, pid := range children("*") {
		if p, err := readProc(pid); err == nil {
			present[pid] = p.start
		}
	}
	return present
}

func (i inherited) has(pid int) bool {
	start, known := i[pid]
	if !known {
		return false
	}
	p, err := readProc(pid)
	return err == nil && p.start == start
}

// Reap reaps the orphans that have ended and leaves the others alone. All clients must
// have ended: a client that still runs would be taken for an orphan.
func (o *Orphans) Reap() { o.left() }

// End ends the orphans as [Terminal.EndOrphans] does. All clients must have ended.
func (o *Orphans) End() { endTrees(o.left) }

// left reaps the orphans that have ended and returns the others.
func (o *Orphans) left() (orphans []owned) {
	for _, pid := range children("*") {
		if o.inherited.has(pid) {
			continue
		}
		if got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err == nil && got == pid {
			continue
		}
		if p, err := readProc(pid); err == nil {
			orphans = append(orphans, owned{pid: pid, pgrp: p.pgrp, session: p.session, start: p.start, adopted: true})
		}
	}
	return orphans
}
