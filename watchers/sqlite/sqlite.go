// Package sqlite tails the rows of a SQLite database that another program writes.
// It delivers each row of a query once, in the query's order, with the cursor at
// which a later run resumes.
//
// It has no goroutine and does not watch the file: the caller notices that the file
// changed, and asks for new rows. It never writes, and leaves no file beside the
// database. It does not hinder the writer: it reads a batch of rows, closes the
// database, and then delivers them. Between two calls the database is closed, so that
// the writer can checkpoint its log and remove it at the end.
//
//	t, err := sqlite.Open(path, "SELECT rowid, data FROM event WHERE rowid > ?1 ORDER BY rowid")
//	at, err := t.Last() // or zero, for all rows
//	at, err = t.Next(at, func(at sqlite.Cursor, record []byte) { … })
//
// How the database is opened depends on its journal:
//
//	a write-ahead log that is     only the file is read. The result is valid only if neither the
//	missing or empty              file nor the log changed meanwhile
//	a log and its index           read beside the writer, without writing to the index. If no
//	                              writer is alive, the index is built in memory
//	a log without its index       [ErrNoIndex]: only a program that may write can read it
//	a rollback journal            opened read-only, as by any other reader
//
// The package does not choose the file and does not interpret a record. It waits at
// most 50 ms for a lock, and then returns [ErrBusy]. If there is no database yet, it
// returns [ErrNotYet].
//
// There are two limits. If the newest rows are deleted, the database may reuse their
// numbers for new rows. The new rows are delivered only if Next was called between the
// deletion and their insertion. A process must not tail the same database twice at
// the same time: when one Tail closes the file, the system releases all POSIX locks of
// the process on the file, including those of the other Tail.
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

	"lifeloop/internal/durable"
)

const (
	// A batch is read before the database is closed and the rows are delivered. The
	// limits keep the transaction to some milliseconds, and bound the memory.
	batchRows  = 1024
	batchBytes = 2 << 20
	// patience is how long to wait for one lock, in milliseconds. Other processes
	// hold such a lock for microseconds, or for very long.
	patience = 50
	// settled is the age from which a file's modification time is reliable: any
	// later change gives the file another time. The clock of a file system may
	// advance only every 10 ms.
	settled = 20 * time.Millisecond
)

var (
	// ErrNotYet means that the path has no database yet.
	ErrNotYet = errors.New("the database does not exist yet")
	// ErrBusy means that the database is locked, or changes too fast. The caller
	// must try again, even if no event reports a change.
	ErrBusy = errors.New("the database is busy")
	// ErrNoIndex means that the write-ahead log has no index file. A program that
	// may write creates a new one.
	ErrNoIndex = errors.New("the database's write-ahead log has no index (-shm) beside it")
)

// A Cursor is a durable position: every row up to Row of this file was delivered.
// The zero Cursor is before the first row.
type Cursor struct {
	Dev, Ino uint64 // device and inode of the database file
	Row      int64  // the row's number, the query's first column
}

// A Tail reads one database. It holds no file open.
type Tail struct {
	path, query string
}

// Open prepares to tail the rows of a query on the database at path, which need
// not exist yet. The query has one argument, and returns the rows whose number is
// greater than this argument. The first column is the row's number, positive and never
// decreasing. The second is the row's record. A row whose record is NULL is skipped.
func Open(path, query string) (*Tail, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("tail database %s: the path is not absolute", path)
	}
	if query == "" {
		return nil, fmt.Errorf("tail database %s: the query is empty", path)
	}
	return &Tail{path: path, query: query}, nil
}

// Next delivers every row after the cursor, and returns the new cursor. A record
// is valid until deliver returns. While deliver runs the database is closed.
//
// If another file replaced the cursor's file, Next starts at the new file's first row,
// and the returned cursor has another Dev or Ino. If the last rows were deleted, Next
// continues after the last remaining one, and the returned Row is smaller.
//
// After an error, the returned cursor is the position after the last delivered row.
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

// Last returns the cursor of the last row. It delivers no records.
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

// A batch is the rows of one transaction.
type batch struct {
	from Cursor // the cursor before the first row; it differs from the requested one if the file was replaced or rows were deleted
	rows []row
	more bool // more rows follow
}

type row struct {
	number int64
	record []byte // nil for NULL
}

func (t *Tail) read(after Cursor) (batch, error) {
	var b batch
	err := t.with(func(c *conn, id Cursor) (err error) {
		b = batch{from: id}
		if after.Dev == id.Dev && after.Ino == id.Ino || after.Dev == 0 && after.Ino == 0 {
			b.from.Row = after.Row
		}
		b.rows, b.more, err = c.after(b.from.Row)
		if err != nil || len(b.rows) > 0 || b.from.Row == 0 {
			return err
		}
		// There are no new rows. If the last delivered row was deleted, a new row may
		// reuse its number, so move the cursor back to the last remaining row.
		there, err := c.any(b.from.Row - 1)
		if err == nil && !there {
			b.from.Row, err = c.last()
		}
		return err
	})
	return b, err
}

