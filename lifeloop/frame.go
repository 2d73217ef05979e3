package lifeloop

// A FrameClass says where a frame is in the session's frame tree.
type FrameClass string

const (
	TopLevel FrameClass = "top_level"
	Subcall  FrameClass = "subcall"
)

func (FrameClass) words() []string { return texts(TopLevel, Subcall) }

// A FrameContext names the frame an event belongs to. "frame_class = subcall
// requires parent_frame_id; top_level forbids it."
type FrameContext struct {
	FrameID       string     `json:"frame_id" wire:"id"`
	FrameClass    FrameClass `json:"frame_class"`
	ParentFrameID *string    `json:"parent_frame_id,omitempty" wire:"id"`
}

// An EventRecord is one emitted lifecycle event. `observe` and `events --as
// lifeloop` print one per line.
type EventRecord struct {
	SchemaVersion    string          `json:"schema_version" wire:"version"`
	Event            Event           `json:"event"`
	EventID          string          `json:"event_id" wire:"id"`
	AdapterID        string          `json:"adapter_id" wire:"id"`
	IntegrationMode  IntegrationMode `json:"integration_mode"`
	HarnessSessionID *string         `json:"harness_session_id" wire:"id"`
	FrameContext     *FrameContext   `json:"frame_context,omitempty"`
	AtEpochS         int64           `json:"at_epoch_s" wire:"size"`
	At               string          `json:"at" wire:"text"` // RFC 3339 with milliseconds, UTC
	Evidence         []Evidence      `json:"evidence"`
	Data             map[string]any  `json:"data"`
}

// Evidence names one source of an event, and the part of that source which
// reported the event: a record id, a hook name, an ordinal. It never holds text
// of the session.
type Evidence struct {
	Source string `json:"source" wire:"id"`
	Detail string `json:"detail"`
}
