package view_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/session"
	"lifeloop/telemetry"
	"lifeloop/view"
)

// recorded is the ledger of one whole session: three turns, a compaction, and a
// client that added a note to each turn.
const recorded = "../testdata/sessions/demo"

func entries(t *testing.T) []kernel.Entry {
	t.Helper()
	var out []kernel.Entry
	for e, err := range ledger.Read(recorded) {
		require.NoError(t, err)
		f, err := kernel.Decode(e.Kind, e.Body)
		require.NoError(t, err)
		out = append(out, kernel.Entry{Seq: e.Seq, At: e.At, Fact: f})
	}
	return out
}

// TestStatusOfARecordedSession applies the ledger up to the n-th fact or event
// with a name, or to its end, and prints the members of `status --json` that
// changed since the previous command. Update with go test ./view -rewrite.
//
//	until frame.opened 2
//	until end
func TestStatusOfARecordedSession(t *testing.T) {
	rest := entries(t)
	var status view.Status
	before := members(t, &status)
	seen := map[string]int{}
	datadriven.RunTest(t, "testdata/status.txt", func(t *testing.T, d *datadriven.TestData) string {
		what, n := d.CmdArgs[0].Key, 1
		if len(d.CmdArgs) > 1 {
			n, _ = strconv.Atoi(d.CmdArgs[1].Key)
		}
		for len(rest) > 0 && (what == "end" || seen[what] < n) {
			e := rest[0]
			rest = rest[1:]
			status.Apply(e)
			seen[kernel.Kind(e.Fact)]++
			if r, ok := view.Event(e.Fact); ok {
				seen[string(r.Event)]++
			}
		}
		if what != "end" && seen[what] < n {
			return "never\n"
		}
		after := members(t, &status)
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if after[name] != before[name] {
				fmt.Fprintf(&b, "%s: %s\n", name, after[name])
			}
		}
		before = after
		return b.String()
	})
}

// members returns the members of the JSON object, with their values as text.
func members(t *testing.T, v any) map[string]string {
	t.Helper()
	doc, err := json.Marshal(v)
	require.NoError(t, err)
	var raw map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(doc, &raw))
	out := map[string]string{}
	for name, v := range raw {
		out[name] = string(v)
	}
	return out
}

// TestStatusCounts checks that the status counts the same events and receipts
// that readers print, and that the recorded receipts are valid.
func TestStatusCounts(t *testing.T) {
	var status view.Status
	events, receipts := 0, 0
	for _, e := range entries(t) {
		status.Apply(e)
		if _, ok := view.Event(e.Fact); ok {
			events++
		}
		if r, ok := view.Receipt(e.Fact); ok {
			receipts++
			require.NoError(t, lifeloop.Validate(r.Receipt))
			if r.Sequence == nil || *r.Sequence != int64(receipts) {
				t.Errorf("receipt %d has the number %v", receipts, r.Sequence)
			}
		}
	}
	if status.Events != events || status.Receipts != receipts || events != receipts || events == 0 {
		t.Errorf("status counts %d events and %d receipts; there are %d and %d", status.Events, status.Receipts, events, receipts)
	}
	if !status.Ended() || status.WrapperPID() != 4242 {
		t.Errorf("ended %t, wrapper %d", status.Ended(), status.WrapperPID())
	}
	if _, err := ledger.Verify(recorded); err != nil {
		t.Errorf("the recorded ledger: %v", err)
	}
}

