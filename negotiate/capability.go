package negotiate

import (
	"cmp"
	"slices"
	"strings"

	"lifeloop/lifeloop"
)

// The names of capabilities (DECISIONS L16), on the wire and in configuration.
const (
	placementPrefix = "placement."
	telemetryPrefix = "telemetry."

	// A renewal needs ContinuationObservation, ContinuationDelivery, ContinuationStore
	// and one of the resets.
	ContinuationObservation = "renewal.continuation.observation"      // the start of the next harness session is observed
	ContinuationDelivery    = "renewal.continuation.payload_delivery" // the continuation reaches the model in the next harness session
	NativeReset             = "renewal.reset.native"                  // the running harness begins a new session
	WrapperReset            = "renewal.reset.wrapper_mediated"        // the wrapper starts the harness again
	ManualReset             = "renewal.reset.manual"                  // the user resets the harness

	// ContinuationStore is the wrapper's own capability to keep a continuation between
	// two harness sessions. Manifests do not have a member for it. It is available if
	// the adapter can deliver a continuation after the reset.
	ContinuationStore = "continuation_store"
)

// A fixedClaim is a capability that is neither an event, a placement class nor a
// telemetry source.
type fixedClaim struct {
	name    string
	support *lifeloop.Support
}

// fixed lists the fixed claims in their order. Each support pointer points into m, or to
// an empty claim if m does not have that part. The values of receipts.native and
// [ContinuationStore] are computed, so their pointers do not point into m.
func fixed(m *lifeloop.Manifest) []fixedClaim {
	native := lifeloop.Unavailable
	if m.Receipts.Native {
		native = lifeloop.Native
	}
	ids := cmp.Or(m.SessionIdentity, &lifeloop.IdentityClaims{})
	renewal := cmp.Or(m.Renewal, &lifeloop.RenewalClaims{})
	store := lifeloop.Unavailable
	if d := renewal.Continuation.PayloadDelivery; d.Stronger(lifeloop.Manual) {
		store = lifeloop.Synthesized
	}
	return []fixedClaim{
		{"context_pressure", &m.ContextPressure.Support},
		{"receipts.native", &native},
		{"receipts.receipt_ledger", &m.Receipts.ReceiptLedger},
		{"session_identity.harness_session_id", &ids.HarnessSessionID},
		{"session_identity.harness_run_id", &ids.HarnessRunID},
		{"session_identity.harness_task_id", &ids.HarnessTaskID},
		{"session_rename", &cmp.Or(m.SessionRename, &lifeloop.Claim{}).Support},
		{"approval_surface", &cmp.Or(m.ApprovalSurface, &lifeloop.Claim{}).Support},
		{NativeReset, &renewal.Reset.Native},
		{WrapperReset, &renewal.Reset.WrapperMediated},
		{ManualReset, &renewal.Reset.Manual},
		{ContinuationObservation, &renewal.Continuation.Observation},
		{ContinuationDelivery, &renewal.Continuation.PayloadDelivery},
		{ContinuationStore, &store},
	}
}

// Support returns what the manifest claims for a capability: an event name,
// "placement." and a class, "telemetry." and a source's name, or one of the
// contract's fixed members such as "renewal.reset.manual". A capability that the
// manifest does not mention is unavailable.
func Support(m lifeloop.Manifest, capability string) lifeloop.Support {
	if s := claimed(m, capability); s.Valid() {
		return s
	}
	return lifeloop.Unavailable
}

func claimed(m lifeloop.Manifest, capability string) lifeloop.Support {
	if class, ok := strings.CutPrefix(capability, placementPrefix); ok {
		return m.Placement[lifeloop.Placement(class)].Support
	}
	if name, ok := strings.CutPrefix(capability, telemetryPrefix); ok {
		i := slices.IndexFunc(m.TelemetrySources, func(s lifeloop.TelemetrySource) bool { return s.Name == name })
		if i < 0 {
			return lifeloop.Unavailable
		}
		return m.TelemetrySources[i].Support
	}
	if claim, ok := m.LifecycleEvents[lifeloop.Event(capability)]; ok {
		return claim.Support
	}
	return fixedSupport(m, capability)
}

// Known reports whether a capability has this name. A telemetry source may have
// any name, because the adapter chooses it.
func Known(capability string) bool {
	if name, ok := strings.CutPrefix(capability, telemetryPrefix); ok {
		return name != ""
	}
	return slices.Contains(Names(lifeloop.Manifest{}), capability)
}

// fixedSupport is a separate function because fixed needs m on the heap. If claimed
// called fixed itself, each call of claimed would copy m to the heap, even for an event.
func fixedSupport(m lifeloop.Manifest, capability string) (have lifeloop.Support) {
	for _, f := range fixed(&m) {
		if f.name == capability {
			have = *f.support
		}
	}
	return have
}

// Names lists every capability: the events, the placement classes, the fixed
// members, and the telemetry sources that the manifest names.
func Names(m lifeloop.Manifest) []string {
	var names []string
	for _, e := range lifeloop.Events() {
		names = append(names, string(e))
	}
	for _, p := range lifeloop.Placements() {
		names = append(names, placementPrefix+string(p))
	}
	for _, f := range fixed(&m) {
		names = append(names, f.name)
	}
	for _, s := range m.TelemetrySources {
		names = append(names, telemetryPrefix+s.Name)
	}
	return names
}
