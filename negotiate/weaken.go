package negotiate

import (
	"maps"
	"slices"
	"strings"

	"lifeloop/lifeloop"
)

// Weaken returns the manifest with a weaker claim for one capability, which a
// launch lacks or a session has lost. It does not change its argument. An unknown
// name changes nothing, nor does renewal, which no launch removes.
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
	switch capability {
	case "context_pressure":
		m.ContextPressure.Support = to
	case "receipts.receipt_ledger":
		m.Receipts.ReceiptLedger = to
	case "approval_surface":
		m.ApprovalSurface = weakerClaim(m.ApprovalSurface, to)
	case "session_rename":
		m.SessionRename = weakerClaim(m.SessionRename, to)
	}
	if name, ok := strings.CutPrefix(capability, "session_identity."); ok && m.SessionIdentity != nil {
		ids := *m.SessionIdentity
		switch name {
		case "harness_session_id":
			ids.HarnessSessionID = to
		case "harness_run_id":
			ids.HarnessRunID = to
		case "harness_task_id":
			ids.HarnessTaskID = to
		}
		m.SessionIdentity = &ids
	}
	return m
}

func weakerClaim(c *lifeloop.Claim, to lifeloop.Support) *lifeloop.Claim {
	if c == nil {
		return nil
	}
	weaker := *c
	weaker.Support = to
	return &weaker
}
