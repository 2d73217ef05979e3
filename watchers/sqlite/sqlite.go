// Package sqlite tails the rows of a SQLite database that another program
// writes: each row that a query gives is told once, in the query's order, with
// the cursor at which a later run can go on.
//
// It has no goroutine and no clock: whoever sees the file change asks for what
// is new. It never writes, and leaves no file beside the database. It never
// stands in the writer's way: a few rows are read at a time, the database is
// closed before they are told, and between two calls it is not open at all, so
// that the writer can check in its log and remove it when it ends.
//
//	t, err := sqlite.Open(path, "SELECT rowid, data FROM event WHERE rowid > ?1 ORDER BY rowid")
//	at, err := t.Last() // or zero, for all that is there
//	at, err = t.Next(at, func(at sqlite.Cursor, record []byte) { … })
//
// How the database is opened depends on what lies there:
//
//	no write-ahead log            only the file counts: it is read as it lies, and what was read
//	or an empty one               counts only when neither it nor the log changed meanwhile
//	a log and its index           as a reader beside the writer, without writing to the index; where
//	                              no writer is alive the index is built in memory
//	a log without its index       [ErrNoIndex]: only a program that may write can read it
//	a rollback journal            as any reader
//
// It refuses to say which file is meant, to interpret a record and to wait: a
// database that is locked just now is [ErrBusy], one that does not exist
// [ErrNotYet].
//
// Two limits. When the newest rows are deleted, the database may give their
// numbers to later ones; those are told only if the deletion was seen by
// itself, by a call between it and them. And a database must not be tailed
// twice at the same time in one process: the locks of POSIX would not hold.
package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
)

const (
	// A batch is what is read before the database is closed and the rows are
	// told: a transaction of some milliseconds, and the memory that it takes.
	batchRows  = 1024
	batchBytes = 2 << 20
	// patience is how long one lock is waited for, in milliseconds. A reader
	// needs locks that others hold for microseconds, or for very long.
	patience = 50
	// settled is the age from which a file's time of change tells every later
	// change: the clock of file systems may stand still for 10 ms.
	settled = 20 * time.Millisecond
)

var (
	// ErrNotYet says that there is no database under the path, yet.
	ErrNotYet = errors.New("no database is there yet")
	// ErrBusy says that the database is locked, or changes too fast, just now:
	// ask again, also when nothing tells that it changed.
	ErrBusy = errors.New("the database is busy")
	// ErrNoIndex says that the write-ahead log lies there without its index. A
	// program that may write makes a new one.
	ErrNoIndex = errors.New("the database's write-ahead log has no index (-shm) beside it")
)

// A Cursor is a durable position: every row up to Row, in this very file, was
// told. The zero Cursor stands before the first row.
type Cursor struct {
	Dev, Ino uint64 // of the database file
	Row      int64  // the row's number, as the query gives it
}

// A Tail reads one database. It holds nothing open.
type Tail struct {
	path, query string
}

// Open prepares to tail what the query gives of the database at path. Nothing
// need lie there yet. The query has one argument, the number of the last row
// that was told, and two columns: a row's number, which is positive and never
// decreases from row to row, and its record; a row whose record is NULL is
// passed over.
func Open(path, query string) (*Tail, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("tail database %s: the path is not absolute", path)
	}
	if query == "" {
		return nil, fmt.Errorf("tail database %s: no query says which rows", path)
	}
	return &Tail{path: path, query: query}, nil
}

// Next tells every row behind after that is there now, and returns the new
// cursor. A record is valid until deliver returns. While deliver runs the
// database is not open.
//
// Where the file is not the cursor's any more it was replaced, and is told from
// its first row: the returned cursor then has another Dev or Ino. Where the
// last rows were taken away, Next goes on behind the last one that is left: the
// returned Row is smaller than after's.
//
// With an error the returned cursor is that of the last row told.
func (t *Tail) Next(after Cursor, deliver func(at Cursor, record []byte)) (Cursor, error) {
	for {
		b, err := t.read(after)
		if err != nil {
			return after, fmt.Errorf("read database %s: %w", t.path, err)
		}
		after = b.from
		for _, r := range b.rows {
			after.Row = r.number
			if r.record != nil {
				deliver(after, r.record)
			}
		}
		if !b.more {
			return after, nil
		}
	}
}

