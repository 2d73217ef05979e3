package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"lifeloop/internal/vt"
)

// Child is one running harness. Its fields are set by start and not changed afterwards.
// The exceptions are atomic fields, fields that a mutex guards, and fields whose comment
// names an owner or says when they are written.
type Child struct {
	terminal *Terminal
	guard    *guardProcess
	sink     Sink
	pid      int
	childFiles
	pauses
	ground
	output
	ending
	typing typing
}

// childFiles are the wrapper's ends of the child's files.
type childFiles struct {
	ptmx    *os.File  // master of the pty, or nil
	slave   *os.File  // open so that a child may close and reopen its terminal
	input   *os.File  // where input from Terminal.keys is written: ptmx, or a pipe to the child's stdin; nil if Terminal.keys is not read
	stdin   *os.File  // pipe that the child gets as its stdin, instead of the wrapper's stdin (see sameInput); or nil
	sources []*source // the child's output
	wakeup  *os.File  // eventfd that interrupts the input pump
}

// pauses records whether, and by what, the child is stopped.
type pauses struct {
	paused  atomic.Bool // the harness is stopped, by Signal or Hold
	asleep  atomic.Bool // the wrapper stopped itself because the child stopped
	holding sync.Mutex  // protects the field held; Hold and Free lock it while they run
	held    []proc      // stopped by Hold, parents first
}

// output holds the reports of the pumps, the goroutines that copy the child's output.
type output struct {
	total   atomic.Int64          // bytes of output
	lines   atomic.Int64          // ends of lines; counted only without a tap
	began   time.Time             // when the child began
	last    atomic.Int64          // when output was last read, in ns after began; 0 before the first output
	lost    atomic.Pointer[error] // first error of writing output, other than EPIPE; nil without one
	armed   atomic.Bool           // the next output wakes the method report
	wake    chan struct{}
	tap     *tap       // queue of output for the sink; nil without Spec.Text
	textsMu sync.Mutex // guards texts; locked only to append or take texts
	texts   []oscText
}

// ending records which steps of the child's end are complete.
type ending struct {
	ended     atomic.Bool               // set before endCh is closed
	interrupt atomic.Pointer[time.Time] // when the interrupt key was last passed to the harness
	bySignal  atomic.Int32              // the signal that the pty sent when a key such as Ctrl-C was typed, or 0
	endCh     chan struct{}             // closed when the harness has ended
	exit      Exit                      // written before endCh is closed; only OutputLost is written later
	done      chan struct{}             // closed when the harness has ended and its output has reached the user
	empty     chan struct{}             // closed when no process of the harness's tree is left
	rested    chan struct{}             // closed when the output of the harness's whole tree has reached the user
	gone      chan struct{}             // closed when empty and rested are closed, at the latest drainTime after empty
	over      chan struct{}             // closed when the child's guard has ended
	killedMu  sync.Mutex                // guards killed; locked only to append or copy
	killed    Killed
	abandon   sync.Once
	abandoned chan struct{} // closed by Abandon
}

// A source is one stream of a child's output on its way to the user.
type source struct {
	file     *os.File
	to       *os.File
	tracker  *tracker // the tracker of a pty's output; nil for a pipe
	modes    modes    // this field and the field look are the tracker's last report; owned by the source's pump
	look     bool
	caughtUp chan struct{}
	onTTY    bool        // the output file, to, is a terminal
	stream   int         // the index of the source in Child.sources
	closed   bool        // the output file, to, accepts no more output, for example because its reader has closed it; owned by the source's pump
	partial  atomic.Bool // the last line of the output so far has no line end
}

// Start starts a child on t and the goroutines that serve it. t must have no other
// running child. An error is a *StartError.
func Start(spec Spec, t *Terminal, sink Sink) (*Child, error) {
	if len(spec.Argv) == 0 {
		return nil, wrapperError("start a harness: no program is named")
	}
	if spec.Env == nil {
		spec.Env = os.Environ()
	}
	path, err := lookPath(spec.Argv[0], spec.Dir, spec.Env)
	if err != nil {
		return nil, err
	}
	if err := t.take(); err != nil {
		return nil, err
	}
	c, err := start(spec, path, t, sink)
	if err != nil {
		t.giveBack()
		t.Restore()
		return nil, err
	}
	return c, nil
}

// take reserves the terminal for one child.
func (t *Terminal) take() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return wrapperError("start a harness: the terminal is closed")
	}
	if t.busy {
		return wrapperError("start a harness: another harness is using the terminal")
	}
	t.busy = true
	return nil
}

