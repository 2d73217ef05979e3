package harness

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// After the harness has ended, a descendant may continue to write. Its output is read
// until no output waits, or until drainTime is over and more than drainBytes were read.
const (
	drainTime  = time.Second
	drainBytes = 2 << 20
	restTime   = 100 * time.Millisecond // how long a pipe is still read when no process of the tree is left
)

// inputPatience limits the wait for the input pump. The pump hangs in a read if another
// program has read the keys that poll reported to the pump. Such a pump ends at the next
// key, which the next child gets.
const inputPatience = 200 * time.Millisecond

// longAgo is a deadline that interrupts a read or write at once.
func longAgo() time.Time { return time.Unix(1, 0) }

// run starts the goroutines of a child and one that waits for them.
func (c *Child) run(signals caught) {
	var pumps, others sync.WaitGroup
	quiet := make(chan struct{})
	for _, s := range c.sources {
		pumps.Go(func() { c.pump(s) })
	}
	pumped := after(&pumps)
	var inputs sync.WaitGroup
	if c.input != nil {
		inputs.Go(c.pumpInput)
	}
	if c.stdin != nil {
		inputs.Go(c.pumpStdin)
	}
	typed := after(&inputs)
	others.Go(func() { c.report(quiet) })
	if c.tap != nil {
		others.Go(func() { c.read(quiet) })
	}
	others.Go(func() { c.handleSignals(signals, quiet) })
	go c.follow()
	go func() {
		<-c.endCh
		for _, f := range []*os.File{c.input, c.stdin} {
			if f != nil {
				f.SetWriteDeadline(longAgo())
			}
		}
		c.interruptInput()
		for _, s := range c.sources {
			s.file.SetReadDeadline(longAgo())
		}
		c.awaitPumps(pumped)
		select {
		case <-typed:
		case <-time.After(inputPatience):
		}
		signals.stop()
		close(quiet)
		others.Wait()
		if err := c.lost.Load(); err != nil {
			c.exit.OutputLost = *err
		}
		c.undo()
		if c.terminal.shared {
			c.terminal.release()
		}
		c.takeBack()
		rest := c.rest(pumped)
		c.closeFiles(rest...)
		c.terminal.giveBack()
		close(c.done)
		c.passRest(rest)
		close(c.rested)
	}()
}

// rest returns the pipes to which processes that outlived the harness may still write.
// As long as a pump may still read a pipe (pumped is not closed), rest returns none.
func (c *Child) rest(pumped <-chan struct{}) (rest []*source) {
	select {
	case <-pumped:
	default: // a pump has not ended yet
		return nil
	}
	for _, s := range c.sources {
		if c.exit.Leftover > 0 && s.tracker == nil && !s.closed {
			rest = append(rest, s)
		}
	}
	return rest
}

// passRest copies what the processes that outlived the harness write to pipes, until
// none of them is left: a closed pipe would end their cleanup with SIGPIPE.
func (c *Child) passRest(rest []*source) {
	var pumps sync.WaitGroup
	for _, s := range rest {
		pumps.Go(func() {
			defer s.file.Close()
			buf := make([]byte, 64<<10)
			for {
				n, err := s.file.Read(buf)
				if werr := writeAll(fdOf(s.to), buf[:n]); err != nil || werr != nil {
					return
				}
			}
		})
	}
	<-c.empty
	for _, s := range rest { // wait only restTime, because a program outside the tree may hold the pipe open
		s.file.SetReadDeadline(time.Now().Add(restTime))
	}
	pumps.Wait()
}

// after returns a channel that is closed when all goroutines of wg have returned.
func after(wg *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	return done
}

// pump copies one stream to the user. It blocks only while it reads or writes
// the stream.
func (c *Child) pump(s *source) {
	to := fdOf(s.to)
	buf := make([]byte, 64<<10)
	defer func() {
		// If the user's end is closed, close the child's end too, so that the child
		// gets the same error. An earlier close is not possible: a file that is being
		// drained cannot be closed.
		if s.closed {
			s.file.Close()
		}
	}()
	for {
		n, err := s.file.Read(buf)
		if n > 0 && !c.pass(s, to, buf[:n]) {
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The deadline is a request to read all output that waits. Reset it before
			// reading: a later reset could remove the deadline that run sets when the
			// child has ended.
			s.file.SetReadDeadline(time.Time{})
			over := c.ended.Load()
			if !c.drain(s, to, buf) || over {
				return
			}
			nudge(s.caughtUp)
		default:
			return
		}
	}
}

