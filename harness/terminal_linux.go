package harness

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is the outer terminal, or what stands in its place: the three files
// the wrapper was started with. There is one per process and it survives
// several children, one after another.
//
// Nothing is done to a real terminal before the first child starts.
type Terminal struct {
	outer  [3]*os.File
	isTTY  [3]bool
	mode   Mode
	pty    bool
	screen *os.File // where a pty's output goes
	onTTY  bool     // screen is a terminal
	attrs  *os.File // the terminal whose attributes we change, or nil
	keys   *os.File // what is pumped to the child's input, or nil
	typed  bool     // keys is a terminal, where somebody types
	tty    *os.File // a keyboard we had to open ourselves, or nil
	opened *os.File // a screen we had to open ourselves, or nil

	ignoreHUP, ignoreINT bool

	stdin *feed // of a first child with SameInput; nil where stdin is given as it is

	page     *page
	pageFile *os.File

	mu      sync.Mutex // guards what follows; never held while writing to a terminal
	saved   unix.Termios
	ours    unix.Termios
	changed bool  // attributes are ours, not as saved
	modes   modes // what a child's output has changed
	shelved modes // what suspend took away
	guard   *guardProcess
	warm    *guardProcess
	guards  map[*guardProcess]bool // all that run
	owned   map[int]owned
	busy    bool // a child is running
	closed  bool

	unread []byte // what was typed to a child that ended before it read it

	reading    sync.Mutex // held by the one goroutine that reads stdin
	typedAhead []byte     // what it read and the last child did not take
}

// OpenTerminal looks at the three files of this process, normally os.Stdin,
// os.Stdout and os.Stderr. It changes nothing about them. It is to be called
// before the signals SIGHUP and SIGINT are asked for with signal.Notify, so
// that a child under nohup still finds them ignored.
func OpenTerminal(stdin, stdout, stderr *os.File, mode Mode) (*Terminal, error) {
	t := &Terminal{
		outer:     [3]*os.File{stdin, stdout, stderr},
		mode:      mode,
		ignoreHUP: signal.Ignored(syscall.SIGHUP),
		ignoreINT: signal.Ignored(syscall.SIGINT),
		guards:    make(map[*guardProcess]bool),
		owned:     make(map[int]owned),
	}
	for i, f := range t.outer {
		if f == nil {
			return nil, errors.New("open terminal: stdin, stdout and stderr are all needed")
		}
		_, err := getTermios(f)
		t.isTTY[i] = err == nil
	}
	switch mode {
	case Auto:
		t.pty = t.isTTY[0] || t.isTTY[1]
	case Always:
		t.pty = true
	case Never:
	default:
		return nil, fmt.Errorf("open terminal: unknown mode %q: use auto, always or never", mode)
	}
	t.findKeys()
	if t.pty {
		if err := t.findScreen(); err != nil {
			return nil, err
		}
	}
	var err error
	if t.page, t.pageFile, err = newPage(); err != nil {
		t.closeFiles()
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	return t, nil
}

// findKeys decides what is pumped to the child. A stdin that is no terminal is
// the child's own; the person in front of the screen still types, and the
// child expects that at the terminal that it has, which is our pty.
func (t *Terminal) findKeys() {
	switch {
	case t.isTTY[0] || t.mode == Always:
		t.keys, t.typed = t.outer[0], t.isTTY[0]
	case t.pty && t.isTTY[1]:
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return // no controlling terminal: nobody can type to us
		}
		if !sameTerminal(tty, t.outer[1]) {
			tty.Close()
			return
		}
		t.keys, t.typed, t.tty = tty, true, tty
	}
}

// sameTerminal compares the devices behind two names of a terminal.
func sameTerminal(a, b *os.File) bool {
	x, err := unix.IoctlGetUint32(fdOf(a), unix.TIOCGDEV)
	if err != nil {
		return false
	}
	y, err := unix.IoctlGetUint32(fdOf(b), unix.TIOCGDEV)
	return err == nil && x == y
}

// findScreen decides where a pty's output goes and whose attributes change.
func (t *Terminal) findScreen() error {
	switch {
	case t.mode == Always || t.isTTY[1]:
		t.screen, t.onTTY = t.outer[1], t.isTTY[1]
	case t.isTTY[2]:
		t.screen, t.onTTY = t.outer[2], true
	default:
		// Only stdin is a terminal: what the pty echoes belongs there. The file
		// we were given may be open for reading only.
		tty, err := os.OpenFile("/dev/tty", os.O_WRONLY|unix.O_NOCTTY, 0)
		if err != nil {
			tty, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fdOf(t.outer[0])), os.O_WRONLY|unix.O_NOCTTY, 0)
		}
		if err != nil {
			return fmt.Errorf("open the terminal that stdin is on for writing: %w", err)
		}
		t.screen, t.opened, t.onTTY = tty, tty, true
	}
	switch {
	case t.typed:
		t.attrs = t.keys
	case t.isTTY[1]:
		t.attrs = t.outer[1]
	default:
		return nil
	}
	saved, err := getTermios(t.attrs)
	if err != nil {
		t.closeFiles()
		return fmt.Errorf("read terminal attributes: %w", err)
	}
	t.saved = *saved
	return nil
}

