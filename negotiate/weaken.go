package negotiate

import (
	"maps"
	"slices"
	"strings"

	"lifeloop/lifeloop"
)

// Weaken returns a copy of the manifest in which the support of one capability, which is
// missing in a launch or became weaker in a session, is replaced by the given one. An
// unknown name and receipts.native change nothing. For [ContinuationStore] it changes
// renewal.continuation.payload_delivery, because without a store no continuation is
// delivered.
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
