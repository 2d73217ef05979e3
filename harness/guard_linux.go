package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The file descriptors that are open when a guard starts.
const (
	guardSocket = 3 + iota
	guardPage
	guardScreen
	guardLifeline // open only if the wrapper's call of Contain succeeded
)

// termGrace is the time between SIGTERM and SIGKILL.
const termGrace = time.Second

// markVariable is a variable in the environment of the programs that one wrapper calls.
// Its value is different for each wrapper. The wrapper's guards get the same value
// under another name. A session's id does not suffice: the user can give the same id to
// sessions of two state folders.
const (
	markVariable      = "LIFELOOP_WRAPPER"
	guardMarkVariable = "LIFELOOP_GUARD_OF"
)

// guardIgnores are the signals with which a user may end programs, and which would end a
// guard. SIGTSTP, SIGTTIN and SIGTTOU are not listed: the kernel does not stop a guard,
// whose process group is orphaned because the guard leads a session. Go's runtime itself
// ignores SIGUSR1, SIGUSR2, and a SIGPIPE from another process.
var guardIgnores = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT}

// GuardMain runs a guard and returns its exit code. A program must call it, before anything
// else, when the program was started with the command in Spec.Guard. GuardMain needs the
// open files that the wrapper gives to this command.
//
// A guard is the parent of one harness and of every orphan below it, and the
// leader of their session, as a shell would be. That lets a harness stop itself
// on Ctrl-Z. The guard exits when the wrapper has ended and no other process is left,
// neither one of the harness nor one that the wrapper started for itself.
func GuardMain() int {
	if os.Args[len(os.Args)-1] == wardenWord {
		return wardenMain()
	}
	g := &guard{socket: guardSocket, asked: make(chan message), waited: make(chan waited), kills: kills{}, missed: map[int]bool{}, notified: map[int]uint64{},
		mark: []byte("\x00" + markVariable + "=" + os.Getenv(guardMarkVariable) + "\x00")}
	for _, fd := range []int{guardSocket, guardPage, guardScreen, guardLifeline} {
		unix.CloseOnExec(fd)
	}
	var err error
	if g.page, err = mapPage(guardPage); err != nil {
		fmt.Fprintln(os.Stderr, "guard: only the wrapper can start a guard:", err)
		return 125
	}
	unix.Close(guardPage)
	// Catch these signals instead of ignoring them: the harness would inherit SIG_IGN,
	// but it does not inherit a handler. A signal that was ignored before stays ignored
	// for the harness too.
	for _, sig := range guardIgnores {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	// Pdeathsig sends the harness a signal when the thread that started the harness ends,
	// so this goroutine keeps its thread. Notify comes first: it is slower on a locked
	// thread.
	runtime.LockOSThread()
	reserveThreads()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 125
	}
	return g.run()
}

// reserveThreads creates the threads that the guard will need. If the runtime cannot create
// a thread, it ends the guard, and the wrapper cannot report why. So reserveThreads is
// called while there is no harness that would end with the guard.
func reserveThreads() {
	const needed = 3 // for listen, for reap, and for the scheduler while the locked main goroutine waits
	var ready sync.WaitGroup
	release := make(chan struct{})
	for range needed {
		ready.Add(1)
		go func() {
			runtime.LockOSThread() // a locked goroutine keeps its thread, so the next goroutine needs another thread
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		}()
	}
	ready.Wait()
	close(release)
}

// A guard is the state of a guard process. Its fields belong to the main goroutine.
type guard struct {
	socket int
	page   *page
	asked  chan message // messages of the wrapper, from listen; closed when the wrapper has ended
	waited chan waited  // changes of the harness's state, from reap; closed when no child is left

	pid      int // pid of the harness
	owned    []owned
	mark     []byte         // the variable that names the wrapper, in the environment of its clients
	missed   map[int]bool   // by pid of an owned process: owned.members had no living process at the last check
	empty    bool           // no process of the harness is left
	orphaned bool           // the wrapper has ended
	ended    bool           // the harness was reaped
	termed   bool           // the harness's group got SIGTERM
	notified map[int]uint64 // processes that got SIGTERM from termRound: pids with start times
	termAt   time.Time      // time of the next termRound, for groups other than the harness's; zero if none is planned
	graceEnd time.Time      // end of the grace period of the last call of stop; zero before the first call
	killAt   time.Time      // time of the next SIGKILL; zero if nothing is to be killed
	pause    time.Duration
	kills    kills // the killed processes of the harness's tree
}

// waited is a result of wait4 for the harness.
type waited struct {
	status unix.WaitStatus
	alone  bool // the harness ended and no other process was left
}

