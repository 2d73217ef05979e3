package evidence

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
	"lifeloop/evidence/sign"
	"lifeloop/gate"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/ledger"
	"lifeloop/session"
)

// recorded exports the first n entries of a recorded session, or all entries if n is 0.
func recorded(t testing.TB, n int) *Export {
	t.Helper()
	x, i := NewExport(), 0
	for e, err := range ledger.Read("../testdata/sessions/demo") {
		require.NoError(t, err)
		if i++; n > 0 && i > n {
			break
		}
		f, err := kernel.Decode(e.Kind, e.Body)
		require.NoError(t, err)
		x.Apply(kernel.Entry{Seq: e.Seq, At: e.At, Fact: f}, string(e.Digest))
	}
	return x
}

func testKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
}

// small exports a session of few entries.
func small(t testing.TB) *Export {
	t.Helper()
	x := NewExport()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for i, f := range []kernel.Fact{
		kernel.Began{SessionID: "11111111-1111-4111-8111-111111111111", Version: "0.1.0"},
		kernel.SessionMoved{From: session.None, To: session.Pending},
		kernel.SessionMoved{From: session.Pending, To: session.Running},
		kernel.Launching{Run: "run_1", Cause: "first"},
		kernel.Running{Run: "run_1"},
		kernel.Launching{Run: "run_2", Cause: "renewal"},
		kernel.Exited{Run: "run_2", Code: 3},
		kernel.SessionMoved{From: session.Running, To: session.Completed, Reason: "completed"},
	} {
		x.Apply(kernel.Entry{Seq: uint64(i + 1), At: at.Add(time.Duration(i) * time.Second), Fact: f}, fmt.Sprintf("sha256:%064d", i+1))
	}
	return x
}

// guarded exports a session under a policy: a launch and two tool calls that the
// gate decides about, and a delivery.
func guarded(t testing.TB) *Export {
	x := NewExport()
	placing, err := kernel.Decode(kernel.Kind(kernel.Placing{}), []byte(`{"slot":"prompt","items":[{"call":"call_1"}]}`))
	require.NoError(t, err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_000, time.UTC)
	policy := sign.Sum([]byte("policy"))
	decided := func(act, tool string, v gate.Verdict) kernel.GateAnswered {
		intent := sign.Sum([]byte(tool))
		return kernel.GateAnswered{Ask: tool, Act: act, GateDecision: input.GateDecision{Tool: tool, Verdict: v, Reasons: []string{"reason"}, Rule: "rule",
			IntentDigest: intent, ArgsDigest: sign.Sum(nil), PolicyDigest: policy, TraceID: gate.TraceID(policy, intent, v)}}
	}
	for i, f := range []kernel.Fact{
		kernel.Began{SessionID: "22222222-2222-4222-8222-222222222222", Version: "0.1.0", Policy: policy},
		kernel.SessionMoved{From: session.None, To: session.Pending},
		decided(gate.ActLaunch, "harness.launch", gate.Allow),
		kernel.Launching{Run: "run_1", Cause: "first"},
		kernel.Running{Run: "run_1"},
		kernel.SessionMoved{From: session.Pending, To: session.Running},
		decided(gate.ActTool, "tool.bash", gate.Allow),
		decided(gate.ActTool, "tool.rm", gate.Block),
		kernel.GateAsked{Ask: "harness.inject", Act: gate.ActInject, Dispatch: "call_1"},
		decided(gate.ActInject, "harness.inject", gate.Allow),
		placing,
		kernel.PayloadSettled{Call: "call_1", Status: "delivered"},
		kernel.Exited{Run: "run_1"},
		kernel.SessionMoved{From: session.Running, To: session.Completed, Reason: "completed"},
	} {
		x.Apply(kernel.Entry{Seq: uint64(i + 1), At: at.Add(time.Duration(i) * time.Second), Fact: f}, fmt.Sprintf("sha256:%064d", i+1))
	}
	return x
}

// files are all artifacts of an export.
func files(t testing.TB, x *Export, key ed25519.PrivateKey) map[string][]byte {
	t.Helper()
	all, err := x.Chain(key)
	require.NoError(t, err)
	for name, write := range map[string]func() ([]byte, error){
		"runpack.zip": func() ([]byte, error) { return x.Runpack(key, false) },
		"raw.zip":     func() ([]byte, error) { return x.Runpack(key, true) },
		"pack.zip":    func() ([]byte, error) { return x.RunPack(key, false) },
		"job.zip":     func() ([]byte, error) { return x.JobPack(key) },
	} {
		data, err := write()
		require.NoError(t, err, name)
		all[name] = data
	}
	if key != nil {
		traces, err := x.Traces(key)
		require.NoError(t, err)
		maps.Copy(all, traces)
	}
	return all
}

