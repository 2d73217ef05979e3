package kernel_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
)

// A command line may give any text as a session id. An id that no document can hold
// counts as unknown: the documents are valid without it.
func TestAnUnusableSessionIDIsUnknown(t *testing.T) {
	for _, id := range []string{strings.Repeat("x", 257), "two\nlines", "\xff"} {
		w := &world{t: t, now: start, cfg: defaults(), l0: &l0Judge{}, hcp: &hcpJudge{}}
		w.cfg.HarnessSession = id
		w.k = kernel.New(w.cfg)
		w.step(input.Start{}) // checks every document
		setup := w.cfg.Launch
		w.step(input.Launched{PID: 1, Setup: &setup})
		receipts := 0
		for _, e := range w.entries {
			if f, ok := e.Fact.(kernel.ReceiptIssued); ok {
				receipts++
				require.Nil(t, f.Receipt.HarnessSessionID)
			}
		}
		require.NotZero(t, receipts)
	}
	require.True(t, lifeloop.ValidID(strings.Repeat("x", 256)))
}

// The evidence of a degradation may name the record of a transcript.
func TestEvidenceMayNameATranscript(t *testing.T) {
	d := lifeloop.Degradation{Event: lifeloop.CapabilityDegraded, Capability: "frame.ended", PreviousSupport: lifeloop.Partial,
		CurrentSupport: lifeloop.Native, RetryClass: lifeloop.SafeRetry, Evidence: "seen in this session, reported by the transcript: 0199a213-81c0-7800-8aa1-bbab2a035a53"}
	require.NoError(t, lifeloop.Validate(d))
	checkDocument(t, "degradation", d)
}
