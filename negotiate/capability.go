package negotiate

import (
	"slices"
	"strings"

	"lifeloop/lifeloop"
)

// The names of capabilities (DECISIONS L16), on the wire and in configuration.
const (
	placementPrefix = "placement."
	telemetryPrefix = "telemetry."
)

// fixed are the capabilities that are neither an event, a placement class nor
// a telemetry source, in the order in which they are listed.
var fixed = []struct {
	name string
	have func(lifeloop.Manifest) lifeloop.Support
}{
	{"context_pressure", func(m lifeloop.Manifest) lifeloop.Support { return m.ContextPressure.Support }},
	{"receipts.native", func(m lifeloop.Manifest) lifeloop.Support { return yes(m.Receipts.Native) }},
	{"receipts.receipt_ledger", func(m lifeloop.Manifest) lifeloop.Support { return m.Receipts.ReceiptLedger }},
	{"session_identity.harness_session_id", func(m lifeloop.Manifest) lifeloop.Support { return part(m.SessionIdentity).HarnessSessionID }},
	{"session_identity.harness_run_id", func(m lifeloop.Manifest) lifeloop.Support { return part(m.SessionIdentity).HarnessRunID }},
	{"session_identity.harness_task_id", func(m lifeloop.Manifest) lifeloop.Support { return part(m.SessionIdentity).HarnessTaskID }},
	{"session_rename", func(m lifeloop.Manifest) lifeloop.Support { return part(m.SessionRename).Support }},
	{"approval_surface", func(m lifeloop.Manifest) lifeloop.Support { return part(m.ApprovalSurface).Support }},
	{"renewal.reset.native", func(m lifeloop.Manifest) lifeloop.Support { return part(m.Renewal).Reset.Native }},
	{"renewal.reset.wrapper_mediated", func(m lifeloop.Manifest) lifeloop.Support { return part(m.Renewal).Reset.WrapperMediated }},
	{"renewal.reset.manual", func(m lifeloop.Manifest) lifeloop.Support { return part(m.Renewal).Reset.Manual }},
	{"renewal.continuation.observation", func(m lifeloop.Manifest) lifeloop.Support { return part(m.Renewal).Continuation.Observation }},
	{"renewal.continuation.payload_delivery", func(m lifeloop.Manifest) lifeloop.Support { return part(m.Renewal).Continuation.PayloadDelivery }},
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
	for _, f := range fixed {
		if f.name == capability {
			return f.have(m)
		}
	}
	return m.LifecycleEvents[lifeloop.Event(capability)].Support
}

// Known reports whether a capability has this name. A telemetry source may have
// any name, since the adapter chooses it.
func Known(capability string) bool {
	if name, ok := strings.CutPrefix(capability, telemetryPrefix); ok {
		return name != ""
	}
	return slices.Contains(Names(lifeloop.Manifest{}), capability)
}

// Names lists every capability: the events, the placement classes, the fixed
// members, and the manifest's own telemetry sources.
func Names(m lifeloop.Manifest) []string {
	var names []string
	for _, e := range lifeloop.Events() {
		names = append(names, string(e))
	}
	for _, p := range lifeloop.Placements() {
		names = append(names, placementPrefix+string(p))
	}
	for _, f := range fixed {
		names = append(names, f.name)
	}
	for _, s := range m.TelemetrySources {
		names = append(names, telemetryPrefix+s.Name)
	}
	return names
}

// part returns an optional part of a manifest, or the zero value, which claims
// nothing.
func part[T any](p *T) T {
	if p == nil {
		var none T
		return none
	}
	return *p
}

func yes(b bool) lifeloop.Support {
	if b {
		return lifeloop.Native
	}
	return lifeloop.Unavailable
}
