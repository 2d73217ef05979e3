package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lifeloop/kernel/input"
	"lifeloop/profiles"
	"lifeloop/watchers"
	"lifeloop/watchers/sqlite"
)

// A database is one SQLite database that the harness writes, with all queries on it.
// The watcher reports changes of the database's files. One goroutine reads the new rows, one
// query after another, because SQLite's file locks do not separate two readers in the
// same process.
type database struct {
	files   *Files
	path    string
	tables  []*table
	changed chan struct{} // has a buffer of 1; full if there may be new rows

	prompted *sqlite.Tail       // reads which harness sessions got a prompt; nil if no source has a query for that
	began    sqlite.Cursor      // the cursor before the first row of this launch
	asked    chan chan<- string // requests of Prompted, each with the channel for its answer
	ended    chan struct{}      // closed when reading has ended
}

// A table is one query on a database. Its fields, except source, are owned by the
// database's goroutine.
type table struct {
	*decoder
	tail    *sqlite.Tail
	at      sqlite.Cursor
	failed  time.Time // when reading first failed; zero while it succeeds
	trouble bool      // the failure was reported
	resumed bool      // a killed observer's ledger gave the position to continue from
	late    bool      // the present rows are to be skipped, but could not be read yet
}

// logs has the suffixes of the files of a SQLite database. The watcher watches all of
// them.
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
		var err error
		if t.at, err = tail.Last(); err != nil && !waits(err) {
			return fmt.Errorf("read %s: %w", s.Path, err)
		}
		// Only an observer (AtEnd) tries again later to skip the present rows. In a launch,
		// rows from before Since are dropped by their times.
		t.late = f.AtEnd && err != nil && !errors.Is(err, sqlite.ErrNotYet)
	}
	d := f.databases[s.Path]
	if d == nil {
		d = &database{files: f, path: s.Path, changed: make(chan struct{}, 1), asked: make(chan chan<- string), ended: make(chan struct{})}
		f.each = append(f.each, d)
		for _, log := range logs {
			f.databases[s.Path+log] = d
		}
	}
	d.tables = append(d.tables, t)
	if s.Prompted != "" {
		d.began = t.at
		d.prompted, err = sqlite.Open(s.Path, s.Prompted)
	}
	return err
}

// Prompted returns the harness session that got a prompt during this launch; empty if no
// session or several did, or if ctx ends first. It must be called while the harness waits
// for the answer to a question: the prompt of the launch is then in the database. So if
// only one session has a prompt, it is the session of the launch.
func (f *Files) Prompted(ctx context.Context) string {
	for _, d := range f.each {
		if d.prompted == nil {
			continue
		}
		reply := make(chan string, 1) // buffered, because Prompted may no longer wait for the reply
		select {
		case d.asked <- reply:
			select {
			case session := <-reply:
				return session
			case <-ctx.Done():
			}
		case <-d.ended:
		case <-ctx.Done():
		}
	}
	return ""
}

// onlyPrompted returns the session that got a prompt, if there is exactly one.
func (d *database) onlyPrompted() (session string) {
	several := false
	_, err := d.prompted.Next(d.began, func(_ sqlite.Cursor, record []byte) {
		several = several || session != "" && session != string(record)
		session = string(record)
	})
	if err != nil || several {
		return ""
	}
	return session
}

// waits reports whether err means that the database may be readable later.
func waits(err error) bool {
	return errors.Is(err, sqlite.ErrNotYet) || errors.Is(err, sqlite.ErrBusy) || errors.Is(err, sqlite.ErrNoIndex)
}

// watchDatabase watches the files of a database for changes.
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
	default: // a wake-up is pending
	}
}

const (
	// settle is the delay of a second read after a change, because two writes
	// within the resolution of a file's time may be seen as one change.
	settle = 50 * time.Millisecond
	// patience is how long reading may fail before the failure is reported: at first
	// the harness may still be creating the database.
	patience = time.Second
	// lastLook is the longest wait for a locked database at the end.
	lastLook = 2 * time.Second
)

// follow reads new rows whenever the database has changed, until changed is
// closed, and then once more.
func (d *database) follow() {
	defer close(d.ended)
	var again <-chan time.Time
	wait := settle
	for _, t := range d.tables {
		if !t.resumed && !t.late {
			d.begins(t)
		}
	}
	for {
		select {
		case _, more := <-d.changed:
			if !more {
				d.finish()
				return
			}
			d.read()
			again, wait = time.After(settle), settle
		case reply := <-d.asked:
			reply <- d.onlyPrompted()
		case <-again:
			again = nil
			if d.read() { // the database is locked or still being created
				wait = min(2*wait, time.Second)
				again = time.After(wait)
			}
		}
	}
}

// begins posts the position at which the reading of a table begins.
func (d *database) begins(t *table) {
	if d.files.Positions {
		d.files.post(input.SignalsSeen{Source: t.source, Position: &input.Position{Path: d.path, Dev: t.at.Dev, Ino: t.at.Ino, Offset: t.at.Row}})
	}
}

// finish reads to the end. It waits up to lastLook for a writer to release its
// lock. At the end of a launch it also posts the signals that a decoder holds back. If
// reading failed, finish does not post these signals: an unread row may change them.
func (d *database) finish() {
	busy := d.read()
	for end := time.Now().Add(lastLook); busy && time.Now().Before(end); busy = d.read() {
		time.Sleep(settle)
	}
	for _, t := range d.tables {
		if !busy && !t.trouble && !d.files.Since.IsZero() {
			t.end(d.files.post)
		}
		t.unknown(d.files.post, true)
	}
}

// read posts the new rows of every table. It reports whether to try again soon,
// because the database is locked or still being created.
func (d *database) read() (busy bool) {
	for _, t := range d.tables {
		err := t.next(d)
		switch {
		case err == nil || errors.Is(err, sqlite.ErrNotYet):
			if t.trouble {
				d.files.reportTrouble(t.source, input.TroubleRecovered, nil)
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
			d.files.reportTrouble(t.source, input.TroubleUnreadable, err)
		}
	}
	return busy
}

// next posts the new rows of a table.
func (t *table) next(d *database) (err error) {
	if t.late {
		t.at, err = t.tail.Last()
		if t.late = err != nil; !t.late {
			d.begins(t)
		}
		return err
	}
	t.at, err = t.tail.Next(t.at, func(at sqlite.Cursor, record []byte) { d.take(t, at, record) })
	return err
}

func (d *database) take(t *table, at sqlite.Cursor, record []byte) {
	t.decoder.take(func(in input.Input) { d.files.pass(d.path, in) }, record, &input.Position{Path: d.path, Dev: at.Dev, Ino: at.Ino, Offset: at.Row})
}

// recorded yields the signals of the present rows. It waits up to lastLook while the
// database is locked.
func (d *database) recorded(yield func(input.Input, error) bool) error {
	more := true
	d.files.post = func(in input.Input) { more = more && yield(in, nil) }
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
	t.unknown(d.files.post, true)
	return nil
}
