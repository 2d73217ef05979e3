package gate

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
	"lifeloop/internal/document/yaml"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

func parsePolicy(text []byte) (*Policy, error) {
	doc, err := yaml.Parse(text)
	if err != nil {
		return nil, err
	}
	return DecodePolicy(doc)
}

func mustPolicy(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := parsePolicy([]byte(text))
	require.NoError(t, err)
	return p
}

// TestVectors checks, row by row, that the results equal those of the public
// reference: verdict, reasons, violations, all three digests, trace id and
// matched rule. testdata/vectors was recorded from the reference.
func TestVectors(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(string(read(t, "vectors/gate_vectors.tsv"))), "\n")[1:]
	require.Len(t, rows, 21)
	for _, line := range rows {
		row := strings.Split(line, "\t")
		require.Len(t, row, 11, line)
		t.Run(row[0]+" "+row[1], func(t *testing.T) {
			p, policyErr := parsePolicy(read(t, row[1]))
			in, intentErr := ParseIntent(read(t, row[0]))
			if row[3] == "error" {
				require.True(t, policyErr != nil || intentErr != nil, "exit 6: not evaluable")
				return
			}
			require.NoError(t, policyErr)
			require.NoError(t, intentErr)
			d := new(Limiter).Apply(p, p.Decide(in, "test"), in, in.CreatedAt)
			list := func(l []string) string {
				if len(l) == 0 {
					return "-"
				}
				return strings.Join(l, ",")
			}
			rule := d.MatchedRule
			if rule == "" {
				rule = "-"
			}
			require.Equal(t, row[3:], []string{string(d.Result.Verdict), list(d.Result.ReasonCodes), list(d.Result.Violations),
				in.ArgsDigest, in.IntentDigest, p.Digest(), d.TraceID, rule})
		})
	}
}

// TestNormalForms compares the normalized form of each recorded intent, and its digests,
// with the recorded ones.
func TestNormalForms(t *testing.T) {
	var forms map[string]struct {
		ArgsDigest   string `json:"args_digest"`
		IntentDigest string `json:"intent_digest"`
		Normalized   string `json:"normalized_jcs"`
	}
	require.NoError(t, json.Unmarshal(read(t, "vectors/normalized_intents.json"), &forms))
	require.NotEmpty(t, forms)
	for name, want := range forms {
		t.Run(name, func(t *testing.T) {
			in, err := ParseIntent(read(t, "intent/"+name+".json"))
			require.NoError(t, err)
			got, err := canon.Marshal(in.content)
			require.NoError(t, err)
			require.Equal(t, want.Normalized, string(got))
			require.Equal(t, want.ArgsDigest, in.ArgsDigest)
			require.Equal(t, want.IntentDigest, in.IntentDigest)
		})
	}
}

// Normalising an intent a second time does not change it.
func TestLawNormalizingTwiceChangesNothing(t *testing.T) {
	files, err := filepath.Glob("testdata/intent/*.json")
	require.NoError(t, err)
	n := 0
	for _, file := range files {
		doc, err := os.ReadFile(file)
		require.NoError(t, err)
		in, err := ParseIntent(doc)
		if err != nil {
			continue // a recorded intent that is refused
		}
		n++
		again := in
		again.Args, again.Targets = in.Args, bytesClone(in.Targets)
		require.NoError(t, again.normalize(), file)
		digest, err := sign.Digest(again.content)
		require.NoError(t, err)
		require.Equal(t, in.IntentDigest, digest, file)
	}
	require.Greater(t, n, 8)
}

func bytesClone(in []Target) []Target { return append([]Target(nil), in...) }

func testKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
}

func TestTrace(t *testing.T) {
	in, err := ParseIntent(read(t, "intent/launch_unknown.json"))
	require.NoError(t, err)
	p := mustPolicy(t, string(read(t, "policy/launch_sandboxed.yaml")))
	d := p.Decide(in, "test")
	at := time.Date(2026, 1, 2, 3, 4, 6, 500_000_000, time.FixedZone("", 3600))
	trace, err := d.Trace(in, at).Signed(testKey())
	require.NoError(t, err)
	again, err := d.Trace(in, at).Signed(testKey())
	require.NoError(t, err)
	require.Equal(t, trace, again)
	doc, err := canon.Marshal(trace)
	require.NoError(t, err)
	require.Contains(t, string(doc), `"observed_at":"2026-01-02T02:04:06.5Z"`)
	require.Contains(t, string(doc), `"violations":["unknown_harness"]`)
	require.Contains(t, string(doc), `"schema_id":"gait.gate.trace","schema_version":"1.0.0"`)
	require.Equal(t, [2]string{"gait.gate.result", "1.0.0"}, [2]string{d.Result.SchemaID, d.Result.SchemaVersion})

	unsigned := trace
	unsigned.Signature = nil
	digest, err := sign.Digest(unsigned)
	require.NoError(t, err)
	require.NoError(t, trace.Signature.Verify(testKey().Public().(ed25519.PublicKey), digest))

	// Both ids are those of evidence/testdata/trace/own_ok_minimal.json, a trace that
	// another program wrote and that the reference accepts.
	require.Equal(t, "f32425bcc76726e3361dc5f0", EventID("9b6354298a19e93b0b2d33ab", time.Date(2026, 1, 2, 3, 4, 6, 500_000_000, time.UTC)))
	require.NotEqual(t, trace.EventID, d.Trace(in, at.Add(1)).EventID, "each emission has its own id")
}

// What an intent's digest covers is encoded in canonical form, member by member.
func TestContentIsEncodedCanonically(t *testing.T) {
	var check func(typ reflect.Type)
	check = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[time.Time]() {
			return
		}
		var names []string
		for _, f := range reflect.VisibleFields(typ) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
			check(f.Type)
		}
		require.IsIncreasing(t, names, typ)
	}
	check(reflect.TypeFor[content]())
}

func BenchmarkDecide(b *testing.B) {
	p := mustPolicy(b, string(read(b, "policy/launch_sandboxed.yaml")))
	for _, name := range []string{"launch_sandboxed", "normalize_me"} {
		doc := read(b, "intent/"+name+".json")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var before syscall.Rusage
			require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
			for b.Loop() {
				in, err := ParseIntent(doc)
				if err != nil {
					b.Fatal(err)
				}
				if d := p.Decide(in, "bench"); d.Result.Verdict == "" {
					b.Fatal("no verdict")
				}
			}
			// Measure processor time, because other programs use the machine too.
			var after syscall.Rusage
			require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
			used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			b.ReportMetric(float64(b.N)/used.Seconds(), "intents/cpu-s")
		})
	}
}
