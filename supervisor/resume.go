package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/telemetry"
	"lifeloop/watchers"
	"lifeloop/watchers/sqlite"
)

// This file resumes an observation that was killed. For each record with signals, the
// observation's ledger has the record's position in the source. All records up to the
// last position are decoded once more. This restores the state of the decoders and the
// kernel's soft state (the state that is not in the ledger). Reading continues with the
// next record.

// A readSource records how far one file, or one query of a database, was read.
type readSource struct {
	name, path  string
	first, last input.Position // the positions where the newest reading of the source began and ended
	taken       int64          // the number of observed signals, if the source is unordered; otherwise 0
	digest      string         // digest of the observed signals
	newest      time.Time      // the newest time that was observed
	floor       time.Time      // records up to this time are dropped: they were observed before the reading began again
	begin       int            // index in the ledger of the fact with which the newest reading of the source began
	missed      bool           // the content is read again from its start, for example because the file was replaced
	// records yields the records that the killed observer had read, decoded once
	// more by a goroutine that ends when the last one is taken. next is a record
	// that was received but not taken yet.
	records chan recalled
	next    *recalled
}

// recalled has the signals of a record that was decoded once more, and the offset
// of the record's end.
type recalled struct {
	end     int64
	signals []telemetry.Signal
}

// decode starts a goroutine that calls read, which decodes once more the records that the
// killed observer had read. A record is decoded after the previous one was received.
func (r *readSource) decode(read func(deliver func(recalled))) {
	records := make(chan recalled)
	r.records = records
	go func() {
		defer close(records)
		read(func(record recalled) { records <- record })
	}()
}

// peek returns the next record, or nil.
func (r *readSource) peek() *recalled {
	if r.next == nil && r.records != nil {
		if record, ok := <-r.records; ok {
			r.next = &record
		}
	}
	return r.next
}

// take takes the next record.
func (r *readSource) take() *recalled {
	record := r.peek()
	r.next = nil
	return record
}

