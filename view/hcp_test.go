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
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/session"
	"lifeloop/view"
)

// TestHCPOfARecordedSession prints the complete envelopes of a recorded ledger.
// Update with go test ./view -rewrite.
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

// TestHCPMetadata checks that --meta is the session's metadata, and that the
// view returns a copy of the fact's map.
func TestHCPMetadata(t *testing.T) {
	meta := map[string]string{"ticket": "A-7"}
	var hcp view.HCP
	hcp.Apply(kernel.Entry{Fact: kernel.Began{SessionID: "sess", Meta: meta}})
	events := hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Pending, To: session.Running}})
	require.Len(t, events, 1)
	got := events[0].Payload.Data["metadata"].(map[string]string)
	require.Equal(t, meta, got)
	got["ticket"] = "B"
	require.Equal(t, "A-7", meta["ticket"])
}

// TestHCPOfADamagedLedger checks that facts before the session's beginning or
// after its end cause no events.
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

// TestHCPErrors checks the code of an attempt's failure, whether it is
// recoverable, and the warning that follows (DECISIONS H4).
func TestHCPErrors(t *testing.T) {
	retry := &kernel.RetryPlan{Number: 1, DelayMS: 2000}
	for _, c := range []struct {
		name        string
		end         kernel.AttemptEnded
		code        string // empty if there is no error
		recoverable bool
		follows     string // the code of the warning after the error; empty if there is none
	}{
		{"it failed", kernel.AttemptEnded{Cause: attempt.Model, Code: 1, Recovery: attempt.Halt}, "execution_error", false, ""},
		{"it failed and is retried", kernel.AttemptEnded{Cause: attempt.Model, Code: 1, Recovery: attempt.Retry, Retry: retry}, "execution_error", true, "retry"},
		{"it failed and falls back", kernel.AttemptEnded{Cause: attempt.Model, Code: 1, Recovery: attempt.Fallback, Next: 1}, "execution_error", true, "fallback"},
		{"a time-out", kernel.AttemptEnded{Cause: attempt.Timeout, Detail: "inter", Recovery: attempt.Halt}, "timeout", false, ""},
		{"a rule", kernel.AttemptEnded{Cause: attempt.Guardrail, Recovery: attempt.Halt}, "safety_violation", false, ""},
		{"the network", kernel.AttemptEnded{Cause: attempt.Network, Recovery: attempt.Halt}, "resource_unavailable", false, ""},
		{"a rate limit", kernel.AttemptEnded{Cause: attempt.RateLimit, Recovery: attempt.Halt}, "resource_unavailable", false, ""},
		{"no such program", kernel.AttemptEnded{Cause: attempt.Fatal, Failure: lifeloop.AdapterUnavailable, Recovery: attempt.Halt}, "resource_unavailable", false, ""},
		{"its guard was killed", kernel.AttemptEnded{Cause: attempt.Fatal, Failure: lifeloop.InternalError, Signal: 9, Recovery: attempt.Halt}, "internal_error", false, ""},
		{"its guard was killed, in an older ledger", kernel.AttemptEnded{Cause: attempt.Fatal, Detail: "guard lost", Recovery: attempt.Halt}, "internal_error", false, ""},
		{"not allowed, exit 0", kernel.AttemptEnded{Cause: attempt.Fatal, Failure: lifeloop.OperatorRequired, Recovery: attempt.Halt}, "execution_error", false, ""},
		{"not allowed", kernel.AttemptEnded{Cause: attempt.Fatal, Code: 1, Recovery: attempt.Halt}, "execution_error", false, ""},
		{"the wrapper died", kernel.AttemptEnded{Cause: attempt.Unknown, Failure: lifeloop.TransportError, Recovery: attempt.Retry, Retry: &kernel.RetryPlan{Wait: attempt.WaitRestart}}, "internal_error", true, "retry"},
		{"an abort", kernel.AttemptEnded{Cause: attempt.Aborted, Recovery: attempt.Halt}, "", false, ""},
		{"it completed", kernel.AttemptEnded{}, "", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := running(t).Apply(kernel.Entry{Fact: c.end})
			if c.code == "" {
				require.Empty(t, events)
				return
			}
			require.Equal(t, "error", events[0].Payload.Type)
			require.Equal(t, []any{c.code, c.recoverable}, []any{events[0].Payload.Data["code"], events[0].Payload.Data["recoverable"]})
			follows := ""
			if len(events) > 1 {
				require.Equal(t, "warning", events[1].Payload.Type)
				follows = events[1].Payload.Data["code"].(string)
			}
			require.Equal(t, c.follows, follows)
		})
	}
}

