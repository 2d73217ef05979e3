package lifeloop

import (
	"slices"
	"strings"
)

// An Event is a lifecycle event name as it appears on the wire: a stable
// lowercase dot-separated string.
type Event string

// The events of the contract, in the contract's order.
const (
	SessionStarting         Event = "session.starting"
	SessionStarted          Event = "session.started"
	FrameOpening            Event = "frame.opening"
	FrameOpened             Event = "frame.opened"
	ContextPressureObserved Event = "context.pressure_observed"
	ContextCompacted        Event = "context.compacted"
	FrameEnding             Event = "frame.ending"
	FrameEnded              Event = "frame.ended"
	SessionEnding           Event = "session.ending"
	SessionEnded            Event = "session.ended"
	SupervisorTick          Event = "supervisor.tick"
	CapabilityDegraded      Event = "capability.degraded"
	ReceiptEmitted          Event = "receipt.emitted"
	ReceiptGapDetected      Event = "receipt.gap_detected"
)

// Events lists every event name, in the contract's order.
func Events() []Event {
	return []Event{
		SessionStarting, SessionStarted, FrameOpening, FrameOpened,
		ContextPressureObserved, ContextCompacted, FrameEnding, FrameEnded,
		SessionEnding, SessionEnded, SupervisorTick, CapabilityDegraded,
		ReceiptEmitted, ReceiptGapDetected,
	}
}

func (Event) words() []string { return texts(Events()...) }

// Valid reports whether e is one of the contract's events.
func (e Event) Valid() bool { return slices.Contains(Events(), e) }

// Session reports whether e is about the start or the end of a harness session.
func (e Event) Session() bool { return strings.HasPrefix(string(e), "session.") }

// Frame reports whether e is about the start or the end of a frame, and therefore
// needs a frame context.
func (e Event) Frame() bool { return strings.HasPrefix(string(e), "frame.") }

// An IntegrationMode is a way in which an adapter is connected to its harness.
type IntegrationMode string

const (
	ManualSkill      IntegrationMode = "manual_skill"
	LauncherWrapper  IntegrationMode = "launcher_wrapper"
	NativeHook       IntegrationMode = "native_hook"
	ReferenceAdapter IntegrationMode = "reference_adapter"
	TelemetryOnly    IntegrationMode = "telemetry_only"
)

func (IntegrationMode) words() []string {
	return texts(ManualSkill, LauncherWrapper, NativeHook, ReferenceAdapter, TelemetryOnly)
}

// Valid reports whether m is one of the contract's integration modes.
func (m IntegrationMode) Valid() bool { return slices.Contains(m.words(), string(m)) }
