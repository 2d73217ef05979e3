package evidence

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/evidence/sign"
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

// Documents that differ are never called equal.
func TestDiffFindsEachDifference(t *testing.T) {
	for _, c := range []struct {
		left, right string
		want        Difference
	}{
		{`{"a":{}}`, `{"a":[]}`, Difference{"document#0001.a", "{}", "[]"}},
		{`{"a":{}}`, `{}`, Difference{"document#0001.a", "{}", ""}},
		{`{"a":[]}`, `{"b":1}`, Difference{"document#0001.a", "[]", ""}},
		{`{"a.b":1}`, `{"a":{"b":1}}`, Difference{`document#0001."a.b"`, "1", ""}},
		{`{"a[0]":1}`, `{"a":[1]}`, Difference{`document#0001."a[0]"`, "1", ""}},
		{`{"":{"a":1}}`, `{"a":1}`, Difference{`document#0001."".a`, "1", ""}},
		{`9007199254740993`, `9007199254740992`, Difference{"document#0001", "9007199254740993", "9007199254740992"}},
		{`{"a":1,"a":2}`, `{"a":2}`, Difference{"document", "sha256:" + sign.Sum([]byte(`{"a":1,"a":2}`)), "sha256:" + sign.Sum([]byte(`{"a":2}`))}},
	} {
		list, err := Diff([]byte(c.left), []byte(c.right))
		require.NoError(t, err)
		require.Contains(t, list, c.want, "%s %s", c.left, c.right)
	}
	run := read(t, "runpack/ok_reference.zip")
	names, files := entriesOf(t, run)
	again := zipped(t, names, files) // not compressed
	list, err := Diff(run, again)
	require.NoError(t, err)
	require.Equal(t, []Difference{{"archive", "sha256:" + sign.Sum(run), "sha256:" + sign.Sum(again)}}, list)
}
