package profiles

import (
	"maps"
	"slices"

	"lifeloop/lifeloop"
)

// This file lists on which sources each capability depends. It is the only such
// list: it determines which capabilities a launch lacks without a source, and
// which a session loses when a source fails.

// telemetryPrefix, followed by the name of a source, is the name of the capability to
// read that source.
const telemetryPrefix = "telemetry."

// Rests lists for each capability the sources on which it depends, by their
// names in the manifest's telemetry_sources. One of them is enough. A
// capability that is not listed depends only on the wrapper.
type Rests map[string][]string

// RestsOf returns the sources on which each capability of an adapter depends. It is
// empty for the generic adapter, whose claims need no source: the wrapper observes
// the process itself.
func RestsOf(adapter string) Rests {
	switch adapter {
	case "claude":
		return claudeRests()
	case "codex":
		return codexRests()
	case "gemini":
		return geminiRests()
	case "hermes":
		return hermesRests()
	case "openclaw":
		return openclawRests()
	case "opencode":
		return opencodeRests()
	}
	return Rests{}
}

func claudeRests() Rests {
	return Rests{
		"session.started":                       {"hooks", "registry", "transcript"},
		"frame.opening":                         {"hooks"},
		"frame.opened":                          {"hooks", "transcript"},
		"context.pressure_observed":             {"transcript", "statusline"},
		"context.compacted":                     {"hooks", "transcript"},
		"frame.ending":                          {"hooks"},
		"frame.ended":                           {"hooks", "transcript"},
		"session.ending":                        {"hooks"},
		"placement.pre_session":                 {"hooks"},
		"placement.pre_frame_trailing":          {"hooks"},
		"placement.tool_result":                 {"hooks"},
		"context_pressure":                      {"transcript", "statusline"},
		"session_identity.harness_session_id":   {"hooks", "registry", "transcript"},
		"approval_surface":                      {"hooks"},
		"renewal.reset.native":                  {"hooks"},
		"renewal.continuation.observation":      {"hooks"},
		"renewal.continuation.payload_delivery": {"hooks"},
	}
}

func codexRests() Rests {
	return Rests{
		"session.started":                       {"hooks", "rollout", "terminal", "exec", "app-server"},
		"frame.opening":                         {"hooks"},
		"frame.opened":                          {"hooks", "rollout", "exec", "app-server"},
		"context.pressure_observed":             {"rollout", "app-server"},
		"context.compacted":                     {"hooks", "rollout", "app-server"},
		"frame.ending":                          {"hooks"},
		"frame.ended":                           {"hooks", "rollout", "exec", "app-server"},
		"receipt.gap_detected":                  {"rollout"},
		"placement.pre_session":                 {"hooks"},
		"placement.pre_frame_trailing":          {"hooks"},
		"placement.tool_result":                 {"hooks"},
		"context_pressure":                      {"rollout", "app-server"},
		"session_identity.harness_session_id":   {"hooks", "rollout", "exec", "app-server", "notify", "history"},
		"approval_surface":                      {"hooks"},
		"renewal.reset.native":                  {"terminal"},
		"renewal.continuation.observation":      {"hooks"},
		"renewal.continuation.payload_delivery": {"hooks"},
	}
}

func geminiRests() Rests {
	return Rests{
		"session.started":                       {"hooks", "transcript", "telemetry", "stream", "log", "terminal"},
		"frame.opening":                         {"hooks"},
		"frame.opened":                          {"hooks", "transcript", "telemetry", "stream"},
		"context.pressure_observed":             {"transcript", "telemetry"},
		"context.compacted":                     {"transcript", "telemetry"},
		"frame.ending":                          {"hooks"},
		"frame.ended":                           {"hooks", "transcript", "telemetry", "stream"},
		"placement.pre_session":                 {"hooks"},
		"placement.pre_frame_trailing":          {"hooks"},
		"context_pressure":                      {"transcript", "telemetry"},
		"session_identity.harness_session_id":   {"hooks", "transcript", "telemetry", "stream", "log"},
		"renewal.reset.native":                  {"hooks"},
		"renewal.continuation.observation":      {"hooks"},
		"renewal.continuation.payload_delivery": {"hooks"},
	}
}

