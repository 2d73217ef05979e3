package evidence

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

func publicKey(t testing.TB, name string) ed25519.PublicKey {
	t.Helper()
	key, err := sign.ParsePublic(read(t, name))
	require.NoError(t, err)
	return key
}

// beside reads the files of a folder.
func beside(folder string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", folder, name)) }
}

type fixture struct {
	path, expected, why, stricter string
	kind                          Kind
	options                       Options
}

// fixtures returns the rows of the table of recordings: files that the public
// reference or another program wrote, and the reference's verdict on each.
func fixtures(t testing.TB) (list []fixture) {
	rows := strings.Split(strings.TrimSpace(string(read(t, "MANIFEST.tsv"))), "\n")[1:]
	for _, line := range rows {
		row := strings.Split(line, "\t")
		require.Len(t, row, 7, line)
		f := fixture{path: row[0], kind: Kind(row[1]), expected: row[2], why: row[3], stricter: row[6]}
		if row[4] != "-" {
			f.options.PublicKey = publicKey(t, row[4])
		}
		f.options.RequireSignature = row[5] == "1"
		f.options.Beside = beside(filepath.Dir(row[0]))
		list = append(list, f)
	}
	require.Equal(t, 78, len(list))
	return list
}

func verdict(r Report) string {
	if r.OK {
		return "ok"
	}
	return "fail"
}

// TestCompatVerdicts checks that the verdict on every recording is that of the
// public reference.
func TestCompatVerdicts(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.path+" "+f.why, func(t *testing.T) {
			f.options.Compat = true
			r := Verify(f.kind, read(t, f.path), f.options)
			require.Equal(t, f.expected, verdict(r), "%v", r.Problems)
		})
	}
}

// TestStrictVerdicts checks that the strict mode gives the stricter verdict if
// the table has one, and otherwise that of the reference.
func TestStrictVerdicts(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.path+" "+f.why, func(t *testing.T) {
			want := f.expected
			switch f.stricter {
			case "-":
			case "ok-unless-anchored":
				// The third checkpoint was published before it was removed.
				whole := Verify(f.kind, read(t, "session/ok_reference/journal_chain.json"), f.options)
				f.options.Anchors = []Anchor{{whole.ID, 3, whole.Digest}}
				r := Verify(f.kind, read(t, f.path), f.options)
				require.Equal(t, "truncated", r.Problems[0].Code)
				f.options.Anchors, want = nil, "ok"
			case "fail-vs-runpack":
				// If the runpacks are available, the changed event is detected.
				f.options.Beside, want = beside("session/ok_reference"), "fail"
			default:
				want = f.stricter
			}
			r := Verify(f.kind, read(t, f.path), f.options)
			require.Equal(t, want, verdict(r), "%v", r.Problems)
			require.NotEmpty(t, r.Notes)
			if r.OK && f.options.PublicKey != nil {
				require.Equal(t, SignatureVerified, r.SignatureStatus)
			}
		})
	}
}

func canonical(t testing.TB, doc []byte) []byte {
	t.Helper()
	out, err := canon.Transform(doc)
	require.NoError(t, err)
	return out
}