// Pty tells whether a child will get a pty.
func (t *Terminal) Pty() bool { return t.pty }

// Prepare starts the next child's guard ahead of time, so that its start-up
// passes while the caller does other things. Start does it if nobody has.
func (t *Terminal) Prepare(guard []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.prepare(guard)
}

// Guards are the guards that run, the one that waits for the next child among
// them. Whoever comes after a wrapper that was killed waits for their end: then
// nothing of the tree is left, and nobody writes to the terminal any more.
func (t *Terminal) Guards() []Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Process
	for g := range t.guards {
		if p, err := readProc(g.pid); err == nil {
			all = append(all, Process{PID: g.pid, Start: p.start})
		}
	}
	slices.SortFunc(all, func(a, b Process) int { return a.PID - b.PID })
	return all
}

// Restore gives the terminal back as it was found: undoes the modes a child
// has left and resets the attributes. It may be called at any time, from any
// goroutine and more than once; where nothing is to be undone it writes
// nothing.
func (t *Terminal) Restore() {
	t.mu.Lock()
	undo, changed, saved := t.modes.undo(), t.changed, t.saved
	t.mu.Unlock()
	if undo != "" {
		undoOn(t.screen, undo)
	}
	if changed {
		setTermios(t.attrs, &saved)
	}
	// Forgotten only now: had we been killed half-way, the guard would have
	// done it again.
	t.mu.Lock()
	t.modes, t.changed = modes{}, false
	t.publish()
	t.mu.Unlock()
}

// Close restores the terminal and dismisses the guards. A child that still
// runs is ended with all it has started.
func (t *Terminal) Close() {
	t.Restore()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	if t.warm != nil {
		go t.warm.wait() // it ends by itself, now
	}
	for g := range t.guards {
		g.dismiss()
	}
	t.closeFiles()
	if t.page != nil && !t.busy {
		t.page.unmap()
		t.page = nil
	}
}

func (t *Terminal) closeFiles() {
	for _, f := range []*os.File{t.opened, t.tty} {
		if f != nil && !t.busy {
			f.Close()
		}
	}
	if t.pageFile != nil {
		t.pageFile.Close()
	}
}

// Own registers a process of the wrapper itself, with its process group if it
// leads one, to be ended should the wrapper die.
func (t *Terminal) Own(pid int) {
	p, err := readProc(pid)
	if err != nil {
		return // it has ended already
	}
	o := owned{pid: pid, pgrp: p.pgrp, session: p.session, start: p.start}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owned[pid] = o
	for g := range t.guards {
		g.own(o)
	}
}

// Disown takes back Own, when the process has ended.
func (t *Terminal) Disown(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.owned, pid)
	for g := range t.guards {
		g.tell(msgDisown, uint64(pid))
	}
}

// publish tells the guard in charge what to undo. Callers hold mu.
func (t *Terminal) publish() {
	if t.page == nil {
		return
	}
	w := word{saved: t.saved, ours: t.ours, hasAttrs: t.changed, modes: t.modes.undo()}
	if t.guard != nil && (t.changed || w.modes != "") {
		w.guard = uint32(t.guard.pid)
	}
	t.page.put(w)
}

// setModes takes note of the modes a child has changed, before the bytes that
// change them go out.
func (t *Terminal) setModes(m modes) {
	t.mu.Lock()
	t.modes = m
	t.publish()
	t.mu.Unlock()
}

// enter changes the attributes for a child on a pty, which does itself what
// the outer terminal did so far.
func (t *Terminal) enter() error {
	if t.attrs == nil {
		return nil
	}
	if !inForeground(t.attrs) {
		// A background job must not touch the terminal: the kernel would stop
		// us. When we are brought to the front a SIGCONT says so.
		return nil
	}
	now, err := getTermios(t.attrs)
	if errors.Is(err, unix.EIO) {
		return nil // it has hung up since, and whoever wanted us to know of it said so
	}
	if err != nil {
		return fmt.Errorf("read terminal attributes: %w", err)
	}
	t.mu.Lock()
	if !t.changed {
		// What the user has set in the meantime, stopped or between two
		// children, is what the user gets back.
		t.saved = *now
	}
	t.ours = t.saved
	switch {
	case !t.typed:
		t.ours.Oflag &^= unix.OPOST
	case t.isTTY[1]:
		makeRaw(&t.ours)
	default:
		// What runs behind us in the pipeline still writes to this terminal
		// and counts on its output processing.
		makeRaw(&t.ours)
		t.ours.Oflag = t.saved.Oflag
	}
	t.changed = true
	t.publish()
	ours := t.ours
	t.mu.Unlock()
	if err := setTermios(t.attrs, &ours); err != nil {
		return fmt.Errorf("set terminal attributes: %w", err)
	}
	return nil
}