// drain copies the output that is there, and does not wait for more. All that a dead
// process has written is there, so its output ends where nothing is left to read. The end
// of the file may come much later, when the last background process closes the file.
func (c *Child) drain(s *source, to int, buf []byte) (more bool) {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return false
	}
	begin, passed := time.Now(), 0
	more = true
	conn.Control(func(fd uintptr) {
		for {
			n, err := unix.Read(int(fd), buf)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EAGAIN):
				return
			case err != nil || n == 0:
				more = false
				return
			}
			if !c.pass(s, to, buf[:n]) {
				more = false
				return
			}
			passed += n
			if passed > drainBytes && time.Since(begin) > drainTime {
				return
			}
		}
	})
	return more
}

// waits reports whether output waits to be read.
func (s *source) waits() (yes bool) {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return false
	}
	conn.Control(func(fd uintptr) {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, 0)
		yes = err == nil && n > 0 && ready[0].Revents&unix.POLLIN != 0
	})
	return yes
}

// pass writes b to the user, then counts it. The modes are recorded before the
// write: the guard must know them if the wrapper dies right after the write. The
// result is false if the output of a pipe cannot be written. For the output of a pty,
// write errors are ignored.
func (c *Child) pass(s *source, to int, b []byte) bool {
	c.last.Store(int64(time.Since(c.began)))
	out := b
	if s.onTTY && (c.terminal.inBackground() || c.terminal.behind.Load()) {
		out = c.ashore(s, b)
	}
	if s.tracker != nil {
		c.track(s, b)
		if c.typing.watches {
			c.typing.read(b, s.tracker.modes.showsCursor(), c.wake)
		}
	}
	write := writeAll
	if s.tracker != nil && c.terminal.shared {
		write = c.writeShared
	}
	if err := write(to, out); err != nil && s.tracker == nil {
		if !errors.Is(err, unix.EPIPE) {
			c.lost.CompareAndSwap(nil, &err)
		}
		s.closed = true
		return false
	}
	c.total.Add(int64(len(b)))
	if c.tap != nil {
		c.tap.put(s.stream, b)
	} else {
		c.lines.Add(int64(bytes.Count(b, []byte{'\n'})))
		s.partial.Store(b[len(b)-1] != '\n')
	}
	if s.tracker != nil && len(s.tracker.texts) > 0 {
		c.queueTexts(s.tracker.texts)
		s.tracker.texts = s.tracker.texts[:0]
		nudge(c.wake)
	}
	if c.armed.Load() && c.armed.CompareAndSwap(true, false) {
		nudge(c.wake)
	}
	return true
}

// track records the mode changes in the output b.
func (c *Child) track(s *source, b []byte) {
	changed := s.tracker.scan(b)
	if !c.terminal.onTTY {
		return
	}
	// Compare, because a redraw often sets modes and resets them in the same output.
	if m := &s.tracker.modes; changed && *m != s.modes {
		s.modes = *m
		c.terminal.setModes(*m)
	}
	if look := !s.tracker.plain(); look != s.look {
		s.look = look
		c.terminal.setLook(look)
	}
}

// maxTexts limits the texts that wait for a slow sink.
const maxTexts = 4096

// queueTexts queues texts for the sink's goroutine. If too many wait, the older
// half is dropped.
func (c *Child) queueTexts(texts []oscText) {
	c.textsMu.Lock()
	defer c.textsMu.Unlock()
	c.texts = append(c.texts, texts...)
	if n := len(c.texts); n > maxTexts {
		c.texts = append(c.texts[:0], c.texts[n-maxTexts/2:]...)
	}
}