func (t *Terminal) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
	if t.closed {
		t.closeFiles()
		if t.page != nil {
			t.page.unmap()
			t.page = nil
		}
	}
}

func start(spec Spec, path string, t *Terminal, sink Sink) (_ *Child, err error) {
	// If the guard dies, the harness's tree gets this process as its parent.
	if err := subreaper(); err != nil {
		return nil, err
	}
	guard, err := t.changeGuard(spec.Guard)
	if err != nil {
		return nil, wrapperError("start %s: %w", spec.Argv[0], err)
	}
	c := &Child{
		terminal: t, guard: guard, sink: sink,
		output: output{wake: make(chan struct{}, 1), began: time.Now()},
		ending: ending{endCh: make(chan struct{}), done: make(chan struct{}), empty: make(chan struct{}), rested: make(chan struct{}), gone: make(chan struct{}), over: make(chan struct{}), abandoned: make(chan struct{})},
	}
	c.armed.Store(true)
	c.typing.watches, c.typing.cursor = spec.Line, spec.Line && spec.Cursor
	var theirs [3]*os.File
	defer func() {
		for i, f := range theirs {
			if f != nil && f != c.slave && f != t.outer[0] && (i == 0 || f != theirs[i-1]) {
				f.Close()
			}
		}
		if err != nil {
			c.closeFiles()
			t.dropGuard(guard, spec.Guard)
		}
	}()
	if theirs, err = c.connect(spec); err != nil {
		return nil, wrapperError("start %s: %w", spec.Argv[0], err)
	}
	if spec.Text {
		c.tap = newTap()
	}
	// Catch signals before the terminal's size is first read, so that no change of the
	// size is missed.
	signals := catch(t.pty)
	if t.pty {
		c.resize()
		if err := t.enter(); err != nil {
			signals.stop()
			return nil, wrapperError("start %s: %w", spec.Argv[0], err)
		}
	}
	if err := c.launch(spec, path, theirs); err != nil {
		signals.stop()
		return nil, err
	}
	c.run(signals)
	return c, nil
}

// connect creates the pty and the pipes, and returns the child's stdin, stdout and
// stderr.
func (c *Child) connect(spec Spec) (theirs [3]*os.File, err error) {
	t := c.terminal
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return theirs, fmt.Errorf("create an eventfd: %w", err)
	}
	c.wakeup = os.NewFile(uintptr(fd), "event")
	if t.pty {
		if c.ptmx, c.slave, err = openPty(t); err != nil {
			return theirs, err
		}
		if attrs, err := getTermios(c.slave); err == nil {
			c.fresh = *attrs
		}
		c.addSource(c.ptmx, t.screen, &tracker{wanted: spec.OSC, raw: !inUTF8(&t.saved, spec.Env), parser: vt.Parser{Console: onConsole(spec.Env)}})
	}
	onPty := func(i int) bool { return t.pty && (t.mode == Always || t.isTTY[i]) }
	if onPty(0) {
		theirs[0], c.input = c.slave, c.ptmx
	} else if !t.isTTY[0] {
		// The child gets the wrapper's stdin itself, so that a later program can read
		// what the child does not read. Keys go to the child's terminal.
		theirs[0] = t.outer[0]
		if t.typed {
			c.input = c.ptmx
		}
		if spec.SameInput {
			if err := c.sameInput(&theirs[0]); err != nil {
				return theirs, err
			}
		}
	} else if theirs[0], c.input, err = pipe(false); err != nil {
		return theirs, err
	}
	for i := 1; i <= 2; i++ {
		if onPty(i) {
			theirs[i] = c.slave
			continue
		}
		if i == 2 && !onPty(1) && sameFile(t.outer[1], t.outer[2]) {
			theirs[2] = theirs[1] // 2>&1: one stream, in the order it is written
			continue
		}
		var ours *os.File
		if theirs[i], ours, err = pipe(true); err != nil {
			return theirs, err
		}
		c.addSource(ours, t.outer[i], nil)
	}
	return theirs, nil
}

// inUTF8 reports whether a terminal uses UTF-8, judged by its attributes and the
// environment.
func inUTF8(attrs *unix.Termios, env []string) bool {
	if attrs.Iflag&unix.IUTF8 != 0 {
		return true
	}
	for _, name := range []string{"LC_ALL=", "LC_CTYPE=", "LANG="} {
		for _, kv := range env {
			if value, ok := strings.CutPrefix(kv, name); ok && value != "" {
				value = strings.ToLower(value)
				return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
			}
		}
	}
	return false
}

