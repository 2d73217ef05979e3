package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
	"lifeloop/telemetry"
	"lifeloop/telemetry/opencode"
)

// The claims for an observed OpenCode follow from recordings of its store and its
// bus, and from a store with a gap.
func TestClaimsOfObservedOpencode(t *testing.T) {
	decode := func(d telemetry.Decoder, file string, without int) []telemetry.Signal {
		data, err := os.ReadFile(filepath.Join("..", "telemetry", "opencode", "testdata", filepath.FromSlash(file)))
		require.NoError(t, err)
		var out []telemetry.Signal
		for i, record := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
			if i != without {
				out = append(out, d.Decode(record)...)
			}
		}
		return out
	}
	store, bus := decode(opencode.Store(), "store/db-event.jsonl", -1), decode(opencode.Bus(), "bus/tui-session.jsonl", -1)
	cut := decode(opencode.Store(), "store/db-event.jsonl", 20)
	reports := func(signals []telemetry.Signal, kind telemetry.Kind) bool {
		return slices.ContainsFunc(signals, func(s telemetry.Signal) bool { return s.Kind == kind })
	}
	both := func(kind telemetry.Kind) bool { return reports(store, kind) && reports(bus, kind) }
	proofs := map[lifeloop.Event]bool{
		lifeloop.SessionStarting:         both(telemetry.SessionLive),
		lifeloop.SessionStarted:          both(telemetry.SessionLive),
		lifeloop.FrameOpened:             both(telemetry.Prompt),
		lifeloop.FrameEnded:              both(telemetry.TurnEnd),
		lifeloop.ContextCompacted:        both(telemetry.Compacted),
		lifeloop.ContextPressureObserved: both(telemetry.UsageSeen),
		lifeloop.ReceiptGapDetected:      reports(cut, telemetry.Gap) && !reports(store, telemetry.Gap),
		lifeloop.CapabilityDegraded:      true, // an event about the wrapper itself, claimed for observed sessions too
		lifeloop.ReceiptEmitted:          true,
	}
	m, ok := Get("opencode")
	require.True(t, ok)
	for e, claim := range m.LifecycleEvents {
		if observed := slices.Contains(claim.Modes, lifeloop.TelemetryOnly); observed != proofs[e] {
			t.Errorf("%s: claimed for an observed session: %v; reported: %v", e, observed, proofs[e])
		}
	}
	// Context pressure is partial because neither source reports the context
	// window.
	require.Equal(t, lifeloop.Partial, m.LifecycleEvents[lifeloop.ContextPressureObserved].Support)
	require.Equal(t, lifeloop.Partial, m.ContextPressure.Support)
	for _, s := range slices.Concat(store, bus) {
		require.Zero(t, s.Window)
	}
	var names []string
	for _, s := range m.TelemetrySources {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"hooks", "plugin", "log", "store", "bus", "stream", "activity"}, names)
}