// TestStatusOfRareFacts applies facts that the recorded session does not
// contain.
func TestStatusOfRareFacts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fold := func(facts ...kernel.Fact) (s view.Status) {
		for i, f := range facts {
			s.Apply(kernel.Entry{Seq: uint64(i + 1), At: at.Add(time.Duration(i) * time.Second), Fact: f})
		}
		return s
	}
	began := kernel.Began{SessionID: "sess", AdapterID: "codex", Program: "codex"}
	lost := &lifeloop.Degradation{Capability: "frame.opening", PreviousSupport: lifeloop.Native, CurrentSupport: lifeloop.Partial}

	s := fold(began)
	if s.Capabilities["frame.opening"] == "" || s.Capabilities["frame.opening"] == lifeloop.Partial {
		t.Fatalf("a new session has the capabilities of its manifest: %v", s.Capabilities)
	}
	s = fold(began, kernel.Observed{Record: lifeloop.EventRecord{Event: lifeloop.CapabilityDegraded}, Degradation: lost})
	if got := s.Capabilities["frame.opening"]; got != lifeloop.Partial {
		t.Errorf("after a degradation: %s", got)
	}
	s = fold(began, kernel.Weakened{Capability: "frame.opened"})
	if got := s.Capabilities["frame.opened"]; got != lifeloop.Unavailable {
		t.Errorf("a weakened capability: %s", got)
	}
	s = fold(kernel.HarnessSessionOpened{Scope: 1, ID: "S1"}, kernel.Bound{Scope: 1, ID: "S2", Was: "S1"})
	if s.HarnessSessionID == nil || *s.HarnessSessionID != "S2" {
		t.Errorf("bound to %v", s.HarnessSessionID)
	}
	s = fold(kernel.HarnessSessionOpened{Scope: 1, ID: "S1"}, kernel.HarnessSessionOpened{Scope: 2})
	if s.HarnessSessionID != nil {
		t.Errorf("a session without an id has the id %s", *s.HarnessSessionID)
	}
	if s = fold(began, kernel.Running{PID: 7}); s.PID == nil || *s.PID != 7 {
		t.Errorf("a running harness has pid %v", s.PID)
	}
	s = fold(began, kernel.Running{PID: 7}, kernel.Exited{})
	if s.PID != nil {
		t.Errorf("an exited harness has pid %d", *s.PID)
	}
	s = fold(began, kernel.SessionMoved{From: session.Running, To: session.Paused})
	if s.Ended() || s.State != "PAUSED" {
		t.Errorf("paused: %s, ended %t", s.State, s.Ended())
	}
	// In a damaged ledger, the first entries may be missing.
	s = fold(kernel.Weakened{Capability: "frame.opened"})
	if got := s.Capabilities["frame.opened"]; got != lifeloop.Unavailable {
		t.Errorf("without the first entries: %v", s.Capabilities)
	}
	// A FrameAdopted fact, which follows the opening, can show that the user did not
	// start the turn.
	opening := kernel.Observed{Record: lifeloop.EventRecord{Event: lifeloop.FrameOpening}}
	s = fold(began, opening, opening, kernel.FrameAdopted{Frame: "f2", Turn: "t2", Origin: telemetry.ByPeer}, kernel.FrameAdopted{Frame: "f1", Turn: "t1"})
	if s.Turns != 1 || s.TurnsOther != 1 {
		t.Errorf("%d turns of the user and %d others", s.Turns, s.TurnsOther)
	}
	// A compaction before the first measurement has no effect on the context.
	s = fold(began, kernel.Observed{Record: lifeloop.EventRecord{Event: lifeloop.ContextCompacted}})
	if s.Context != nil {
		t.Errorf("a context without a figure: %v", s.Context)
	}
}

// TestStatusOfAttempts checks that the status names the attempt, its profile,
// and the next retry.
func TestStatusOfAttempts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := at.Add(time.Hour)
	var s view.Status
	then := func(want string, facts ...kernel.Fact) {
		t.Helper()
		for _, f := range facts {
			s.Apply(kernel.Entry{At: at, Fact: f})
		}
		m := members(t, &s)
		got := fmt.Sprintf("%s of %s, %s (%s), held %s, retry at %s", m["attempt"], m["profile"], m["state"], m["state_reason"], m["held"], m["retry_at"])
		if got != strings.ReplaceAll(want, "'", `"`) {
			t.Errorf("after %s:\n%s, want\n%s", kernel.Kind(facts[len(facts)-1]), got, want)
		}
	}
	wait := kernel.AttemptEnded{Recovery: "retry", Retry: &kernel.RetryPlan{At: at}}
	then(`1 of 'main', 'RUNNING' ('approved'), held false, retry at null`, kernel.Began{AdapterID: "claude"}, kernel.Weakened{Capability: "frame.opened"},
		kernel.SessionMoved{From: session.Pending, To: session.Running, Reason: "approved"}, kernel.Launching{Attempt: 1, Name: "main", Adapter: "claude"})
	then(`1 of 'main', 'PAUSED' ('backoff'), held false, retry at '2026-01-02T03:04:05Z'`, wait,
		kernel.SessionMoved{From: session.Running, To: session.Paused, Reason: "backoff"})
	then(`1 of 'main', 'PAUSED' ('backoff'), held true, retry at null`, kernel.PauseRequested{})
	then(`1 of 'main', 'PAUSED' ('backoff'), held false, retry at '2026-01-02T04:04:05Z'`, kernel.ResumeRequested{RetryAt: &later})
	then(`2 of 'main', 'RUNNING' ('retry'), held false, retry at null`,
		kernel.SessionMoved{From: session.Paused, To: session.Running, Reason: "retry"}, kernel.Launching{Attempt: 2, Name: "main", Adapter: "claude"})
	if s.Capabilities["frame.opening"] != lifeloop.Native || s.Capabilities["frame.opened"] != lifeloop.Synthesized {
		t.Errorf("a second launch begins with its manifest, and has %v", s.Capabilities)
	}
	s.Apply(kernel.Entry{At: at, Fact: kernel.Weakened{Capability: "frame.opened"}})
	if s.Capabilities["frame.opened"] != lifeloop.Unavailable {
		t.Errorf("what the second launch lacks: %v", s.Capabilities)
	}
	then(`1 of 'other', 'RUNNING' ('retry'), held false, retry at null`, kernel.AttemptEnded{Recovery: "fallback", Next: 1},
		kernel.Launching{Attempt: 1, Profile: 1, Name: "other", Adapter: "generic"})
	if s.AdapterID != "generic" || s.Capabilities["frame.opening"] != lifeloop.Unavailable || s.Capabilities["frame.opened"] != lifeloop.Unavailable {
		t.Errorf("capabilities of %s: %v", s.AdapterID, s.Capabilities)
	}
	then(`1 of 'other', 'RUNNING' ('retry'), held false, retry at '2026-01-02T03:04:05Z'`, wait)
	s.Lose()
	if s.RetryAt != nil || s.PID != nil || s.Held {
		t.Errorf("a lost session still waits: %+v", s)
	}
}