// running returns the view of a session that runs.
func running(t *testing.T) *view.HCP {
	t.Helper()
	var hcp view.HCP
	hcp.Apply(kernel.Entry{Fact: kernel.Began{SessionID: "sess"}})
	require.Len(t, hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Pending, To: session.Running}}), 1)
	return &hcp
}

// TestHCPCheckpoints checks that checkpoint_created is emitted once for each id
// in a session, and that a later checkpoint with the same id is progress.
func TestHCPCheckpoints(t *testing.T) {
	hcp := running(t)
	var events []string
	for _, f := range []kernel.Fact{kernel.CheckpointSaved{Checkpoint: "T1", Units: 5}, kernel.CheckpointSaved{Checkpoint: "T1", Units: 10},
		kernel.CheckpointDropped{Checkpoint: "T1", Reason: "no"}, kernel.CheckpointSaved{Checkpoint: "T2", Units: 11}} {
		for _, m := range hcp.Apply(kernel.Entry{Fact: f}) {
			events = append(events, m.Payload.Type)
		}
	}
	require.Equal(t, []string{"checkpoint_created", "progress", "warning", "checkpoint_created"}, events)
}

// TestHCPCleanup checks that the reason of an aborted session reports the remaining
// processes that were killed at the abort, but not those of earlier attempts.
func TestHCPCleanup(t *testing.T) {
	killed := kernel.StopSent{Rung: 3, Signal: 9, Tree: true}
	named := kernel.ProcessesKilled{Processes: []input.Process{{PID: 7, Name: "sleep"}, {PID: 8, Name: "node"}}, More: 2}
	aborted := kernel.AttemptEnded{Cause: attempt.Aborted, Recovery: attempt.Halt}
	for _, c := range []struct {
		name  string
		facts []kernel.Fact
		want  string
	}{
		{"nothing was killed", []kernel.Fact{kernel.StopSent{Rung: 1, Signal: 15}, aborted}, "SIGTERM"},
		{"processes were killed", []kernel.Fact{killed, aborted}, "SIGTERM; cleanup incomplete, remaining processes were killed"},
		{"they are named", []kernel.Fact{killed, kernel.Exited{Signal: 9}, named, aborted}, "SIGTERM; cleanup incomplete, remaining processes were killed: sleep (7), node (8), and 2 more"},
		{"the guard killed what outlived the harness", []kernel.Fact{kernel.Exited{Signal: 15, Leftover: 1}, named, aborted},
			"SIGTERM; cleanup incomplete, remaining processes were killed: sleep (7), node (8), and 2 more"},
		{"the harness ended before it could be killed", []kernel.Fact{killed, kernel.Exited{Signal: 15}, aborted}, "SIGTERM"},
		{"an earlier attempt was killed", []kernel.Fact{killed, named, kernel.AttemptEnded{Cause: attempt.Timeout, Recovery: attempt.Fallback}, aborted}, "SIGTERM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			hcp := running(t)
			for _, f := range c.facts {
				hcp.Apply(kernel.Entry{Fact: f})
			}
			hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Running, To: session.Aborting, Reason: "SIGTERM"}})
			events := hcp.Apply(kernel.Entry{Fact: kernel.SessionMoved{From: session.Aborting, To: session.Aborted, Reason: "SIGTERM"}})
			require.Equal(t, c.want, events[1].Payload.Data["reason"])
		})
	}
}
