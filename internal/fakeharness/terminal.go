//go:build unix

package fakeharness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A terminal represents stdin and stdout, even if they are not terminals.
// Signals arrive through it too, by a pipe, so that a single poll(2) waits for
// keys, time and signals, and no switch of goroutines delays the echo of a key.
type terminal struct {
	in, out  *os.File
	copy     *os.File // the file of the step record_out
	signals  chan os.Signal
	wakeR    *os.File
	wakeW    *os.File
	arrived  chan struct{} // closed when the forwarding of signals has ended
	rawDepth int
	saved    *term.State
}

func openTerminal(in, out *os.File) *terminal {
	r, w, err := os.Pipe()
	must(err)
	t := &terminal{in: in, out: out, signals: make(chan os.Signal, 16), wakeR: r, wakeW: w, arrived: make(chan struct{})}
	go func() {
		defer close(t.arrived)
		for sig := range t.signals {
			if n, ok := sig.(unix.Signal); ok {
				t.wake(n)
			}
		}
	}()
	return t
}

// wake lets a running or later call of wait return sig.
func (t *terminal) wake(sig unix.Signal) {
	_, _ = t.wakeW.Write([]byte{byte(sig)}) // the write fails only after close
}

// catch makes this process receive the signals that would end it. A signal that
// was ignored at the start stays ignored.
func (t *terminal) catch() {
	for _, sig := range []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(t.signals, sig)
		}
	}
}

func (t *terminal) close() {
	signal.Stop(t.signals)
	close(t.signals)
	<-t.arrived
	t.wakeR.Close()
	t.wakeW.Close()
	if t.copy != nil {
		t.copy.Close()
	}
}

// restore ends raw mode, even if raw was called several times.
func (t *terminal) restore() {
	for t.rawDepth > 0 {
		t.cooked()
	}
}

func (t *terminal) write(text string) error {
	if t.copy != nil {
		if _, err := t.copy.WriteString(text); err != nil {
			return err
		}
	}
	_, err := t.out.WriteString(text)
	return err
}

// line writes text and an end of line. In raw mode, line writes a carriage return
// before each newline, because the terminal then adds none.
func (t *terminal) line(text string) error {
	end := "\n"
	if t.saved != nil {
		end = "\r\n"
	}
	return t.write(strings.ReplaceAll(text, "\n", end) + end)
}

// raw puts stdin into raw mode if stdin is a terminal. Each call needs a later
// call of cooked.
func (t *terminal) raw() {
	if t.rawDepth++; t.rawDepth > 1 {
		return
	}
	if state, err := term.MakeRaw(int(t.in.Fd())); err == nil {
		t.saved = state
	}
}

func (t *terminal) cooked() {
	if t.rawDepth == 0 { // the terminal was already restored
		return
	}
	if t.rawDepth--; t.rawDepth > 0 || t.saved == nil {
		return
	}
	// An error means that the terminal no longer exists, which does not matter.
	_ = term.Restore(int(t.in.Fd()), t.saved)
	t.saved = nil
}

// wait waits for a signal and, if keys is true, for keys, but at most for d. A
// negative d is no limit. It returns the keys or the signal that arrived; both are
// nil after d.
func (t *terminal) wait(keys bool, d time.Duration) ([]byte, os.Signal, error) {
	until := time.Now().Add(d)
	for {
		fds := []unix.PollFd{{Fd: int32(t.wakeR.Fd()), Events: unix.POLLIN}}
		if keys {
			fds = append(fds, unix.PollFd{Fd: int32(t.in.Fd()), Events: unix.POLLIN})
		}
		ms := -1
		if d >= 0 {
			ms = int((max(0, time.Until(until)) + time.Millisecond - 1) / time.Millisecond)
		}
		n, err := unix.Poll(fds, ms)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, nil, err
		case n == 0:
			return nil, nil, nil
		case fds[0].Revents != 0:
			var b [1]byte
			if _, err := io.ReadFull(t.wakeR, b[:]); err != nil {
				return nil, nil, err
			}
			return nil, unix.Signal(b[0]), nil
		}
		buf := make([]byte, 4096)
		n, err = t.in.Read(buf)
		if n > 0 {
			return buf[:n], nil, nil
		}
		if err == nil || errors.Is(err, unix.EIO) {
			err = io.EOF
		}
		return nil, nil, err
	}
}

func (h *harness) write(text string) { must(h.term.write(text)) }

func (h *harness) line(text string) { must(h.term.line(text)) }

// pause waits for d, scaled by the speed, and handles signals meanwhile.
func (h *harness) pause(d time.Duration) {
	until := time.Now().Add(time.Duration(float64(d) / h.args.speed))
	for {
		_, sig, err := h.term.wait(false, max(0, time.Until(until)))
		must(err)
		if sig == nil {
			return
		}
		h.signalled(sig)
	}
}

// read waits for keys and handles signals meanwhile.
func (h *harness) read() ([]byte, error) {
	for {
		b, sig, err := h.term.wait(true, -1)
		if sig == nil {
			return b, err
		}
		h.signalled(sig)
	}
}

// signalled handles a signal that asks the harness to end.
func (h *harness) signalled(sig os.Signal) {
	if h.kind == nil || sig == unix.SIGWINCH {
		return
	}
	code, graceful := h.kind.fatal(sig)
	if !graceful {
		killSelf(sig.(unix.Signal))
	}
	h.kind.end("other")
	must(exitCode(code))
}

// waitKey reads until key has arrived. If echo is set, it writes all keys back.
func (h *harness) waitKey(key string, echo bool) {
	h.term.raw()
	defer h.term.cooked()
	seen := ""
	for !strings.Contains(seen, key) {
		seen = seen[max(0, len(seen)-len(key)):]
		b, err := h.read()
		if err != nil {
			must(fmt.Errorf("wait for key %q: %w", key, err))
		}
		if echo {
			h.write(string(b))
		}
		seen += string(b)
	}
}

func (h *harness) recordOut(path string) {
	h.term.copy = got(os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600))
}

func (h *harness) replay(path string) {
	data := got(os.ReadFile(path))
	h.term.raw()
	defer h.term.cooked()
	h.write(string(data))
}

// winsize prints the rows and columns, and prints them again after each change,
// until the size has changed p.Changes times.
func (h *harness) winsize(_ bool, p params) {
	size := func() {
		if cols, rows, err := term.GetSize(int(h.term.out.Fd())); err != nil {
			h.line("winsize none")
		} else {
			h.line(fmt.Sprintf("winsize %d %d", rows, cols))
		}
	}
	if p.Changes > 0 {
		// Watch for changes before the first print, because the reader of that output
		// may resize the terminal at once.
		signal.Notify(h.term.signals, unix.SIGWINCH)
	}
	size()
	for p.Changes > 0 {
		_, sig, err := h.term.wait(false, -1)
		must(err)
		if sig == unix.SIGWINCH {
			p.Changes--
			size()
		} else {
			h.signalled(sig)
		}
	}
}
