package sqlite

import (
	"bufio"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain runs the writer if SQLITE_TEST_WRITER is set. The writer is a second process:
// it has its own locks, and a test can kill it. The writer reads SQL from stdin, one
// statement per line, and answers each with ok or the error.
func TestMain(m *testing.M) {
	if path := os.Getenv("SQLITE_TEST_WRITER"); path != "" {
		serve(path)
		return
	}
	goleak.VerifyTestMain(m)
}

func serve(path string) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	db.SetMaxOpenConns(1)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		_, err := db.Exec(in.Text())
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("ok")
	}
	db.Close() // the last connection checkpoints the log and removes it
}

type writer struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	ended bool
}

func startWriter(t *testing.T, path string) *writer {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	w := &writer{t: t, cmd: exec.Command(exe)}
	w.cmd.Env = append(os.Environ(), "SQLITE_TEST_WRITER="+path)
	w.cmd.Stderr = os.Stderr
	w.in, err = w.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := w.cmd.StdoutPipe()
	require.NoError(t, err)
	w.out = bufio.NewReader(out)
	require.NoError(t, w.cmd.Start())
	t.Cleanup(w.kill)
	return w
}

// do runs statements, and fails the test if a statement fails: a reader must never
// cause that, even though the writer has no busy timeout.
func (w *writer) do(statements ...string) {
	w.t.Helper()
	for _, s := range statements {
		fmt.Fprintln(w.in, s)
		answer, err := w.out.ReadString('\n')
		require.NoError(w.t, err)
		require.Equal(w.t, "ok\n", answer, s)
	}
}

func (w *writer) end() {
	w.t.Helper()
	w.ended = true
	require.NoError(w.t, w.in.Close())
	require.NoError(w.t, w.cmd.Wait())
}

func (w *writer) kill() {
	if !w.ended {
		w.ended = true
		w.cmd.Process.Kill()
		w.cmd.Wait()
	}
}

// insert returns the statement that adds the rows from the first to the last
// number, each with size bytes of text.
func insert(from, to, size int) string {
	return fmt.Sprintf(`WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i+1 FROM n WHERE i < %d)
		INSERT INTO event(id, data) SELECT 'e'||i, '{"n":'||i||',"text":"'||printf('%%.*c', %d, 'x')||'"}' FROM n`, from, to, size)
}

const (
	walOn  = `PRAGMA journal_mode=WAL`
	create = `CREATE TABLE event(id TEXT PRIMARY KEY, data TEXT NOT NULL)`
	query  = `SELECT rowid, '{"id":"'||id||'"}' FROM event WHERE rowid > ?1 ORDER BY rowid`
)

func oneLine(statement string) string { return strings.Join(strings.Fields(statement), " ") }

// A reader calls Next and collects the ids of the rows delivered.
type reader struct {
	t    *testing.T
	tail *Tail
	at   Cursor
	got  []string
}

func newReader(t *testing.T, path string) *reader {
	tail, err := Open(path, query)
	require.NoError(t, err)
	return &reader{t: t, tail: tail}
}

func (r *reader) try() error {
	var err error
	r.at, err = r.tail.Next(r.at, func(at Cursor, record []byte) {
		r.got = append(r.got, strings.TrimSuffix(strings.TrimPrefix(string(record), `{"id":"`), `"}`))
	})
	return err
}

// next returns the ids of the new rows.
func (r *reader) next() []string {
	r.t.Helper()
	r.got = nil
	require.NoError(r.t, r.try())
	return r.got
}

func ids(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprint("e", i))
	}
	return out
}

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(data)
	}
	return out
}

func database(t *testing.T) string { return filepath.Join(t.TempDir(), "store.db") }

