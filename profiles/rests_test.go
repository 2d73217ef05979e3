package profiles

import (
	"slices"
	"strings"
	"testing"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
)

// ours are the capabilities that the wrapper, the harness's process or the user
// provides, independently of what the sources report.
var ours = []string{"session.starting", "session.ended", "supervisor.tick", "capability.degraded", "receipt.emitted",
	"receipts.receipt_ledger", "session_identity.harness_run_id", "session_identity.harness_task_id", negotiate.ContinuationStore, "renewal.reset.manual", "renewal.reset.wrapper_mediated"}

// TestEveryClaimRestsOnSomething checks the table of RestsOf against every manifest:
// each claim depends on sources of that manifest, or needs no source. A capability
// that is not claimed depends on no source.
func TestEveryClaimRestsOnSomething(t *testing.T) {
	for _, id := range manifests.IDs() {
		m, _ := manifests.Get(id)
		table := RestsOf(id)
		for _, name := range negotiate.Names(m) {
			claimed := negotiate.Support(m, name) != lifeloop.Unavailable
			on := table[name]
			switch {
			case strings.HasPrefix(name, telemetryPrefix):
			case !claimed && len(on) > 0:
				t.Errorf("%s: %s is unavailable, and rests on %v", id, name, on)
			case claimed && len(on) == 0 && !slices.Contains(ours, name) && !byProcess(m, name):
				t.Errorf("%s: %s is claimed, and rests on nothing", id, name)
			}
			for _, source := range on {
				if negotiate.Support(m, telemetryPrefix+source) == lifeloop.Unavailable {
					t.Errorf("%s: %s rests on %s, which is not a source of the manifest", id, name, source)
				}
			}
		}
		for capability := range table {
			if !negotiate.Known(capability) {
				t.Errorf("%s: the table lists %s, which is not a capability", id, capability)
			}
		}
	}
}

// byProcess reports whether the wrapper emits an event because of the harness's
// process, without any other source.
func byProcess(m lifeloop.Manifest, name string) bool {
	modes := m.LifecycleEvents[lifeloop.Event(name)].Modes
	return strings.HasPrefix(name, "session.") && slices.Contains(modes, lifeloop.LauncherWrapper)
}

// TestModesAgreeWithSources checks that the only mode of a frame event is native_hook
// if, and only if, the event rests on hooks alone. An event with the mode
// telemetry_only must not rest on hooks alone.
func TestModesAgreeWithSources(t *testing.T) {
	for _, id := range manifests.IDs() {
		m, _ := manifests.Get(id)
		for event, claim := range m.LifecycleEvents {
			on := RestsOf(id)[string(event)]
			if len(on) == 0 {
				continue
			}
			hooksOnly := slices.Equal(on, []string{"hooks"})
			if native := slices.Equal(claim.Modes, []lifeloop.IntegrationMode{lifeloop.NativeHook}); native != hooksOnly && event.Frame() {
				t.Errorf("%s: %s has the modes %v, and rests on %v", id, event, claim.Modes, on)
			}
			if slices.Contains(claim.Modes, lifeloop.TelemetryOnly) && hooksOnly {
				t.Errorf("%s: %s can be observed from files, and rests on hooks alone", id, event)
			}
		}
	}
}

func TestWithoutAndReading(t *testing.T) {
	table := RestsOf("claude")
	if got := table.Without("registry", "transcript", "statusline"); !slices.Contains(got, "placement.tool_result") || slices.Contains(got, "frame.ended") {
		t.Errorf("without hooks: %v", got)
	}
	if got := table.Without("registry"); !slices.Contains(got, "context_pressure") || slices.Contains(got, "session.started") {
		t.Errorf("with the registry alone: %v", got)
	}
	read := table.Reading("transcript")
	if on := read["context_pressure"]; !slices.Equal(on, []string{"transcript"}) || read["frame.opening"] != nil {
		t.Errorf("reading the transcript: %v", read)
	}
	if on := RestsOf("claude")["context_pressure"]; len(on) != 2 {
		t.Errorf("Reading changed the table: %v", on)
	}
}

// TestNeedsHooks checks that hooks are needed for an event or a capability that only hooks
// provide, and for an event whose payload only a hook can deliver.
func TestNeedsHooks(t *testing.T) {
	for _, c := range []struct {
		adapter      string
		events       []lifeloop.Event
		capabilities []string
		want         string
	}{
		{adapter: "gemini", events: []lifeloop.Event{lifeloop.SessionEnded, lifeloop.FrameEnding}, want: "frame.ending"},
		{adapter: "gemini", events: []lifeloop.Event{lifeloop.FrameOpened}, want: "frame.opened"},
		{adapter: "generic", events: []lifeloop.Event{lifeloop.SessionStarting, lifeloop.FrameOpening}, want: "session.starting"},
		{adapter: "gemini", events: []lifeloop.Event{lifeloop.SessionEnded, lifeloop.FrameEnded, lifeloop.ContextCompacted}},
		{adapter: "opencode", events: []lifeloop.Event{lifeloop.FrameEnding}},
		{adapter: "gemini", capabilities: []string{"context_pressure", "placement.pre_session"}, want: "placement.pre_session"},
		{adapter: "gemini", events: []lifeloop.Event{lifeloop.FrameEnding}, capabilities: []string{"placement.pre_session"}, want: "frame.ending"},
		{adapter: "gemini", capabilities: []string{"context_pressure", "session_identity.harness_session_id"}},
		{adapter: "generic", capabilities: []string{"placement.pre_session"}},
	} {
		event, capability := RestsOf(c.adapter).NeedsHooks(c.events, c.capabilities)
		if got := string(event) + capability; got != c.want {
			t.Errorf("%s: %v %v: got %q, want %q", c.adapter, c.events, c.capabilities, got, c.want)
		}
	}
}
