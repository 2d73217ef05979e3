package harness

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is the outer terminal: the three files that the wrapper was started
// with, terminals or not. A process has one Terminal, which its children use one after
// another. A real terminal is not changed before the first child starts.
type Terminal struct {
	outside
	sharing
	stdin *feed // input of children with SameInput, or nil; owned by Start

	mu sync.Mutex // guards attributes, guarding, unread and byKey; never held while writing to a terminal
	attributes
	guarding
	adoption
	unread []byte // keys that the last child had not read when it ended
	byKey  bool   // the last child died of a signal that the pty made of a key

	reading    sync.Mutex // held by the one goroutine that reads from outside.keys
	typedAhead []byte     // read from outside.keys but not yet written to a child; guarded by the mutex reading
}

// outside is what OpenTerminal finds. It does not change afterwards.
type outside struct {
	outer    [3]*os.File
	isTTY    [3]bool
	mode     Mode
	pty      bool
	screen   *os.File // receives a pty's output
	onTTY    bool     // whether the file screen is a terminal
	attrs    *os.File // the terminal whose attributes are changed, or nil
	keys     *os.File // the file that is copied to the child's input, or nil
	typed    bool     // whether the file keys is a terminal
	tty      *os.File // the terminal opened by the wrapper to read keys, or nil
	opened   *os.File // the terminal opened by the wrapper to write output, or nil
	pageFile *os.File
	job      int    // descriptor of the controlling terminal, if it is among outer, or -1
	mark     string // a random value that no other wrapper has
}

// attributes are the state of the outer terminal.
type attributes struct {
	saved   unix.Termios
	ours    unix.Termios
	changed bool        // the terminal has the attributes in ours, not those in saved
	modes   modes       // the modes that a child's output has set
	look    bool        // the look of text (see type look) differs from the default
	shelved modes       // the modes that the method surface sets again; saved by suspend, leave or setModes
	undone  bool        // the shelved modes were undone on the terminal
	behind  atomic.Bool // another process group had the terminal at the last check
}

// guarding holds the guards and the processes that must end when the wrapper
// ends.
type guarding struct {
	page      *page
	guard     *guardProcess          // the guard of the running child
	warm      *guardProcess          // the guard of the next child
	guards    map[*guardProcess]bool // all running guards
	owned     map[int]owned
	inherited inherited
	contained *containment    // nil without Contain
	ending    []chan struct{} // one for each dismissed guard and for the warden (see containment), closed when that process was reaped
	child     int             // pid of the running harness, or 0; if its guard dies, the harness becomes a child of this process
	busy      bool            // a child is running
	closed    bool
}