func (g *guard) run() int {
	files, ok := g.receive()
	switch {
	case !ok:
		g.empty = true
		g.wrapperEnded()
	default:
		// The runtime has only one processor (GOMAXPROCS=1, see guardEnv). The first read
		// of listen blocks, and occupies this processor until the runtime takes it away,
		// some 10 ms later. If listen were started after reap, reap might have to wait
		// that long, and would detect the end of a short program late.
		go g.listen()
		if err := g.start(files); err != nil {
			errno, known := errors.AsType[syscall.Errno](err)
			if !known {
				errno = syscall.EINVAL
			}
			g.send(msgBegun, 0, uint64(errno))
			g.empty = true
		} else {
			g.send(msgBegun, uint64(g.pid), 0)
			go g.reap()
		}
	}
	for !g.finished() {
		var alarm <-chan time.Time
		if at := g.due(); !at.IsZero() {
			alarm = time.After(time.Until(at))
		}
		select {
		case m, ok := <-g.asked:
			if !ok {
				g.asked = nil
				g.wrapperEnded()
				continue
			}
			g.execute(m)
		case w, ok := <-g.waited:
			if !ok {
				g.waited, g.empty = nil, true
				g.send(msgEmpty, uint64(len(g.kills)))
				continue
			}
			g.report(w)
		case <-alarm:
			if at := g.termAt; !at.IsZero() && !time.Now().Before(at) {
				g.termRound()
			} else {
				g.killRound()
			}
		}
	}
	return 0
}

func (g *guard) finished() bool {
	return g.orphaned && g.empty && len(g.owned) == 0
}

// receive waits for the launch message and its files: description, stdin,
// stdout, stderr.
func (g *guard) receive() ([]int, bool) {
	var buf [messageSize]byte
	oob := make([]byte, unix.CmsgSpace(4*4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(g.socket, buf[:], oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0:
			return nil, false
		}
		m, err := decode(buf[:n])
		if err != nil {
			return nil, false
		}
		if m.kind != msgLaunch {
			g.execute(m)
			continue
		}
		controls, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(controls) != 1 {
			return nil, false
		}
		fds, err := unix.ParseUnixRights(&controls[0])
		return fds, err == nil && len(fds) == 4
	}
}

// start starts the harness with the files of the launch message and closes them.
func (g *guard) start(fds []int) error {
	description := os.NewFile(uintptr(fds[0]), "launch description")
	l, err := readLaunch(description)
	description.Close()
	if err != nil {
		return err
	}
	defer func() {
		for _, fd := range fds[1:] {
			unix.Close(fd)
		}
	}()
	l.ignored.ignore()
	attr := &syscall.ProcAttr{
		Dir:   l.dir,
		Env:   l.env,
		Files: []uintptr{uintptr(fds[1]), uintptr(fds[2]), uintptr(fds[3])},
		Sys: &syscall.SysProcAttr{
			Setpgid: true,
			// If guard and wrapper are killed together, at least the harness
			// gets a signal.
			Pdeathsig: syscall.SIGTERM,
		},
	}
	if l.terminalFD >= 0 {
		tty := fds[1+l.terminalFD]
		if err := unix.IoctlSetInt(tty, unix.TIOCSCTTY, 0); err != nil {
			return err
		}
		attr.Sys.Foreground = true
		attr.Sys.Ctty = tty
	}
	pid, err := syscall.ForkExec(l.path, l.argv, attr)
	if errors.Is(err, syscall.ENOEXEC) && isText(l.path) {
		// A script without an interpreter line runs in a shell, as with execvp.
		argv := append([]string{"/bin/sh", l.path}, l.argv[1:]...)
		pid, err = syscall.ForkExec("/bin/sh", argv, attr)
	}
	g.pid = pid
	return err
}

// isText reports whether a file may be a script. As in shells, a file with a NUL in its
// first line cannot be one.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return bytes.IndexByte(line, 0) < 0
}

// listen sends each message of the wrapper to g.asked, which the method run reads,
// until the wrapper has ended.
func (g *guard) listen() {
	defer close(g.asked)
	var buf [messageSize]byte
	for {
		n, err := unix.Read(guardSocket, buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		if m, err := decode(buf[:n]); err == nil {
			g.asked <- m
		}
	}
}

// reap waits for every child, and sends each change of the harness's state to g.waited.
// Orphans become children of the guard, so the guard has a child as long as a process
// of the harness lives.
func (g *guard) reap() {
	defer close(g.waited)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED|unix.WCONTINUED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case pid != g.pid:
		case status.Exited() || status.Signaled():
			alone := reapEnded()
			g.waited <- waited{status, alone}
		default:
			g.waited <- waited{status: status}
		}
	}
}

