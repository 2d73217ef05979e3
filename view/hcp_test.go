package view_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/session"
	"lifeloop/view"
)

// TestHCPOfARecordedSession prints the envelopes of a recorded ledger, whole.
// Rewrite with go test ./view -rewrite.
func TestHCPOfARecordedSession(t *testing.T) {
	datadriven.RunTest(t, "testdata/hcp.txt", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		var hcp view.HCP
		for _, e := range entries(t) {
			for _, m := range hcp.Apply(e) {
				line, err := json.Marshal(m)
				require.NoError(t, err)
				fmt.Fprintf(&b, "%s\n", line)
			}
		}
		return b.String()
	})
}

// TestHCPMetadata: what the session's owner calls it is the session's metadata,
// and a fold does not hand out the fact's own map.
func TestHCPMetadata(t *testing.T) {
	meta := map[string]string{"ticket": "A-7"}
	var hcp view.HCP
	hcp.Apply(kernel.Entry{Fact: kernel.Began{SessionID: "sess", Meta: meta}})
	told := hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Pending, To: session.Running}})
	require.Len(t, told, 1)
	got := told[0].Payload.Data["metadata"].(map[string]string)
	require.Equal(t, meta, got)
	got["ticket"] = "B"
	require.Equal(t, "A-7", meta["ticket"])
}

// TestHCPOfADamagedLedger: without a beginning nothing is told, and after an
// end nothing more, whatever is written there.
func TestHCPOfADamagedLedger(t *testing.T) {
	var headless view.HCP
	require.Empty(t, headless.Apply(kernel.Entry{Fact: kernel.Launching{Run: "run_1"}}))
	require.Empty(t, headless.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Running, To: session.Failed}}))

	var hcp view.HCP
	hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Pending, To: session.Running}})
	require.Len(t, hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Running, To: session.Failed}}), 2)
	require.Empty(t, hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Failed, To: session.Running}}))
	require.Empty(t, hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Pending, To: session.Running}}))
}

// TestHCPErrors: which code an attempt's failure has, whether it will be
// recovered from, and what is said of what follows (DECISIONS H4).
func TestHCPErrors(t *testing.T) {
	retry := &kernel.RetryPlan{Number: 1, DelayMS: 2000}
	for _, c := range []struct {
		name        string
		end         kernel.AttemptEnded
		code        string // empty: no error is told
		recoverable bool
		follows     string // the code of the warning after it
	}{
		{"it failed", kernel.AttemptEnded{Cause: attempt.Model, Code: 1, Recovery: attempt.Halt}, "execution_error", false, ""},
		{"and is tried again", kernel.AttemptEnded{Cause: attempt.Model, Code: 1, Recovery: attempt.Retry, Retry: retry}, "execution_error", true, "retry"},
		{"and another is taken", kernel.AttemptEnded{Cause: attempt.Model, Code: 1, Recovery: attempt.Fallback, Next: 1}, "execution_error", true, "fallback"},
		{"a time-out", kernel.AttemptEnded{Cause: attempt.Timeout, Detail: "inter", Recovery: attempt.Halt}, "timeout", false, ""},
		{"a rule", kernel.AttemptEnded{Cause: attempt.Guardrail, Recovery: attempt.Halt}, "safety_violation", false, ""},
		{"the network", kernel.AttemptEnded{Cause: attempt.Network, Recovery: attempt.Halt}, "resource_unavailable", false, ""},
		{"a limit", kernel.AttemptEnded{Cause: attempt.RateLimit, Recovery: attempt.Halt}, "resource_unavailable", false, ""},
		{"no such program", kernel.AttemptEnded{Cause: attempt.Fatal, Failure: lifeloop.AdapterUnavailable, Recovery: attempt.Halt}, "resource_unavailable", false, ""},
		{"its guard was lost", kernel.AttemptEnded{Cause: attempt.Fatal, Recovery: attempt.Halt}, "internal_error", false, ""},
		{"not allowed", kernel.AttemptEnded{Cause: attempt.Fatal, Code: 1, Recovery: attempt.Halt}, "execution_error", false, ""},
		{"our own crash", kernel.AttemptEnded{Cause: attempt.Unknown, Failure: lifeloop.TransportError, Recovery: attempt.Retry, Retry: &kernel.RetryPlan{Wait: attempt.WaitRestart}}, "internal_error", true, "retry"},
		{"an abort", kernel.AttemptEnded{Cause: attempt.Aborted, Recovery: attempt.Halt}, "", false, ""},
		{"it completed", kernel.AttemptEnded{}, "", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := running(t).Apply(kernel.Entry{Fact: c.end})
			if c.code == "" {
				require.Empty(t, told)
				return
			}
			require.Equal(t, "error", told[0].Payload.Type)
			require.Equal(t, []any{c.code, c.recoverable}, []any{told[0].Payload.Data["code"], told[0].Payload.Data["recoverable"]})
			follows := ""
			if len(told) > 1 {
				require.Equal(t, "warning", told[1].Payload.Type)
				follows = told[1].Payload.Data["code"].(string)
			}
			require.Equal(t, c.follows, follows)
		})
	}
}

// running is a fold of a session that runs.
func running(t *testing.T) *view.HCP {
	t.Helper()
	var hcp view.HCP
	hcp.Apply(kernel.Entry{Fact: kernel.Began{SessionID: "sess"}})
	require.Len(t, hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Pending, To: session.Running}}), 1)
	return &hcp
}

// TestHCPCheckpoints: an id is told once in its session; that it goes further
// is progress.
func TestHCPCheckpoints(t *testing.T) {
	hcp := running(t)
	var told []string
	for _, f := range []kernel.Fact{kernel.CheckpointSaved{Checkpoint: "T1", Units: 5}, kernel.CheckpointSaved{Checkpoint: "T1", Units: 10},
		kernel.CheckpointDropped{Checkpoint: "T1", Reason: "no"}, kernel.CheckpointSaved{Checkpoint: "T2", Units: 11}} {
		for _, m := range hcp.Apply(kernel.Entry{Fact: f}) {
			told = append(told, m.Payload.Type)
		}
	}
	require.Equal(t, []string{"checkpoint_created", "progress", "warning", "checkpoint_created"}, told)
}

// TestHCPCleanup: that an abort had to kill what was left stands in the last
// reason, and not what an attempt before it needed.
func TestHCPCleanup(t *testing.T) {
	killed := kernel.StopSent{Rung: 3, Signal: 9, Tree: true}
	aborted := kernel.AttemptEnded{Cause: attempt.Aborted, Recovery: attempt.Halt}
	for _, c := range []struct {
		name  string
		facts []kernel.Fact
		want  string
	}{
		{"it went by itself", []kernel.Fact{kernel.StopSent{Rung: 1, Signal: 15}, aborted}, "SIGTERM"},
		{"it was killed", []kernel.Fact{killed, aborted}, "SIGTERM; cleanup incomplete, what was left was killed"},
		{"another was killed", []kernel.Fact{killed, kernel.AttemptEnded{Cause: attempt.Timeout, Recovery: attempt.Fallback}, aborted}, "SIGTERM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			hcp := running(t)
			for _, f := range c.facts {
				hcp.Apply(kernel.Entry{Fact: f})
			}
			hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Running, To: session.Aborting, Reason: "SIGTERM"}})
			told := hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Aborting, To: session.Aborted, Reason: "SIGTERM"}})
			require.Equal(t, c.want, told[1].Payload.Data["reason"])
		})
	}
}
