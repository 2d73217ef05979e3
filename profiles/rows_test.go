package profiles_test

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
	"lifeloop/watchers/sqlite"
)

// These tests create databases with the tables of the harnesses and run the
// queries of the profiles on them.

// recorded returns the path of the recording HARNESS/FILE.
func recorded(path string) string {
	harness, file, _ := strings.Cut(path, "/")
	return filepath.Join("..", "telemetry", harness, "testdata", filepath.FromSlash(file))
}

func database(t *testing.T, schema string) (*sql.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.sqlite")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)")
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	text, err := os.ReadFile(recorded(schema))
	require.NoError(t, err)
	_, err = db.Exec(string(text))
	require.NoError(t, err)
	return db, path
}

func rowsOf(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(recorded(file))
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func query(t *testing.T, adapter, source string) string {
	t.Helper()
	p, ok := profiles.For(adapter)
	require.True(t, ok)
	for _, s := range p.Observable() {
		if s.Name == source {
			require.Equal(t, profiles.Rows, s.Form)
			return s.Query
		}
	}
	require.FailNow(t, "no such source", "%s %s", adapter, source)
	return ""
}

// A tailed runs a query repeatedly in a database, each time from the position that
// the previous run reached.
type tailed struct {
	t    *testing.T
	tail *sqlite.Tail
	at   sqlite.Cursor
}

func tail(t *testing.T, path, adapter, source string) *tailed {
	t.Helper()
	tl, err := sqlite.Open(path, query(t, adapter, source))
	require.NoError(t, err)
	return &tailed{t: t, tail: tl}
}

// news returns the records since the last call.
func (r *tailed) news() []string {
	r.t.Helper()
	var out []string
	at, err := r.tail.Next(r.at, func(_ sqlite.Cursor, record []byte) { out = append(out, string(record)) })
	require.NoError(r.t, err)
	r.at = at
	return out
}

func sameRecords(t *testing.T, want, got []string) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.JSONEq(t, want[i], got[i])
	}
}

// insertOpenclaw inserts recorded rows into OpenClaw's table.
func insertOpenclaw(t *testing.T, db *sql.DB, table string, rows []string) {
	t.Helper()
	for _, row := range rows {
		var r struct {
			Session string          `json:"session_id"`
			Seq     int             `json:"seq"`
			Created int64           `json:"created_at"`
			Event   json.RawMessage `json:"event"`
			Key     string          `json:"session_key"`
			Current string          `json:"current_session_id"`
			Updated int64           `json:"updated_at"`
			Entry   json.RawMessage `json:"entry"`
			Runtime string          `json:"sessionId"`
			Run     string          `json:"runId"`
		}
		require.NoError(t, json.Unmarshal([]byte(row), &r))
		var err error
		switch table {
		case "transcript_events":
			_, err = db.Exec(`INSERT INTO transcript_events(session_id, seq, event_json, created_at) VALUES (?, ?, ?, ?)`, r.Session, r.Seq, string(r.Event), r.Created)
		case "trajectory_runtime_events": // an event's own number restarts with each run, so the column seq needs another number
			_, err = db.Exec(`INSERT INTO trajectory_runtime_events(session_id, seq, run_id, event_json, created_at)
				VALUES (?1, (SELECT 1 + coalesce(max(seq), 0) FROM trajectory_runtime_events WHERE session_id = ?1), ?2, ?3, 0)`, r.Runtime, r.Run, row)
		case "session_nodes":
			_, err = db.Exec(`INSERT INTO session_nodes(session_key, current_session_id, entry_json, updated_at) VALUES (?1, ?2, ?3, ?4)
				ON CONFLICT(session_key) DO UPDATE SET current_session_id = ?2, entry_json = ?3, updated_at = ?4`, r.Key, r.Current, string(r.Entry), r.Updated)
		}
		require.NoError(t, err)
	}
}

func TestOpenclawQueries(t *testing.T) {
	for source, file := range map[string]string{"transcript": "transcript_events", "runs": "trajectory_runtime_events", "sessions": "session_nodes"} {
		t.Run(source, func(t *testing.T) {
			db, path := database(t, "openclaw/schema.sql")
			rows := rowsOf(t, "openclaw/"+file+".jsonl")
			r := tail(t, path, "openclaw", source)
			half := len(rows) / 2
			insertOpenclaw(t, db, file, rows[:half])
			sameRecords(t, rows[:half], r.news())
			require.Empty(t, r.news())
			insertOpenclaw(t, db, file, rows[half:])
			sameRecords(t, rows[half:], r.news())
		})
	}
}

// An overwritten session's row is read again with its new values.
func TestOpenclawSessionsAreOverwritten(t *testing.T) {
	db, path := database(t, "openclaw/schema.sql")
	r := tail(t, path, "openclaw", "sessions")
	row := func(at, status string) string {
		return `{"session_key":"agent:main:\"x\"","current_session_id":"s","updated_at":` + at + `,"entry":{"status":"` + status + `"}}`
	}
	insertOpenclaw(t, db, "session_nodes", []string{row("1000", "running")})
	sameRecords(t, []string{row("1000", "running")}, r.news())
	insertOpenclaw(t, db, "session_nodes", []string{row("1001", "running"), row("1002", "done")})
	sameRecords(t, []string{row("1002", "done")}, r.news()) // only the last of the two states is read
}

// For a row with a compressed event, the query returns a record without an event,
// which the decoder counts as unknown.
func TestOpenclawCompressedRows(t *testing.T) {
	db, path := database(t, "openclaw/schema.sql")
	const navigation = `{"version":1,"report":{"kind":"canonical"},"navigation":{},"reset":{},"model":{},"modelBytes":1,"modelWithoutCheckpointBytes":1,"withoutCustomDataBytes":1}`
	_, err := db.Exec(`INSERT INTO transcript_events(session_id, seq, created_at, event_zstd, event_utf8_bytes, navigation_json) VALUES ('s', 1, 5, x'00', 1, ?)`, navigation)
	require.NoError(t, err)
	sameRecords(t, []string{`{"session_id":"s","seq":1,"created_at":5,"event":null}`}, tail(t, path, "openclaw", "transcript").news())
}

func TestHermesQueries(t *testing.T) {
	db, path := database(t, "hermes/state.sql")
	messages, sessions := tail(t, path, "hermes", "messages"), tail(t, path, "hermes", "sessions")
	sameRecords(t, rowsOf(t, "hermes/messages.jsonl"), messages.news())
	sameRecords(t, rowsOf(t, "hermes/sessions.jsonl"), sessions.news())

	// An overwritten session's row is read again, and the record contains no text.
	_, err := db.Exec(`UPDATE sessions SET api_call_count = 2, last_activity_at = 1767323150.5, title = 'SECRET' WHERE id = '20260102_030510_cccccc'`)
	require.NoError(t, err)
	_, err = db.Exec(`INSERT INTO messages(session_id, role, content, tool_calls, timestamp, api_content) VALUES
		('20260102_030510_cccccc', 'assistant', 'SECRET', '[{"id":"c","function":{"arguments":"SECRET"}},"odd",7]', 1767323150.5, 'SECRET'),
		('20260102_030510_cccccc', 'assistant', 'SECRET', 'no JSON: SECRET', 1767323151.5, NULL)`)
	require.NoError(t, err)
	again := append(sessions.news(), messages.news()...)
	require.Len(t, again, 3)
	require.NotContains(t, strings.Join(again, "\n"), "SECRET")
	require.Contains(t, again[1], `"tool_calls":["c",null,null]`)
	require.Contains(t, again[2], `"tool_calls":null`)
}