func TestRowsOfARunningWriter(t *testing.T) {
	path := database(t)
	r := newReader(t, path)
	require.ErrorIs(t, r.try(), ErrNotYet)
	_, err := r.tail.Last()
	require.ErrorIs(t, err, ErrNotYet)

	w := startWriter(t, path)
	w.do(walOn, create)
	require.Empty(t, r.next())
	at, err := r.tail.Last()
	require.NoError(t, err)
	require.Zero(t, at.Row)

	w.do(oneLine(insert(1, 3, 10)))
	require.Equal(t, ids(1, 3), r.next())
	require.Empty(t, r.next())
	w.do(oneLine(insert(4, 4, 10)), oneLine(insert(5, 5, 10)))
	require.Equal(t, ids(4, 5), r.next())

	// Rows that are not committed are not delivered, and do not block the reader.
	w.do(`BEGIN IMMEDIATE`, oneLine(insert(6, 6, 10)))
	require.Empty(t, r.next())
	w.do(`COMMIT`)
	require.Equal(t, ids(6, 6), r.next())

	// The writer restarts the log from its beginning, and its rows are still
	// delivered.
	w.do(`PRAGMA wal_checkpoint(RESTART)`, oneLine(insert(7, 7, 10)))
	require.Equal(t, ids(7, 7), r.next())
	w.do(`PRAGMA wal_checkpoint(TRUNCATE)`)
	require.Empty(t, r.next())
	w.do(oneLine(insert(8, 8, 10)), `PRAGMA wal_checkpoint(PASSIVE)`)
	require.Equal(t, ids(8, 8), r.next())

	at, err = r.tail.Last()
	require.NoError(t, err)
	require.Equal(t, r.at, at)

	w.do(oneLine(insert(9, 9, 10)))
	w.end()
	// When the writer closes the database and no reader hinders it, only the
	// database file is left.
	require.Len(t, contents(t, filepath.Dir(path)), 1)
	require.Equal(t, ids(9, 9), r.next())
	require.Len(t, contents(t, filepath.Dir(path)), 1)

	// A later run can resume after any row that this run delivered.
	later := newReader(t, path)
	later.at = Cursor{at.Dev, at.Ino, 5}
	require.Equal(t, ids(6, 9), later.next())
}

func TestALargeLog(t *testing.T) {
	path := database(t)
	w := startWriter(t, path)
	w.do(walOn, `PRAGMA wal_autocheckpoint=0`, create)
	const rows = 20_000
	for n := 0; n < rows; n += 1000 {
		w.do(oneLine(insert(n+1, n+1000, 1000)))
	}
	log, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	require.Greater(t, log.Size(), int64(16<<20))

	tail, err := Open(path, `SELECT rowid, data FROM event WHERE rowid > ?1 ORDER BY rowid`)
	require.NoError(t, err)
	last, err := tail.Last()
	require.NoError(t, err)
	require.EqualValues(t, rows, last.Row)
	delivered, between := int64(0), 0
	at, err := tail.Next(Cursor{}, func(at Cursor, record []byte) {
		delivered++
		require.Equal(t, delivered, at.Row)
		if delivered%5000 == 0 && delivered < rows { // while a batch is delivered, the writer can checkpoint the log and restart it
			between++
			w.do(`PRAGMA wal_checkpoint(TRUNCATE)`, oneLine(insert(rows+between, rows+between, 10)))
		}
	})
	require.NoError(t, err)
	require.EqualValues(t, rows+between, delivered)
	require.Equal(t, delivered, at.Row)
}

// TestABusyWriter checks that no row is lost or delivered twice while a writer never
// pauses, with checkpoints. The writer has no busy timeout and must never fail.
func TestABusyWriter(t *testing.T) {
	path := database(t)
	w := startWriter(t, path)
	w.do(walOn, `PRAGMA wal_autocheckpoint=20`, `PRAGMA busy_timeout=0`, create)
	r := newReader(t, path)
	const rows = 1500
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; n <= rows; n++ {
			fmt.Fprintln(w.in, oneLine(insert(n, n, 500)))
		}
	}()
	for n := 1; n <= rows; n++ {
		answer, err := w.out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ok\n", answer)
		if err := r.try(); err != nil {
			require.ErrorIs(t, err, ErrBusy)
		}
	}
	<-done
	require.NoError(t, r.try())
	require.Equal(t, ids(1, rows), r.got)
}

