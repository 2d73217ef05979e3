package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
)

// These tests compare the events of databases with the golden lists of events.
// Some databases were written by a harness; others have the same tables, filled
// with the recorded rows.

// stored creates an empty database with the tables of schema.
func stored(t *testing.T, schema string) (writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.sqlite")
	w := writeTo(t, path)
	w.do(string(recording(t, schema)))
	return w, path
}

func recording(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(recordedFile(name))
	require.NoError(t, err)
	return data
}

// fill inserts each line of a recording with the statement, in order.
func (w writer) fill(name, statement string) {
	for line := range bytes.Lines(recording(w.t, name)) {
		w.do(statement, string(bytes.TrimSuffix(line, []byte("\n"))))
	}
}

// rows returns the named sources of an adapter, all in one database.
func rows(t *testing.T, adapter, path string, names ...string) (sources []profiles.Source) {
	t.Helper()
	profile, _ := profiles.For(adapter)
	for _, name := range names {
		for _, s := range profile.Observable() {
			if s.Name == name {
				require.Equal(t, profiles.Rows, s.Form)
				s.Path = path
				sources = append(sources, s)
			}
		}
	}
	require.Len(t, sources, len(names))
	return sources
}

func list(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "observed", filepath.FromSlash(name)+".txt"))
	require.NoError(t, err)
	return string(data)
}

// Each session of OpenCode's database has the events of its golden list, although
// the recording is ordered by session and the database by time of writing.
func TestOpencodesDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "opencode.db")
	write(t, path, string(recording(t, "opencode/store/opencode.db")))
	sessions := strings.Split(list(t, "opencode/rows/db-event.jsonl"), "# ")[1:]
	require.Len(t, sessions, 4)
	for _, s := range sessions {
		id, want, _ := strings.Cut(s, "\n")
		require.Equal(t, want, eventsOf(t, "opencode", rows(t, "opencode", path, "store"), id), id)
	}
}

func TestOpenclawsDatabase(t *testing.T) {
	w, path := stored(t, "openclaw/schema.sql")
	w.fill("openclaw/transcript_events.jsonl", `INSERT INTO transcript_events(session_id, seq, event_json, created_at)
		SELECT r->>'session_id', r->>'seq', r->'event', r->>'created_at' FROM (SELECT ?1 AS r)`)
	w.fill("openclaw/trajectory_runtime_events.jsonl", `INSERT INTO trajectory_runtime_events(session_id, seq, run_id, event_json, created_at)
		SELECT r->>'sessionId', (SELECT count(*) FROM trajectory_runtime_events), r->>'runId', r, 0 FROM (SELECT ?1 AS r)`)
	w.fill("openclaw/session_nodes.jsonl", `INSERT INTO session_nodes(session_key, current_session_id, entry_json, updated_at)
		SELECT r->>'session_key', r->>'current_session_id', r->'entry', r->>'updated_at' FROM (SELECT ?1 AS r)`)
	for name, kinds := range map[string][]string{
		"transcript": {"transcript"}, "runs": {"runs"}, "sessions": {"sessions"}, "merged/store": {"transcript", "runs", "sessions"},
	} {
		require.Equal(t, list(t, "openclaw/"+name), eventsOf(t, "openclaw", rows(t, "openclaw", path, kinds...), ""), name)
	}
	// The order of the sources does not matter, except for events of the same
	// millisecond.
	require.Equal(t, frames(list(t, "openclaw/merged/store")), frames(eventsOf(t, "openclaw", rows(t, "openclaw", path, "sessions", "runs", "transcript"), "")))
}

func TestHermesDatabase(t *testing.T) {
	_, path := stored(t, "hermes/state.sql")
	require.Equal(t, list(t, "hermes/messages"), eventsOf(t, "hermes", rows(t, "hermes", path, "messages"), ""))
	require.Equal(t, list(t, "hermes/merged/store"), eventsOf(t, "hermes", rows(t, "hermes", path, "messages", "sessions"), ""))
	require.Equal(t, frames(list(t, "hermes/merged/store")), frames(eventsOf(t, "hermes", rows(t, "hermes", path, "sessions", "messages"), "")))
}

// frames returns the frame and compaction events of a list, without evidence.
func frames(events string) (out []string) {
	for line := range strings.Lines(events) {
		what, _, _ := strings.Cut(line, " |")
		if _, event, _ := strings.Cut(what, " "); strings.HasPrefix(event, "frame.") || strings.HasPrefix(event, "context.compacted") {
			out = append(out, what)
		}
	}
	return out
}
