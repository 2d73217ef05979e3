package supervisor

import (
	"errors"
	"fmt"
	"time"

	"lifeloop/kernel"
	"lifeloop/profiles"
	"lifeloop/watchers"
	"lifeloop/watchers/sqlite"
)

// A database is one that the harness writes, with everything that is asked of
// it. The watcher sees its files change; what is new in it is read on a
// goroutine of its own, one query after another, since its locks do not hold
// between two readers of one process.
type database struct {
	files   *Files
	path    string
	tables  []*table
	changed chan struct{} // has room for one: there may be something new
}

// A table is what one query gives. All but its name is owned by the database's
// goroutine.
type table struct {
	*decoder
	tail    *sqlite.Tail
	at      sqlite.Cursor
	failed  time.Time // since when it cannot be read
	trouble bool      // that was told
}

// logs are the files beside a database whose change means that it changed.
var logs = [...]string{"", "-wal", "-journal"}

func (f *Files) addDatabase(s profiles.Source) error {
	if s.Path == "" {
		return fmt.Errorf("%s: %w", s.Name, errNoPath)
	}
	tail, err := sqlite.Open(s.Path, s.Query)
	if err != nil {
		return err
	}
	t := &table{decoder: f.newDecoder(s), tail: tail}
	if f.AtEnd || !f.Since.IsZero() {
		if t.at, err = tail.Last(); err != nil && !waits(err) {
			return fmt.Errorf("read %s: %w", s.Path, err)
		}
	}
	d := f.databases[s.Path]
	if d == nil {
		d = &database{files: f, path: s.Path, changed: make(chan struct{}, 1)}
		for _, log := range logs {
			f.databases[s.Path+log] = d
		}
	}
	d.tables = append(d.tables, t)
	return nil
}

// waits says that a database is only not ready to be read.
func waits(err error) bool {
	return errors.Is(err, sqlite.ErrNotYet) || errors.Is(err, sqlite.ErrBusy) || errors.Is(err, sqlite.ErrNoIndex)
}

// watchDatabase asks to be told when a database changes.
func (f *Files) watchDatabase(s profiles.Source) {
	d := f.databases[s.Path]
	for _, log := range logs {
		f.watcher.Add(watchers.Spec{Source: s.Name, Form: watchers.Stamp, Path: s.Path + log})
	}
	d.wake()
}

func (d *database) wake() {
	select {
	case d.changed <- struct{}{}:
	default: // woken already
	}
}

const (
	// settle is when a database is looked at once more after a change: two
	// writes within the resolution of a file's time look like one.
	settle = 50 * time.Millisecond
	// patience is how long a database may be without its tables: whoever makes
	// it is at it.
	patience = time.Second
	// lastLook is how long a locked database is waited for at the end.
	lastLook = 2 * time.Second
)

// follow reads what is new whenever the database changed, until changed is
// closed, and then once more.
func (d *database) follow() {
	var again <-chan time.Time
	wait := settle
	for {
		select {
		case _, more := <-d.changed:
			if !more {
				d.finish()
				return
			}
			d.read()
			again, wait = time.After(settle), settle
		case <-again:
			again = nil
			if d.read() { // it is locked
				wait = min(2*wait, time.Second)
				again = time.After(wait)
			}
		}
	}
}

// finish reads to the end, waiting a little for a writer that is still at it.
func (d *database) finish() {
	for end := time.Now().Add(lastLook); d.read() && time.Now().Before(end); {
		time.Sleep(settle)
	}
	for _, t := range d.tables {
		if t.Decoder != nil && t.Missed() > t.told {
			d.files.post(kernel.UnknownSeen{Source: t.source, Types: t.Unknown()})
		}
	}
}

// read tells what is new in every table. It reports whether one has to be
// asked again, because the database is locked just now.
func (d *database) read() (busy bool) {
	for _, t := range d.tables {
		at, err := t.tail.Next(t.at, func(at sqlite.Cursor, record []byte) { d.take(t, at, record) })
		t.at = at
		switch {
		case err == nil || errors.Is(err, sqlite.ErrNotYet):
			if t.trouble {
				d.files.tellTrouble(t.source, string(watchers.Recovered), nil)
			}
			t.failed, t.trouble = time.Time{}, false
		case errors.Is(err, sqlite.ErrBusy):
			busy = true
		case t.failed.IsZero():
			t.failed, busy = time.Now(), true
		case !t.trouble && time.Since(t.failed) < patience:
			busy = true
		case !t.trouble:
			t.trouble = true
			d.files.tellTrouble(t.source, string(watchers.Unreadable), err)
		}
	}
	return busy
}

func (d *database) take(t *table, at sqlite.Cursor, record []byte) {
	signals := t.decoder.read(record)
	if t.missed() {
		d.files.post(kernel.UnknownSeen{Source: t.source, Types: t.Unknown()})
	}
	if len(signals) > 0 {
		d.files.post(kernel.SignalsSeen{Signals: signals,
			Position: &kernel.Position{Path: d.path, Dev: at.Dev, Ino: at.Ino, Offset: at.Row}})
	}
}

// recorded yields what the database holds now. A locked one is waited for a
// little, as at the end.
func (d *database) recorded(yield func(kernel.Input, error) bool) error {
	more := true
	d.files.post = func(in kernel.Input) { more = more && yield(in, nil) }
	t := d.tables[0]
	var err error
	for end := time.Now().Add(lastLook); ; time.Sleep(settle) {
		t.at, err = t.tail.Next(t.at, func(at sqlite.Cursor, record []byte) { d.take(t, at, record) })
		if !errors.Is(err, sqlite.ErrBusy) || time.Now().After(end) {
			break
		}
	}
	if err != nil && more {
		return fmt.Errorf("read %s: %w", d.path, err)
	}
	if t.Missed() > t.told {
		d.files.post(kernel.UnknownSeen{Source: t.source, Types: t.Unknown()})
	}
	return nil
}
