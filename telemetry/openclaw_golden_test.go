package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// openclawRecordings are what one OpenClaw left behind: two local turns, a
// local terminal, a gateway with a compaction, a reset and a heartbeat, and a
// local terminal that was ended in its turn.
var openclawRecordings = []struct {
	decoder, file string
	whole         bool // one record is all of the file
}{
	{"openclaw-transcript", "transcript_events.jsonl", false},
	{"openclaw-run", "trajectory_runtime_events.jsonl", false},
	{"openclaw-node", "session_nodes.jsonl", false},
	{"openclaw-plugin", "plugin-hook-log.jsonl", false},
	{"openclaw-agent", "agent-local-json-output.json", true},
}

func openclawRecords(t testing.TB, file string, whole bool) [][]byte {
	t.Helper()
	file = filepath.Join("testdata", "openclaw", file)
	if !whole {
		return records(t, file)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return [][]byte{data}
}

func TestRecordedOpenclaw(t *testing.T) {
	for _, c := range openclawRecordings {
		t.Run(c.decoder, func(t *testing.T) {
			d, err := NewDecoder(c.decoder)
			require.NoError(t, err)
			Digesting(d)
			var b strings.Builder
			for i, record := range openclawRecords(t, c.file, c.whole) {
				for _, s := range d.Decode(record) {
					checkSignal(t, s)
					fmt.Fprintf(&b, "%d %s\n", i+1, line(s))
				}
			}
			b.WriteString(unknownLines(d.Unknown()))
			golden(t, filepath.Join(c.decoder, c.file), b.String())
		})
	}
}