// onConsole reports whether the variable TERM in env names the Linux console.
func onConsole(env []string) bool {
	return slices.ContainsFunc(env, func(kv string) bool { return kv == "TERM=linux" || strings.HasPrefix(kv, "TERM=linux-") })
}

// sameInput gives the child the input of stdin from the beginning, as the first
// child had it.
func (c *Child) sameInput(theirs **os.File) (err error) {
	t := c.terminal
	if t.stdin == nil {
		t.stdin = newFeed(t.outer[0])
	} else if err := t.stdin.rewind(); err != nil {
		return fmt.Errorf("read standard input again: %w", err)
	}
	if t.stdin != nil && t.stdin.start < 0 {
		*theirs, c.stdin, err = pipe(false)
	}
	return err
}

func (c *Child) addSource(file, to *os.File, tr *tracker) {
	_, err := getTermios(to)
	c.sources = append(c.sources, &source{file: file, to: to, tracker: tr, onTTY: err == nil, stream: len(c.sources), caughtUp: make(chan struct{}, 1)})
}

// newPty opens a pty whose master supports deadlines and whose slave blocks.
func newPty() (ptmx, slave *os.File, err error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("open a pty: %w", err)
	}
	// The master that pty.Open returns is blocking, so deadlines have no effect on it.
	fd, err := unix.FcntlInt(uintptr(fdOf(master)), unix.F_DUPFD_CLOEXEC, 0)
	master.Close()
	if err != nil {
		return nil, slave, fmt.Errorf("open a pty: %w", err)
	}
	unix.SetNonblock(fd, true)
	ptmx = os.NewFile(uintptr(fd), "/dev/ptmx")
	// The child shares the slave's open file and expects it to block.
	unix.SetNonblock(fdOf(slave), false)
	return ptmx, slave, nil
}

// openPty opens a pty like the outer terminal.
func openPty(t *Terminal) (ptmx, slave *os.File, err error) {
	ptmx, slave, err = newPty()
	if err != nil {
		return ptmx, slave, err
	}
	attrs := t.childTermios()
	if attrs == nil {
		if attrs, err = getTermios(slave); err != nil {
			return ptmx, slave, fmt.Errorf("read the pty's attributes: %w", err)
		}
	}
	if t.attrs != nil && !t.isTTY[1] {
		attrs.Oflag &^= unix.OPOST // the outer terminal still does output processing: see enter
	}
	if !t.typed {
		attrs.Lflag &^= unix.ECHO // input does not come from a keyboard, so the pty must not echo it
	}
	if err := setTermios(slave, attrs); err != nil {
		return ptmx, slave, fmt.Errorf("set the pty's attributes: %w", err)
	}
	return ptmx, slave, nil
}

// pipe creates a pipe; the child's end blocks, the other does not.
func pipe(childWrites bool) (theirs, ours *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("create a pipe: %w", err)
	}
	our, their := fds[1], fds[0]
	if childWrites {
		our, their = fds[0], fds[1]
	}
	unix.SetNonblock(our, true)
	return os.NewFile(uintptr(their), "pipe"), os.NewFile(uintptr(our), "pipe"), nil
}

// sameFile reports whether writes to a and b must keep their order. They must if a and b
// are the same open file, or the same file and not a regular one.
func sameFile(a, b *os.File) bool {
	infoA, errA := a.Stat()
	infoB, errB := b.Stat()
	if errA != nil || errB != nil || !os.SameFile(infoA, infoB) {
		return false
	}
	if !infoA.Mode().IsRegular() {
		return true
	}
	// a and b name the same file, but it may have been opened twice. kcmp reports
	// whether they share one open file, as after 2>&1. If the kernel does not support
	// kcmp, they count as the same open file, because 2>&1 is more likely.
	const kcmpFile = 0
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid()), kcmpFile, uintptr(fdOf(a)), uintptr(fdOf(b)), 0)
	return errno != 0 || r == 0
}