// nudge wakes the reader of a channel with a buffer of 1.
func nudge(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// report reports to the sink what the pumps have seen, so that no pump waits for
// the sink.
func (c *Child) report(quiet <-chan struct{}) {
	var (
		reported, reportedLines int64
		begun                   bool             // the argument of the last call of Sink.Line
		next                    <-chan time.Time // when output may be reported again
		last                    bool
	)
	for !last {
		select {
		case <-c.wake:
		case <-next:
			next = nil
		case <-quiet:
			last = true
		}
		c.textsMu.Lock()
		texts := c.texts
		c.texts = nil
		c.textsMu.Unlock()
		for _, t := range texts {
			c.sink.OSC(t.number, t.text)
		}
		if now := c.typing.taken(); now != begun {
			begun = now
			c.sink.Line(begun)
		}
		if next != nil && !last {
			continue
		}
		if last {
			c.countPartialLines()
		}
		if total, lines := c.total.Load(), c.lines.Load(); total != reported || lines != reportedLines && last {
			if reported, reportedLines = total, lines; c.tap == nil { // if there is a tap, c.read passes the output to the sink
				c.sink.Output(total, lines)
			}
			next = time.After(time.Second)
			continue
		}
		c.armed.Store(true)
		if c.total.Load() != reported && c.armed.CompareAndSwap(true, false) {
			nudge(c.wake) // output came after the load above and before armed was set
		}
	}
}

// countPartialLines adds the unfinished last line of each output, if it has one, to the
// number of lines.
func (c *Child) countPartialLines() {
	for _, s := range c.sources {
		if s.partial.Load() {
			c.lines.Add(1)
		}
	}
}

// pumpInput copies the user's keys, or what comes from a pipe, to the child.
// Input that arrives after the child's end is left for the next program.
func (c *Child) pumpInput() {
	t := c.terminal
	t.reading.Lock()
	defer t.reading.Unlock()
	if t.typed {
		defer blockTTIN()()
	}
	from, buf := fdOf(t.keys), make([]byte, 16<<10)
	var lastByte byte = '\n'
	t.typedAhead = append(t.takeUnread(), t.typedAhead...)
	for !c.ended.Load() {
		if len(t.typedAhead) == 0 {
			n, ok := c.await(from, buf, t.typed)
			if !ok {
				return
			}
			if n == 0 && c.endLines() {
				continue
			}
			if n == 0 {
				c.endInput(lastByte)
				return
			}
			if t.typedAhead = c.signalKeys(buf[:n]); len(t.typedAhead) == 0 {
				continue
			}
		}
		lastByte = t.typedAhead[len(t.typedAhead)-1]
		c.noteInterrupt(t.typedAhead)
		n, err := c.forward(t.typedAhead)
		t.typedAhead = t.typedAhead[n:]
		if err != nil {
			return
		}
	}
}

// interruptPatience is the time after the interrupt key in which an end of the harness
// counts as the effect of that key.
const interruptPatience = 10 * time.Second

// noteInterrupt notes the present time if keys contain the interrupt key. The pty may
// turn this key into SIGINT, or the harness may read it: in both cases an end soon after
// is the user's choice. noteInterrupt also notes SIGINT or SIGQUIT if the pty turns one
// of keys into that signal.
func (c *Child) noteInterrupt(keys []byte) {
	if c.input != c.ptmx {
		return
	}
	key, quit, signals := byte('c'&0x1f), byte(0), false
	if attrs, err := getTermios(c.ptmx); err == nil {
		key, quit = cmp.Or(attrs.Cc[unix.VINTR], key), attrs.Cc[unix.VQUIT]
		signals = attrs.Lflag&unix.ISIG != 0
	}
	typed := bytes.IndexByte(keys, key) >= 0
	switch {
	case signals && typed:
		c.bySignal.Store(int32(syscall.SIGINT))
	case signals && quit != 0 && bytes.IndexByte(keys, quit) >= 0:
		c.bySignal.Store(int32(syscall.SIGQUIT))
	}
	if typed || bytes.Contains(keys, []byte("\x1b[99;5")) { // Ctrl-C in the kitty keyboard protocol
		c.interrupt.Store(new(time.Now()))
	}
}

// await reads input for the child from one of the wrapper's files; n is 0 at the end of
// the file. It waits with poll. If the child ends during the wait, await reads nothing,
// and ok is false. A keyboard is not read while the wrapper is in the background.
func (c *Child) await(from int, buf []byte, keyboard bool) (n int, ok bool) {
	ready := []unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}, {Fd: int32(fdOf(c.wakeup)), Events: unix.POLLIN}}
	if keyboard && c.terminal.shared {
		return c.awaitShared(from, buf)
	}
	for !c.ended.Load() {
		if keyboard && !c.atFront() {
			continue
		}
		_, err := unix.Poll(ready, -1)
		switch {
		case errors.Is(err, unix.EINTR): // poll was interrupted, and the results in ready are not valid
			continue
		case err != nil, ready[1].Revents != 0:
			return 0, false
		case ready[0].Revents == 0, keyboard && c.terminal.inBackground():
			continue
		}
		n, err := unix.Read(from, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil && keyboard && c.terminal.inBackground():
			continue // the wrapper moved to the background just now
		case err != nil:
			return 0, true
		}
		return n, true
	}
	return 0, false
}

