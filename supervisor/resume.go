package supervisor

import (
	"context"
	"time"

	"lifeloop/kernel"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
	"lifeloop/watchers/sqlite"
)

// This file resumes an observation that was killed. Its ledger names, for each
// record with signals, how far its source was read. The records up to there are
// decoded once more, so that decoders and the soft state of the kernel are as they
// were, and reading continues with the next one.

// A readSource is how far one file or one query of a database was read.
type readSource struct {
	name, path  string
	first, last kernel.Position // the reading began at first
	newest      time.Time       // of its signals, by their own clock
	missed      bool            // it is not the same file any more
	records     []recalled
}

// recalled are the signals of a record that ends at an offset.
type recalled struct {
	end     int64
	signals []telemetry.Signal
}

// readSources lists what was read, by the SourceRead facts of an observation.
func readSources(past []kernel.Entry) []*readSource {
	var all []*readSource
	for _, e := range past {
		f := e.Fact.(kernel.SourceRead)
		r := find(all, f.Source, f.Path)
		if r == nil {
			r = &readSource{name: f.Source, path: f.Path}
			all = append(all, r)
		}
		switch again := f.Ino != r.last.Ino && r.last.Ino != 0 || f.Offset < r.last.Offset; {
		case f.Start:
			r.first = f.Position
		case again, r.first.Path == "": // it was replaced or truncated meanwhile, and read from its start
			r.first = kernel.Position{Path: f.Path, Dev: f.Dev, Ino: f.Ino}
		}
		r.last = f.Position
		if f.Newest.After(r.newest) {
			r.newest = f.Newest
		}
	}
	return all
}

func find(all []*readSource, name, path string) *readSource {
	for _, r := range all {
		if r.name == name && r.path == path {
			return r
		}
	}
	return nil
}

// Resume prepares to continue where a killed observer stopped. k has replayed its
// ledger, and past has the SourceRead facts of that. It must be called before
// Launched.
//
// A file that was replaced, truncated or deleted meanwhile is read from its start.
// It is reported as missed, and records up to the newest one that was read are
// dropped, if they have a time. A server's events of the meantime are missed too.
func (f *Files) Resume(k *kernel.Kernel, past []kernel.Entry) {
	f.past = readSources(past)
	for _, r := range f.past {
		switch s := f.source(r.name); s.Form {
		case profiles.Rows:
			f.recallRows(r)
		case profiles.Whole, profiles.Stamp: // only their newest content counts
		default:
			f.recallFile(r, s)
		}
		if r.missed {
			f.missed = append(f.missed, r.name)
		}
	}
	for _, s := range f.servers {
		f.missed = append(f.missed, s.source)
	}
	rehearse(k, f.past, past)
}

// rehearse lets a second kernel take what was read, each record at the time at
// which it was read, and gives its soft state to k.
func rehearse(k *kernel.Kernel, sources []*readSource, past []kernel.Entry) {
	if len(past) == 0 {
		return
	}
	second := k.Rehearsal()
	second.Step(past[0].At, kernel.Start{})
	for _, e := range past {
		f := e.Fact.(kernel.SourceRead)
		r := find(sources, f.Source, f.Path)
		for len(r.records) > 0 && r.records[0].end <= f.Offset {
			wakeUntil(second, e.At)
			second.Step(e.At, kernel.SignalsSeen{Signals: r.records[0].signals})
			r.records = r.records[1:]
		}
	}
	wakeUntil(second, k.LastReplayed().Add(1)) // what was due then was done
	k.Recall(second)
}

// wakeUntil wakes a kernel without effects at each of its deadlines before a time.
func wakeUntil(k *kernel.Kernel, at time.Time) {
	for due, ok := k.Deadline(); ok && due.Before(at); due, ok = k.Deadline() {
		k.Step(due, kernel.Wake{})
	}
}

// recallFile decodes the records of a file that were read.
func (f *Files) recallFile(r *readSource, s profiles.Source) {
	first, last := watchers.Position(r.first), watchers.Position(r.last)
	key := r.name + "\x00" + r.path
	d := f.decoderOf(r.name)
	f.decoders[key] = d
	if r.missed = last.Changed() != ""; r.missed {
		d.since = later(d.since, r.newest.Add(1))
		return
	}
	w, err := watchers.New(watchers.Config{Deliver: func(l watchers.Line) {
		if l.Pos.Offset > r.last.Offset || d.Decoder == nil {
			return
		}
		if signals := d.read(l.Text); len(signals) > 0 {
			r.records = append(r.records, recalled{l.Pos.Offset, signals})
		}
	}})
	if err != nil {
		return // only without Deliver
	}
	w.Add(watchers.Spec{Source: r.name, Path: r.path, Form: form(s.Form), From: &first})
	now, cancel := context.WithCancel(context.Background())
	cancel() // what the file holds now is read all the same
	_ = w.Run(now)
}

// recallRows decodes the rows of a query that were read.
func (f *Files) recallRows(r *readSource) {
	d := f.databases[r.path]
	if d == nil {
		return
	}
	for _, t := range d.tables {
		if t.source != r.name {
			continue
		}
		at := func(p kernel.Position) sqlite.Cursor { return sqlite.Cursor{Dev: p.Dev, Ino: p.Ino, Row: p.Offset} }
		now, err := t.tail.Last()
		if err == nil && r.last.Ino != 0 && (now.Dev != r.last.Dev || now.Ino != r.last.Ino || now.Row < r.last.Offset) {
			r.missed, t.at = true, sqlite.Cursor{}
			t.since = later(t.since, r.newest.Add(1))
			return
		}
		_, _ = t.tail.Next(at(r.first), func(at sqlite.Cursor, record []byte) {
			if at.Row > r.last.Offset {
				return
			}
			if signals := t.read(record); len(signals) > 0 {
				r.records = append(r.records, recalled{at.Row, signals})
			}
		}) // an error is reported when it is read on
		t.at = at(r.last)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// resumed completes the Spec of a file, or of the files beside one, and adds those
// files of a pattern that were read.
func (f *Files) resumed(spec *watchers.Spec) {
	for _, r := range f.past {
		if r.name != spec.Source {
			continue
		}
		spec.AtEnd = false // whatever is new came later
		from := watchers.Position(r.last)
		switch {
		case spec.Pattern == "" && r.path == spec.Path && !r.missed:
			spec.From = &from
		case spec.Pattern != "" && r.path != spec.Path && !r.missed:
			f.watcher.Add(watchers.Spec{Source: r.name, Path: r.path, Form: spec.Form, From: &from})
		}
	}
}
