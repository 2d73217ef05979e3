package supervisor

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/manifests"
	"lifeloop/profiles"
	"lifeloop/telemetry/claude"
	"lifeloop/telemetry/opencode"
	"lifeloop/watchers/sqlite"
)

// A writer writes a database as a harness does.
type writer struct {
	t  *testing.T
	db *sql.DB
}

func writeTo(t *testing.T, path string) writer {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path) // uses the driver that watchers/sqlite imports
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	w := writer{t, db}
	w.do(`PRAGMA journal_mode=WAL`)
	w.do(`CREATE TABLE IF NOT EXISTS log (id INTEGER PRIMARY KEY, record TEXT)`)
	return w
}

func (w writer) do(statement string, args ...any) {
	w.t.Helper()
	_, err := w.db.Exec(statement, args...)
	require.NoError(w.t, err)
}

func (w writer) add(records ...string) {
	for _, r := range records {
		w.do(`INSERT INTO log (record) VALUES (?)`, r)
	}
}

func rowsAt(path string) profiles.Source {
	return profiles.Source{Name: "store", Decoder: claude.Registry, Form: profiles.Rows, Path: path,
		Query: `SELECT id, record FROM log WHERE id > ?1 ORDER BY id`}
}

// TestRowsAreFollowed follows a database that is created late and has a write-ahead log.
// All rows are read, up to the last one.
func TestRowsAreFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "late", "store.db")
	r := read(t, Files{Fixed: []profiles.Source{rowsAt(path)}})
	r.f.Launched(1)
	write(t, filepath.Join(filepath.Dir(path), "other"), "the folder appears")
	w := writeTo(t, path)
	w.add(entry("S1", "busy", day))
	r.until("registry S1 working")
	w.add(entry("S1", "idle", day), "{")
	r.until("registry S1 working", "registry S1 idle")
	w.do(`PRAGMA wal_checkpoint(TRUNCATE)`)
	w.add(entry("S2", "busy", day))
	r.until("registry S1 working", "registry S1 idle", "registry S2 working")
	w.add(entry("S2", "idle", day))
	require.NoError(t, r.stop())
	r.until("registry S1 working", "registry S1 idle", "registry S2 working", "registry S2 idle")

	var last *input.Position
	unknown := 0
	for _, in := range r.in {
		switch in := in.(type) {
		case input.SignalsSeen:
			last = in.Position
		case input.UnknownSeen:
			unknown = in.Types["malformed"]
		}
	}
	require.Equal(t, path, last.Path)
	require.EqualValues(t, 5, last.Offset, "the number of its row")
	require.Equal(t, 1, unknown)
}

// A decoder may hold back signals until it reads a later row. These signals are posted at
// the end of a launch, but not when an observer stops.
func TestRowsThatWereHeldBack(t *testing.T) {
	source := rowsAt(filepath.Join(t.TempDir(), "store.db"))
	source.Decoder = opencode.Store
	w := writeTo(t, source.Path)
	launch := read(t, Files{Fixed: []profiles.Source{source}, Since: day.Add(-time.Hour)})
	launch.f.Launched(1)
	info := func(seq int, rest string) string {
		return fmt.Sprintf(`{"aggregate_id":"S","seq":%d,"type":"message.%s}}`, seq, rest)
	}
	at := day.UnixMilli()
	w.add(info(0, fmt.Sprintf(`updated.1","data":{"sessionID":"S","info":{"id":"u","role":"user","time":{"created":%d}}`, at)),
		info(1, `part.updated.1","data":{"sessionID":"S","part":{"id":"p","messageID":"u","type":"text"}`),
		info(2, fmt.Sprintf(`updated.1","data":{"sessionID":"S","info":{"id":"a","role":"assistant","parentID":"u","time":{"created":%d,"completed":%d},"finish":"stop"}`, at, at)))
	begun := []string{"store S prompt", "store S working"}
	launch.until(begun...)
	require.NoError(t, launch.stop())
	launch.until(append(begun, "store S turn_end")...)

	observer := read(t, Files{Fixed: []profiles.Source{source}})
	observer.f.Launched(1)
	observer.until(begun...)
	require.NoError(t, observer.stop())
	observer.until(begun...)
}

// An observer waits for a database that does not exist yet, or is locked, and then reads
// what is new.
func TestADatabaseThatCannotBeReadYet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	r := read(t, Files{Fixed: []profiles.Source{rowsAt(path)}, AtEnd: true})
	r.f.Launched(1)
	w := writeTo(t, path)
	w.add(entry("S1", "busy", day))
	r.until("registry S1 working")
	require.NoError(t, r.stop()) // a read at the same time would prevent the lock below

	w.do(`PRAGMA journal_mode=DELETE`)
	w.db.SetMaxOpenConns(1) // so that COMMIT uses the connection that has the lock
	w.do(`BEGIN EXCLUSIVE`)
	resumed, err := NewFiles(Files{Fixed: []profiles.Source{rowsAt(path)}, AtEnd: true})
	require.NoError(t, err)
	resumed.placeRows(&readSource{name: "store", path: path, last: input.Position{Offset: 7}})
	require.False(t, resumed.databases[path].tables[0].late, "an observer that is resumed continues at row 7")
	locked := read(t, Files{Fixed: []profiles.Source{rowsAt(path)}, AtEnd: true, Positions: true})
	locked.f.Launched(1)
	w.do(`COMMIT`)
	require.NoError(t, locked.stop())
	require.Empty(t, locked.posted, "the row was there before the observer")
	require.Len(t, locked.in, 1)
	require.EqualValues(t, 1, locked.in[0].(input.SignalsSeen).Position.Offset)
}

