package negotiate

import (
	"maps"
	"slices"

	"lifeloop/lifeloop"
)

// Observed returns what a manifest claims in the mode telemetry_only, in which the
// wrapper reads the records of a harness that it did not launch. It does not change
// its argument.
//
// "telemetry_only is for integrations that can observe lifecycle evidence from
// logs, activity files, or other telemetry, but cannot inject payloads or control
// the harness lifecycle directly": the result claims no placement, renewal, rename
// or approval. It claims an event only if the manifest claims it in this mode.
func Observed(m lifeloop.Manifest) lifeloop.Manifest {
	m.LifecycleEvents, m.Placement = maps.Clone(m.LifecycleEvents), maps.Clone(m.Placement)
	for e, claim := range m.LifecycleEvents {
		if !slices.Contains(claim.Modes, lifeloop.TelemetryOnly) {
			m.LifecycleEvents[e] = lifeloop.EventClaim{Support: lifeloop.Unavailable, Modes: []lifeloop.IntegrationMode{}}
			continue
		}
		claim.Modes = []lifeloop.IntegrationMode{lifeloop.TelemetryOnly}
		m.LifecycleEvents[e] = claim
	}
	for class, claim := range m.Placement {
		claim.Support = lifeloop.Unavailable
		m.Placement[class] = claim
	}
	m.TelemetrySources = slices.Clone(m.TelemetrySources)
	for i, s := range m.TelemetrySources {
		if s.Kind == "hook" || s.Kind == "terminal" || s.Kind == "osc" { // only a launched harness has these sources
			m.TelemetrySources[i].Support = lifeloop.Unavailable
		}
	}
	m = Weaken(m, "session_rename", lifeloop.Unavailable)
	m = Weaken(m, "approval_surface", lifeloop.Unavailable)
	m = Weaken(m, "session_identity.harness_run_id", lifeloop.Unavailable)
	m.Renewal = nil
	return m
}
