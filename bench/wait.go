//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/session"
)

// wait measures the time from a fact appended to a ledger to the exit of a `wait`
// command that waits for this fact. The floor is a program that waits for the next line
// of a file without decoding it.
func wait(b *bench) []row {
	const id = "11111111-1111-4111-8111-111111111111"
	log := got(ledger.Create(filepath.Join(b.dir, "state", "sessions", id), ledger.Options{}))
	defer log.Close()
	record := func(facts ...kernel.Fact) {
		var records []ledger.Record
		for _, f := range facts {
			kind, body, err := kernel.Encode(f)
			must(err)
			records = append(records, ledger.Record{Kind: kind, At: time.Now(), Body: body})
		}
		got(log.Append(records, false))
	}
	record(kernel.Began{SessionID: id, AdapterID: "generic", Program: "true"},
		kernel.SessionMoved{From: session.Pending, To: session.Running, Reason: "approved"})
	path := filepath.Join(b.dir, "waited", "lines")
	must(os.Mkdir(filepath.Dir(path), 0o700))
	lines := got(os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))
	defer lines.Close()

	line := func() { got(fmt.Fprintf(lines, "%0300d\n", 0)) }
	asks := func() { record(kernel.ActivityMoved{To: "needs_input", Source: "hook"}) }
	waited := func(news func(), argv ...string) func(int) time.Duration {
		return func(int) time.Duration {
			record(kernel.ActivityMoved{To: "working", Source: "hook"})
			return b.waited(b.command(argv...), news)
		}
	}
	reader := waited(line, b.program("reader"), "-once", path)
	t := inTurn(b.rounds*2, reader, reader, waited(asks, b.wrap, "wait", id, "--for", "needs_input"))
	return []row{
		t.pairs(0, 1).extraRow("time from an appended line to the exit of a minimal program that waits for it, measured twice: the noise of these measurements"),
		t.pairs(0, 2).ratioRow(`time from an appended ledger entry to the exit of "lifeloop-wrap wait", compared with the minimal program`),
		t.pairs(0, 2).extraRow(`time from an appended ledger entry to the exit of "lifeloop-wrap wait", compared with the minimal program, as a difference`).within(50 * time.Millisecond),
	}
}

// waited starts cmd, calls news when cmd waits, and returns the time from that
// call to the exit of cmd.
func (b *bench) waited(cmd *exec.Cmd, news func()) time.Duration {
	cmd.Stderr = os.Stderr
	must(cmd.Start())
	watchdog := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	b.watched(cmd.Process.Pid)
	time.Sleep(time.Millisecond) // give cmd the time to block, as it does in a session
	began := time.Now()
	news()
	must(cmd.Wait())
	return time.Since(began)
}
