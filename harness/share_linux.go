package harness

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// This file shares the outer terminal with the other programs of a pipeline: stdin or
// stdout of the wrapper is a terminal, and the other one is not. Each program of the
// pipeline may then read keys or change the attributes, as less, vim and a password
// prompt do. The wrapper behaves as the harness itself would:
//
//   - The outer terminal keeps its attributes until the harness changes those of its
//     pty. The wrapper then sets the same ones. It resets them when the harness resets
//     those of its pty, and when the harness ends.
//   - The outer terminal edits and echoes lines and makes signals of keys. The pty has
//     the flag EXTPROC, so it does none of that again, but shows its other flags
//     unchanged to the harness.
//   - Lines are read one at a time, and only if the harness may want them. A harness
//     whose stdin is the terminal may want them unless another program of the pipeline
//     has opened /dev/tty. Any other harness wants them only if it has opened /dev/tty.
//   - A terminal is at rest if it edits and echoes lines. A terminal that edited lines at
//     the start is also at rest while it has the attributes of the start. While the
//     attributes are neither the wrapper's nor those of a terminal at rest, another
//     program is using the terminal. The wrapper then waits.

// sharePause is the time between two checks for attributes that the harness has changed
// without output. While a line waits, the wrapper checks whether this line is for the
// harness. The pause between these checks grows from linePause to sharePause.
const (
	sharePause = 200 * time.Millisecond
	linePause  = 2 * time.Millisecond
)

// sharing is the state of a shared terminal.
type sharing struct {
	shared  bool         // set by OpenTerminal
	rest    unix.Termios // the attributes at the start; valid only if resting is true
	resting bool         // the terminal edited lines at the start
	turning sync.Mutex   // held while follow sets the outer attributes, and while output that depends on them is written
}

// share sets t.shared and prepares the terminal if it is shared. It opens the terminal
// again, so that reads do not block. Otherwise a read could hang, because another program
// that waits for the same key may get the key first.
func (t *Terminal) share() {
	t.shared = t.pty && t.typed && t.job >= 0 && t.isTTY[0] != t.isTTY[1]
	if !t.shared {
		return
	}
	from := t.outer[0]
	if !t.isTTY[0] {
		from = t.outer[1]
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fdOf(from)), unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		if t.tty != nil {
			t.tty.Close()
		}
		t.tty = os.NewFile(uintptr(fd), "terminal")
		t.keys = t.tty
	}
	if now, err := getTermios(t.keys); err == nil && now.Lflag&unix.ICANON != 0 {
		t.rest, t.resting = *now, true
	}
}

// atRest reports whether no other program of the pipeline seems to use the terminal: the
// attributes in now are those of the start, or make the terminal edit and echo lines.
func (t *Terminal) atRest(now *unix.Termios) bool {
	const lines = unix.ICANON | unix.ECHO
	return t.resting && sameTermios(now, &t.rest) || now.Lflag&lines == lines
}

// follow makes the outer attributes follow those of the pty. Callers hold t.turning.
func (t *Terminal) follow(c *Child) {
	inner, err1 := getTermios(c.ptmx)
	outer, err2 := getTermios(t.attrs)
	if err1 != nil || err2 != nil || t.inBackground() || t.behind.Load() || c.asleep.Load() || c.ended.Load() {
		return
	}
	asked := !sameTermios(inner, &c.fresh)
	t.mu.Lock()
	changed, ours := t.changed, t.ours
	t.mu.Unlock()
	switch {
	case changed && !sameTermios(outer, &ours), !changed && !t.atRest(outer):
		return
	case !asked && changed:
		t.release()
		return
	case !asked:
		return
	case !changed:
		ours = *outer
	}
	t.mu.Lock()
	if !changed {
		t.saved = *outer
	}
	want := t.mirror(inner)
	t.mu.Unlock()
	if !sameTermios(&want, &ours) {
		t.change(want)
	}
}

