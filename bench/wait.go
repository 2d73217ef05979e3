//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/session"
)

// wait measures the time from a fact appended to a ledger to the exit of the `wait`
// command for it. The floor is a program that waits for the next line of a file
// without decoding it.
func wait(b *bench) (rows []row, err error) {
	const id = "11111111-1111-4111-8111-111111111111"
	log, err := ledger.Create(filepath.Join(b.dir, "state", "sessions", id), ledger.Options{})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	record := func(facts ...kernel.Fact) error {
		var records []ledger.Record
		for _, f := range facts {
			kind, body, err := kernel.Encode(f)
			if err != nil {
				return err
			}
			records = append(records, ledger.Record{Kind: kind, At: time.Now(), Body: body})
		}
		_, err := log.Append(records, false)
		return err
	}
	if err := record(kernel.Began{SessionID: id, AdapterID: "generic", Program: "true"},
		kernel.SessionMoved{From: session.Pending, To: session.Running, Reason: "approved"}); err != nil {
		return nil, err
	}
	path := filepath.Join(b.dir, "waited", "lines")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	lines, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer lines.Close()

	line := func() error { _, err := fmt.Fprintf(lines, "%0300d\n", 0); return err }
	asks := func() error { return record(kernel.ActivityMoved{To: "needs_input", Source: "hook"}) }
	waits := []struct {
		argv []string
		news func() error
	}{
		{[]string{b.program("reader"), "-once", path}, line},
		{[]string{b.program("reader"), "-once", path}, line},
		{[]string{b.wrap, "wait", id, "--for", "needs_input"}, asks},
	}
	var self, ours pairs
	for range b.rounds * 2 {
		took := make([]time.Duration, len(waits))
		for _, which := range rand.Perm(len(waits)) {
			if err := record(kernel.ActivityMoved{To: "working", Source: "hook"}); err != nil {
				return nil, err
			}
			if took[which], err = b.waited(b.command(waits[which].argv...), waits[which].news); err != nil {
				return nil, err
			}
		}
		self.add(took[0], took[1])
		ours.add(took[0], took[2])
	}
	return []row{
		self.extraRow("from an appended line to the exit of a program that waits for it: a minimal one − itself"),
		ours.ratioRow("from an appended fact to the exit of wait / of the minimal one"),
		ours.extraRow("from an appended fact to the exit of wait − of the minimal one").within(50*time.Millisecond, &ours),
	}, nil
}

// waited measures the time from the news to the exit of a program that waits for
// it.
func (b *bench) waited(cmd *exec.Cmd, news func() error) (time.Duration, error) {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	watchdog := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	if err := b.watched(cmd.Process.Pid); err != nil {
		return 0, err
	}
	time.Sleep(time.Millisecond) // let the program sleep, as in a session
	began := time.Now()
	if err := news(); err != nil {
		return 0, err
	}
	err := cmd.Wait()
	return time.Since(began), err
}
