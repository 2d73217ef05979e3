package supervisor

import (
	"iter"
	"slices"
	"time"

	"lifeloop/kernel"
)

// A Past describes the ledger of a killed observer: how far each source was read.
// The facts stay in the ledger and are read when they are needed, because a
// ledger may be long.
type Past struct {
	entries iter.Seq[kernel.Entry]
	n       int       // the number of entries that ReadPast read
	began   time.Time // the time of the first entry
	sources []*readSource
	torn    *recordRead // the last record, if only some of its facts were written; else nil
}

// ReadPast reads the facts of a killed observer's ledger and passes each to fold.
// It returns nil if there are no entries. The Past iterates entries again later,
// but only up to the present last entry.
func ReadPast(entries iter.Seq[kernel.Entry], fold func(kernel.Entry)) *Past {
	p := &Past{entries: entries}
	for r := range reads(func(yield func(kernel.Entry) bool) {
		for e := range entries {
			if fold(e); p.n == 0 {
				p.began = e.At
			}
			p.n++
			if !yield(e) {
				return
			}
		}
	}) {
		if r.whole {
			p.sources = noteRead(p.sources, r)
		} else if r.torn {
			r.entries = slices.Clone(r.entries)
			p.torn = &r
		}
	}
	if p.n == 0 {
		return nil
	}
	return p
}

// first yields the first n entries.
func (p *Past) first(n int) iter.Seq[kernel.Entry] {
	return func(yield func(kernel.Entry) bool) {
		i := 0
		for e := range p.entries {
			if i++; i > n || !yield(e) {
				return
			}
		}
	}
}

// A recordRead is a record of a source that a killed observer has read, as its
// ledger shows it.
type recordRead struct {
	index   int            // index in the ledger of the record's first entry
	entries []kernel.Entry // a SourceRead and the facts of the record; valid until the next record is read
	before  time.Time      // time of the entry before the record's first entry
	whole   bool           // all facts of the record are on the ledger
	torn    bool           // some facts are missing, because the ledger ends here
}

func (r recordRead) read() kernel.SourceRead { return r.entries[0].Fact.(kernel.SourceRead) }

// reads yields the records of sources that the entries of a ledger show.
func reads(entries iter.Seq[kernel.Entry]) iter.Seq[recordRead] {
	return func(yield func(recordRead) bool) {
		var r recordRead
		open, i, last := false, -1, time.Time{}
		for e := range entries {
			i++
			_, resumed := e.Fact.(kernel.Resumed)
			f, is := e.Fact.(kernel.SourceRead)
			if open && (resumed || is) { // the observer died while it wrote this record
				if open = false; !yield(r) {
					return
				}
			}
			switch {
			case open:
				r.entries = append(r.entries, e)
			case is:
				open, r = true, recordRead{index: i, entries: append(r.entries[:0], e), before: last}
			}
			if open {
				if f = r.read(); len(r.entries) > f.Facts {
					r.whole, open = true, false
					if !yield(r) {
						return
					}
				}
			}
			last = e.At
		}
		if open {
			r.torn = true
			yield(r)
		}
	}
}
