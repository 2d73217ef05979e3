package negotiate_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
)

// A single hook call claims no more than the adapter, and nothing that depends on
// observations before or after the call.
func TestOneCall(t *testing.T) {
	for _, id := range manifests.IDs() {
		m, _ := manifests.Get(id)
		before, err := json.Marshal(m)
		require.NoError(t, err)
		one := negotiate.OneCall(m)
		require.NoError(t, lifeloop.Validate(one))
		for _, name := range negotiate.Names(m) {
			if negotiate.Support(one, name).Stronger(negotiate.Support(m, name)) {
				t.Errorf("%s: one call claims more of %s than the adapter", id, name)
			}
		}
		for _, name := range []string{"receipts.receipt_ledger", "supervisor.tick", "frame.ended", "session.ended", "receipt.gap_detected",
			"capability.degraded", "context.pressure_observed", "context_pressure", "session_identity.harness_run_id",
			"session_identity.harness_task_id", "placement.tool_result", "renewal.reset.wrapper_mediated", "telemetry.transcript", "telemetry.rollout"} {
			require.Equal(t, lifeloop.Unavailable, negotiate.Support(one, name), "%s: %s", id, name)
		}
		after, err := json.Marshal(m)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "the argument is unchanged")
	}
	m, _ := manifests.Get("claude")
	for _, name := range []string{"session.started", "frame.opening", "frame.opened", "frame.ending", "context.compacted", "session.ending",
		"placement.pre_session", "placement.pre_frame_trailing", "session_identity.harness_session_id", "telemetry.hooks"} {
		require.Equal(t, negotiate.Support(m, name), negotiate.Support(negotiate.OneCall(m), name), name)
	}
}