// mirror returns the attributes that the outer terminal must have while the pty has the
// attributes inner. Callers hold mu.
func (t *Terminal) mirror(inner *unix.Termios) unix.Termios {
	want := t.saved
	if inner.Lflag&unix.EXTPROC == 0 { // the harness has cleared EXTPROC, so the pty processes input and output
		makeRaw(&want)
	} else {
		want.Iflag, want.Lflag, want.Cc = inner.Iflag, inner.Lflag&^unix.EXTPROC, inner.Cc
	}
	if want.Lflag&unix.ICANON == 0 {
		want.Lflag &^= unix.ISIG // signalKeys sends the signals, to the harness only
		want.Cc[unix.VMIN], want.Cc[unix.VTIME] = 1, 0
	}
	switch {
	case !t.isTTY[1]:
		want.Oflag = t.saved.Oflag // other programs of the pipeline write to this terminal
	case inner.Lflag&unix.EXTPROC != 0:
		want.Oflag = inner.Oflag
	}
	return want
}

// change sets the outer attributes of a shared terminal.
func (t *Terminal) change(want unix.Termios) {
	t.mu.Lock()
	t.ours, t.changed = want, true
	t.publish()
	t.mu.Unlock()
	setTermios(t.attrs, &want)
	if now, err := getTermios(t.attrs); err == nil { // read back, because the terminal may not support every flag
		t.mu.Lock()
		t.ours = *now
		t.publish()
		t.mu.Unlock()
	}
}

// release resets the outer attributes of a shared terminal. It leaves them alone if
// another program has changed them after the wrapper did.
func (t *Terminal) release() {
	t.mu.Lock()
	changed, ours, saved := t.changed, t.ours, t.saved
	t.mu.Unlock()
	if !changed || t.inBackground() {
		return
	}
	if now, err := getTermios(t.attrs); err == nil && sameTermios(now, &ours) {
		setTermios(t.attrs, &saved)
	}
	t.mu.Lock()
	t.changed = false
	t.publish()
	t.mu.Unlock()
}

// hush turns off the echo and the editing of lines of a shared terminal; release turns
// both on again. If another program is using the terminal, hush returns an error and
// changes nothing.
func (t *Terminal) hush() error {
	now, err := getTermios(t.attrs)
	if err != nil {
		return err
	}
	if !t.atRest(now) || t.isTTY[0] && pipelineReads() {
		return errors.New("another program is using the terminal")
	}
	t.mu.Lock()
	t.saved = *now
	t.mu.Unlock()
	now.Lflag &^= unix.ECHO | unix.ICANON
	t.change(*now)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ours.Lflag&(unix.ECHO|unix.ICANON) != 0 {
		return errors.New("the attributes of the terminal cannot be changed")
	}
	return nil
}

// editLines turns the editing of lines on again after hush, but not the echo. The keys
// that typeKeys then puts back are queued as lines for the next program. editLines also
// prevents keys from making signals and from stopping the output, because the keys that
// are put back already had these effects when the user typed them.
func (t *Terminal) editLines() {
	t.mu.Lock()
	lines := t.saved
	t.mu.Unlock()
	lines.Lflag &^= unix.ECHO | unix.ISIG
	lines.Iflag &^= unix.IXON
	t.change(lines)
}

// endFiles restores the end-of-file keys among keys that were read after hush. The
// terminal has replaced each of these keys with a zero byte.
func (t *Terminal) endFiles(keys []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.ReplaceAll(keys, []byte{0}, t.saved.Cc[unix.VEOF:unix.VEOF+1])
}

// writeShared writes output of the pty to a shared terminal. First it makes the outer
// attributes follow those of the pty, because the output depends on them.
func (c *Child) writeShared(to int, b []byte) error {
	t := c.terminal
	t.turning.Lock()
	defer t.turning.Unlock()
	t.follow(c)
	if c.endsLinesTwice() {
		b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	}
	return writeAll(to, b)
}

