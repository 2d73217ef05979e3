package negotiate

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
)

// Observed removes all claims of placements, renewal, session rename and approval. Each
// other claim is as strong as in the manifest, or unavailable.
func TestObserved(t *testing.T) {
	both := []lifeloop.IntegrationMode{lifeloop.NativeHook, lifeloop.TelemetryOnly}
	m := lifeloop.Manifest{
		LifecycleEvents: map[lifeloop.Event]lifeloop.EventClaim{
			lifeloop.FrameOpening: {Support: native, Modes: both[:1]},
			lifeloop.FrameOpened:  {Support: synthesized, Modes: both}},
		Placement:        map[lifeloop.Placement]lifeloop.PlacementClaim{lifeloop.PreSession: {Support: native}},
		ContextPressure:  lifeloop.Claim{Support: partial},
		TelemetrySources: []lifeloop.TelemetrySource{{Name: "hooks", Kind: "hook", Support: native}, {Name: "transcript", Kind: "jsonl", Support: native}},
		Receipts:         lifeloop.ReceiptClaims{ReceiptLedger: synthesized},
		SessionIdentity:  &lifeloop.IdentityClaims{HarnessSessionID: native, HarnessRunID: synthesized, HarnessTaskID: synthesized},
		SessionRename:    &lifeloop.Claim{Support: native},
		ApprovalSurface:  &lifeloop.Claim{Support: native},
		Renewal:          &lifeloop.RenewalClaims{},
	}
	m.Renewal.Reset.WrapperMediated = native
	before, err := json.Marshal(m)
	require.NoError(t, err)
	got := map[string]lifeloop.Support{}
	for _, name := range Names(m) {
		if have := Support(Observed(m), name); have != unavailable {
			require.Equal(t, Support(m, name), have, name)
			got[name] = have
		}
	}
	require.Equal(t, map[string]lifeloop.Support{"frame.opened": synthesized, "context_pressure": partial, "telemetry.transcript": native,
		"receipts.receipt_ledger": synthesized, "session_identity.harness_session_id": native, "session_identity.harness_task_id": synthesized}, got)
	after, err := json.Marshal(m)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the argument is unchanged")
}