// reapEnded reaps the children that have ended and reports whether no child is
// left.
func reapEnded() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return false
		}
	}
}

// report reports to the wrapper what happened to the harness. If the harness has left
// processes behind, report first counts them and sends them SIGTERM.
func (g *guard) report(w waited) {
	switch {
	case w.status.Stopped():
		g.send(msgStopped, uint64(w.status.StopSignal()))
	case w.status.Continued():
		g.send(msgCont)
	case w.alone:
		g.ended = true
		g.send(msgEnded, uint64(w.status), 0, uint64(len(g.kills)))
	default:
		g.ended = true
		// /proc may not show a process that is just being started, but at least one
		// process is left.
		left := max(len(alive(g.tree())), 1)
		g.termRound()
		g.end()
		g.send(msgEnded, uint64(w.status), uint64(left), uint64(len(g.kills)))
	}
}

// execute does what a message of the wrapper asks for.
func (g *guard) execute(m message) {
	switch m.kind {
	case msgOwn:
		g.disown(int(m.args[0]))
		g.owned = append(g.owned, owned{pid: int(m.args[0]), pgrp: int(m.args[1]), session: int(m.args[2]), start: m.args[3]})
	case msgDisown:
		g.disown(int(m.args[0]))
	case msgRelieve:
		g.owned, g.mark = nil, nil
	case msgStop:
		g.stop(unix.Signal(m.args[0]), time.Duration(m.args[1])*time.Millisecond)
	case msgKill:
		g.termAt, g.killAt = time.Time{}, time.Now()
		g.killRound()
	}
}

func (g *guard) disown(pid int) {
	g.owned = slices.DeleteFunc(g.owned, func(o owned) bool { return o.pid == pid })
}

// wrapperEnded restores the terminal and ends the remaining processes.
func (g *guard) wrapperEnded() {
	g.orphaned, g.termAt = true, time.Time{}
	g.restoreTerminal()
	if g.empty && len(g.owned) == 0 && len(g.mark) == 0 {
		return // nothing is left, so /proc need not be searched
	}
	procs := allProcs()
	if !g.empty {
		terminate(alive(descendants(procs, os.Getpid(), nil)))
	}
	g.findMarked(procs)
	g.forgetEnded(procs)
	if len(g.owned) > 0 {
		procs = allProcs()
		g.forgetEnded(procs)
	}
	for _, o := range g.owned {
		terminate(alive(o.members(procs)))
	}
	g.end()
}

// findMarked adds to the owned processes those that have the mark of this wrapper's
// clients in their environment. The kernel kills a client when the wrapper ends. Then
// only this mark identifies a process that the client had moved to another session.
func (g *guard) findMarked(procs []proc) {
	if len(g.mark) == 0 {
		return // the wrapper has sent msgRelieve: this guard need not end the clients
	}
	for _, p := range alive(slices.Clone(procs)) {
		if slices.ContainsFunc(g.owned, func(o owned) bool { return o.pid == p.pid }) {
			continue
		}
		env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
		if err == nil && bytes.Contains(append([]byte{0}, env...), g.mark) {
			g.owned = append(g.owned, owned{pid: p.pid, pgrp: p.pgrp, session: p.session, start: p.start})
		}
	}
}

// forgetEnded removes the owned processes that have no living member (see
// owned.members). The members are not children of the guard, so only /proc shows whether
// they live. An owned process is removed only after two readings of /proc in a row have
// shown no living member, because one reading may miss a process that is just being
// started.
func (g *guard) forgetEnded(procs []proc) {
	g.owned = slices.DeleteFunc(g.owned, func(o owned) bool {
		missed := g.missed[o.pid]
		g.missed[o.pid] = len(alive(o.members(procs))) == 0
		return missed && g.missed[o.pid]
	})
}

// stop signals the harness's group and begins a grace period for the whole tree. The
// grace period continues after the harness's end. If sig is SIGTERM, the other groups of
// the tree get SIGTERM too. They get it at once if stop was called before. Otherwise they
// get it after half of the grace period: until then the harness can end them itself.
func (g *guard) stop(sig unix.Signal, grace time.Duration) {
	if sig == unix.SIGTERM && !g.ended && g.termAt.IsZero() {
		g.termAt = time.Now()
		if g.graceEnd.IsZero() {
			g.termAt = g.termAt.Add(grace / 2)
		}
	}
	g.graceEnd = time.Now().Add(grace)
	if !g.ended && g.pid > 0 {
		g.termed = g.termed || sig == unix.SIGTERM
		unix.Kill(-g.pid, sig)
	}
}

