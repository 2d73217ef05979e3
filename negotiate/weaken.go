package negotiate

import (
	"maps"
	"slices"
	"strings"

	"lifeloop/lifeloop"
)

// Weaken returns a copy of the manifest in which one capability has the given support.
// Weaken is for a capability that is missing in a launch or became weaker in a session.
// For an unknown name and for receipts.native, the copy has no changes. For
// [ContinuationStore], the support of renewal.continuation.payload_delivery changes,
// because no continuation can be delivered without a store.
func Weaken(m lifeloop.Manifest, capability string, to lifeloop.Support) lifeloop.Manifest {
	if class, ok := strings.CutPrefix(capability, placementPrefix); ok {
		if claim, ok := m.Placement[lifeloop.Placement(class)]; ok {
			claim.Support = to
			m.Placement = maps.Clone(m.Placement)
			m.Placement[lifeloop.Placement(class)] = claim
		}
		return m
	}
	if name, ok := strings.CutPrefix(capability, telemetryPrefix); ok {
		m.TelemetrySources = slices.Clone(m.TelemetrySources)
		for i := range m.TelemetrySources {
			if m.TelemetrySources[i].Name == name {
				m.TelemetrySources[i].Support = to
			}
		}
		return m
	}
	if claim, ok := m.LifecycleEvents[lifeloop.Event(capability)]; ok {
		claim.Support = to
		if to == lifeloop.Unavailable {
			claim.Modes = []lifeloop.IntegrationMode{}
		}
		m.LifecycleEvents = maps.Clone(m.LifecycleEvents)
		m.LifecycleEvents[lifeloop.Event(capability)] = claim
		return m
	}
	if capability == ContinuationStore {
		capability = ContinuationDelivery
	}
	m.Renewal = clone(m.Renewal)
	m.SessionIdentity, m.SessionRename, m.ApprovalSurface = clone(m.SessionIdentity), clone(m.SessionRename), clone(m.ApprovalSurface)
	for _, f := range fixed(&m) {
		if f.name == capability {
			*f.support = to
		}
	}
	return m
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}