// verified verifies one file of an export; the others are available beside it.
func verified(name string, all map[string][]byte, o Options) Report {
	o.Beside = func(name string) ([]byte, error) {
		if data, ok := all[name]; ok {
			return data, nil
		}
		return nil, fmt.Errorf("no file %s", name)
	}
	return Verify(Detect(all[name]), all[name], o)
}

func TestExportsVerifyAndAreTheSameTwice(t *testing.T) {
	key := testKey()
	for name, make := range map[string]func(testing.TB) *Export{
		"a recorded session": func(t testing.TB) *Export { return recorded(t, 0) },
		"a small one":        small,
		"one under a policy": guarded,
	} {
		t.Run(name, func(t *testing.T) {
			all := files(t, make(t), key)
			require.Equal(t, all, files(t, make(t), key), "the same ledger gives the same bytes")
			for _, file := range slices.Sorted(maps.Keys(all)) {
				o := Options{PublicKey: key.Public().(ed25519.PublicKey), RequireSignature: file != JournalFile}
				r := verified(file, all, o)
				require.True(t, r.OK, "%s: %v", file, r.Problems)
				require.Equal(t, SignatureVerified, r.SignatureStatus, file)
				o.Compat = true
				r = verified(file, all, o)
				require.True(t, r.OK, "%s by the reference's rules: %v", file, r.Problems)
			}
		})
	}
}

// The runpack has the result of each act; without a policy no act has a
// verdict.
func TestExportOfASession(t *testing.T) {
	x := small(t)
	all := files(t, x, nil)
	require.Equal(t, 2, len(x.seals))
	require.Contains(t, string(all[JournalFile]), `"tool_name":"harness.launch"`)
	require.Contains(t, string(all[JournalFile]), `"tool_name":"harness.renew"`)
	require.NotContains(t, string(all[JournalFile]), `"verdict"`)
	_, raw := entriesOf(t, all["raw.zip"])
	require.Contains(t, string(raw[resultsFile]), `"result":{"code":0,"ok":false,"signal":0,"status":"unknown"}`)
	require.Contains(t, string(raw[resultsFile]), `"result":{"code":3,"ok":false,"signal":0,"status":"exited"}`)
	require.Contains(t, string(raw[manifestFile]), `"capture_mode":"raw"`)
	_, job := entriesOf(t, all["job.zip"])
	require.Contains(t, string(job[jobPayloadFile]), `"status":"completed"`)
}

// The evidence contains no text that a user gave as the reason of a command. A code
// replaces such a text in the reasons of state changes.
func TestTextsOfUsersAreNotExported(t *testing.T) {
	x := NewExport()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for i, f := range []kernel.Fact{
		kernel.Began{SessionID: "11111111-1111-4111-8111-111111111111", Version: "0.1.0"},
		kernel.SessionMoved{From: session.None, To: session.Pending, Reason: "start"},
		kernel.SessionMoved{From: session.Pending, To: session.Running, Reason: "approved"},
		kernel.PauseRequested{Reason: "secret-p"},
		kernel.SessionMoved{From: session.Running, To: session.Paused, Reason: "secret-p"},
		kernel.ResumeRequested{Reason: "secret-r"},
		kernel.SessionMoved{From: session.Paused, To: session.Running, Reason: "secret-r"},
		kernel.Launching{Run: "run_1", Cause: "first"},
		kernel.Running{Run: "run_1"},
		kernel.AbortRequested{Reason: "secret-a"},
		kernel.SessionMoved{From: session.Running, To: session.Aborting, Reason: "secret-a"},
		kernel.SessionMoved{From: session.Aborting, To: session.Aborted, Reason: "secret-a"},
	} {
		x.Apply(kernel.Entry{Seq: uint64(i + 1), At: at.Add(time.Duration(i) * time.Second), Fact: f}, fmt.Sprintf("sha256:%064d", i+1))
	}
	all := files(t, x, nil)
	for name, data := range all {
		require.NotContains(t, string(data), "secret-", name) // archives are not compressed
	}
	job := string(all["job.zip"])
	for _, want := range []string{`"stop_reason":"abort_requested"`, `"status_reason_code":"abort_requested"`, `"reason_code":"start"`, `"reason_code":"pause_requested"`, `"reason_code":"resume_requested"`} {
		require.Contains(t, job, want)
	}
	require.True(t, verified("job.zip", all, Options{}).OK)
}