// TestContextNow checks that the context is the newest measurement, even if its
// level did not change, and null in a new harness session.
func TestContextNow(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	figure := map[string]any{"tokens_used": 120_000.0, "window_tokens": 200_000.0, "window_source": "statusline", "fraction": 0.6, "level": "moderate", "stale": false}
	tokens := func(n int64) *int64 { return &n }
	var s view.Status
	then := func(want string, facts ...kernel.Fact) {
		t.Helper()
		for _, f := range facts {
			s.Apply(kernel.Entry{At: at, Fact: f})
		}
		got, err := json.Marshal(s.Context)
		if err != nil || string(got) != want {
			t.Errorf("context %s (%v), want %s", got, err, want)
		}
	}
	then(`null`)
	then(`{"tokens_used":120000,"window_tokens":200000,"window_source":"statusline","fraction":0.6,"level":"moderate","stale":false,"estimate":false,"at":"2026-01-02T03:04:05Z"}`,
		kernel.Observed{Record: lifeloop.EventRecord{Event: lifeloop.ContextPressureObserved, Data: figure}})
	then(`{"tokens_used":125000,"window_tokens":200000,"window_source":"statusline","fraction":0.625,"level":"moderate","stale":false,"estimate":false,"at":"2026-01-02T03:04:06Z"}`,
		kernel.ContextMeasured{Tokens: tokens(125_000), Window: 200_000, WindowSource: "statusline", Level: "moderate", At: at.Add(time.Second)})
	then(`{"tokens_used":125000,"window_tokens":200000,"window_source":"statusline","fraction":0.625,"level":"moderate","stale":true,"estimate":false,"at":"2026-01-02T03:04:06Z"}`,
		kernel.Observed{Record: lifeloop.EventRecord{Event: lifeloop.ContextCompacted}})
	then(`{"tokens_used":6066,"window_tokens":null,"window_source":"","fraction":null,"level":null,"stale":false,"estimate":true,"at":"2026-01-02T03:04:07Z"}`,
		kernel.ContextMeasured{Tokens: tokens(6066), Estimate: true, At: at.Add(2 * time.Second)})
	then(`null`, kernel.ContextMeasured{})
	if figure["stale"] != false {
		t.Errorf("the event was changed: %v", figure)
	}
}

// TestReplayedReceipts checks that a receipt that is issued again is printed
// again with a mark, and counted once.
func TestReplayedReceipts(t *testing.T) {
	first := kernel.ReceiptIssued{Receipt: lifeloop.Receipt{ReceiptID: "lfr_1", ClientID: "notes", Event: lifeloop.FrameOpening}, Call: "call_1",
		Frame: &lifeloop.FrameContext{FrameID: "p1", FrameClass: lifeloop.TopLevel}}
	again := first
	again.Call, again.Replay = "call_2", true
	var status view.Status
	var lines []map[string]string
	for i, f := range []kernel.Fact{first, again} {
		status.Apply(kernel.Entry{Seq: uint64(i + 1), Fact: f})
		r, _ := view.Receipt(f)
		lines = append(lines, members(t, r))
	}
	require.Equal(t, 1, status.Receipts)
	require.NotContains(t, lines[0], "replay")
	require.Equal(t, "true", lines[1]["replay"])
	delete(lines[1], "replay")
	require.Equal(t, lines[0], lines[1])
}
