package negotiate

import (
	"maps"
	"slices"

	"lifeloop/lifeloop"
)

// beyondOneCall are the events that a single hook call cannot always report: each may
// depend on observations before the call or happen after it.
var beyondOneCall = []lifeloop.Event{
	lifeloop.ContextPressureObserved, lifeloop.FrameEnded, lifeloop.SessionEnded, lifeloop.SupervisorTick,
	lifeloop.CapabilityDegraded, lifeloop.ReceiptGapDetected,
}

// OneCall returns the claims that remain for a single hook call, if no wrapper
// runs the harness: the events that hooks report, their slots except that of a
// tool's result, and the id of the harness session. There is no ledger, tick, run,
// task, end of a frame or session, or context pressure, and the hook is the only
// source. A renewal is possible only with an active profile, and then the user resets
// the harness.
//
// The manifest does not depend on which hook is called. A client negotiates in
// every call. It must not be refused because of a capability that another hook
// of the same installation provides.
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
		"session_identity.harness_task_id", "session_rename", "approval_surface", placementPrefix + string(lifeloop.ManualOperator),
		placementPrefix + string(lifeloop.ToolResult)} { // a tool's result causes no lifecycle event, and without the wrapper no process keeps a payload until the result
		m = Weaken(m, name, lifeloop.Unavailable)
	}
	if len(profiles) == 0 {
		m.Renewal = nil
	}
	if m = Within(m, profiles...); m.Renewal != nil {
		m.Renewal = clone(m.Renewal)
		m.Renewal.Reset.Native, m.Renewal.Reset.WrapperMediated = lifeloop.Unavailable, lifeloop.Unavailable
		if m.Renewal.Reset.Manual == lifeloop.Unavailable {
			m.Renewal = nil // without a reset, delivery cannot be claimed (DECISIONS L15)
		}
	}
	return m
}