// If the harness ends the session, the reason is exported, even if it equals the text
// that a user gave for a command. The reason of a denial is exported without the text
// that the user gave.
func TestReasonsOfEnds(t *testing.T) {
	for _, c := range []struct {
		facts []kernel.Fact
		want  string
	}{
		{[]kernel.Fact{
			kernel.PauseRequested{Reason: "exit 0"},
			kernel.SessionMoved{From: session.Running, To: session.Paused, Reason: "exit 0"},
			kernel.SessionMoved{From: session.Paused, To: session.Running},
			kernel.SessionMoved{From: session.Running, To: session.Completed, Reason: "exit 0"},
		}, "exit 0"},
		{[]kernel.Fact{
			kernel.ApprovalAnswered{Reason: "secret"},
			kernel.SessionMoved{From: session.Pending, To: session.Rejected, Reason: "refused; the user's reason: secret"},
		}, "refused"},
	} {
		x := NewExport()
		x.Apply(kernel.Entry{Seq: 1, Fact: kernel.Began{SessionID: "11111111-1111-4111-8111-111111111111", Version: "0.1.0"}}, "sha256:"+sign.Sum(nil))
		for i, f := range c.facts {
			x.Apply(kernel.Entry{Seq: uint64(i + 2), Fact: f}, "sha256:"+sign.Sum(nil))
		}
		require.Equal(t, c.want, x.reason)
	}
}

// A second copy of a transcript replaces the first one in the evidence, because no file
// has the digest of the first copy.
func TestOnlyTheLastCopyOfATranscript(t *testing.T) {
	x := NewExport()
	first, second := sign.Sum([]byte("1")), sign.Sum([]byte("2"))
	for i, f := range []kernel.Fact{
		kernel.Began{SessionID: "11111111-1111-4111-8111-111111111111", Version: "0.1.0"},
		kernel.TranscriptCopied{Path: "/a", File: "transcripts/a", Digest: "sha256:" + first},
		kernel.TranscriptCopied{Path: "/b", File: "transcripts/b", Digest: "sha256:" + first},
		kernel.TranscriptCopied{Path: "/a", File: "transcripts/a", Digest: "sha256:" + second},
	} {
		x.Apply(kernel.Entry{Seq: uint64(i + 1), At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Fact: f}, fmt.Sprintf("sha256:%064d", i+1))
	}
	var got []string
	for _, r := range x.receipts {
		got = append(got, r.SourceLocator+" "+r.ContentDigest)
	}
	require.Equal(t, []string{"transcript:transcripts/b " + first, "transcript:transcripts/a " + second}, got)
}

// A secret in a raw value is redacted, always in the same way, and the result verifies.
func TestRawValuesAreRedacted(t *testing.T) {
	export := func() []byte {
		x := guarded(t)
		x.events[0].TracePath = "https://me:hunter2@host/trace"
		data, err := x.Runpack(testKey(), true)
		require.NoError(t, err)
		return data
	}
	data := export()
	require.Equal(t, data, export())
	_, files := entriesOf(t, data)
	require.Contains(t, string(files[intentsFile]), `"trace_path":"https://me:[redacted url_password sha256:`)
	require.NotContains(t, string(files[intentsFile]), "hunter2")
	require.True(t, Verify(RunpackKind, data, Options{PublicKey: testKey().Public().(ed25519.PublicKey)}).OK)
}

// anchors are all anchors that an export has not returned yet.
func anchors(t testing.TB, x *Export) (list []Anchor) {
	t.Helper()
	for {
		a, ok, err := x.NextAnchor()
		require.NoError(t, err)
		if !ok {
			return list
		}
		list = append(list, a)
	}
}

