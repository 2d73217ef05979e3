package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAJournalIsContinued continues the journal of an export as the reference does. The
// reference reads only the session, the last sequence number and the last checkpoint from
// the file. It then appends a line with the next sequence number or the next checkpoint.
func TestAJournalIsContinued(t *testing.T) {
	for name, x := range map[string]*Export{"recorded": recorded(t, 0), "guarded": guarded(t)} {
		t.Run(name, func(t *testing.T) {
			all := files(t, x, testKey())
			journal := all[JournalFile]
			require.True(t, bytes.HasSuffix(journal, []byte("}\n")), "the reference appends after the last byte")
			head, last, sequence := readAsReference(t, journal)
			require.NotZero(t, sequence)
			require.Equal(t, sequence, last.SequenceEnd, "everything is sealed")

			event := fmt.Sprintf(`{"record_type":"event","event":{"schema_id":"gait.runpack.session_event","schema_version":"1.0.0","created_at":"2027-01-02T03:04:05Z","producer_version":"0.0.0-dev","session_id":%q,"run_id":%q,"sequence":%d,"tool_name":"tool.write","verdict":"allow"}}`+"\n",
				head.SessionID, head.RunID, sequence+1)
			all[JournalFile] = append(bytes.Clone(journal), event...)
			r := verified(JournalFile, all, Options{})
			require.True(t, r.OK, r.Problems)
			gap := bytes.Replace(all[JournalFile], fmt.Appendf(nil, `"sequence":%d,"tool_name":"tool.write"`, sequence+1), fmt.Appendf(nil, `"sequence":%d,"tool_name":"tool.write"`, sequence+2), 1)
			require.NotEqual(t, gap, all[JournalFile])
			require.False(t, Verify(JournalKind, gap, Options{}).OK)

			next := Checkpoint{Header: last.Header, SessionID: head.SessionID, RunID: head.RunID, Index: last.Index + 1, SequenceStart: sequence + 1, SequenceEnd: sequence + 1,
				RunpackPath: "next.zip", ManifestDigest: last.ManifestDigest, PrevCheckpointDigest: last.CheckpointDigest}
			next.ProducerVersion = "0.0.0-dev" // of the reference, whose runpacks may have any name
			next.CheckpointDigest = next.digest()
			line, err := json.Marshal(next)
			require.NoError(t, err)
			all[JournalFile] = append(all[JournalFile], fmt.Sprintf(`{"record_type":"checkpoint","checkpoint":%s}`+"\n", line)...)
			for _, o := range []Options{{}, {Compat: true}} {
				r := verified(JournalFile, all, o) // the new runpack is not beside the journal
				require.True(t, r.OK, r.Problems)
			}
			_, again, end := readAsReference(t, all[JournalFile])
			require.Equal(t, next, again)
			require.Equal(t, sequence+1, end)
		})
	}
}

// readAsReference reads a journal by the rules of the reference's reader: the header comes
// first, lines have at most 8 MiB, sequence numbers and indexes have no gap, and every
// record names the header's session.
func readAsReference(t *testing.T, journal []byte) (head journalHeader, last Checkpoint, sequence int64) {
	t.Helper()
	scan := bufio.NewScanner(bytes.NewReader(journal))
	scan.Buffer(nil, 8<<20)
	for n := 0; scan.Scan(); n++ {
		var rec journalRecord
		require.NoError(t, json.Unmarshal(scan.Bytes(), &rec))
		require.Equal(t, n == 0, rec.RecordType == "header")
		switch rec.RecordType {
		case "header":
			require.NoError(t, json.Unmarshal(rec.Header, &head))
			require.NotEmpty(t, head.SessionID)
			require.NotEmpty(t, head.RunID)
		case "event":
			var e SessionEvent
			require.NoError(t, json.Unmarshal(rec.Event, &e))
			sequence++
			require.Equal(t, []any{head.SessionID, head.RunID, sequence}, []any{e.SessionID, e.RunID, e.Sequence})
		case "checkpoint":
			before := last
			last = Checkpoint{}
			require.NoError(t, json.Unmarshal(rec.Checkpoint, &last))
			require.Equal(t, []any{head.SessionID, head.RunID, before.Index + 1, before.SequenceEnd + 1, before.CheckpointDigest, last.digest()},
				[]any{last.SessionID, last.RunID, last.Index, last.SequenceStart, last.PrevCheckpointDigest, last.CheckpointDigest})
		default:
			t.Fatalf("record_type %q", rec.RecordType)
		}
	}
	require.NoError(t, scan.Err())
	return head, last, sequence
}
