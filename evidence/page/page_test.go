package page_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/evidence"
	"lifeloop/evidence/page"
	"lifeloop/gate"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

var update = flag.Bool("update", false, "write the golden file again")

// The page of a recorded session. After a change look at the golden file in a browser.
func TestDemo(t *testing.T) {
	p, c := page.New(), page.Checked{}
	x := evidence.NewExport()
	for e, err := range ledger.Read("../../testdata/sessions/demo") {
		require.NoError(t, err)
		f, err := kernel.Decode(e.Kind, e.Body)
		require.NoError(t, err)
		entry := kernel.Entry{Seq: e.Seq, At: e.At, Fact: f}
		p.Apply(entry)
		x.Apply(entry, string(e.Digest))
		c.Entries, c.Head = e.Seq, string(e.Digest)
	}
	runpack, err := x.Runpack(nil, false)
	require.NoError(t, err)
	c.Report = evidence.Verify(evidence.RunpackKind, runpack, evidence.Options{})
	got := p.HTML(c)
	golden := filepath.Join("testdata", "demo.html")
	if *update {
		require.NoError(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// html returns the page of some facts, one second apart.
func html(t *testing.T, c page.Checked, facts ...kernel.Fact) string {
	t.Helper()
	p := page.New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, f := range facts {
		p.Apply(kernel.Entry{Seq: uint64(i + 1), At: at.Add(time.Duration(i) * time.Second), Fact: f})
	}
	return string(p.HTML(c))
}

// Text from outside is displayed as text: it creates no HTML element and does
// not change the order of characters.
func TestTextFromOutside(t *testing.T) {
	const hostile = "\u202e<img src=http://x/><script>x</script>\"'&\x1b[31m"
	out := html(t, page.Checked{},
		kernel.Began{SessionID: "s", AdapterID: "claude", Program: hostile, WorkDir: hostile, Meta: map[string]string{hostile: hostile}},
		kernel.SessionMoved{From: session.None, To: session.Pending, Reason: hostile},
		kernel.HarnessSessionOpened{ID: hostile},
		kernel.VersionSeen{Version: hostile, Unproven: []string{hostile}},
		kernel.AbortRequested{Reason: hostile},
		kernel.ProcessesKilled{Processes: []input.Process{{PID: 1, Name: hostile}}},
		kernel.ReceiptIssued{Receipt: lifeloop.Receipt{ClientID: hostile, Status: lifeloop.Observed,
			PayloadReceipts: []lifeloop.PayloadReceipt{{PayloadKind: hostile, Status: lifeloop.Failed}}}})
	require.Contains(t, out, "&lt;script&gt;", "the text is shown")
	for _, bad := range []string{"<script", "<img", "\u202e", "\x1b"} {
		require.False(t, strings.Contains(out, bad), "%q", bad)
	}
	acts := regexp.MustCompile(`(?i)<[^>]*\s(src|href|on[a-z]+)\s*=`)
	require.Empty(t, acts.FindString(out), "the page requests nothing and runs nothing")
}

// Secrets in texts that a user gave are redacted.
func TestSecretsOfUsers(t *testing.T) {
	token := "ghp" + "_" + strings.Repeat("aB3", 12)
	out := html(t, page.Checked{},
		kernel.Began{SessionID: "s", Meta: map[string]string{"deploy_token": "correct horse", "ticket": "see " + token, "task": "T-1"}},
		kernel.AbortRequested{Reason: "leaked " + token + " in the prompt"},
		kernel.SessionMoved{From: session.None, To: session.Rejected, Reason: "leaked " + token + " in the prompt"})
	require.NotContains(t, out, token)
	require.NotContains(t, out, "correct horse")
	require.Contains(t, out, "abort requested leaked [redacted github ")
	require.Contains(t, out, "T-1")
	require.True(t, page.Is([]byte(out)))
	require.False(t, page.Is([]byte("<!doctype html>")))
}

// For a very long session, the page shows the first and the last rows, and the number
// of omitted ones.
func TestALongSession(t *testing.T) {
	facts := []kernel.Fact{kernel.Began{SessionID: "s"}}
	for i := range 5000 {
		tokens := int64(i)
		facts = append(facts, kernel.Bound{ID: fmt.Sprint("id_", i, ".")}, kernel.ContextMeasured{Tokens: &tokens, Window: 10_000})
	}
	out := html(t, page.Checked{}, facts...)
	require.Contains(t, out, "3000 more")
	for id, shown := range map[string]bool{"id_0.": true, "id_999.": true, "id_1000.": false, "id_3999.": false, "id_4000.": true, "id_4999.": true} {
		require.Equal(t, shown, strings.Contains(out, id), id)
	}
	_, line, _ := strings.Cut(out, `points="`)
	line, _, _ = strings.Cut(line, `"`)
	require.LessOrEqual(t, len(strings.Fields(line)), 600)
	require.True(t, strings.HasSuffix(line, ",90.0"), "the last figure is half of the window: %s", line[len(line)-20:])
}

// The top of the page reports a failed verification and an unfinished ledger.
func TestWhatDoesNotVerify(t *testing.T) {
	out := html(t, page.Checked{Torn: true, Report: evidence.Verify(evidence.RunpackKind, []byte("x"), evidence.Options{})}, kernel.Began{SessionID: "s"})
	require.Contains(t, out, "evidence failed")
	require.Contains(t, out, "the last line is unfinished")
	require.Contains(t, out, "The harness did not report the size of its context.")
}

// The timeline shows the decisions of a policy.
func TestGateDecisions(t *testing.T) {
	out := html(t, page.Checked{}, kernel.Began{SessionID: "s"},
		kernel.GateAnswered{Act: gate.ActLaunch, GateDecision: input.GateDecision{Tool: gate.ActLaunch, Verdict: "allow", Reasons: []string{"default_allow"}}},
		kernel.GateAnswered{Act: gate.ActTool, GateDecision: input.GateDecision{Tool: "Bash", Verdict: "block", Reasons: []string{"blocked_prefix"}}},
		kernel.GateAnswered{Act: gate.ActTool, Failure: lifeloop.Timeout, Why: "too late", GateDecision: input.GateDecision{Verdict: "block"}})
	require.Contains(t, out, "the policy allowed harness.launch: default_allow")
	require.Contains(t, out, "the policy refused harness.tool Bash (block): blocked_prefix")
	require.Contains(t, out, "the policy refused harness.tool (block): timeout, too late")
}

func TestAnEmptyLedger(t *testing.T) {
	require.Contains(t, html(t, page.Checked{}), "No turn was observed.")
}
