package harness

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainLimit bounds what is read after the harness has ended, for the sake of
// a descendant that goes on writing: for at least this long or this much.
const (
	drainTime  = time.Second
	drainBytes = 2 << 20
)

// inputPatience bounds the wait for the input pump, which hangs in a read if
// another program has taken the keys that poll announced to both. The pump
// then ends with the next key, and keeps that for the next child.
const inputPatience = 200 * time.Millisecond

// longAgo as a deadline interrupts a read or write at once.
func longAgo() time.Time { return time.Unix(1, 0) }

// run starts the goroutines of a child and the one that awaits them.
func (c *Child) run(winch, cont chan os.Signal, stopSignals func()) {
	var pumps, others sync.WaitGroup
	quiet, typed := make(chan struct{}), make(chan struct{})
	for _, s := range c.sources {
		pumps.Go(func() { c.pump(s) })
	}
	pumped := make(chan struct{})
	go func() {
		pumps.Wait()
		close(pumped)
	}()
	var inputs sync.WaitGroup
	if c.input != nil {
		inputs.Go(c.pumpInput)
	}
	if c.stdin != nil {
		inputs.Go(c.pumpStdin)
	}
	go func() {
		inputs.Wait()
		close(typed)
	}()
	others.Go(func() { c.news(quiet) })
	if c.tap != nil {
		others.Go(func() { c.read(quiet) })
	}
	others.Go(func() { c.heed(winch, cont, quiet) })
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
		stopSignals()
		if c.tap != nil {
			c.tap.end(c.sources)
		}
		close(quiet)
		others.Wait()
		if err := c.lost.Load(); err != nil {
			c.exit.OutputLost = *err
		}
		c.undo()
		c.takeBack()
		c.closeFiles()
		c.terminal.giveBack()
		close(c.done)
	}()
}

// pump carries one stream to the user. Nothing else happens on this path and
// it waits for nothing but its two ends.
func (c *Child) pump(s *source) {
	to := fdOf(s.to)
	buf := make([]byte, 64<<10)
	defer func() {
		// The child learns it as it would without us, if it writes again. Not where
		// it is found out: a file that is being drained cannot be closed.
		if s.unheard {
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
			// Somebody wants us to have read all there is. The order matters:
			// an end that comes after the question is a new interruption.
			s.file.SetReadDeadline(time.Time{})
			over := c.ended.Load()
			if !c.drain(s, to, buf) || over {
				return
			}
			select {
			case s.caughtUp <- struct{}{}:
			default:
			}
		default:
			return
		}
	}
}

// drain passes on what is there without waiting for more. The kernel moves
// what was written before the writer's death into sight of such a read, so an
// empty answer is the end. To wait for the error that tells of the last
// writer's end would be to wait for every background process.
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

// pass gives b to the user, then counts it. Only what has to be known in case
// we die right after the write comes before it.
func (c *Child) pass(s *source, to int, b []byte) bool {
	if s.tracker != nil && s.tracker.scan(b) && c.terminal.onTTY {
		c.terminal.setModes(s.tracker.modes)
	}
	if err := writeAll(to, b); err != nil && s.tracker == nil {
		if !errors.Is(err, unix.EPIPE) {
			c.lost.CompareAndSwap(nil, &err)
		}
		s.unheard = true
		return false
	}
	c.total.Add(int64(len(b)))
	if c.tap != nil {
		c.tap.put(s, b)
	}
	if s.tracker != nil && len(s.tracker.texts) > 0 {
		c.keepTexts(s.tracker.texts)
		s.tracker.texts = s.tracker.texts[:0]
		c.nudge()
	}
	if c.armed.Load() && c.armed.CompareAndSwap(true, false) {
		c.nudge()
	}
	return true
}

// maxTexts bounds what waits for a sink that does not take it.
const maxTexts = 4096

// keepTexts puts texts where the sink's goroutine finds them. When too many
// wait, the older half is forgotten.
func (c *Child) keepTexts(texts []oscText) {
	c.textsMu.Lock()
	defer c.textsMu.Unlock()
	c.texts = append(c.texts, texts...)
	if n := len(c.texts); n > maxTexts {
		c.texts = append(c.texts[:0], c.texts[n-maxTexts/2:]...)
	}
}

func (c *Child) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// news tells the sink what the pumps have seen, in its own time.
func (c *Child) news(quiet <-chan struct{}) {
	var (
		told int64
		next <-chan time.Time // when output may be told again
		last bool
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
		if next != nil && !last {
			continue
		}
		if total := c.total.Load(); total != told {
			if told = total; c.tap == nil { // else whoever reads hears of it
				c.sink.Output(total)
			}
			next = time.After(time.Second)
			continue
		}
		c.armed.Store(true)
		if c.total.Load() != told && c.armed.CompareAndSwap(true, false) {
			c.nudge() // came between the last look and the arming
		}
	}
}

// pumpInput carries what the user types, or what comes in by a pipe, to the
// child. What is typed after the child's end belongs to whoever reads next.
func (c *Child) pumpInput() {
	t := c.terminal
	t.reading.Lock()
	defer t.reading.Unlock()
	from, buf := fdOf(t.keys), make([]byte, 16<<10)
	var lastByte byte = '\n'
	t.typedAhead = append(t.takeUnread(), t.typedAhead...)
	for !c.ended.Load() {
		if len(t.typedAhead) == 0 {
			n, ok := c.await(from, buf)
			if !ok {
				return
			}
			if n == 0 {
				c.endInput(lastByte)
				return
			}
			t.typedAhead = buf[:n]
		}
		lastByte = t.typedAhead[len(t.typedAhead)-1]
		c.typing.Lock()
		n, err := c.input.Write(t.typedAhead)
		c.typing.Unlock()
		t.typedAhead = t.typedAhead[n:]
		if err != nil {
			return
		}
	}
}

