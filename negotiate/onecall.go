package negotiate

import (
	"maps"
	"slices"

	"lifeloop/lifeloop"
)

// beyondOneCall are the events that no single hook call can promise: each rests on
// what was seen before the call or happens after it.
var beyondOneCall = []lifeloop.Event{
	lifeloop.ContextPressureObserved, lifeloop.FrameEnded, lifeloop.SessionEnded, lifeloop.SupervisorTick,
	lifeloop.CapabilityDegraded, lifeloop.ReceiptGapDetected,
}

// OneCall returns the manifest of what a single hook call can give, where no
// wrapper runs the harness: the events that hooks report, their slots and the
// harness's own ids. There is no ledger, no tick, no run, no end of a frame or a
// session, no context pressure, and no source but the hook. A renewal is possible
// only with a profile that is active, and then the user resets the harness.
//
// The manifest does not depend on which hook is called. A client negotiates in
// every call, and must not be refused for what another hook of the same
// installation gives.
func OneCall(m lifeloop.Manifest, profiles ...string) lifeloop.Manifest {
	for _, e := range slices.Sorted(maps.Keys(m.LifecycleEvents)) {
		if slices.Contains(beyondOneCall, e) || !slices.Contains(m.LifecycleEvents[e].Modes, lifeloop.NativeHook) {
			m = Weaken(m, string(e), lifeloop.Unavailable)
		}
	}
	for _, s := range m.TelemetrySources {
		if s.Kind != "hook" {
			m = Weaken(m, telemetryPrefix+s.Name, lifeloop.Unavailable)
		}
	}
	for _, name := range []string{"context_pressure", "receipts.receipt_ledger", "session_identity.harness_run_id",
		"session_identity.harness_task_id", "session_rename", "approval_surface", placementPrefix + string(lifeloop.ManualOperator)} {
		m = Weaken(m, name, lifeloop.Unavailable)
	}
	if len(profiles) == 0 {
		m.Renewal = nil
	}
	if m = Within(m, profiles...); m.Renewal != nil {
		m.Renewal = clone(m.Renewal)
		m.Renewal.Reset.Native, m.Renewal.Reset.WrapperMediated = lifeloop.Unavailable, lifeloop.Unavailable
		if m.Renewal.Reset.Manual == lifeloop.Unavailable {
			m.Renewal = nil // "renewal without a reset claims no delivery"
		}
	}
	return m
}