// takeBack saves the keys that the child has not read, because they would be
// lost with the pty. Without the wrapper they would wait in the outer
// terminal for the next program. Here the next child gets them, or returnKeys
// puts them back.
func (c *Child) takeBack() {
	if c.slave == nil || c.input != c.ptmx {
		return
	}
	attrs, err := getTermios(c.slave)
	if err != nil {
		return
	}
	lines := attrs.Lflag&unix.ICANON != 0
	makeRaw(attrs)
	attrs.Cc[unix.VMIN] = 0 // make a read return at once
	if setTermios(c.slave, attrs) != nil {
		return
	}
	var left []byte
	for buf := make([]byte, 4<<10); ; {
		n, err := unix.Read(fdOf(c.slave), buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		left = append(left, buf[:n]...)
	}
	if lines {
		left = bytes.ReplaceAll(left, []byte{0}, nil) // end-of-file keys, which were for this child only
		if c.terminal.shared {
			left = bytes.ReplaceAll(left, attrs.Cc[unix.VEOF:unix.VEOF+1], nil)
		}
	}
	t := c.terminal
	t.mu.Lock()
	t.unread = append(t.unread, left...)
	t.mu.Unlock()
}

func (t *Terminal) takeUnread() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.unread
	t.unread = nil
	return left
}

// returnKeys puts the keys that no child has read back into the outer terminal. Keys
// that already wait in the terminal were typed later, and still come after the returned
// ones. The keys that no child has read are lost if the system refuses this (the sysctl
// dev.tty.legacy_tiocsti is 0), if another process group has the terminal, if another
// program of the pipeline is using it, if its attributes cannot be changed, if the terminal
// would then hold more than mostKeys, or if an input pump hangs in a read. No later call
// could return them: Dismiss calls returnKeys once, and no child starts afterwards.
func (t *Terminal) returnKeys() {
	if !t.typed || !t.reading.TryLock() {
		return
	}
	defer t.reading.Unlock()
	keys := append(t.takeUnread(), t.typedAhead...)
	t.typedAhead = nil
	fd := fdOf(t.keys)
	// If the keys did not fit, the terminal would drop some without an error. The methods
	// enter and hush turn off the echo, so that the terminal does not show the keys. They
	// also turn off the editing of lines, so that one read returns all keys that wait.
	fits := func(waiting int, err error) bool { return err == nil && waiting+len(keys) <= mostKeys }
	if len(keys) == 0 || !fits(unix.IoctlGetInt(fd, unix.TIOCINQ)) || !mayType(fd) || t.inBackground() || t.enter() != nil || t.shared && t.hush() != nil {
		return
	}
	waiting, err := unix.IoctlGetInt(fd, unix.TIOCINQ) // now including a line that was begun
	if !fits(waiting, err) {
		return
	}
	if waiting > 0 {
		later := make([]byte, mostKeys)
		n, _ := unix.Read(fd, later)
		later = later[:max(n, 0)]
		if t.shared {
			later = t.endFiles(later)
		}
		keys = append(keys, later...)
	}
	if t.shared {
		t.editLines()
	}
	typeKeys(fd, keys)
}

// mostKeys is how many bytes of keys a terminal holds.
const mostKeys = 4095

// mayType reports whether the system lets this process put keys into a terminal's queue.
func mayType(fd int) bool {
	_, _, err := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, 0) // the address 0 cannot be read, so no key is typed
	return err == unix.EFAULT
}

// typeKeys puts keys into a terminal's queue as if they were typed.
func typeKeys(fd int, keys []byte) {
	for i := range keys {
		unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&keys[i])))
	}
}

// endInput passes the end of stdin to the child. The input of a pty cannot be closed:
// a child that reads lines gets the end-of-file key, and any other child gets nothing.
func (c *Child) endInput(lastByte byte) {
	if c.input != c.ptmx {
		c.input.Close()
		return
	}
	if c.terminal.typed && !startedIgnoring().has(syscall.SIGHUP) {
		return // the terminal has hung up: the child gets SIGHUP
	}
	attrs, err := getTermios(c.ptmx)
	if err != nil || attrs.Lflag&unix.ICANON == 0 {
		return
	}
	eof := []byte{attrs.Cc[unix.VEOF]}
	if lastByte != '\n' {
		eof = append(eof, eof[0]) // the first key only ends the line
	}
	c.input.Write(eof)
}

func (c *Child) interruptInput() {
	one := [8]byte{1}
	c.wakeup.Write(one[:])
}

// caught are signals to the wrapper. Each kind has its own channel, so that many
// signals of one kind do not displace another kind.
type caught struct{ winch, cont, tstp, user chan os.Signal }

func catch(pty bool) caught {
	s := caught{make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan os.Signal, 4)}
	signal.Notify(s.cont, syscall.SIGCONT)
	if pty {
		signal.Notify(s.winch, syscall.SIGWINCH)
	}
	Notify(s.tstp, syscall.SIGTSTP)
	Notify(s.user, syscall.SIGUSR1, syscall.SIGUSR2)
	return s
}