// launch sends the guard a description of the child and waits for the answer.
func (c *Child) launch(spec Spec, path string, theirs [3]*os.File) error {
	l := launch{path: path, dir: spec.Dir, argv: spec.Argv, env: spec.Env, terminalFD: -1, ignored: startedIgnoring()}
	if spec.Dir != "" {
		if info, err := os.Stat(spec.Dir); err != nil {
			return wrapperError("start %s: %w", spec.Argv[0], err)
		} else if !info.IsDir() {
			return wrapperError("start %s in %s: %w", spec.Argv[0], spec.Dir, syscall.ENOTDIR)
		}
	}
	for _, s := range append(append([]string{spec.Dir}, spec.Argv...), spec.Env...) {
		if strings.IndexByte(s, 0) >= 0 {
			return wrapperError("start %s: an argument or a variable contains a NUL byte", spec.Argv[0])
		}
	}
	for i, f := range theirs {
		if c.slave != nil && f == c.slave {
			l.terminalFD = i
			break
		}
	}
	description, err := l.file()
	if err != nil {
		return wrapperError("start %s: %w", spec.Argv[0], err)
	}
	defer description.Close()
	rights := unix.UnixRights(fdOf(description), fdOf(theirs[0]), fdOf(theirs[1]), fdOf(theirs[2]))
	if err := unix.Sendmsg(fdOf(c.guard.socket), packet(msgLaunch), rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return wrapperError("start %s: send the launch to the guard: %w", spec.Argv[0], err)
	}
	var buf [messageSize]byte
	n, err := c.guard.socket.Read(buf[:])
	if err != nil {
		return wrapperError("start %s: the guard ended before it answered (if your Go program sets harness.Spec.Guard, check it): %w", spec.Argv[0], err)
	}
	m, err := decode(buf[:n])
	if err != nil || m.kind != msgBegun {
		return wrapperError("start %s: the guard's answer is malformed", spec.Argv[0])
	}
	if m.args[0] == 0 {
		return startError(spec.Argv[0], syscall.Errno(m.args[1]))
	}
	c.pid = int(m.args[0])
	c.terminal.setChild(c.pid)
	return nil
}

// setChild stores the pid of the running harness; 0 means that none runs.
func (t *Terminal) setChild(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.child = pid
}

// startError turns an errno of fork or execve into the exit code of a shell. If the machine
// lacks a resource, the errno says nothing about the program, so startError returns an
// error of the wrapper.
func startError(name string, errno syscall.Errno) *StartError {
	switch errno {
	case syscall.ENOENT:
		return &StartError{Code: 127, Err: fmt.Errorf("start %s: %w", name, errno)}
	case syscall.EAGAIN:
		return wrapperError("start %s: too many processes (see ulimit -u, or pids.max of the control group): %w", name, errno)
	case syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return wrapperError("start %s: %w", name, errno)
	}
	return &StartError{Code: 126, Err: fmt.Errorf("start %s: %w", name, errno)}
}

// Installed checks the file of a program, without starting it. It returns nil or
// the *StartError that Start would return with an empty Spec.Dir.
func Installed(program string, env []string) error {
	path, err := lookPath(program, "", env)
	if err != nil {
		return err
	}
	if errno := executable(path); errno != 0 {
		return startError(program, errno)
	}
	return nil
}

// executable returns ENOENT if stat fails for the file, EACCES if it is not a regular file
// that this process may execute, and 0 otherwise.
func executable(path string) syscall.Errno {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return syscall.ENOENT
	case !info.Mode().IsRegular() || unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) != nil:
		return syscall.EACCES
	}
	return 0
}

// lookPath finds the program as execvp does, with the child's PATH and working
// directory.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	if name == "" {
		return "", startError("a program with an empty name", syscall.ENOENT)
	}
	path := "/bin:/usr/bin"
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	refused := syscall.ENOENT
	for _, folder := range filepath.SplitList(path) {
		if folder == "" {
			folder = "."
		}
		found := folder + "/" + name
		seen := found
		if !filepath.IsAbs(found) && dir != "" {
			seen = dir + "/" + found
		}
		switch executable(seen) {
		case 0:
			return found, nil
		case syscall.EACCES:
			refused = syscall.EACCES
		}
	}
	return "", startError(name, refused)
}

// changeGuard puts a new guard in charge of the terminal. It makes the previous guard end
// the remaining processes of its harness, and then exit.
func (t *Terminal) changeGuard(argv []string) (*guardProcess, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.warm; g != nil && !runsChild(g.pid) {
		// The guard was killed while it waited: for example, by a signal to the wrapper's
		// process group before the guard had a session of its own.
		t.warm = nil
		t.forget(g)
		g.socket.Close()
		g.wait()
	}
	if err := t.prepare(argv); err != nil {
		return nil, err
	}
	before := t.guard
	t.guard, t.warm = t.warm, nil
	t.publish()
	if before != nil {
		before.relieve()
		before.dismiss()
	}
	return t.guard, nil
}