// OpenTerminal inspects the three files of this process, normally os.Stdin,
// os.Stdout and os.Stderr. It does not change them. Call it before signal.Notify: the
// harness is to ignore the signals that this process ignored at its start, and Notify
// hides which signals these are.
func OpenTerminal(stdin, stdout, stderr *os.File, mode Mode) (*Terminal, error) {
	t := &Terminal{
		outside: outside{
			outer: [3]*os.File{stdin, stdout, stderr},
			mode:  mode,
			mark:  rand.Text(),
		},
		guarding: guarding{guards: make(map[*guardProcess]bool), owned: make(map[int]owned), inherited: presentChildren()},
	}
	ignoring := atStart() // called before the goroutine, because the caller may call signal.Notify next
	go ignoring()         // looks the ignored signals up early, because Start needs them
	for i, f := range t.outer {
		if f == nil {
			return nil, errors.New("open terminal: stdin, stdout and stderr must be open")
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
	t.findJob()
	t.findKeys()
	t.share()
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

// findKeys selects the file that is copied to the child's input, if there is one. In the
// mode Always the file is stdin. In the other modes it is a terminal: stdin or, if only
// stdout is a terminal, the terminal of stdout. In the last case the child's stdin is
// another file, and the child reads the keys from its pty.
func (t *Terminal) findKeys() {
	switch {
	case t.isTTY[0] || t.mode == Always:
		t.keys, t.typed = t.outer[0], t.isTTY[0]
	case t.pty && t.isTTY[1]:
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return // there is no controlling terminal, so the user cannot type
		}
		if !sameTerminal(tty, t.outer[1]) {
			tty.Close()
			return
		}
		t.keys, t.typed, t.tty = tty, true, tty
	}
}

// sameTerminal reports whether two open files are the same terminal device.
func sameTerminal(a, b *os.File) bool {
	x, err := unix.IoctlGetUint32(fdOf(a), unix.TIOCGDEV)
	if err != nil {
		return false
	}
	y, err := unix.IoctlGetUint32(fdOf(b), unix.TIOCGDEV)
	return err == nil && x == y
}

// findScreen selects the file that receives a pty's output and the terminal
// whose attributes are changed.
func (t *Terminal) findScreen() error {
	switch {
	case t.mode == Always || t.isTTY[1]:
		t.screen, t.onTTY = t.outer[1], t.isTTY[1]
	case t.isTTY[2]:
		t.screen, t.onTTY = t.outer[2], true
	default:
		// Only stdin is a terminal, so the pty's echo is written to that terminal. The
		// terminal is opened again, because stdin may be open for reading only.
		tty, err := os.OpenFile("/dev/tty", os.O_WRONLY|unix.O_NOCTTY, 0)
		if err != nil {
			tty, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fdOf(t.outer[0])), os.O_WRONLY|unix.O_NOCTTY, 0)
		}
		if err != nil {
			return fmt.Errorf("open stdin's terminal for writing: %w", err)
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

// Pty reports whether a child will get a pty.
func (t *Terminal) Pty() bool { return t.pty }

// Prepare starts the next child's guard early, while the caller does other
// things. If Prepare was not called, Start starts the guard.
func (t *Terminal) Prepare(guard []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.prepare(guard)
}

// Guards returns the running guards, including one that waits for the next
// child. After a wrapper was killed, another program can wait until these guards have
// ended. Then no process of the tree is left, and none writes to the terminal.
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

// Below reports whether a process belongs to the tree of a harness: it runs below one
// of the guards, which also adopt orphans. The result is true for a process that has
// ended.
func (t *Terminal) Below(pid int) bool {
	guards, wrapper := t.Guards(), os.Getpid()
	at, err := readProc(pid)
	if err != nil {
		return true
	}
	for {
		switch {
		case slices.ContainsFunc(guards, func(g Process) bool { return g.PID == at.pid }):
			return true
		case at.pid == wrapper, at.ppid == 0:
			return false
		}
		above, err := readProc(at.ppid)
		if err == nil {
			at = above
			continue
		}
		// Either the parent has ended and the process now has another parent, or the
		// parent belongs to another user and cannot be read. No process of this wrapper
		// is an ancestor of such a parent.
		again, err := readProc(at.pid)
		switch {
		case err != nil:
			return true
		case again.ppid == at.ppid:
			return false
		}
		at = again
	}
}

// Restore undoes the modes that a child has left and resets the attributes. It
// may be called at any time, from any goroutine and more than once. It writes
// nothing if there is nothing to undo, or if another job has the terminal.
func (t *Terminal) Restore() {
	if t.inBackground() {
		t.leave()
		return
	}
	t.mu.Lock()
	// A child that still runs when the terminal is closed will die of a signal, so all
	// its modes are undone.
	undo, changed, saved := t.undoString(t.closed && t.busy), t.changed, t.saved
	t.mu.Unlock()
	if undo != "" {
		undoOn(t.screen, undo)
	}
	switch {
	case t.shared:
		t.release()
	case changed:
		setTermios(t.attrs, &saved)
	}
	// Publish after the write: if the wrapper is killed before it publishes, the guard
	// restores the terminal too.
	t.mu.Lock()
	t.modes, t.changed = modes{}, false
	t.publish()
	t.mu.Unlock()
}

// EndedByKey reports whether the last child died of a signal that its terminal made
// of a key, such as Ctrl-C. Without the wrapper every process of the foreground
// group would have got that signal.
func (t *Terminal) EndedByKey() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey
}

// closeTime is how long Close waits for the guards. If no child runs, they exit within
// milliseconds. A guard that still ends processes of the wrapper may need longer.
const closeTime = time.Second

// Close restores the terminal and dismisses the guards. Unless a child still runs, it
// waits for the end of the guards and reaps them. After the wrapper's end, not every
// system would reap them: a container's first program often reaps no orphans.
func (t *Terminal) Close() {
	t.Dismiss()
	t.mu.Lock()
	ending := t.ending
	t.mu.Unlock()
	deadline := time.After(closeTime)
	for _, reaped := range ending {
		select {
		case <-reaped:
		case <-deadline:
			return
		}
	}
}

// Dismiss does what Close does, but does not wait for the guards. The caller can do other
// things while they exit, and then calls Close. A child that still runs is ended with its
// descendants. Where the system allows it, keys that no child has read are put back into
// the terminal for the next program.
func (t *Terminal) Dismiss() {
	t.mu.Lock()
	closed, busy := t.closed, t.busy
	t.closed = true
	t.mu.Unlock()
	if !closed && !busy {
		t.returnKeys()
	}
	t.Restore()
	if closed {
		return
	}
	t.dismiss(t.nothingLeft())
	// After dismiss: the guards exit while endAdoption waits for the goroutine of Adopt.
	t.endAdoption()
}

// dismiss dismisses the guards and closes the files. Unless a child still runs, it sets
// t.ending. relieved means that no process of the wrapper is left, so the guards need not
// search for such processes.
func (t *Terminal) dismiss(relieved bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.warm != nil {
		go t.warm.wait() // reaps this guard, which the loop below dismisses
	}
	var reaped []chan struct{}
	for g := range t.guards {
		if relieved {
			g.relieve()
		}
		g.dismiss()
		reaped = append(reaped, g.reaped)
	}
	t.closeFiles()
	if t.busy {
		return
	}
	if t.page != nil {
		t.page.unmap()
		t.page = nil
	}
	if t.contained != nil { // the warden of the control group exits after the guards
		reaped = append(reaped, reaping(t.contained.warden))
	}
	t.ending = append(t.ending, reaped...)
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
	if t.contained != nil {
		t.contained.close()
	}
}

// Mark is a variable, NAME=value, for the environment of every program that this
// process registers with Own. If this process is killed, the guard uses the variable to
// find the processes that such a program has moved to another session.
func (t *Terminal) Mark() string { return markVariable + "=" + t.mark }

// Own registers a process that the wrapper has started for itself. If the wrapper dies,
// the guard ends the registered process and, if that process leads a group, the group.
func (t *Terminal) Own(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.register(pid, false)
}

// Disown undoes Own after the process has ended.
func (t *Terminal) Disown(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unregister(pid)
}

// register makes the guards end a process if the wrapper dies. Callers hold mu.
func (t *Terminal) register(pid int, adopted bool) {
	p, err := readProc(pid)
	if err != nil {
		return // the process has already ended
	}
	o := owned{pid: pid, pgrp: p.pgrp, session: p.session, start: p.start, adopted: adopted}
	t.owned[pid] = o
	for g := range t.guards {
		g.own(o)
	}
}

// unregister undoes register. Callers hold mu.
func (t *Terminal) unregister(pid int) {
	delete(t.owned, pid)
	for g := range t.guards {
		g.send(msgDisown, uint64(pid))
	}
}

// publish writes to the shared page what the guard in charge must undo. Callers
// hold mu.
func (t *Terminal) publish() {
	if t.page == nil {
		return
	}
	w := word{saved: t.saved, ours: t.ours, hasAttrs: t.changed, modes: t.modes.undo(true)}
	if t.guard != nil && (t.changed || w.modes != "") {
		w.guard = uint32(t.guard.pid)
	}
	t.page.put(w)
}

// setModes records the modes that a child changes, before the bytes that change
// them are written.
func (t *Terminal) setModes(m modes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.behind.Load() {
		t.shelved = m
		return
	}
	t.modes = m
	t.publish()
}

// setLook records whether the look of text differs from the default. The look changes
// often, so the page has a separate field for the look.
func (t *Terminal) setLook(changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look = changed
	if t.page != nil {
		t.page.look.Store(changed)
	}
}

// undoString returns the sequences that restore the terminal; ended means that a
// signal ended the child. Callers hold mu.
func (t *Terminal) undoString(ended bool) string {
	undo := t.modes.undo(ended)
	if ended && t.look {
		undo += resetLook
	}
	return undo
}

// enter sets the outer terminal's attributes for a child on a pty. The pty processes
// input and output, so the outer terminal must not process them a second time.
func (t *Terminal) enter() error {
	if t.attrs == nil || t.shared {
		return nil
	}
	if t.inBackground() {
		t.leave() // do not change the terminal: the kernel would stop this job
		return nil
	}
	now, err := getTermios(t.attrs)
	if errors.Is(err, unix.EIO) {
		return nil // the terminal has hung up, which SIGHUP reports
	}
	if err != nil {
		return fmt.Errorf("read terminal attributes: %w", err)
	}
	t.mu.Lock()
	if !t.changed {
		// The user may have changed the attributes while the wrapper was stopped
		// or between two children.
		t.saved = *now
	}
	t.ours = t.saved
	switch {
	case !t.typed:
		t.ours.Oflag &^= unix.OPOST
	case t.isTTY[1]:
		makeRaw(&t.ours)
	default:
		// If stdout is a pipe, later programs of the pipeline write to this terminal
		// and need its output processing.
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

// childTermios returns the initial attributes of a child's pty, or nil for the
// kernel's defaults.
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
		if t.inBackground() { // in the background, a shell's line editor may have set the attributes
			makeSane(&saved)
		}
	}
	if t.shared {
		if !t.atRest(&saved) {
			makeSane(&saved)
		}
		saved.Lflag |= unix.EXTPROC
	}
	return &saved
}

// size returns the window size of the outer terminal, or 24 × 80 without one.
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

// makeRaw is cfmakeraw(3).
func makeRaw(t *unix.Termios) {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
}

// makeSane sets the flags that stty sane sets. It does not change the key assignments.
func makeSane(t *unix.Termios) {
	t.Iflag &^= unix.IGNBRK | unix.INLCR | unix.IGNCR | unix.IXOFF | unix.IUCLC | unix.IXANY
	t.Iflag |= unix.BRKINT | unix.ICRNL | unix.IMAXBEL | unix.IXON
	t.Oflag &^= unix.OLCUC | unix.OCRNL | unix.ONOCR | unix.ONLRET | unix.OFILL | unix.OFDEL | unix.NLDLY | unix.CRDLY | unix.TABDLY | unix.BSDLY | unix.VTDLY | unix.FFDLY
	t.Oflag |= unix.OPOST | unix.ONLCR
	t.Cflag |= unix.CREAD
	t.Lflag &^= unix.ECHONL | unix.NOFLSH | unix.TOSTOP | unix.ECHOPRT | unix.XCASE | unix.EXTPROC | unix.FLUSHO
	t.Lflag |= unix.ISIG | unix.ICANON | unix.IEXTEN | unix.ECHO | unix.ECHOE | unix.ECHOK | unix.ECHOCTL | unix.ECHOKE
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
// non-blocking, so that deadlines still work.
func fdOf(f *os.File) int {
	n := -1
	if c, err := f.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { n = int(fd) })
	}
	return n
}

// A guardProcess is a guard as the wrapper sees it: a pid and a socket.
type guardProcess struct {
	pid    int
	socket *os.File
	reaped chan struct{} // closed by wait
}

var defaultGuard = []string{"/proc/self/exe", "guard"}

// prepare starts a guard unless one is waiting. Callers hold mu.
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
	// Only this end is non-blocking: the guard uses blocking reads on its end.
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
	if t.contained != nil {
		raw = append(raw, t.contained.lifeline)
	}
	pid, err := startGuard(argv, append(guardEnv[:len(guardEnv):len(guardEnv)], guardMarkVariable+"="+t.mark), raw, t.Cgroup())
	if err != nil {
		ours.Close()
		return fmt.Errorf("start the guard %s: %w", argv[0], err)
	}
	t.warm = &guardProcess{pid: pid, socket: ours, reaped: make(chan struct{})}
	t.guards[t.warm] = true
	for _, o := range t.owned {
		t.warm.own(o)
	}
	return nil
}

