package telemetry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"lifeloop/telemetry/scan"
)

// A Dialect is the format of one harness's hooks, in both directions.
type Dialect interface {
	// Decode reads the standard input of a hook. The event is the name under which
	// the hook was configured in the harness; input that names another hook is an
	// error. An unknown hook decodes to the signal Alive.
	Decode(event string, stdin []byte) (HookCall, error)
	// Answer returns the JSON answer that passes context to the model. It returns
	// nil if the context is empty or the hook cannot pass any.
	Answer(event, context string) []byte
}

// A HookInput holds the members that the hooks of several harnesses have in
// common, under nearly the same names. A member that the harness does not send is
// empty.
type HookInput struct {
	event, Session, Path, Cause, model string
	Prompt, Turn                       string // Claude Code's prompt_id, Codex's turn_id
	Agent, AgentType                   string
	Trigger, Reason, Failure, Notice   string
	cwd, Permissions                   string
	tool, ToolName                     string
	toolInput, toolResponse            []byte
}

// ReadHook reads the input of the named hook.
func ReadHook(event string, stdin []byte) (HookInput, error) {
	var in HookInput
	ok := scan.Object(stdin,
		scan.Name("session_id", &in.Session), scan.Path("transcript_path", &in.Path), scan.Name("prompt_id", &in.Prompt),
		scan.Name("turn_id", &in.Turn), scan.Name("agent_id", &in.Agent), scan.Word("agent_type", &in.AgentType),
		scan.Word("hook_event_name", &in.event), scan.Word("source", &in.Cause), scan.Name("model", &in.model),
		scan.Word("trigger", &in.Trigger), scan.Word("reason", &in.Reason), scan.Word("error", &in.Failure),
		scan.Word("notification_type", &in.Notice), scan.Word("tool_name", &in.ToolName), scan.Raw("tool_input", &in.toolInput),
		scan.Raw("tool_response", &in.toolResponse), scan.Name("tool_use_id", &in.tool),
		scan.Path("cwd", &in.cwd), scan.Word("permission_mode", &in.Permissions))
	if !ok {
		return in, fmt.Errorf("read input of hook %s: it is not a JSON object", event)
	}
	if in.Session == "" {
		return in, fmt.Errorf("read input of hook %s: it names no session", event)
	}
	if in.event != "" && in.event != event {
		return in, fmt.Errorf("read input of hook %s: it belongs to hook %s", event, in.event)
	}
	in.event = event
	return in, nil
}

// Signal returns a signal of this kind, with the fields that all signals of a
// hook share. Detail is the hook's name and the variant, if there is one.
func (in HookInput) Signal(kind Kind, variant string) Signal {
	return Signal{Kind: kind, Source: "hook", Detail: DetailOf(in.event, variant), Session: in.Session, Turn: in.Turn, Agent: in.Agent}
}

// SessionLive reports a start of a session.
func (in HookInput) SessionLive() Signal {
	s := in.Signal(SessionLive, in.Cause)
	s.Turn, s.Cause, s.Path, s.Model = "", CauseOf(in.Cause), in.Path, in.model
	s.Window, s.WindowSource = ModelWindow(in.model)
	return s
}

// SessionGone reports the end of a session.
func (in HookInput) SessionGone() Signal {
	s := in.Signal(SessionGone, in.Reason)
	s.Reason = in.Reason
	return s
}

// Submitted reports a prompt, and the file of its session.
func (in HookInput) Submitted() Signal {
	s := in.Signal(Prompt, "")
	s.Path = in.Path
	return s
}

// Ended reports that a turn stopped or ended. The kind is TurnStop or TurnEnd.
func (in HookInput) Ended(kind Kind, outcome Outcome) Signal {
	s := in.Signal(kind, "")
	s.Outcome = outcome
	return s
}

// Compacting reports that a compaction began.
func (in HookInput) Compacting() Signal {
	s := in.Signal(Compacting, in.Trigger)
	s.Compaction = &Compaction{Trigger: TriggerOf(in.Trigger)}
	return s
}

// Compacted reports a finished compaction.
func (in HookInput) Compacted() Signal {
	s := in.Signal(Compacted, in.Trigger)
	s.Compaction = &Compaction{Half: "hook", Trigger: TriggerOf(in.Trigger)}
	return s
}

