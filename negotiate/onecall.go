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
// session, no context pressure, no renewal, and no source but the hook.
//
// It does not depend on which hook is called: a client negotiates in every call,
// and what another hook of the same installation gives is no reason to refuse.
func OneCall(m lifeloop.Manifest) lifeloop.Manifest {
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
	m.Renewal = nil
	return m
}