// relieve makes a guard leave the wrapper's own processes alone when the guard ends:
// another guard is responsible for these processes, or none of them is left.
func (g *guardProcess) relieve() { g.send(msgRelieve) }

// dropGuard ends a guard that never had a harness. If another guard can be
// started, it becomes responsible for the wrapper's own processes.
func (t *Terminal) dropGuard(g *guardProcess, argv []string) {
	t.Restore()
	t.mu.Lock()
	if len(t.owned) > 0 {
		_ = t.prepare(argv)
	}
	t.forget(g)
	g.relieve()
	t.mu.Unlock()
	g.socket.Close()
	g.wait()
}

// forget removes a guard that ends. Callers hold mu.
func (t *Terminal) forget(g *guardProcess) {
	delete(t.guards, g)
	if t.guard == g {
		t.guard = nil
	}
}

func (c *Child) closeFiles(except ...*source) {
	for _, s := range c.sources {
		if !slices.Contains(except, s) {
			s.file.Close()
		}
	}
	for _, f := range []*os.File{c.ptmx, c.slave, c.input, c.stdin, c.wakeup} {
		if f != nil {
			f.Close()
		}
	}
}

// PID returns the harness's process id, which is also its process group's.
func (c *Child) PID() int { return c.pid }

// Signal signals the harness's process group. If sig stops the harness, the wrapper does not
// stop with it.
func (c *Child) Signal(sig syscall.Signal) error {
	if c.ended.Load() {
		return os.ErrProcessDone
	}
	switch sig {
	case syscall.SIGSTOP, syscall.SIGTSTP:
		c.paused.Store(true)
	case syscall.SIGCONT:
		c.paused.Store(false)
	}
	if err := unix.Kill(-c.pid, sig); err != nil {
		return fmt.Errorf("signal the harness's process group %d: %w", c.pid, err)
	}
	return nil
}

// Continue continues the harness's process group if one of its processes is stopped.
// It sends nothing to a group that runs: a program that gets SIGCONT may set up the
// terminal again, as after the shell's command fg. Claude Code then forgets the position
// of its cursor, and prints its last text over its prompt.
func (c *Child) Continue() error {
	if c.ended.Load() {
		return os.ErrProcessDone
	}
	c.paused.Store(false)
	if !slices.ContainsFunc(allProcs(), func(p proc) bool { return p.pgrp == c.pid && p.stopped() }) {
		return nil
	}
	return c.Signal(syscall.SIGCONT)
}

// Stop sends a signal that asks the harness's process group to end. Processes that
// outlive the harness have until the end of the grace period to clean up.
func (c *Child) Stop(sig syscall.Signal, grace time.Duration) error {
	c.stopping.Store(true)
	c.moved.ring()
	if c.ended.Load() {
		return os.ErrProcessDone
	}
	err := c.guard.send(msgStop, uint64(sig), uint64(grace.Milliseconds()))
	if err != nil {
		err = c.Signal(sig)
	}
	if c.frozen.Swap(false) {
		unix.Kill(-c.pid, unix.SIGCONT)
	}
	return err
}

// KillTree kills the harness and all its descendants at once.
func (c *Child) KillTree() error {
	if err := c.guard.send(msgKill); err != nil {
		return fmt.Errorf("ask the guard to kill process %d and its descendants: %w", c.pid, err)
	}
	return nil
}

// Wait returns how the harness ended, after all its output has reached the
// user. It does not wait for the descendants of the harness.
func (c *Child) Wait() Exit {
	<-c.done
	return c.exit
}

// LastOutput returns when output of the child was last read. If output still waits
// to be read, for example because the user's reader has stalled, it returns the
// present time. It returns zero if there was no output.
func (c *Child) LastOutput() time.Time {
	for _, s := range c.sources {
		if s.waits() {
			return time.Now()
		}
	}
	last := c.last.Load()
	if last == 0 {
		return time.Time{}
	}
	return c.began.Add(time.Duration(last))
}

// Gone is closed when no process of the harness's tree is left and all output of the tree
// has reached the user. The wait for the output is at most a second.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Killed returns the processes of the tree that were killed so far. Once Gone
// is closed, no more are added.
func (c *Child) Killed() Killed {
	c.killedMu.Lock()
	defer c.killedMu.Unlock()
	return Killed{Processes: slices.Clone(c.killed.Processes), More: c.killed.More}
}