// ToolStart reports the start of a tool call. The call's arguments are always
// digested, which costs little compared with running a hook.
func (in HookInput) ToolStart() Signal {
	s := in.Signal(ToolStart, in.ToolName)
	s.Tool, s.ToolName, s.Args = in.tool, in.ToolName, SizedOf(in.toolInput)
	return s
}

// ToolEnd reports the end of a tool call.
func (in HookInput) ToolEnd() Signal {
	s := in.Signal(ToolEnd, in.ToolName)
	s.Tool, s.ToolName, s.Result = in.tool, in.ToolName, SizedOf(in.toolResponse)
	return s
}

// HookOutput returns the answer that passes context to the model, in the form
// that Claude Code, Codex and Gemini CLI share. It has no further members,
// because Codex rejects an answer with a member that it does not know.
func HookOutput(event, context string) []byte {
	type output struct {
		Event   string `json:"hookEventName"`
		Context string `json:"additionalContext"`
	}
	return Render(context, struct {
		Output output `json:"hookSpecificOutput"`
	}{output{event, context}})
}

// A Clearer is a [Dialect] in which the answer to a hook can make the harness empty its
// context at the end of a turn.
type Clearer interface {
	// Clear returns the answer that makes the harness empty its context, with a short
	// reason for the user. It returns nil if the hook has no such answer.
	Clear(event, reason string) []byte
}

// PlainOutput returns the answer {"context":…}.
func PlainOutput(context string) []byte {
	return Render(context, struct {
		Context string `json:"context"`
	}{context})
}

// Render returns the answer to a hook as one JSON value, without HTML escaping. The text
// is what the answer contains: the context for the model, or a reason. Render returns
// nil if the text is empty, or if the answer cannot be encoded.
func Render(text string, answer any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if text == "" || e.Encode(answer) != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// hookCapacity stays below 10,000 characters: above that, Claude Code and Codex cut
// a hook's context or replace it by a reference to a file. The capacity leaves room
// for the text that they add around the context. The limits of the other harnesses
// are not known.
const hookCapacity = 9500

// Fill sets the slot: where the answer to this hook adds text to the model's context. It
// also sets the capacity of the answer.
func (c *HookCall) Fill(slot string) { c.Slot, c.Capacity = slot, hookCapacity }

// Add adds a signal.
func (c *HookCall) Add(s Signal) { c.Signals = append(c.Signals, s) }

// BelongsTo sets the session of a call and of its signals, unless they have one.
func (c *HookCall) BelongsTo(session string) {
	c.Session = cmp.Or(c.Session, session)
	for i, s := range c.Signals {
		c.Signals[i].Session = cmp.Or(s.Session, session)
	}
}

// AddMain handles the hooks that Claude Code and Codex both call for the main agent, not
// for a sub-agent. It adds the hook's signals, and sets the slot if the hook fills one.
func (c *HookCall) AddMain(in HookInput) {
	switch c.Event {
	case "SessionStart":
		c.Fill(SlotSession)
		if in.Cause != "compact" { // a start after a compaction is the same session with a rewritten context
			c.Add(in.SessionLive())
		}
	case "SessionEnd":
		c.Add(in.SessionGone())
	case "UserPromptSubmit":
		c.Fill(SlotFrame)
		c.Add(in.Submitted())
	case "Stop":
		c.Add(in.Ended(TurnStop, Completed))
	case "PreCompact":
		c.Add(in.Compacting())
	case "PostCompact":
		c.Add(in.Compacted())
	default:
		c.Add(in.Signal(Alive, ""))
	}
}

// The values of HookCall.Slot: where the answer to a hook can add text to the model's
// context. In an adapter's manifest they are the names of placement classes.
const (
	SlotSession = "pre_session"
	SlotLeading = "pre_frame_leading"
	SlotFrame   = "pre_frame_trailing"
	SlotTool    = "tool_result"
)

// CauseOf returns the harness's word if it is one of the known causes,
// otherwise "unknown".
func CauseOf(word string) string {
	switch word {
	case "startup", "resume", "clear", "compact", "fork":
		return word
	}
	return "unknown"
}

// TriggerOf returns the harness's word if it is one of the known triggers,
// otherwise "unknown".
func TriggerOf(word string) string {
	switch word {
	case "auto", "manual", "reactive":
		return word
	}
	return "unknown"
}

// DetailOf joins a hook's name and its variant in the notation that the
// harnesses use.
func DetailOf(event, variant string) string {
	if variant == "" {
		return event
	}
	return event + ":" + variant
}
