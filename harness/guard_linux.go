package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Files a guard finds open when it begins.
const (
	guardSocket = 3 + iota
	guardPage
	guardScreen
)

// termGrace is how long a process has between TERM and KILL.
const termGrace = time.Second

// guardDeaf are the signals a guard does not die or stop of.
var guardDeaf = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT,
	syscall.SIGTSTP, syscall.SIGTTOU, syscall.SIGTTIN, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2}

// GuardMain is the whole life of a guard; its result is the exit code. It is
// to be called by main, before anything else, when the program was started
// with the command in Spec.Guard. It must not be called by hand: it expects
// the files that Start leaves open for it.
//
// A guard is the parent of one harness and of every orphan below it, and the
// leader of their session, as a shell would be; so a harness that stops itself
// on Ctrl-Z does stop. It ends when the wrapper has ended and nothing of the
// harness is left.
func GuardMain() int {
	// The harness gets a signal when the *thread* that started it ends.
	runtime.LockOSThread()
	g := &guard{socket: guardSocket, asked: make(chan message), waited: make(chan waited)}
	for _, fd := range []int{guardSocket, guardPage, guardScreen} {
		unix.CloseOnExec(fd)
	}
	var err error
	if g.page, err = mapPage(guardPage); err != nil {
		fmt.Fprintln(os.Stderr, "the guard is started by the wrapper, never by hand:", err)
		return 125
	}
	unix.Close(guardPage)
	// A handler rather than SIG_IGN, which the harness would inherit. What was
	// ignored before us stays ignored for the harness too.
	for _, sig := range guardDeaf {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 125
	}
	return g.run()
}

// A guard's fields belong to its main goroutine.
type guard struct {
	socket int
	page   *page
	asked  chan message // from listen; closed when the wrapper has ended
	waited chan waited  // from reap; closed when no child is left

	pid      int // of the harness
	owned    []owned
	empty    bool      // nothing of the harness is left
	orphaned bool      // the wrapper has ended
	killAt   time.Time // when KILL follows TERM; zero while nobody is to end
	pause    time.Duration
}

// waited is news about the harness from wait4.
type waited struct {
	status unix.WaitStatus
	alone  bool // ended, and nothing else was left
}

func (g *guard) run() int {
	files, ok := g.receive()
	switch {
	case !ok:
		g.empty = true
		g.wrapperEnded()
	default:
		// Listening holds the only processor in a blocking read until the
		// runtime takes it away; were it begun after reaping, a program that
		// ends at once would be noticed some 10 ms late.
		go g.listen()
		if err := g.start(files); err != nil {
			g.tell(msgBegun, 0, uint64(startErrno(err)))
			g.empty = true
		} else {
			g.tell(msgBegun, uint64(g.pid), 0)
			go g.reap()
		}
	}
	for !g.finished() {
		var alarm <-chan time.Time
		if !g.killAt.IsZero() {
			alarm = time.After(time.Until(g.killAt))
		}
		select {
		case m, ok := <-g.asked:
			if !ok {
				g.asked = nil
				g.wrapperEnded()
				continue
			}
			g.obey(m)
		case w, ok := <-g.waited:
			if !ok {
				g.waited, g.empty = nil, true
				g.tell(msgEmpty)
				continue
			}
			g.report(w)
		case <-alarm:
			g.killRound()
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
			g.obey(m)
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

// start starts the harness on the files that were received and closes them.
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
	if l.ignoreHUP {
		signal.Ignore(syscall.SIGHUP)
	}
	if l.ignoreINT {
		signal.Ignore(syscall.SIGINT)
	}
	attr := &syscall.ProcAttr{
		Dir:   l.dir,
		Env:   l.env,
		Files: []uintptr{uintptr(fds[1]), uintptr(fds[2]), uintptr(fds[3])},
		Sys: &syscall.SysProcAttr{
			Setpgid: true,
			// Should guard and wrapper be killed together, at least the
			// harness itself is told.
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
		// A script without an interpreter line: as execvp does.
		argv := append([]string{"/bin/sh", l.path}, l.argv[1:]...)
		pid, err = syscall.ForkExec("/bin/sh", argv, attr)
	}
	g.pid = pid
	return err
}

// isText looks as shells do: what has a NUL in its first line is a program for
// another machine, or none, and not a script.
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

func startErrno(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return syscall.EINVAL
}

// listen hands on what the wrapper asks until the wrapper has ended.
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

// reap waits for every child. Orphans come to us, so as long as anything of
// the harness lives we have a child, and when we have none nothing is left.
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
			alone := reapTheDead()
			g.waited <- waited{status, alone}
		default:
			g.waited <- waited{status: status}
		}
	}
}