// TestAKilledWriter checks that the database of a killed writer is read with its
// log, and that no byte is changed.
func TestAKilledWriter(t *testing.T) {
	path := database(t)
	w := startWriter(t, path)
	w.do(walOn, create, oneLine(insert(1, 5, 10)), `PRAGMA wal_checkpoint(PASSIVE)`, oneLine(insert(6, 9, 10)))
	w.kill()
	before := contents(t, filepath.Dir(path))
	require.Len(t, before, 3)
	r := newReader(t, path)
	require.Equal(t, ids(1, 9), r.next())
	require.Equal(t, before, contents(t, filepath.Dir(path)))

	require.NoError(t, os.Remove(path+"-shm"))
	require.ErrorIs(t, r.try(), ErrNoIndex)
	require.Len(t, contents(t, filepath.Dir(path)), 2)

	// The next writer creates the index again.
	w = startWriter(t, path)
	w.do(oneLine(insert(10, 10, 10)))
	require.Equal(t, ids(10, 10), r.next())
}

// TestAClosedDatabase checks that a reader of a closed database leaves no file
// beside it, with and without a write-ahead log.
func TestAClosedDatabase(t *testing.T) {
	for _, mode := range []string{"WAL", "DELETE"} {
		path := database(t)
		w := startWriter(t, path)
		w.do(`PRAGMA journal_mode=`+mode, create, oneLine(insert(1, 3000, 10)))
		w.end()
		before := contents(t, filepath.Dir(path))
		require.Len(t, before, 1)
		require.Equal(t, ids(1, 3000), newReader(t, path).next(), mode)
		require.Equal(t, before, contents(t, filepath.Dir(path)), mode)
	}
}

// TestAWriterStartsDuringARead checks that a read of a closed database is repeated
// if a writer changed it meanwhile.
func TestAWriterStartsDuringARead(t *testing.T) {
	path := database(t)
	w := startWriter(t, path)
	w.do(walOn, create, oneLine(insert(1, 3, 10)))
	w.end()
	w = startWriter(t, path)
	tail, err := Open(path, query)
	require.NoError(t, err)
	times := 0
	var rows []row
	err = tail.with(func(c *conn, _ Cursor) (err error) {
		times++
		rows, _, err = c.after(0)
		if times == 1 {
			w.do(`DELETE FROM event WHERE rowid = 1`, `PRAGMA wal_checkpoint(TRUNCATE)`)
		}
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 2, times)
	require.Len(t, rows, 2)
}

func TestAnotherDatabaseUnderThePath(t *testing.T) {
	path := database(t)
	w := startWriter(t, path)
	w.do(walOn, create, oneLine(insert(1, 5, 10)))
	r := newReader(t, path)
	require.Equal(t, ids(1, 5), r.next())
	before := r.at
	w.end()

	other := database(t)
	w = startWriter(t, other)
	w.do(walOn, create, oneLine(insert(101, 102, 10)))
	w.end()
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, r.try(), ErrNotYet)
	require.Equal(t, before, r.at)
	require.NoError(t, os.Rename(other, path))
	require.Equal(t, ids(101, 102), r.next())
	require.NotEqual(t, before.Ino, r.at.Ino)
}

// TestDeletedRows checks that rows are delivered although deleted rows had the same
// numbers.
func TestDeletedRows(t *testing.T) {
	path := database(t)
	w := startWriter(t, path)
	w.do(walOn, create, oneLine(insert(1, 5, 10)))
	r := newReader(t, path)
	require.Equal(t, ids(1, 5), r.next())
	w.do(`DELETE FROM event WHERE rowid > 3`)
	require.Empty(t, r.next())
	require.EqualValues(t, 3, r.at.Row)
	w.do(oneLine(insert(14, 16, 10)))
	require.Equal(t, ids(14, 16), r.next())
	w.do(`DELETE FROM event WHERE rowid < 6`)
	require.Empty(t, r.next())
	w.do(`DELETE FROM event`)
	require.Empty(t, r.next())
	require.Zero(t, r.at.Row)
	w.do(oneLine(insert(21, 21, 10)))
	require.Equal(t, ids(21, 21), r.next())
}