// noteRead updates the readSource of a record's source from the facts about the record
// in the ledger. If all has no readSource for the source, noteRead adds one.
func noteRead(all []*readSource, record recordRead) []*readSource {
	f, i := record.read(), record.index
	r := find(all, f.Source, f.Path)
	if r == nil {
		r = &readSource{name: f.Source, path: f.Path, begin: i}
		all = append(all, r)
	} else if f.Start { // the source is read again from its start; see the field missed
		r.floor = r.newest
	}
	switch again := f.Ino != r.last.Ino && r.last.Ino != 0 || f.Offset < r.last.Offset; {
	case f.Start:
		r.first, r.begin = f.Position, i
		if f.Offset > 0 { // the content up to the offset was skipped
			r.newest = later(r.newest, record.entries[0].At)
		}
	case again, r.first.Path == "": // the file was replaced or truncated, and read from its start
		r.first, r.begin = input.Position{Path: f.Path, Dev: f.Dev, Ino: f.Ino}, i
	}
	r.last, r.taken, r.digest = f.Position, f.Taken, f.Digest
	r.newest = later(r.newest, f.Newest)
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

// drop returns the floor. If the content is read again from its start, drop first raises
// the floor to the newest time that was observed.
func (r *readSource) drop() time.Time {
	if r.missed {
		r.floor = later(r.floor, r.newest)
	}
	return r.floor
}

// Resume prepares to continue where a killed observer stopped. It must be called
// before Launched. k must have replayed the facts of past, which may be nil. If
// only some facts of the last record were written, Resume writes the missing
// ones.
//
// A file is read from its start if it was replaced, truncated or deleted meanwhile, or
// if its records were observed in order of time, not of position. Records of such a file
// are dropped unless they are newer than the newest observed record. So some of them may
// never be observed, and the trouble "missed" is reported. The same trouble is reported
// for every server, because the events that the server sent meanwhile are lost.
func (f *Files) Resume(k *kernel.Kernel, past *Past, log Ledger, listen Listener) error {
	var torn kernel.SourceRead
	if past != nil {
		f.past = past.sources
		defer func() {
			for _, r := range f.past {
				for r.take() != nil { // the decoder must have decoded all these records before it is used again
				}
			}
		}()
		if past.torn != nil {
			torn = past.torn.read()
		}
	}
	for _, r := range f.past {
		next := r.last.Offset // the records up to this offset are decoded
		if torn.Source == r.name && torn.Path == r.path && torn.Taken == 0 {
			next = torn.Offset
		}
		switch s := f.source(r.name); s.Form {
		case profiles.Rows:
			f.recallRows(r, next)
		case profiles.Whole, profiles.Stamp: // of these files only the newest content matters
		default:
			f.recallFile(r, s, next)
		}
		if r.missed {
			f.missed = append(f.missed, r.name)
		}
	}
	for _, s := range f.servers {
		f.missed = append(f.missed, s.source)
	}
	if past == nil {
		return nil
	}
	second := past.rehearse(k)
	if past.torn != nil {
		var record *recalled
		r := find(f.past, torn.Source, torn.Path)
		if r != nil {
			record = r.take()
		}
		if record != nil && r.peek() == nil {
			again, err := past.complete(k, second, record.signals, log, listen)
			if err != nil {
				return err
			}
			if again != nil {
				second, r.last = again, torn.Position
				f.placeRows(r)
			}
		}
	}
	k.Recall(second)
	return nil
}

// rehearse returns a second kernel that was given the records which were already
// read, each at the time of its reading.
func (p *Past) rehearse(k *kernel.Kernel) *kernel.Kernel {
	second := k.Rehearsal()
	second.Step(p.began, input.Start{})
	for record := range reads(p.first(p.n)) {
		if !record.whole {
			continue
		}
		f, at := record.read(), record.entries[0].At
		r := find(p.sources, f.Source, f.Path)
		for record.index >= r.begin && r.peek() != nil && r.peek().end <= f.Offset {
			wakeUntil(second, at)
			second.Step(at, input.SignalsSeen{Signals: r.take().signals})
		}
	}
	until := k.LastReplayed()
	if p.torn != nil && p.torn.index > 0 {
		until = p.torn.before
	}
	wakeUntil(second, until.Add(1)) // the killed observer had handled all deadlines up to this time
	return second
}

// complete writes the missing facts of the torn record, whose signals were decoded
// once more. second has handled all earlier records. complete returns a new kernel that
// replaces second and has handled the torn record too. complete returns nil if the content
// of the source has changed.
func (p *Past) complete(k, second *kernel.Kernel, signals []telemetry.Signal, log Ledger, listen Listener) (*kernel.Kernel, error) {
	torn := p.torn.entries
	f, at := p.torn.read(), torn[0].At
	again, facts, ids := k.Redo(p.first(p.torn.index), second, at, input.SignalsSeen{
		Signals: signals, Source: f.Source, Position: &f.Position, Taken: f.Taken, Digest: f.Digest})
	facts, ok := missing(torn, facts, ids)
	if !ok {
		return nil, nil
	}
	rest := make([]kernel.Entry, len(facts))
	for n, fact := range facts {
		rest[n] = kernel.Entry{Seq: torn[len(torn)-1].Seq + uint64(n) + 1, At: at, Fact: fact}
	}
	if err := appendTo(log, rest, true); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLedger, err)
	}
	for _, e := range rest {
		k.Fold(e)
	}
	return again, listen(rest)
}

// missing returns the facts of a record that are not in the ledger yet. torn has the
// facts in the ledger. facts has all facts of the record, which were made once more with
// new ids; ids lists the new ids. In the result, a new id is replaced by the earlier id, if
// torn has one. missing returns false if torn and the first facts differ in more than ids.
func missing(torn []kernel.Entry, facts []kernel.Fact, ids []string) (rest []kernel.Fact, ok bool) {
	if len(facts) < len(torn) {
		return nil, false
	}
	named := map[string]string{}
	for _, id := range ids {
		named[id] = ""
	}
	for i, e := range torn {
		kind, was, err1 := tree(e.Fact)
		other, now, err2 := tree(facts[i])
		if err1 != nil || err2 != nil || kind != other || !alike(named, was, now) {
			return nil, false
		}
	}
	var pairs []string
	for id, was := range named {
		if was != "" {
			pairs = append(pairs, id, was)
		}
	}
	rename := strings.NewReplacer(pairs...)
	for _, f := range facts[len(torn):] {
		kind, body, err := kernel.Encode(f)
		if err == nil {
			f, err = kernel.Decode(kind, []byte(rename.Replace(string(body))))
		}
		if err != nil {
			return nil, false
		}
		rest = append(rest, f)
	}
	return rest, true
}

func tree(f kernel.Fact) (kind string, v any, err error) {
	kind, body, err := kernel.Encode(f)
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	return kind, v, err
}

// alike reports whether two values are equal except for new ids. The keys of named are the
// new ids; alike stores the earlier id for each new id that it finds.
func alike(named map[string]string, was, now any) bool {
	switch now := now.(type) {
	case map[string]any:
		was, ok := was.(map[string]any)
		if !ok || len(was) != len(now) {
			return false
		}
		for name, v := range now {
			if w, ok := was[name]; !ok || !alike(named, w, v) {
				return false
			}
		}
		return true
	case []any:
		was, ok := was.([]any)
		return ok && slices.EqualFunc(was, now, func(w, v any) bool { return alike(named, w, v) })
	case string:
		was, ok := was.(string)
		if id, isID := named[now]; isID && ok {
			named[now] = was
			return id == "" || id == was
		}
		return ok && was == now
	}
	return was == now
}