// reapTheDead collects the children that have already ended and tells whether
// none is left.
func reapTheDead() bool {
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

// report tells the wrapper what happened to the harness. What is left of it
// is told to end first, because that also counts it.
func (g *guard) report(w waited) {
	switch {
	case w.status.Stopped():
		g.tell(msgStopped, uint64(w.status.StopSignal()))
	case w.status.Continued():
		g.tell(msgCont)
	case w.alone:
		g.tell(msgEnded, uint64(w.status), 0)
	default:
		left := alive(g.tree())
		terminate(left)
		g.end()
		g.tell(msgEnded, uint64(w.status), uint64(len(left)))
	}
}

// obey does what the wrapper asks.
func (g *guard) obey(m message) {
	switch m.kind {
	case msgOwn:
		g.disown(int(m.args[0]))
		g.owned = append(g.owned, owned{pid: int(m.args[0]), pgrp: int(m.args[1]), session: int(m.args[2]), start: m.args[3]})
	case msgDisown:
		g.disown(int(m.args[0]))
	case msgKill:
		g.killAt = time.Now()
		g.killRound()
	}
}

func (g *guard) disown(pid int) {
	kept := g.owned[:0]
	for _, o := range g.owned {
		if o.pid != pid {
			kept = append(kept, o)
		}
	}
	g.owned = kept
}

// wrapperEnded puts the terminal back, which no one else can write to any
// more, and ends whatever is left.
func (g *guard) wrapperEnded() {
	g.orphaned = true
	g.restoreTerminal()
	procs := allProcs()
	if !g.empty {
		terminate(alive(descendants(procs, os.Getpid(), nil)))
	}
	g.keepOwned(procs)
	for _, o := range g.owned {
		terminate(alive(o.members(procs)))
	}
	g.end()
}

// keepOwned forgets the owned processes that have ended.
func (g *guard) keepOwned(procs []proc) {
	kept := g.owned[:0]
	for _, o := range g.owned {
		if len(alive(o.members(procs))) > 0 {
			kept = append(kept, o)
		}
	}
	g.owned = kept
}

// end lets KILL follow in time, unless that is already under way.
func (g *guard) end() {
	if g.killAt.IsZero() {
		g.killAt = time.Now().Add(termGrace)
	}
}

// killRound kills what is left and plans the next round: new processes may
// have been started meanwhile, and some (of another user, or deep in the
// kernel) cannot be killed, so rounds become rarer.
func (g *guard) killRound() {
	procs := allProcs()
	if !g.empty {
		killAll(alive(descendants(procs, os.Getpid(), nil)))
	}
	if g.orphaned {
		for _, o := range g.owned {
			killAll(alive(o.members(procs)))
		}
		g.keepOwned(procs)
	}
	if g.empty && (!g.orphaned || len(g.owned) == 0) {
		g.killAt = time.Time{}
		return
	}
	g.pause = min(max(2*g.pause, 10*time.Millisecond), time.Second)
	g.killAt = time.Now().Add(g.pause)
}

func (g *guard) tree() []proc { return descendants(allProcs(), os.Getpid(), nil) }

// tell sends a message; a wrapper that has ended does not hear it.
func (g *guard) tell(kind byte, args ...uint64) {
	m := message{kind: kind}
	copy(m.args[:], args)
	for {
		err := unix.Send(g.socket, m.encode(), unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// restoreTerminal undoes what the shared page says, if this guard is the one
// in charge.
func (g *guard) restoreTerminal() {
	w := g.page.get()
	if w.guard != uint32(os.Getpid()) {
		return
	}
	fd := guardScreen
	// An open file of our own: the shell shares the one we were given, and it
	// must not find it non-blocking.
	if own, err := unix.Open("/proc/self/fd/"+strconv.Itoa(guardScreen), unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
		fd = own
		defer unix.Close(own)
	}
	writeBounded(fd, []byte(w.modes), 300*time.Millisecond)
	if !w.hasAttrs {
		return
	}
	// A shell that has taken the terminal back has set it as it likes it.
	if now, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil && sameTermios(now, &w.ours) {
		unix.IoctlSetTermios(fd, unix.TCSETS, &w.saved)
	}
}

// writeBounded writes b to a terminal that may not take it.
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