// Last returns the cursor of the last row that is there, reading none of them.
func (t *Tail) Last() (Cursor, error) {
	var at Cursor
	err := t.with(func(c *conn, id Cursor) (err error) {
		at = id
		at.Row, err = c.last()
		return err
	})
	if err != nil {
		return Cursor{}, fmt.Errorf("read database %s: %w", t.path, err)
	}
	return at, nil
}

// Close lets go of the database; there is nothing to do.
func (t *Tail) Close() error { return nil }

// A batch is some rows, read in one go.
type batch struct {
	from Cursor // where they begin: not where they were asked for if the file was replaced or cut
	rows []row
	more bool // there are more behind them
}

type row struct {
	number int64
	record []byte // nil: NULL
}

func (t *Tail) read(after Cursor) (batch, error) {
	var b batch
	err := t.with(func(c *conn, id Cursor) (err error) {
		b = batch{from: id}
		if after.Dev == id.Dev && after.Ino == id.Ino || after.Dev == 0 && after.Ino == 0 {
			b.from.Row = after.Row
		}
		b.rows, b.more, err = c.behind(b.from.Row)
		if err != nil || len(b.rows) > 0 || b.from.Row == 0 {
			return err
		}
		// Nothing is new. The row told last may be gone, and its number will then
		// be given again.
		there, err := c.any(b.from.Row - 1)
		if err == nil && !there {
			b.from.Row, err = c.last()
		}
		return err
	})
	return b, err
}

// with opens the database, calls read and closes it again. What read got holds
// only when with returns nil.
func (t *Tail) with(read func(c *conn, id Cursor) error) error {
	for range 3 {
		before, err := t.look()
		if err != nil {
			return err
		}
		if before.main.Size == 0 {
			return read(nil, before.id()) // only just created: no rows
		}
		mode, err := before.mode(t.path)
		if err != nil {
			return err
		}
		if mode == immutable {
			if age := time.Since(time.Unix(before.main.Mtim.Unix())).Abs(); age < settled {
				time.Sleep(settled - age)
			}
		}
		c, err := open(t.path, mode, t.query)
		if err != nil {
			return err
		}
		err = read(c, before.id())
		c.close()
		if mode != immutable {
			return err
		}
		// An error too may come from reading a file while it was written.
		after, lost := t.look()
		if lost == nil && after == before {
			return err
		}
	}
	return ErrBusy
}

// A state is how the database's files lie there.
type state struct {
	main     unix.Stat_t
	wal      int64 // size; 0 when there is none
	wal2     bool  // the file says that it is written through a log
	shm      bool
	readable bool // the log and its index are
}

func (s state) id() Cursor { return Cursor{Dev: uint64(s.main.Dev), Ino: s.main.Ino} }

// The modes that a database is opened in.
const (
	plain     = "mode=ro"
	beside    = "mode=ro&readonly_shm=1"
	immutable = "mode=ro&immutable=1"
)

func (t *Tail) look() (state, error) {
	var s state
	err := unix.Stat(t.path, &s.main)
	switch {
	case errors.Is(err, unix.ENOENT):
		return s, ErrNotYet
	case err != nil:
		return s, err
	case s.main.Mode&unix.S_IFMT != unix.S_IFREG:
		return s, errors.New("it is not a regular file")
	}
	s.main.Atim = unix.Timespec{} // reading changes it
	if s.main.Size > 0 {
		if s.wal2, err = logged(t.path); err != nil {
			return s, err
		}
	}
	if info, err := os.Stat(t.path + "-wal"); err == nil {
		s.wal = info.Size()
	}
	_, err = os.Stat(t.path + "-shm")
	s.shm = err == nil
	s.readable = unix.Access(t.path+"-wal", unix.R_OK) == nil && unix.Access(t.path+"-shm", unix.R_OK) == nil
	return s, nil
}

// logged reads in the file's header whether it is written through a
// write-ahead log.
func logged(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var head [20]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:16]) != "SQLite format 3\x00" {
		return false, errors.New("it is not a SQLite database")
	}
	return head[19] == 2, nil
}

