//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// exit measures the time from the program's exit to the wrapper's exit, with and
// without a child of the program that holds the terminal open.
func exit(b *bench) []row {
	// The program holds a pipe open, and its child does not. So the reader of the pipe
	// gets the end of file (EOF) as soon as the program exits.
	const (
		plain  = `exec 3>"$0"; echo ready`
		linger = `exec 3>"$0"; sleep 5 3>&- & echo ready`
	)
	after := func(script string, wrapper ...string) func(int) time.Duration {
		return func(int) time.Duration { return b.exitTime(wrapper, script) }
	}
	t := inTurn(b.rounds, after(plain, b.program("floor")), after(plain, b.below()...), after(linger, b.below()...))
	return []row{
		t.pairs(0, 1).extraRow("time from the program's exit to the wrapper's exit, compared with a minimal pty loop"),
		t.pairs(1, 2).extraRow("time from the program's exit to the wrapper's exit with a child that holds the terminal open, compared with no such child").within(5 * time.Millisecond),
	}
}

func (b *bench) exitTime(wrapper []string, script string) time.Duration {
	fifo := b.program("fifo")
	_ = os.Remove(fifo)
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		must(fmt.Errorf("make a pipe at %s: %w", fifo, err))
	}
	gone := make(chan time.Time, 1)
	go func() {
		defer close(gone)
		r, err := os.Open(fifo) // blocks until the program opens the pipe
		if err != nil {
			return
		}
		defer r.Close()
		_, _ = io.Copy(io.Discard, r)
		gone <- time.Now()
	}()
	ended := open(b.command(append(wrapper, "sh", "-c", script, fifo)...)).close()
	return ended.Sub(<-gone)
}