// await reads what comes next from a file of ours, for the child; n is 0 at its
// end. It waits with poll, so that it can be called off with nothing read: ok is
// then false.
func (c *Child) await(from int, buf []byte) (n int, ok bool) {
	ready := []unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}, {Fd: int32(fdOf(c.wakeup)), Events: unix.POLLIN}}
	for !c.ended.Load() {
		_, err := unix.Poll(ready, -1)
		switch {
		case errors.Is(err, unix.EINTR): // and what stands in ready is of the time before
			continue
		case err != nil, ready[1].Revents != 0:
			return 0, false
		case ready[0].Revents == 0:
			continue
		}
		n, err := unix.Read(from, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return 0, true
		}
		return n, true
	}
	return 0, false
}

// takeBack keeps what was typed and the child has not read: it waits in the
// pty, and ends with it. Without us it would wait in the outer terminal, for
// whoever reads next; here that is the next child.
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
	attrs.Cc[unix.VMIN] = 0 // a read does not wait
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
		left = bytes.ReplaceAll(left, []byte{0}, nil) // an end of file, which was meant for the dead
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

// endInput passes on the end of stdin. A pty has no end; the key that means it
// is the nearest thing, where the child reads lines.
func (c *Child) endInput(lastByte byte) {
	c.typing.Lock()
	defer c.typing.Unlock()
	if c.input != c.ptmx {
		c.input.Close()
		return
	}
	if c.terminal.typed {
		return // the terminal has gone: the signal for that comes by itself
	}
	attrs, err := getTermios(c.ptmx)
	if err != nil || attrs.Lflag&unix.ICANON == 0 {
		return
	}
	eof := []byte{attrs.Cc[unix.VEOF]}
	if lastByte != '\n' {
		eof = append(eof, eof[0]) // the first only ends the line
	}
	c.input.Write(eof)
}

func (c *Child) interruptInput() {
	one := [8]byte{1}
	c.wakeup.Write(one[:])
}

// heed follows the outer terminal's size and our own continuation.
func (c *Child) heed(winch, cont <-chan os.Signal, quiet <-chan struct{}) {
	for {
		select {
		case <-winch:
			c.resize()
		case <-cont:
			c.resume()
		case <-quiet:
			return
		}
	}
}

// resize gives the child the outer size as it is now: however many changes
// came in a burst, the last one wins.
func (c *Child) resize() {
	size := c.terminal.size()
	unix.IoctlSetWinsize(fdOf(c.ptmx), unix.TIOCSWINSZ, &size)
}

// stopped acts on a stop of the harness. Where a shell would take over the
// terminal if the harness ran without us, it does so now: the terminal is
// restored and we stop as well. Where nobody would, the kernel does not let a
// key stop a program; we get the same by continuing it.
func (c *Child) stopped(sig syscall.Signal) {
	if c.outdated(true) {
		return
	}
	c.sink.Stopped(sig)
	switch {
	case c.paused.Load():
	case c.terminal.pty && c.terminal.canSuspend():
		c.suspend()
	case sig != syscall.SIGSTOP:
		unix.Kill(-c.pid, syscall.SIGCONT)
	}
}

// suspend hands the terminal back and stops our process group, as the key
// would have done.
func (c *Child) suspend() {
	s := c.sources[0] // the pty
	select {
	case <-s.caughtUp: // of an earlier time
	default:
	}
	s.file.SetReadDeadline(longAgo())
	select {
	case <-s.caughtUp: // its last words come before the undo
	case <-time.After(termGrace / 2):
	}
	c.asleep.Store(true)
	c.terminal.suspend()
	// The group, not only this process: in a script or a pipeline the shell
	// waits for all of it.
	unix.Kill(0, syscall.SIGSTOP)
}

// resume takes the terminal again after we were stopped, by suspend or from
// outside.
func (c *Child) resume() {
	asleep := c.asleep.Swap(false)
	c.terminal.resume(asleep)
	c.resize()
	if asleep {
		unix.Kill(-c.pid, syscall.SIGCONT)
		unix.Kill(-c.pid, syscall.SIGWINCH) // what was drawn is gone
	}
}

// undo takes back what this child has done to the terminal's modes; the next
// child finds it as the first did.
func (c *Child) undo() {
	t := c.terminal
	t.mu.Lock()
	undo := t.modes.undo()
	t.mu.Unlock()
	if undo == "" {
		return
	}
	undoOn(t.screen, undo)
	t.setModes(modes{})
}

// suspend restores the terminal but remembers the modes for resume.
func (t *Terminal) suspend() {
	t.mu.Lock()
	m := t.modes
	t.mu.Unlock()
	t.Restore()
	t.mu.Lock()
	t.shelved = m
	t.mu.Unlock()
}

// resume takes the attributes again, if a child has the terminal, and the
// modes, if suspend took them away.
func (t *Terminal) resume(redo bool) {
	if t.enter() != nil || !redo {
		return
	}
	t.mu.Lock()
	m := t.shelved
	t.mu.Unlock()
	t.setModes(m)
	if s := m.redo(); s != "" {
		undoOn(t.screen, s)
	}
}