// note records killed processes of the tree. total is the number of processes killed so
// far, including those that the guard did not report by name; 0 if it is not known.
func (c *Child) note(total int, killed ...KilledProcess) {
	c.killedMu.Lock()
	defer c.killedMu.Unlock()
	c.killed.add(killed, total)
}

// add appends killed processes to k.Processes, up to maxKilled. total is the number of
// processes killed so far, including those that are not in the list.
func (k *Killed) add(killed []KilledProcess, total int) {
	k.Processes = append(k.Processes, killed[:min(len(killed), maxKilled-len(k.Processes))]...)
	k.More = max(k.More, total-len(k.Processes))
}

// follow handles the guard's messages until the guard has ended.
func (c *Child) follow() {
	defer close(c.over)
	empty := sync.OnceFunc(func() {
		close(c.empty)
		select {
		case <-c.rested:
		case <-time.After(drainTime): // the user's reader of the output has stalled
		}
		close(c.gone)
	})
	defer empty()
	var buf [messageSize]byte
	for {
		n, err := c.guard.socket.Read(buf[:])
		if err != nil {
			break
		}
		m, err := decode(buf[:n])
		if err != nil {
			continue
		}
		switch m.kind {
		case msgStopped:
			c.stopped(syscall.Signal(m.args[0]))
		case msgCont:
			if !c.outdated(false) {
				c.sink.Continued()
			}
		case msgKilled:
			c.note(0, KilledProcess{PID: int(m.args[0]), Name: nameOf(m.args[1], m.args[2])})
		case msgEnded:
			c.note(int(m.args[2]))
			exit := exitOf(unix.WaitStatus(m.args[0]))
			exit.Leftover = int(m.args[1])
			c.end(exit)
		case msgEmpty:
			c.note(int(m.args[0]))
			empty()
		}
	}
	c.guard.wait()
	c.guard.socket.Close()
	if !c.ended.Load() {
		c.end(c.endWithoutGuard())
	}
	c.terminal.mu.Lock()
	c.terminal.forget(c.guard)
	c.terminal.mu.Unlock()
}

func (c *Child) end(exit Exit) {
	at := c.interrupt.Load()
	exit.Interrupted = at != nil && time.Since(*at) < interruptPatience
	c.terminal.setChild(0) // not earlier: reap must not reap the harness before its exit status is known
	c.terminal.mu.Lock()
	c.terminal.byKey = exit.Signal != 0 && exit.Signal == syscall.Signal(c.bySignal.Load())
	c.terminal.mu.Unlock()
	c.exit = exit
	c.ended.Store(true)
	close(c.endCh)
}

func exitOf(status unix.WaitStatus) Exit {
	if status.Signaled() {
		sig := syscall.Signal(status.Signal())
		return Exit{Code: 128 + int(sig), Signal: sig}
	}
	return Exit{Code: status.ExitStatus()}
}

// endWithoutGuard ends the harness's processes after the guard has died. The harness's
// processes are then descendants of this process. A descendant in another session
// belongs to the harness, unless it is a guard, one of the wrapper's own processes, or
// inherited (see the type inherited).
func (c *Child) endWithoutGuard() Exit {
	t := c.terminal
	self, err := readProc(os.Getpid())
	if err != nil {
		return Exit{Code: 125, GuardLost: true}
	}
	exit := Exit{Code: 125, GuardLost: true}
	leaveOut := func(p proc) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		o, known := t.owned[p.pid]
		return t.isGuard(p.pid) || known && o.start == p.start || p.session == self.session || t.inherited.has(p.pid)
	}
	begin, kills := time.Now(), kills{}
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		tree := descendants(allProcs(), self.pid, leaveOut)
		for _, p := range tree {
			var status unix.WaitStatus
			if p.ppid != self.pid {
				continue
			}
			if pid, err := unix.Wait4(p.pid, &status, unix.WNOHANG, nil); err == nil && pid == c.pid {
				left := exit.Leftover
				exit = exitOf(status)
				exit.GuardLost, exit.Leftover = true, left
			}
		}
		live := alive(tree)
		age := time.Since(begin)
		switch {
		case len(live) == 0 && !t.strangers(self.session) || age > 3*termGrace:
			return exit
		case pause == 2*time.Millisecond:
			exit.Leftover = max(len(live)-1, 0)
			terminate(live)
		case age > termGrace:
			added := kills.add(live)
			c.note(len(kills), added...)
		}
		time.Sleep(pause)
	}
}