// with opens the database, calls read and closes the database. The result of read
// is valid only if with returns nil.
func (t *Tail) with(read func(c *conn, id Cursor) error) error {
	for range 3 {
		before, err := t.look()
		if err != nil {
			return err
		}
		if before.main.Size == 0 {
			return read(nil, before.id()) // the file was just created and has no rows
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
		// First check whether the files have changed, and return the error only if they
		// have not: a concurrent write may have caused the error.
		after, lost := t.look()
		if lost == nil && after == before {
			return err
		}
	}
	return ErrBusy
}

// A state describes the files of the database.
type state struct {
	main     unix.Stat_t
	wal      int64 // size of the write-ahead log in bytes; 0 if there is no log
	wal2     bool  // the header names the write-ahead log as the journal
	shm      bool  // the log has an index
	readable bool  // the log and its index can be read
}

func (s state) id() Cursor { return Cursor{Dev: uint64(s.main.Dev), Ino: s.main.Ino} }

// The modes for opening a database.
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
		return s, errors.New("not a regular file")
	}
	s.main.Atim = unix.Timespec{} // ignore the access time, because reading the file changes it
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

// logged reads in the file's header whether the database uses a write-ahead log.
func logged(path string) (bool, error) {
	f, err := durable.OpenLinked(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var head [20]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:16]) != "SQLite format 3\x00" {
		return false, errors.New("not a SQLite database")
	}
	return head[19] == 2, nil
}

// mode returns how to open the database without writing anything. By default
// SQLite creates a missing log and index, even for a reader.
func (s state) mode(path string) (string, error) {
	switch {
	case !s.wal2:
		return plain, nil
	case s.wal == 0:
		return immutable, nil
	case !s.shm:
		return "", ErrNoIndex
	case !s.readable:
		return "", fmt.Errorf("cannot read %s-wal or the -shm file beside it: %w", path, os.ErrPermission)
	}
	return beside, nil
}

// A conn is an open database; a nil conn has no rows.
type conn struct {
	driver.Conn
	stmt driver.Stmt
}

func open(path, mode, query string) (*conn, error) {
	name := url.URL{Scheme: "file", Path: path,
		RawQuery: fmt.Sprintf("%s&_busy_timeout=%d&_query_only=1&_defensive=1", mode, patience)}
	// The driver is used without database/sql, because its connection pool has a
	// goroutine.
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

// close ignores errors: the database was open for reading only.
func (c *conn) close() {
	c.stmt.Close()
	c.Conn.Close()
}

// after reads the rows after a number until the batch reaches batchRows or batchBytes.
// It then still adds the rows that have the same number as the last one.
func (c *conn) after(number int64) (rows []row, more bool, err error) {
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

// any reports whether there is a row after a number.
func (c *conn) any(number int64) (there bool, err error) {
	err = c.each(number, func(row) bool {
		there = true
		return false
	})
	return there, err
}

// last finds the last row's number by binary search, so that it does not read
// all rows.
func (c *conn) last() (int64, error) {
	// Unless the table is empty, the last row's number is greater than the variable some.
	// The first loop doubles the variable none until no row has a number greater than it.
	// The second loop moves the two numbers together until they are neighbours.
	some, none := int64(0), int64(1)
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
	// The two numbers are neighbours now, so the value of none is the last row's
	// number, unless the table is empty.
	if none == 1 {
		there, err := c.any(0)
		if err != nil || !there {
			return 0, err
		}
	}
	return none, nil
}

// each calls f with the rows after a number until f returns false.
func (c *conn) each(number int64, f func(row) bool) error {
	if c == nil {
		return nil
	}
	rows, err := c.stmt.(driver.StmtQueryContext).QueryContext(context.Background(), []driver.NamedValue{{Ordinal: 1, Value: number}})
	if err != nil {
		return known(err)
	}
	defer rows.Close() // closing the rows ends the transaction
	if n := len(rows.Columns()); n != 2 {
		return fmt.Errorf("the query has %d columns, want two, a number and a record", n)
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

// known returns ErrBusy for errors that mean a lock or a concurrent change, and
// other errors as they are.
func known(err error) error {
	const busy, locked, readOnly, cantOpen, protocol = 5, 6, 8, 14, 15
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case busy, locked, protocol,
		readOnly, // another process is rebuilding the log's index
		cantOpen: // the files were created or removed after look had checked them
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}