// inForeground tells whether a change of the terminal's attributes would not
// stop us: it is not our controlling terminal, or we have it.
func inForeground(tty *os.File) bool {
	group, err := unix.IoctlGetInt(fdOf(tty), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// childTermios returns the attributes a child's pty begins with, or nil for
// the kernel's.
func (t *Terminal) childTermios() *unix.Termios {
	if t.attrs == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	saved := t.saved
	if !t.changed {
		if now, err := getTermios(t.attrs); err == nil {
			saved = *now
		}
	}
	return &saved
}

// size returns the window size of the outer terminal. Without any terminal a
// pty still needs one.
func (t *Terminal) size() unix.Winsize {
	for _, i := range []int{1, 0, 2} {
		if !t.isTTY[i] {
			continue
		}
		if ws, err := unix.IoctlGetWinsize(fdOf(t.outer[i]), unix.TIOCGWINSZ); err == nil {
			return *ws
		}
	}
	return unix.Winsize{Row: 24, Col: 80}
}

// canSuspend tells whether stopping this process hands the terminal back to
// somebody: a shell with job control, which is a parent in the same session
// and in another process group.
func (t *Terminal) canSuspend() bool {
	if !t.typed || signal.Ignored(syscall.SIGTSTP) {
		return false
	}
	self, err := readProc(os.Getpid())
	if err != nil {
		return false
	}
	if session, err := unix.IoctlGetInt(fdOf(t.keys), unix.TIOCGSID); err != nil || session != self.session {
		return false // not our controlling terminal: no shell watches it for us
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

// makeRaw is cfmakeraw(3).
func makeRaw(t *unix.Termios) {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
}

func getTermios(f *os.File) (*unix.Termios, error) {
	return unix.IoctlGetTermios(fdOf(f), unix.TCGETS)
}

func setTermios(f *os.File, attrs *unix.Termios) error {
	for {
		err := unix.IoctlSetTermios(fdOf(f), unix.TCSETS, attrs)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// fdOf returns the number of an open file. Unlike File.Fd it leaves the file
// non-blocking, without which deadlines would end to work.
func fdOf(f *os.File) int {
	n := -1
	if c, err := f.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { n = int(fd) })
	}
	return n
}

// A guardProcess is the wrapper's end of a guard.
type guardProcess struct {
	pid    int
	socket *os.File
}

var defaultGuard = []string{"/proc/self/exe", "guard"}

// prepare sees to it that a guard is waiting. Callers hold mu.
func (t *Terminal) prepare(argv []string) error {
	if t.warm != nil {
		return nil
	}
	if t.closed {
		return os.ErrClosed
	}
	if len(argv) == 0 {
		argv = defaultGuard
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create the guard's socket: %w", err)
	}
	// Only our end: the guard reads its own in a plain way.
	unix.SetNonblock(fds[0], true)
	ours, theirs := os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "wrapper")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		return err
	}
	defer null.Close()
	screen := null
	if t.screen != nil && t.onTTY {
		screen = t.screen
	}
	raw := []*os.File{null, null, null, theirs, t.pageFile, screen}
	pid, err := startGuard(argv, raw)
	if err != nil {
		ours.Close()
		return fmt.Errorf("start the guard %s: %w", argv[0], err)
	}
	t.warm = &guardProcess{pid: pid, socket: ours}
	t.guards[t.warm] = true
	for _, o := range t.owned {
		t.warm.own(o)
	}
	return nil
}

// startGuard starts a process in a session of its own. Its environment is
// empty: the harness's comes with the launch.
func startGuard(argv []string, files []*os.File) (pid int, err error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = uintptr(fdOf(f)) // os.StartProcess would make the user's terminal blocking
	}
	// Not through package os, which would start another process to find out
	// what the kernel can do.
	return syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env:   guardEnv,
		Files: fds,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// wait reaps the guard once it has ended.
func (g *guardProcess) wait() {
	for {
		if _, err := unix.Wait4(g.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// guardEnv keeps a guard small: it is one of the two processes that each
// wrapped harness costs.
var guardEnv = []string{"GOMAXPROCS=1"}

func (g *guardProcess) own(o owned) {
	g.tell(msgOwn, uint64(o.pid), uint64(o.pgrp), uint64(o.session), o.start)
}

// tell sends a message; a guard that has ended does not hear it.
func (g *guardProcess) tell(kind byte, args ...uint64) error {
	m := message{kind: kind}
	copy(m.args[:], args)
	g.socket.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := g.socket.Write(m.encode())
	return err
}

// dismiss closes our half of the conversation: to the guard that is the end of
// the wrapper, but we still hear what it does.
func (g *guardProcess) dismiss() {
	if c, err := g.socket.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
}
