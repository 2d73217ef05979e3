//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// exit measures the time from the program's exit to the wrapper's exit, also when the
// program leaves a child that holds the terminal open.
func exit(b *bench) ([]row, error) {
	// The program holds a pipe open, the child does not: the end of the pipe marks
	// the program's exit to the microsecond.
	const (
		plain  = `exec 3>"$0"; echo ready`
		linger = `exec 3>"$0"; sleep 5 3>&- & echo ready`
	)
	var floor, lingering pairs
	for range b.rounds {
		loop, err := b.exitTime([]string{b.program("floor")}, plain)
		if err != nil {
			return nil, err
		}
		alone, err := b.exitTime(b.below(), plain)
		if err != nil {
			return nil, err
		}
		child, err := b.exitTime(b.below(), linger)
		if err != nil {
			return nil, err
		}
		floor.add(loop, alone)
		lingering.add(alone, child)
	}
	return []row{
		floor.extraRow("from the program's exit to the wrapper's − to that of a minimal pty loop"),
		lingering.extraRow("… with a lingering child − without").within(5*time.Millisecond, &lingering),
	}, nil
}

func (b *bench) exitTime(wrapper []string, script string) (time.Duration, error) {
	fifo := b.program("fifo")
	_ = os.Remove(fifo)
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		return 0, fmt.Errorf("make a pipe at %s: %w", fifo, err)
	}
	gone := make(chan time.Time, 1)
	go func() {
		defer close(gone)
		r, err := os.Open(fifo) // waits for the program
		if err != nil {
			return
		}
		defer r.Close()
		_, _ = io.Copy(io.Discard, r)
		gone <- time.Now()
	}()
	s, err := open(b.command(append(wrapper, "sh", "-c", script, fifo)...))
	if err != nil {
		return 0, err
	}
	ended, err := s.close()
	if err != nil {
		return 0, err
	}
	return ended.Sub(<-gone), nil
}
