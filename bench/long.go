//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/view"
)

// longEntries is the number of entries of the long ledger in the function long.
const longEntries = 1_000_000

// long measures two commands that need the end of a long ledger. `events --from`
// is compared with itself on a short ledger, and `why` with a program that only
// counts the lines.
func long(b *bench) []row {
	const id, brief = "11111111-1111-4111-8111-111111111112", "11111111-1111-4111-8111-111111111113"
	st := store.Open(b.program("long"))
	b.repeatDemo(st.Folder(brief), 200)
	b.repeatDemo(st.Folder(id), longEntries)
	from := fmt.Sprint(longEntries - 100)
	var event string
	for e, err := range st.Folder(id).Facts(longEntries - 1000) {
		must(err)
		if r, ok := view.Event(e.Fact); ok {
			event = r.EventID
		}
	}
	// Processor time is measured, because other programs on a busy machine would change
	// the ratio of the elapsed times: they delay the longer of two programs more.
	run := func(argv ...string) func(int) time.Duration {
		return func(int) time.Duration {
			cmd := b.command(argv...)
			cmd.Stderr = os.Stderr
			must(cmd.Run())
			return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
	}
	ours := func(words ...string) func(int) time.Duration {
		return run(append([]string{b.wrap, "--state-dir", b.program("long")}, words...)...)
	}
	segments := got(filepath.Glob(filepath.Join(string(st.Folder(id)), "ledger-*")))
	count := run(append([]string{b.program("walk"), "count"}, segments...)...)
	t := inTurn(max(b.rounds/2, 3), ours("events", brief, "--from", "100"), ours("events", id, "--from", from), count, ours("why", id, event))
	return []row{
		t.pairs(0, 1).ratioRow(`processor time of "events --from" near the end of 1,000,000 entries, compared with 200 entries`).atMost(1.5),
		t.pairs(2, 3).ratioRow(`processor time of "why" for an event near the end of 1,000,000 entries, compared with counting their lines`).atMost(8),
	}
}

// repeatDemo writes a ledger of n entries. It repeats the entries of the recorded
// session, with new ids in each repetition. It omits the entries that begin the session,
// begin or identify a harness session, change the session's state, or record the path of
// a file of the harness, so that the repetitions look like one long harness session.
func (b *bench) repeatDemo(f store.Folder, n int) {
	var demo []ledger.Record
	for e, err := range ledger.Read(filepath.Join("testdata", "sessions", "demo")) {
		must(err)
		switch e.Kind {
		case kernel.Kind(kernel.Began{}), kernel.Kind(kernel.SessionMoved{}), kernel.Kind(kernel.HarnessSessionOpened{}),
			kernel.Kind(kernel.Bound{}), kernel.Kind(kernel.SourceNamed{}):
		default:
			demo = append(demo, e.Record)
		}
	}
	log := got(ledger.Create(string(f), ledger.Options{}))
	defer func() { must(log.Close()) }()
	var batch []ledger.Record
	for i := range n {
		r := demo[i%len(demo)]
		r.At = r.At.Add(time.Duration(i/len(demo)) * time.Minute)
		r.Body = bytes.ReplaceAll(r.Body, []byte("00000000-0000-4000-8000-"), fmt.Appendf(nil, "%08x-0000-4000-8000-", i/len(demo)))
		if batch = append(batch, r); len(batch) == 1000 || i == n-1 {
			got(log.Append(batch, false))
			batch = batch[:0]
		}
	}
}