// wakeUntil wakes a kernel at each of its deadlines before a time, and drops the facts
// and effects.
func wakeUntil(k *kernel.Kernel, at time.Time) {
	for due, ok := k.Deadline(); ok && due.Before(at); due, ok = k.Deadline() {
		k.Step(due, input.Wake{})
	}
}

// recallFile decodes once more the records of a file that end at or before the offset
// given as until. It decodes none if the file must be read again from its start.
func (f *Files) recallFile(r *readSource, s profiles.Source, until int64) {
	first, last := watchers.Position(r.first), watchers.Position(r.last)
	key := r.name + "\x00" + r.path
	d := f.decoderOf(r.name)
	f.decoders[key] = d
	// The records of an unordered source (taken > 0) are observed in order of time, not of
	// position. So a record before the last position may not have been observed, and the
	// file is read again from its start.
	r.missed = last.Changed() != "" || r.taken > 0
	if floor := r.drop(); !floor.IsZero() {
		d.since = later(d.since, floor.Add(1))
		if r.taken > 0 {
			f.floors[r.name] = d.since
		}
	}
	if r.missed {
		return
	}
	r.decode(func(deliver func(recalled)) {
		w, err := watchers.New(watchers.Config{Deliver: func(l watchers.Line) {
			if l.Pos.Offset > until || d.Decoder == nil {
				return
			}
			if signals := d.read(l.Text); len(signals) > 0 {
				deliver(recalled{l.Pos.Offset, signals})
			}
		}})
		if err != nil {
			return // does not happen: New fails only if the Config is invalid
		}
		w.Add(watchers.Spec{Source: r.name, Path: r.path, Form: form(s.Form), From: &first})
		now, cancel := context.WithCancel(context.Background())
		cancel() // ends the reading at the present end of the file
		_ = w.Run(now)
	})
}

// recallRows decodes the rows of a query once more, up to the row number given as until.
// recallRows decodes none if the query must be read again from its start.
func (f *Files) recallRows(r *readSource, until int64) {
	d := f.databases[r.path]
	if d == nil {
		return
	}
	for _, t := range d.tables {
		if t.source != r.name {
			continue
		}
		at := func(p input.Position) sqlite.Cursor { return sqlite.Cursor{Dev: p.Dev, Ino: p.Ino, Row: p.Offset} }
		r.missed = rowsChanged(t.tail, r.last) || r.taken > 0
		if floor := r.drop(); !floor.IsZero() {
			t.since = later(t.since, floor.Add(1))
		}
		if r.missed {
			t.at = sqlite.Cursor{}
			return
		}
		r.decode(func(deliver func(recalled)) {
			_, _ = t.tail.Next(at(r.first), func(at sqlite.Cursor, record []byte) {
				if at.Row > until {
					return
				}
				if signals := t.read(record); len(signals) > 0 {
					deliver(recalled{at.Row, signals})
				}
			}) // an error is reported by the next read
		})
	}
	f.placeRows(r)
}

// placeRows makes a query continue after the last row that was read.
func (f *Files) placeRows(r *readSource) {
	d := f.databases[r.path]
	if d == nil {
		return
	}
	for _, t := range d.tables {
		if t.source == r.name && !r.missed {
			t.at, t.resumed = sqlite.Cursor{Dev: r.last.Dev, Ino: r.last.Ino, Row: r.last.Offset}, true
			t.late = false
		}
	}
}

// rowsChanged reports whether a database was replaced since the position was stored,
// or has lost rows.
func rowsChanged(tail *sqlite.Tail, last input.Position) bool {
	now, err := tail.Last()
	return err == nil && last.Ino != 0 && (now.Dev != last.Dev || now.Ino != last.Ino || now.Row < last.Offset)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// resumed sets the position at which the Spec of a file resumes. For a pattern, it
// adds a Spec for each file that was read.
func (f *Files) resumed(spec *watchers.Spec) {
	for _, r := range f.past {
		if r.name != spec.Source {
			continue
		}
		spec.AtEnd = false // new records were written after the observation began, so none may be skipped
		from := watchers.Position(r.last)
		switch {
		case spec.Pattern == "" && r.path == spec.Path && !r.missed:
			spec.From = &from
		case spec.Pattern != "" && r.path != spec.Path && !r.missed:
			f.watcher.Add(watchers.Spec{Source: r.name, Path: r.path, Form: spec.Form, From: &from})
		}
	}
}
