package view_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
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