// Prompted returns the only session that got a prompt since the launch.
func TestTheOnlyPromptedSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	w := writeTo(t, path)
	w.add("S0")
	source := rowsAt(path)
	source.Prompted = source.Query
	r := read(t, Files{Fixed: []profiles.Source{source}, Since: day})
	require.Empty(t, r.f.Prompted(t.Context()), "only before the launch")
	w.add("S1", "S1")
	require.Equal(t, "S1", r.f.Prompted(t.Context()))
	w.add("S2")
	require.Empty(t, r.f.Prompted(t.Context()), "either may be asking")
	require.NoError(t, r.stop())
	require.Empty(t, r.f.Prompted(t.Context()), "the sources have ended")
}

// Prompted returns at the end of its context, even if the database is still being read.
func TestPromptedDoesNotWaitForASlowDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{prompted: &sqlite.Tail{}, asked: make(chan chan<- string)}
		f := &Files{each: []*database{d}}
		var reading sync.WaitGroup
		defer reading.Wait()
		reading.Go(func() {
			reply := <-d.asked
			time.Sleep(time.Minute)
			reply <- "S1"
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.Empty(t, f.Prompted(ctx))
		require.Equal(t, time.Second, time.Since(began))
	})
}

// The present rows of a database are skipped with AtEnd or Since, and read
// otherwise.
func TestThePastOfADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	w := writeTo(t, path)
	w.add(entry("S1", "busy", day))
	r := read(t, Files{Fixed: []profiles.Source{rowsAt(path)}, AtEnd: true})
	r.f.Launched(1)
	w.add(entry("S1", "idle", day))
	r.until("registry S1 idle")

	manifest, _ := manifests.Get("generic")
	sources := func() (out []string) {
		k := kernel.New(kernel.Config{Session: "s", Launch: setup.Launch{Manifest: manifest}, Observing: true, NewID: func(p string) string { return p }})
		require.NoError(t, Once(t.Context(), k, []profiles.Source{rowsAt(path)}, nil, Ports{}, each(func(e kernel.Entry) error {
			if m, ok := e.Fact.(kernel.ActivityMoved); ok {
				out = append(out, m.To)
			}
			return nil
		})))
		return out
	}
	require.Equal(t, []string{"working", "idle"}, sources())
	require.NoError(t, r.stop())
}

// A file that is not a database is reported as unreadable. Run does not fail.
func TestAFileThatIsNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	r := read(t, Files{Fixed: []profiles.Source{rowsAt(path)}})
	write(t, path, strings.Repeat("not a database\n", 500))
	r.f.Launched(1)
	r.until("trouble store unreadable")
	require.NoError(t, r.stop())
}

// TestServerEvents reads the events of a harness's own server.
func TestServerEvents(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "opencode" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", entry("S1", "busy", day), entry("S1", "idle", day))
		w.(http.Flusher).Flush()
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(ended)
	s := profiles.Source{Name: "bus", Decoder: claude.Registry, Form: profiles.Events, Path: server.URL, User: "opencode", Password: "PASSWORD"}
	env := map[string]string{"PASSWORD": "secret"}
	r := read(t, Files{Fixed: []profiles.Source{s}, Getenv: func(name string) string { return env[name] }})
	r.f.Launched(1)
	r.until("registry S1 working", "registry S1 idle")
	require.NoError(t, r.stop())

	r = read(t, Files{Fixed: []profiles.Source{s}})
	r.f.Launched(1)
	r.until("trouble bus unreadable")
	require.NoError(t, r.stop())
}

// The transcripts of sub-agents appear late, in a folder that appears late.
func TestFilesBesideATranscript(t *testing.T) {
	dir := t.TempDir()
	r := read(t, Files{Named: profiles.Source{Name: "log", Decoder: claude.Registry, Beside: "subagents/agent-*.jsonl"}})
	r.f.Watch(filepath.Join(dir, "S1.jsonl"), time.Time{})
	write(t, filepath.Join(dir, "S1.jsonl"), entry("S1", "busy", day)+"\n")
	r.until("registry S1 working")
	write(t, filepath.Join(dir, "S1", "subagents", "agent-a.jsonl"), entry("A", "busy", day)+"\n")
	write(t, filepath.Join(dir, "S1", "subagents", "agent-a.meta.json"), "{}\n")
	r.until("registry S1 working", "registry A working")
	require.NoError(t, r.stop())
}