func hermesRests() Rests {
	return Rests{
		"frame.opened":                        {"messages", "hooks"},
		"context.pressure_observed":           {"messages", "sessions", "hooks"},
		"context.compacted":                   {"messages", "sessions"},
		"frame.ended":                         {"messages", "hooks"},
		"context_pressure":                    {"messages", "sessions", "hooks"},
		"session_identity.harness_session_id": {"messages", "sessions", "hooks"},
	}
}

func openclawRests() Rests {
	return Rests{
		"frame.opening":                         {"hooks"},
		"frame.opened":                          {"hooks", "transcript", "runs", "plugin", "agent"},
		"context.pressure_observed":             {"hooks", "transcript", "runs", "sessions", "plugin", "agent"},
		"context.compacted":                     {"hooks", "transcript", "plugin"},
		"frame.ending":                          {"hooks"},
		"frame.ended":                           {"hooks", "transcript", "runs", "sessions", "plugin", "agent"},
		"placement.pre_session":                 {"hooks"},
		"placement.pre_frame_trailing":          {"hooks"},
		"context_pressure":                      {"hooks", "transcript", "runs", "sessions", "plugin", "agent"},
		"renewal.reset.native":                  {"hooks"},
		"renewal.continuation.observation":      {"hooks"},
		"renewal.continuation.payload_delivery": {"hooks"},
		"session_identity.harness_session_id":   {"hooks", "transcript", "runs", "sessions", "plugin", "agent"},
	}
}

func opencodeRests() Rests {
	return Rests{
		"frame.opening":                         {"hooks"},
		"frame.opened":                          {"hooks", "plugin", "store", "bus", "stream"},
		"context.pressure_observed":             {"plugin", "store", "bus", "stream"},
		"context.compacted":                     {"hooks", "plugin", "store", "bus"},
		"frame.ending":                          {"hooks", "plugin", "store"},
		"frame.ended":                           {"hooks", "plugin", "store", "bus"},
		"receipt.gap_detected":                  {"store"},
		"placement.pre_session":                 {"hooks"},
		"placement.pre_frame_leading":           {"hooks"},
		"placement.pre_frame_trailing":          {"hooks"},
		"context_pressure":                      {"plugin", "store", "bus", "stream"},
		"session_identity.harness_session_id":   {"hooks", "plugin", "log", "store", "bus", "stream"},
		"approval_surface":                      {"plugin"},
		"renewal.reset.native":                  {"plugin"},
		"renewal.continuation.observation":      {"hooks"},
		"renewal.continuation.payload_delivery": {"hooks"},
	}
}

// Reading returns r limited to the given sources, which are those that one
// launch or one observer reads.
func (r Rests) Reading(sources ...string) Rests {
	out := Rests{}
	for capability, on := range r {
		read := slices.DeleteFunc(slices.Clone(on), func(s string) bool { return !slices.Contains(sources, s) })
		if len(read) > 0 {
			out[capability] = read
		}
	}
	return out
}

// Without lists the capabilities in r that depend on none of the sources in read. The
// result is sorted by name.
func (r Rests) Without(read ...string) []string {
	left := r.Reading(read...)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r)), func(capability string) bool { return left[capability] != nil })
}

// slotEvents lists the events for which the answer of a harness's hook can carry a
// client's payload to the model.
func slotEvents() []lifeloop.Event {
	return []lifeloop.Event{lifeloop.SessionStarting, lifeloop.SessionStarted, lifeloop.FrameOpening, lifeloop.FrameOpened}
}

// NeedsHooks returns the first event that needs hooks or, if no event needs hooks, the
// first capability that does (DECISIONS L23). An event or a capability needs hooks if only
// hooks provide it. An event also needs hooks if only a hook can deliver the payload of a
// client that answers the event. Both results are empty if nothing needs hooks.
func (r Rests) NeedsHooks(events []lifeloop.Event, capabilities []string) (event lifeloop.Event, capability string) {
	for _, e := range events {
		if slices.Contains(slotEvents(), e) || r.onHooks(string(e)) {
			return e, ""
		}
	}
	for _, c := range capabilities {
		if r.onHooks(c) {
			return "", c
		}
	}
	return "", ""
}

// onHooks reports whether a capability depends on hooks only.
func (r Rests) onHooks(capability string) bool {
	return slices.Equal(r[capability], []string{"hooks"})
}