// awaitShared is await for a shared terminal.
func (c *Child) awaitShared(from int, buf []byte) (n int, ok bool) {
	t, pause := c.terminal, linePause
	ready := []unix.PollFd{{Fd: int32(fdOf(c.wakeup)), Events: unix.POLLIN}, {Fd: int32(from), Events: unix.POLLIN}}
	for !c.ended.Load() {
		if !c.atFront() {
			continue
		}
		if t.turning.TryLock() { // if writeShared holds the lock, writeShared calls follow
			t.follow(c)
			t.turning.Unlock()
		}
		switch n, err := unix.Poll(ready, int(sharePause.Milliseconds())); {
		case errors.Is(err, unix.EINTR), n == 0:
			continue
		case err != nil, ready[0].Revents != 0:
			return 0, false
		case t.inBackground():
			continue
		case !c.wantsKeys():
			unix.Poll(ready[:1], int(pause.Milliseconds()))
			pause = min(2*pause, sharePause)
			continue
		}
		n, err := unix.Read(from, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil && t.inBackground():
			continue // the wrapper moved to the background just now
		case err != nil:
			return 0, true
		}
		return n, true
	}
	return 0, false
}

// wantsKeys reports whether keys that wait in a shared terminal are for the harness.
func (c *Child) wantsKeys() bool {
	t := c.terminal
	outer, err := getTermios(t.attrs)
	if err != nil {
		return true // the terminal has hung up, which a read reports
	}
	t.mu.Lock()
	changed, ours := t.changed, t.ours
	t.mu.Unlock()
	if changed {
		return sameTermios(outer, &ours)
	}
	if waiting, err := unix.IoctlGetInt(fdOf(c.slave), unix.TIOCINQ); !t.atRest(outer) || err != nil || waiting > 0 {
		return false
	}
	if t.isTTY[0] {
		return !pipelineReads()
	}
	return anyReadsTTY(func(p proc) bool { return p.session == c.guard.pid && p.pid != c.guard.pid })
}

// pipelineReads reports whether another program of the pipeline has opened /dev/tty for
// reading.
func pipelineReads() bool {
	group, self := unix.Getpgrp(), os.Getpid()
	return anyReadsTTY(func(p proc) bool { return p.pgrp == group && p.pid != self })
}

// anyReadsTTY reports whether a process has opened /dev/tty for reading. Only the
// processes for which the argument returns true are checked.
func anyReadsTTY(which func(proc) bool) bool {
	for _, p := range allProcs() {
		if !which(p) {
			continue
		}
		folder := "/proc/" + strconv.Itoa(p.pid) + "/fd/"
		files, _ := os.ReadDir(folder)
		for _, f := range files {
			if name, err := os.Readlink(folder + f.Name()); err != nil || name != "/dev/tty" {
				continue
			}
			if info, err := os.Lstat(folder + f.Name()); err == nil && info.Mode()&0o400 != 0 { // the permissions of the link show how the file was opened
				return true
			}
		}
	}
	return false
}

// signalKeys sends the harness's foreground group a signal for each signal key, such as
// Ctrl-C, and returns the other keys. While the outer terminal edits lines, that terminal
// itself makes signals of signal keys, and signalKeys returns all keys.
func (c *Child) signalKeys(keys []byte) []byte {
	inner, err := getTermios(c.ptmx)
	if err != nil || !c.terminal.shared || inner.Lflag&(unix.EXTPROC|unix.ISIG|unix.ICANON) != unix.EXTPROC|unix.ISIG {
		return keys
	}
	c.noteInterrupt(keys)
	rest := keys[:0]
	for _, key := range keys {
		var sig syscall.Signal
		switch key {
		case 0: // the value of a key that is disabled
		case inner.Cc[unix.VINTR]:
			sig = unix.SIGINT
		case inner.Cc[unix.VQUIT]:
			sig = unix.SIGQUIT
		case inner.Cc[unix.VSUSP]:
			sig = unix.SIGTSTP
		}
		if sig == 0 || unix.IoctlSetInt(fdOf(c.ptmx), unix.TIOCSIG, int(sig)) != nil {
			rest = append(rest, key)
		}
	}
	return rest
}

// endLines passes the end-of-file key, which a shared terminal has turned into an empty
// read, to the harness. It returns false if the terminal is not shared or has hung up.
func (c *Child) endLines() bool {
	t := c.terminal
	if !t.shared {
		return false
	}
	if _, err := getTermios(t.keys); err != nil {
		return false
	}
	inner, err := getTermios(c.ptmx)
	if err != nil || inner.Lflag&unix.ICANON == 0 {
		return err == nil
	}
	_, err = c.input.Write([]byte{cmp.Or(inner.Cc[unix.VEOF], 'd'&0x1f)})
	return err == nil
}
