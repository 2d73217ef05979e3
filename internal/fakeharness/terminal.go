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

// A terminal is stdin and stdout, terminals or not. Signals arrive through a
// pipe, so that one poll(2) waits for keys, time and signals, and no goroutine is
// between a key and its echo.
type terminal struct {
	in, out  *os.File
	copy     *os.File // record_out
	signals  chan os.Signal
	wakeR    *os.File
	wakeW    *os.File
	arrived  chan struct{} // closed when the forwarding of signals has ended
	rawDepth int
	saved    *term.State
}

func openTerminal(in, out *os.File) (*terminal, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	t := &terminal{in: in, out: out, signals: make(chan os.Signal, 16), wakeR: r, wakeW: w, arrived: make(chan struct{})}
	go func() {
		defer close(t.arrived)
		for sig := range t.signals {
			if n, ok := sig.(unix.Signal); ok {
				t.wake(n)
			}
		}
	}()
	return t, nil
}

// wake makes wait return sig.
func (t *terminal) wake(sig unix.Signal) {
	_, _ = t.wakeW.Write([]byte{byte(sig)}) // fails only after close
}

// catch passes the signals that end a harness to wait. Signals that were ignored
// at the start stay ignored.
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

// restore ends raw mode, however often it was set.
func (t *terminal) restore() {
	for t.rawDepth > 0 {
		t.cooked()
	}
}

func (t *terminal) write(b []byte) error {
	if t.copy != nil {
		if _, err := t.copy.Write(b); err != nil {
			return err
		}
	}
	_, err := t.out.Write(b)
	return err
}

// line writes text and an end of line. In raw mode the terminal adds no carriage
// return.
func (t *terminal) line(text string) error {
	end := "\n"
	if t.saved != nil {
		end = "\r\n"
	}
	return t.write([]byte(strings.ReplaceAll(text, "\n", end) + end))
}

func (t *terminal) record(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	t.copy = f
	return nil
}

func (t *terminal) replay(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	t.raw()
	defer t.cooked()
	return t.write(data)
}

// raw puts the terminal into raw mode, if it is one; each raw needs a cooked.
func (t *terminal) raw() {
	if t.rawDepth++; t.rawDepth > 1 {
		return
	}
	if state, err := term.MakeRaw(int(t.in.Fd())); err == nil {
		t.saved = state
	}
}

func (t *terminal) cooked() {
	if t.rawDepth == 0 { // already restored
		return
	}
	if t.rawDepth--; t.rawDepth > 0 || t.saved == nil {
		return
	}
	// A terminal that is gone needs no mode.
	_ = term.Restore(int(t.in.Fd()), t.saved)
	t.saved = nil
}

// size prints the rows and columns.
func (t *terminal) size() error {
	cols, rows, err := term.GetSize(int(t.out.Fd()))
	if err != nil {
		return t.line("winsize none")
	}
	return t.line(fmt.Sprintf("winsize %d %d", rows, cols))
}

// wait waits for keys, if wanted, for a signal, or until d has passed (without
// limit if d is negative). It returns keys or a signal, or neither after d.
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

// pause waits for d at the script's speed, and handles signals.
func (h *harness) pause(d time.Duration) error {
	until := time.Now().Add(time.Duration(float64(d) / h.speed))
	for {
		_, sig, err := h.term.wait(false, max(0, time.Until(until)))
		if err != nil {
			return err
		}
		if sig == nil {
			return nil
		}
		if err := h.signalled(sig); err != nil {
			return err
		}
	}
}

// signalled handles a signal that ends a harness.
func (h *harness) signalled(sig os.Signal) error {
	if h.kind == nil || sig == unix.SIGWINCH {
		return nil
	}
	code, graceful := h.kind.fatal(sig)
	if !graceful {
		return killSelf(sig.(unix.Signal))
	}
	if err := h.kind.end("other"); err != nil {
		return err
	}
	return exitCode(code)
}

// waitKey reads until key came. With echo it writes back all that it reads.
func (h *harness) waitKey(key string, echo bool) error {
	h.term.raw()
	defer h.term.cooked()
	seen := ""
	for {
		b, sig, err := h.term.wait(true, -1)
		if err != nil {
			return fmt.Errorf("wait for key %q: %w", key, err)
		}
		if sig != nil {
			if err := h.signalled(sig); err != nil {
				return err
			}
			continue
		}
		if echo {
			if err := h.term.write(b); err != nil {
				return err
			}
		}
		seen += string(b)
		if strings.Contains(seen, key) {
			return nil
		}
		seen = seen[max(0, len(seen)-len(key)):]
	}
}

func (h *harness) winsize(now bool, changes *int) error {
	if changes != nil {
		// Notify before the first print: its reader may resize at once.
		signal.Notify(h.term.signals, unix.SIGWINCH)
	}
	if now {
		if err := h.term.size(); err != nil {
			return err
		}
	}
	if changes == nil {
		return nil
	}
	for n := 0; n < *changes; {
		_, sig, err := h.term.wait(false, -1)
		if err != nil {
			return err
		}
		if sig != unix.SIGWINCH {
			if err := h.signalled(sig); err != nil {
				return err
			}
			continue
		}
		n++
		if err := h.term.size(); err != nil {
			return err
		}
	}
	return nil
}