func (s caught) stop() {
	signal.Stop(s.winch)
	signal.Stop(s.cont)
	signal.Stop(s.tstp)
	signal.Stop(s.user)
}

// handleSignals handles the signals in caught: SIGWINCH, SIGCONT and SIGTSTP, and also
// SIGUSR1 and SIGUSR2, which are passed on to the harness.
func (c *Child) handleSignals(signals caught, quiet <-chan struct{}) {
	defer func() { c.passed.take().end() }()
	continued := time.Time{} // when SIGCONT was last handled
	for {
		select {
		case <-signals.winch:
			c.resize()
		case <-signals.cont:
			c.continueAfterStop()
			watchCont().end() // if a SIGTSTP was caught along with the SIGCONT, wait until it is in signals.tstp
			select {
			case <-signals.tstp:
				if underShell() {
					c.passTogether()
				}
			default:
			}
			c.resume()
			continued = time.Now()
		case <-signals.tstp:
			// The harness decides whether to stop, as it would without the wrapper. If no
			// shell could continue the job, drop the signal, as the kernel would.
			if !underShell() {
				continue
			}
			since := watchCont() // before the check, so that a SIGCONT is seen by one of the two
			if len(signals.cont) > 0 || time.Since(continued) < together {
				since.end()
				c.passTogether()
				continue
			}
			c.passed.set(since).end()
			unix.Kill(-c.pid, syscall.SIGTSTP)
		case sig := <-signals.user:
			if !c.ended.Load() {
				unix.Kill(c.pid, sig.(syscall.Signal))
			}
		case <-quiet:
			return
		}
	}
}

// resize gives the child's terminal the current size of the outer one.
func (c *Child) resize() {
	size := c.terminal.size()
	unix.IoctlSetWinsize(fdOf(c.ptmx), unix.TIOCSWINSZ, &size)
}

// stopped handles a stop of the harness. Under a shell with job control, the
// wrapper restores the terminal and stops too, so that the shell takes over as
// it would without the wrapper. Without such a shell the kernel would not let a
// key stop a program, so the wrapper continues the harness at once.
func (c *Child) stopped(sig syscall.Signal) {
	passed, yes := c.matchStop()
	if !yes {
		return
	}
	since := passed
	if since == nil {
		since = watchCont()
	}
	defer since.end()
	c.sink.Stopped(sig)
	switch {
	case c.paused.Load():
	case c.stopping.Load(): // continue the harness, so that it can end
		unix.Kill(-c.pid, syscall.SIGCONT)
	case c.frozen.Load() && !c.parked.Swap(true):
		c.suspend(syscall.SIGTTOU, since)
	case c.parked.Load() && sig == syscall.SIGSTOP: // stopped by freeze
	case passed != nil, c.terminal.pty && c.terminal.canSuspend():
		c.suspend(sig, since)
	case sig != syscall.SIGSTOP:
		unix.Kill(-c.pid, syscall.SIGCONT)
	}
}

// suspend restores the terminal, and stops the wrapper's process group with the signal
// sig (see stopJob). The parameter since is a watch for SIGCONT. If it has seen a SIGCONT,
// suspend does not stop the process group, and continues the harness.
func (c *Child) suspend(sig syscall.Signal, since *contWatch) {
	if !c.frozen.Load() { // if the harness is frozen, its pump waits and cannot answer
		s := c.sources[0] // the pty or, if there is none, the pipe of stdout
		select {
		case <-s.caughtUp: // drop the answer to an earlier request
		default:
		}
		s.file.SetReadDeadline(longAgo())
		select {
		case <-s.caughtUp: // all output is written, so the sequences that undo the modes come after it
		case <-time.After(termGrace / 2):
		}
	}
	c.asleep.Store(true)
	c.terminal.suspend()
	c.stopJob(sig, since)
}

// undo resets the terminal modes that this child has changed, for the next child. Modes
// that a program may leave set on purpose are reset only if a signal ended this child.
func (c *Child) undo() {
	t := c.terminal
	if t.inBackground() {
		t.leave()
	} else if t.behind.Load() {
		t.surface()
	}
	t.mu.Lock()
	undo := t.undoString(c.exit.Signal != 0)
	t.shelved, t.undone = modes{}, false
	t.mu.Unlock()
	if undo != "" && !t.behind.Load() {
		undoOn(t.screen, undo)
	}
	t.setModes(modes{})
	t.setLook(false)
}
