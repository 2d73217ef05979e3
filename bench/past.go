//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"lifeloop/internal/store"
	"lifeloop/ledger"
)

// keptSessions is the number of ended sessions in the store that the function past lists.
const keptSessions = 10_000

// past compares commands on a store of many ended sessions with a walk over the
// sessions' folders: a process that calls stat on each folder and lists its files.
func past(b *bench) []row {
	ended := uuid.NewString()
	must(b.command(b.wrap, "run", "--session-id", ended, "--", "true").Run())
	// Sessions of other measurements may still be running, so this session is copied.
	b.copySession(store.Open(b.program("state")), ended)

	process := func(argv ...string) func(int) time.Duration {
		return func(int) time.Duration {
			cmd := b.command(argv...)
			began := time.Now()
			must(cmd.Run())
			return time.Since(began)
		}
	}
	kept := b.program("past")
	list := func(words ...string) func(int) time.Duration {
		return process(append([]string{b.wrap, "--state-dir", kept}, words...)...)
	}
	t := inTurn(b.rounds, process(b.program("walk"), "folders", filepath.Join(kept, "sessions")),
		list("ps"), list("status", "last", "--json"), list("ps", "--all"))
	return []row{
		t.pairs(0, 1).ratioRow(`time of "ps" with 10,000 ended sessions, compared with a walk over their folders`).atMost(5),
		t.pairs(0, 2).ratioRow(`time of "status last" with 10,000 ended sessions, compared with a walk over their folders`).atMost(5),
		t.pairs(0, 3).ratioRow(`time of "ps --all" with 10,000 ended sessions, compared with a walk over their folders`),
	}
}

// copySession fills a new store with copies of an ended session. Each copy has its own id
// and a summary: the file beside the ledger from which a list of sessions is made.
func (b *bench) copySession(st store.Store, id string) {
	from := string(st.Folder(id))
	var records []ledger.Record
	for e, err := range ledger.Read(from) {
		must(err)
		records = append(records, e.Record)
	}
	to := store.Open(b.program("past"))
	for range keptSessions {
		copied := uuid.NewString()
		f := to.Folder(copied)
		must(os.MkdirAll(string(f), 0o700))
		log := got(ledger.Create(string(f), ledger.Options{}))
		own := slices.Clone(records)
		for i, r := range own { // put the id of the copy into the entries
			own[i].Body = bytes.ReplaceAll(r.Body, []byte(id), []byte(copied))
		}
		got(log.Append(own, false))
		must(log.Close())
		session := to.Read(copied)
		session.Conclude(copied, f)
	}
}
