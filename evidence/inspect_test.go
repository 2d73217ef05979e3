package evidence

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInspectAndDiff(t *testing.T) {
	run, signed := read(t, "pack/ok_run.zip"), read(t, "pack/ok_run_signed.zip")
	docs, err := Inspect("pack.zip", run)
	require.NoError(t, err)
	names := []string{}
	for _, d := range docs {
		names = append(names, d.Name)
	}
	require.Equal(t, []string{"context_envelope.json", "pack_manifest.json", "proof_records.jsonl", "run_payload.json", "source/runpack.zip",
		"source/runpack.zip/intents.jsonl", "source/runpack.zip/manifest.json", "source/runpack.zip/refs.json", "source/runpack.zip/results.jsonl", "source/runpack.zip/run.json"}, names)
	require.Len(t, docs[2].Records, 3)

	same, err := Diff(run, run)
	require.NoError(t, err)
	require.Empty(t, same)
	list, err := Diff(run, signed)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	again, err := Diff(run, signed)
	require.NoError(t, err)
	require.Equal(t, list, again)
	require.Contains(t, list, Difference{Path: `pack_manifest.json#0001.signatures[0].alg`, Right: `"ed25519"`})

	_, err = Inspect("x", []byte("PKxx"))
	require.Error(t, err)
	_, err = Diff(run, []byte("PKxx"))
	require.Error(t, err)
	docs, err = Inspect("x", []byte("not json\n"))
	require.NoError(t, err)
	require.Empty(t, docs[0].Records)
}