// TestRowsOfOneNumber checks that rows of the same number are delivered together: a
// cursor cannot separate them.
func TestRowsOfOneNumber(t *testing.T) {
	path := database(t)
	w := startWriter(t, path)
	w.do(create, oneLine(insert(1, 3*batchRows, 10)))
	tail, err := Open(path, fmt.Sprintf(`SELECT 1+rowid/%d AS n, CASE rowid%%2 WHEN 0 THEN id END FROM event WHERE n > ?1 ORDER BY rowid`, batchRows+10))
	require.NoError(t, err)
	count := map[int64]int{}
	_, err = tail.Next(Cursor{}, func(at Cursor, record []byte) { count[at.Row]++ })
	require.NoError(t, err)
	// Every second row has no record.
	require.Equal(t, map[int64]int{1: (batchRows + 9) / 2, 2: (batchRows + 10) / 2, 3: 3*batchRows/2 - (batchRows+9)/2 - (batchRows+10)/2}, count)
}

func TestALockedDatabase(t *testing.T) {
	path := database(t)
	w := startWriter(t, path)
	w.do(create, oneLine(insert(1, 1, 10)), `BEGIN EXCLUSIVE`)
	r := newReader(t, path)
	require.ErrorIs(t, r.try(), ErrBusy)
	w.do(`COMMIT`)
	require.Equal(t, ids(1, 1), r.next())
}

func TestLast(t *testing.T) {
	path := database(t)
	w := startWriter(t, path)
	w.do(`CREATE TABLE event(id TEXT)`)
	r := newReader(t, path)
	for _, n := range []int64{1, 2, 3, 4, 5, 1000, 1<<62 - 1, 1 << 62, 1<<62 + 1, 1<<63 - 1} {
		w.do(fmt.Sprintf(`INSERT INTO event(rowid, id) VALUES(%d, 'x')`, n))
		at, err := r.tail.Last()
		require.NoError(t, err)
		require.Equal(t, n, at.Row)
	}
}

func TestRefusals(t *testing.T) {
	_, err := Open("store.db", query)
	require.ErrorContains(t, err, "not absolute")
	_, err = Open("/store.db", "")
	require.ErrorContains(t, err, "the query is empty")

	path := database(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.Empty(t, newReader(t, path).next(), "a database created a moment ago")
	for _, text := range []string{"short", strings.Repeat("not a database ", 300)} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.ErrorContains(t, newReader(t, path).try(), "not a SQLite database")
	}
	require.ErrorContains(t, newReader(t, filepath.Dir(path)).try(), "not a regular file")
	require.NoError(t, os.Remove(path))

	w := startWriter(t, path)
	w.do(create, oneLine(insert(1, 1, 10)))
	for query, want := range map[string]string{
		`SELECT rowid, x FROM nowhere WHERE rowid > ?1`:   "no such table",
		`SELECT rowid FROM event WHERE rowid > ?1`:        "1 columns",
		`SELECT id, data FROM event WHERE rowid > ?1`:     "first column is e1 (string)",
		`SELECT -rowid, data FROM event WHERE ?1 = 0`:     "first column is -1",
		`SELECT rowid, rowid FROM event WHERE rowid > ?1`: "second column is int64",
		`DELETE FROM event WHERE rowid > ?1`:              "readonly",
	} {
		tail, err := Open(path, query)
		require.NoError(t, err)
		_, err = tail.Next(Cursor{}, func(Cursor, []byte) { t.Error(query) })
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, ids(1, 1), newReader(t, path).next())
}

// BenchmarkNext measures a call of Next with one new row.
func BenchmarkNext(b *testing.B) {
	path := filepath.Join(b.TempDir(), "store.db")
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(b, err)
	defer db.Close()
	for _, s := range []string{walOn, create, insert(1, 10_000, 500)} {
		_, err := db.Exec(s)
		require.NoError(b, err)
	}
	tail, err := Open(path, query)
	require.NoError(b, err)
	at, err := tail.Last()
	require.NoError(b, err)
	at.Row--
	took := []time.Duration{}
	for b.Loop() {
		begin := time.Now()
		_, err := tail.Next(at, func(Cursor, []byte) {})
		took = append(took, time.Since(begin))
		require.NoError(b, err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