// startGuard starts a process in a new session and, unless cgroup is nil, in that control
// group. env is for the process itself: a guard later gets the harness's environment in
// the launch message.
func startGuard(argv, env []string, files []*os.File, cgroup *os.File) (pid int, err error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = uintptr(fdOf(f)) // not f.Fd(), which would make the user's terminal blocking
	}
	// If the wrapper dies while the guard is stopped, the kernel continues the guard.
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGCONT}
	if cgroup != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, fdOf(cgroup)
	}
	// Not os.StartProcess: it may start another process, to test the kernel's features.
	return syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: env, Files: fds, Sys: sys})
}

// wait reaps the guard once it has ended. It is called once.
func (g *guardProcess) wait() {
	reap(g.pid)
	close(g.reaped)
}

// reaping calls reap in a goroutine, and returns a channel that is closed afterwards.
func reaping(pid int) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		reap(pid)
		close(done)
	}()
	return done
}

// reap waits for the end of a child process, such as a guard, and reaps the process.
func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// guardEnv is the environment of the warden, the process that at the end kills what is
// left in the control group. A guard also gets a variable with the wrapper's mark. The
// limit of one processor keeps guards and the warden small.
var guardEnv = []string{"GOMAXPROCS=1"}

func (g *guardProcess) own(o owned) {
	g.send(msgOwn, uint64(o.pid), uint64(o.pgrp), uint64(o.session), o.start)
}

// send sends a message. It returns an error if the guard has ended.
func (g *guardProcess) send(kind byte, args ...uint64) error {
	g.socket.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := g.socket.Write(packet(kind, args...))
	return err
}

// dismiss closes this side of the socket for writing. For the guard this means
// that the wrapper has ended; the guard's own messages still arrive.
func (g *guardProcess) dismiss() {
	if c, err := g.socket.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
}