func TestAnchors(t *testing.T) {
	chain := read(t, "session/ok_reference/journal_chain.json")
	o := Options{Beside: beside("session/ok_reference")}
	r := Verify(ChainKind, chain, o)
	require.True(t, r.OK, "%v", r.Problems)
	anchors, err := ParseAnchors([]byte(`{"session_id":"` + r.ID + `","checkpoint_index":3,"checkpoint_digest":"` + r.Digest + `"}` + "\n"))
	require.NoError(t, err)
	o.Anchors = anchors
	r = Verify(ChainKind, chain, o)
	require.True(t, r.OK)
	require.Equal(t, 1, r.AnchorsConfirmed)
	require.Equal(t, 3, r.AnchoredUntil)
	require.Contains(t, r.Notes, "truncation: the anchors reach checkpoint 3 of 3, which ends with event 6; a removal or replacement of later events is not noticed")
	journal := Verify(JournalKind, read(t, "session/ok_reference/journal.jsonl"), o)
	require.True(t, journal.OK, "%v", journal.Problems)
	require.Equal(t, 1, journal.AnchorsConfirmed)
	first := Verify(ChainKind, read(t, "session/lenient_tail_truncated/journal_chain.json"), Options{Beside: o.Beside})
	o.Anchors = []Anchor{{r.ID, 2, first.Digest}}
	r2 := Verify(ChainKind, chain, o)
	require.True(t, r2.OK, "%v", r2.Problems)
	require.Equal(t, 2, r2.AnchoredUntil)
	require.Contains(t, r2.Notes, "truncation: the anchors reach checkpoint 2 of 3, which ends with event 4; a removal or replacement of later events is not noticed")
	o.Anchors, o.Compat = []Anchor{{r.ID, 4, r.Digest}}, true
	require.Equal(t, []string{"truncated"}, codes(Verify(JournalKind, read(t, "session/ok_reference/journal.jsonl"), o)))
	require.Equal(t, []string{"anchor"}, codes(Verify(RunpackKind, read(t, "runpack/ok_reference.zip"), o)))
	o.Compat = false
	for _, c := range []struct {
		anchor Anchor
		code   string
	}{
		{Anchor{"other", 3, r.Digest}, "anchor"},
		{Anchor{r.ID, 2, r.Digest}, "anchor"},
		{Anchor{r.ID, 4, r.Digest}, "truncated"},
	} {
		o.Anchors = []Anchor{c.anchor}
		require.Equal(t, []string{c.code}, codes(Verify(ChainKind, chain, o)))
	}
	// A file may have the anchors of several sessions.
	o.Anchors = []Anchor{{"other", 3, r.Digest}, {r.ID, 3, r.Digest}, {"third", 1, r.Digest}}
	shared := Verify(ChainKind, chain, o)
	require.True(t, shared.OK, "%v", shared.Problems)
	require.Equal(t, 1, shared.AnchorsConfirmed)
	require.Contains(t, shared.Notes, "anchors: 2 anchors of other sessions were ignored")
	o.Anchors[1].Index = 4
	require.Equal(t, []string{"truncated"}, codes(Verify(ChainKind, chain, o)))
	// Two digests of one checkpoint are refused, even if it belongs to another session.
	for _, twice := range [][]Anchor{{{r.ID, 3, r.Digest}, {r.ID, 3, first.Digest}}, {{r.ID, 3, first.Digest}, {r.ID, 3, r.Digest}},
		{{r.ID, 3, r.Digest}, {"other", 1, r.Digest}, {"other", 1, first.Digest}}} {
		o.Anchors = twice
		require.Contains(t, codes(Verify(ChainKind, chain, o)), "anchor", twice)
	}
	o.Anchors = []Anchor{{r.ID, 3, r.Digest}, {r.ID, 3, r.Digest}, {"other", 1, r.Digest}, {"other", 1, r.Digest}}
	require.True(t, Verify(ChainKind, chain, o).OK)
	for _, text := range []string{"", "x", `{"session_id":"s"}`, `{"session_id":"s","checkpoint_index":0,"checkpoint_digest":"` + r.Digest + `"}`} {
		_, err := ParseAnchors([]byte(text))
		require.Error(t, err, text)
	}
}

// If a key is given, a file without a signature is refused, because its signature
// could have been removed.
func TestAKeyDemandsASignature(t *testing.T) {
	o := Options{PublicKey: publicKey(t, "keys/a_public.key")}
	r := Verify(RunpackKind, read(t, "runpack/ok_reference.zip"), o)
	require.Equal(t, []string{"signature_missing"}, codes(r))
	o.Compat = true
	require.True(t, Verify(RunpackKind, read(t, "runpack/ok_reference.zip"), o).OK)
}

func TestUnknownKind(t *testing.T) {
	r := Verify("picture", nil, Options{})
	require.True(t, r.Unreadable)
	require.False(t, r.OK)
}

// Every report says whether the file shows that the session has ended. If the file does
// not show this, a removed end would not be noticed.
func TestTruncationIsMentioned(t *testing.T) {
	truncation := func(r Report) string {
		t.Helper()
		require.True(t, r.OK, "%s: %v", r.Kind, r.Problems)
		for _, note := range r.Notes {
			if rest, is := strings.CutPrefix(note, "truncation: "); is {
				return rest
			}
		}
		t.Fatalf("%s: %q", r.Kind, r.Notes)
		return ""
	}
	key := testKey()
	o := Options{PublicKey: key.Public().(ed25519.PublicKey)}
	whole, running := files(t, recorded(t, 0), key), files(t, recorded(t, 40), key)
	for _, name := range []string{"runpack.zip", "raw.zip", "pack.zip", "job.zip"} {
		require.Contains(t, truncation(verified(name, running, o)), "the file does not contain the end of the session", name)
		require.Contains(t, strings.ToLower(truncation(verified(name, whole, o))), "the file reaches the end of the session (completed)", name)
	}
	require.Contains(t, truncation(verified("cp_0001.zip", whole, o)), "the file does not contain the end of the session")
	for _, name := range []string{ChainFile, JournalFile} {
		require.Contains(t, truncation(verified(name, running, o)), "neither the chain nor the journal shows whether the session ended")
	}
	require.Contains(t, truncation(verified("trace_000003.json", files(t, guarded(t), key), o)), "one decision")
}