// mode is how a database that lies there so can be opened without writing
// anything. SQLite by itself would create a log and an index where there are
// none, also for a reader.
func (s state) mode(path string) (string, error) {
	switch {
	case !s.wal2:
		return plain, nil
	case s.wal == 0:
		return immutable, nil
	case !s.shm:
		return "", ErrNoIndex
	case !s.readable:
		return "", fmt.Errorf("%s-wal or its -shm may not be read: %w", path, os.ErrPermission)
	}
	return beside, nil
}

// A conn is an open database; a nil one is empty.
type conn struct {
	driver.Conn
	stmt driver.Stmt
}

func open(path, mode, query string) (*conn, error) {
	name := url.URL{Scheme: "file", Path: path,
		RawQuery: fmt.Sprintf("%s&_busy_timeout=%d&_query_only=1&_defensive=1", mode, patience)}
	// The driver by itself: no pool of connections with a goroutine for it.
	db, err := new(sqlite.Driver).Open(name.String())
	if err != nil {
		return nil, known(err)
	}
	stmt, err := db.Prepare(query)
	if err != nil {
		db.Close()
		return nil, known(err)
	}
	return &conn{db, stmt}, nil
}

// close cannot lose anything: it was opened for reading.
func (c *conn) close() {
	c.stmt.Close()
	c.Conn.Close()
}

// behind reads rows behind the numbered one, at most a batch of them and never
// a part of those with one number.
func (c *conn) behind(number int64) (rows []row, more bool, err error) {
	size := 0
	err = c.each(number, func(r row) bool {
		full := len(rows) >= batchRows || size >= batchBytes
		if more = full && r.number != rows[len(rows)-1].number; more {
			return false
		}
		rows = append(rows, r)
		size += len(r.record)
		return true
	})
	return rows, more, err
}

// any says whether there is a row behind the numbered one.
func (c *conn) any(number int64) (there bool, err error) {
	err = c.each(number, func(row) bool {
		there = true
		return false
	})
	return there, err
}

// last finds the last row's number by asking what is behind others: as many
// questions as a number has digits, instead of reading all.
func (c *conn) last() (int64, error) {
	some, none := int64(0), int64(1) // behind some there is a row
	for {
		there, err := c.any(none)
		if err != nil {
			return 0, err
		}
		if !there {
			break
		}
		if some = none; none > math.MaxInt64/2 {
			none = math.MaxInt64
			break
		}
		none *= 2
	}
	for none-some > 1 {
		mid := some + (none-some)/2
		there, err := c.any(mid)
		if err != nil {
			return 0, err
		}
		if there {
			some = mid
		} else {
			none = mid
		}
	}
	// Behind none there is nothing and behind some there is: none is the last,
	// unless there is no row at all.
	if none == 1 {
		there, err := c.any(0)
		if err != nil || !there {
			return 0, err
		}
	}
	return none, nil
}

// each calls f with the rows behind the numbered one until f returns false.
func (c *conn) each(number int64, f func(row) bool) error {
	if c == nil {
		return nil
	}
	rows, err := c.stmt.(driver.StmtQueryContext).QueryContext(context.Background(), []driver.NamedValue{{Ordinal: 1, Value: number}})
	if err != nil {
		return known(err)
	}
	defer rows.Close() // ends the transaction
	if n := len(rows.Columns()); n != 2 {
		return fmt.Errorf("the query has %d columns, want a number and a record", n)
	}
	for {
		var cols [2]driver.Value
		err := rows.Next(cols[:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return known(err)
		}
		r, err := rowOf(cols)
		if err != nil {
			return err
		}
		if !f(r) {
			return nil
		}
	}
}

func rowOf(cols [2]driver.Value) (row, error) {
	number, ok := cols[0].(int64)
	if !ok || number <= 0 {
		return row{}, fmt.Errorf("the query's first column is %v (%[1]T), want a positive integer", cols[0])
	}
	switch record := cols[1].(type) {
	case string:
		return row{number, []byte(record)}, nil
	case []byte:
		return row{number, record}, nil
	case nil:
		return row{number: number}, nil
	}
	return row{}, fmt.Errorf("the query's second column is %T, want text", cols[1])
}

// known makes our own errors of those that a caller tells apart.
func known(err error) error {
	const busy, locked, readOnly, cantOpen, protocol = 5, 6, 8, 14, 15
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case busy, locked, protocol,
		readOnly, // somebody is just making the log's index anew
		cantOpen: // its files came or went since we looked
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}