// The anchors that NextAnchor returns while the ledger grows are those of the whole
// ledger. With these anchors, the removal of checkpoints from the end is detected.
func TestAnchorsFollowTheLedger(t *testing.T) {
	require.Empty(t, anchors(t, NewExport()), "a ledger without an act has no checkpoint")
	whole := recorded(t, 0)
	all := files(t, whole, nil)
	var early []Anchor // after each entry
	x := NewExport()
	for e, err := range ledger.Read("../testdata/sessions/demo") {
		require.NoError(t, err)
		f, err := kernel.Decode(e.Kind, e.Body)
		require.NoError(t, err)
		x.Apply(kernel.Entry{Seq: e.Seq, At: e.At, Fact: f}, string(e.Digest))
		early = append(early, anchors(t, x)...)
	}
	require.Equal(t, early, anchors(t, whole), "the same ones as at the end")
	o := Options{Anchors: early}
	require.Equal(t, len(early), verified(ChainFile, all, o).AnchorsConfirmed)

	// The end is removed: the last checkpoint, or all that follows the first one.
	var c chain
	require.NoError(t, json.Unmarshal(all[ChainFile], &c))
	require.Equal(t, len(early), len(c.Checkpoints))
	require.GreaterOrEqual(t, len(early), 2)
	for _, left := range []int{len(early) - 1, 1} {
		cut := c
		cut.Checkpoints = c.Checkpoints[:left]
		doc, err := canon.Marshal(cut)
		require.NoError(t, err)
		all[ChainFile] = doc
		require.True(t, verified(ChainFile, all, Options{}).OK, "without an anchor this is not noticed")
		r := verified(ChainFile, all, o)
		require.Equal(t, "truncated", r.Problems[0].Code)
		require.Len(t, r.Problems, len(early)-left)
	}
}

// The checkpoints of a prefix of a ledger are, byte for byte, the first
// checkpoints of the whole ledger.
func TestLawAPrefixHasTheFirstCheckpoints(t *testing.T) {
	whole, err := recorded(t, 0).Chain(testKey())
	require.NoError(t, err)
	var all chain
	require.NoError(t, json.Unmarshal(whole[ChainFile], &all))
	require.NotEmpty(t, all.Checkpoints)
	for n := 1; ; n += 7 {
		x := recorded(t, n)
		part, err := x.Chain(testKey())
		if len(x.seals) == 0 {
			require.ErrorIs(t, err, ErrNoCheckpoint)
			continue
		}
		require.NoError(t, err)
		var c chain
		require.NoError(t, json.Unmarshal(part[ChainFile], &c))
		require.Equal(t, all.Checkpoints[:len(c.Checkpoints)], append([]Checkpoint{}, c.Checkpoints...))
		for _, cp := range c.Checkpoints {
			require.Equal(t, whole[cp.RunpackPath], part[cp.RunpackPath])
		}
		if x.head.seq < uint64(n) {
			break
		}
	}
}

// A ledger without the beginning of its session gives no evidence, and a ledger without
// a checkpoint gives no chain: a verifier would refuse both.
func TestLedgersThatAreTooShort(t *testing.T) {
	x := NewExport()
	for name, write := range map[string]func() error{
		"chain":   func() error { _, err := x.Chain(testKey()); return err },
		"runpack": func() error { _, err := x.Runpack(testKey(), false); return err },
		"pack":    func() error { _, err := x.RunPack(testKey(), true); return err },
		"job":     func() error { _, err := x.JobPack(testKey()); return err },
		"traces":  func() error { _, err := x.Traces(testKey()); return err },
	} {
		require.ErrorIs(t, write(), ErrNotBegun, name)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, f := range []kernel.Fact{
		kernel.Began{SessionID: "s", Version: "1"},
		kernel.SessionMoved{From: session.None, To: session.Pending},
		kernel.SessionMoved{From: session.Pending, To: session.Rejected, Reason: "capability_missing"},
	} {
		x.Apply(kernel.Entry{Seq: uint64(i + 1), At: at, Fact: f}, fmt.Sprintf("sha256:%064d", i+1))
	}
	_, err := x.Chain(testKey())
	require.ErrorIs(t, err, ErrNoCheckpoint)
	for _, write := range []func(ed25519.PrivateKey) ([]byte, error){x.JobPack, func(key ed25519.PrivateKey) ([]byte, error) { return x.RunPack(key, false) }} {
		data, err := write(testKey())
		require.NoError(t, err)
		require.True(t, Verify(PackKind, data, Options{PublicKey: testKey().Public().(ed25519.PublicKey), RequireSignature: true}).OK)
	}
}

// Events are sealed when sealEvery of them are unsealed, or when the oldest unsealed event
// is sealAfter old.
func TestSealsWithoutALaunch(t *testing.T) {
	x := NewExport()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	apply := func(f kernel.Fact) {
		x.Apply(kernel.Entry{Seq: x.head.seq + 1, At: at, Fact: f}, "sha256:"+fmt.Sprintf("%064d", 1))
	}
	apply(kernel.Began{SessionID: "s", Version: "1"})
	for i := range sealEvery {
		apply(kernel.Launching{Run: fmt.Sprint(i)})
	}
	require.Equal(t, 1, len(x.seals))
	apply(kernel.Launching{Run: "x"})
	at = at.Add(sealAfter)
	apply(kernel.PauseRequested{})
	require.Equal(t, 2, len(x.seals))
}
