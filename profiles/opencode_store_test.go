package profiles

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/watchers/sqlite"
)

// The query returns every row of a recorded database, in the order of writing, as
// an object that the decoder reads. The signals are the same as those of the
// recorded lines, which another program wrote from the same database.
func TestOpencodeStoreQuery(t *testing.T) {
	recorded := filepath.Join("..", "telemetry", "opencode", "testdata", "store")
	data, err := os.ReadFile(filepath.Join(recorded, "opencode.db"))
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, "opencode.db")
	require.NoError(t, os.WriteFile(path, data, 0o600))

	type row struct {
		ID      string `json:"id"`
		Session string `json:"aggregate_id"`
		Seq     int    `json:"seq"`
		Type    string `json:"type"`
		Data    any    `json:"data"`
	}
	parse := func(record []byte) row {
		var r row
		require.NoError(t, json.Unmarshal(record, &r))
		return r
	}
	p, _ := For("opencode")
	source := p.Transcript
	require.Equal(t, Rows, source.Form)
	store := func() (telemetry.Decoder, map[string][]telemetry.Signal) {
		d := source.Decoder()
		return d, map[string][]telemetry.Signal{}
	}
	tail, err := sqlite.Open(path, source.Query)
	require.NoError(t, err)
	got := map[string]row{}
	d, live := store()
	at, err := tail.Next(sqlite.Cursor{}, func(at sqlite.Cursor, record []byte) {
		r := parse(record)
		got[r.ID] = r
		require.EqualValues(t, len(got), at.Row)
		live[r.Session] = append(live[r.Session], d.Decode(record)...)
	})
	require.NoError(t, err)
	require.EqualValues(t, 171, at.Row)
	require.Empty(t, d.Unknown())

	want := map[string]row{}
	f, err := os.Open(filepath.Join(recorded, "db-event.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	d, dumped := store()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		r := parse(lines.Bytes())
		want[r.ID] = r
		dumped[r.Session] = append(dumped[r.Session], d.Decode(lines.Bytes())...)
	}
	require.NoError(t, lines.Err())
	require.Equal(t, want, got)
	for session, signals := range dumped {
		require.Len(t, live[session], len(signals), session)
		for i := range signals {
			require.Equal(t, signals[i], live[session][i])
		}
	}

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside the database")
}