// termRound sends SIGTERM to the processes of the tree that did not get it yet. The
// processes that already got it are cleaning up, and so are those that they start;
// another SIGTERM could end the cleanup.
func (g *guard) termRound() {
	g.termAt = time.Time{}
	tree := alive(descendants(allProcs(), os.Getpid(), func(p proc) bool {
		start, known := g.notified[p.pid]
		return known && start == p.start
	}))
	tree = slices.DeleteFunc(tree, func(p proc) bool { return g.termed && p.pgrp == g.pid })
	for _, p := range tree {
		g.notified[p.pid] = p.start
	}
	terminate(tree)
}

// due returns the time of the next termRound or killRound, or zero if none is planned.
func (g *guard) due() time.Time {
	if g.termAt.IsZero() || !g.killAt.IsZero() && g.killAt.Before(g.termAt) {
		return g.killAt
	}
	return g.termAt
}

// end schedules SIGKILL, unless SIGKILL is already scheduled. Processes that have just
// got SIGTERM have at least termGrace until then.
func (g *guard) end() {
	if !g.killAt.IsZero() {
		return
	}
	g.killAt = time.Now().Add(termGrace)
	if g.graceEnd.After(g.killAt) && !g.orphaned {
		g.killAt = g.graceEnd
	}
}

// killRound kills the remaining processes and schedules the next round: there may
// be new processes. Some cannot be killed, because they belong to another user or
// are blocked in the kernel, so the pause between rounds grows.
func (g *guard) killRound() {
	procs := allProcs()
	if !g.empty {
		g.kill(alive(descendants(procs, os.Getpid(), nil)))
	}
	if g.orphaned {
		g.findMarked(procs)
		for _, o := range g.owned {
			killAll(alive(o.members(procs)))
		}
		g.forgetEnded(procs)
	}
	if g.empty && (!g.orphaned || len(g.owned) == 0) {
		g.killAt = time.Time{}
		return
	}
	g.pause = min(max(2*g.pause, 10*time.Millisecond), time.Second)
	g.killAt = time.Now().Add(g.pause)
}

// kill kills processes of the harness's tree. It reports the first maxKilled of
// them to the wrapper.
func (g *guard) kill(procs []proc) {
	sent := len(g.kills)
	for _, p := range g.kills.add(procs) {
		if sent++; sent <= maxKilled {
			first, second := nameWords(p.Name)
			g.send(msgKilled, uint64(p.PID), first, second)
		}
	}
}

func (g *guard) tree() []proc { return descendants(allProcs(), os.Getpid(), nil) }

// send sends a message. Errors are ignored: the wrapper may have ended.
func (g *guard) send(kind byte, args ...uint64) {
	for {
		err := unix.Send(g.socket, packet(kind, args...), unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// restoreTerminal restores the terminal to the state that the shared page
// records, if this guard is in charge of the terminal.
func (g *guard) restoreTerminal() {
	w := g.page.get()
	if w.guard != uint32(os.Getpid()) {
		return
	}
	fd := guardScreen
	// Open the terminal again: the shell shares the given file, which must not
	// become non-blocking.
	if own, err := unix.Open("/proc/self/fd/"+strconv.Itoa(guardScreen), unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
		fd = own
		defer unix.Close(own)
	}
	if g.page.look.Load() {
		w.modes += resetLook
	}
	writeBounded(fd, []byte(w.modes), 300*time.Millisecond)
	if !w.hasAttrs {
		return
	}
	// If the attributes have changed, a shell has already taken the terminal back.
	if now, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil && sameTermios(now, &w.ours) {
		unix.IoctlSetTermios(fd, unix.TCSETS, &w.saved)
	}
}

// writeBounded writes b to a terminal for at most limit.
func writeBounded(fd int, b []byte, limit time.Duration) {
	deadline := time.Now().Add(limit)
	for len(b) > 0 {
		left := time.Until(deadline)
		if left <= 0 {
			return
		}
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(ready, int(left.Milliseconds())+1); n == 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
			return
		}
		n, err := unix.Write(fd, b)
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return
		}
		b = b[max(n, 0):]
	}
}

func sameTermios(a, b *unix.Termios) bool {
	return a.Iflag == b.Iflag && a.Oflag == b.Oflag && a.Cflag == b.Cflag && a.Lflag == b.Lflag && a.Cc == b.Cc
}
