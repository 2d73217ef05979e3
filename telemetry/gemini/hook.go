// Package gemini decodes the output of Gemini CLI: chat files, the telemetry
// file, the list of typed lines, print mode's stream, the terminal's title and
// the input of hooks. It also writes the answers to hooks.
//
//	d := gemini.Chat()
//	signals := d.Decode(line)
package gemini

import (
	"slices"

	"lifeloop/telemetry"
)

// Hooks is the dialect of Gemini CLI's hooks. The input of a hook names no turn and
// no tool call. It has one timestamp: the time at which Gemini CLI called the hook.
type Hooks struct{ telemetry.Waits }

// Decode implements telemetry.Dialect.
func (Hooks) Decode(event string, stdin []byte) (telemetry.HookCall, error) {
	in, err := telemetry.ReadHook(event, stdin)
	if err != nil {
		return telemetry.HookCall{}, err
	}
	in.Turn, in.Agent = "", ""
	call := telemetry.HookCall{Event: event, Session: in.Session}
	switch event {
	case "SessionStart":
		if in.Cause != "clear" { // after `/clear`, an answer does not reach the model
			call.Fill(telemetry.SlotSession)
		}
		if in.Cause == "resume" {
			in.Path = "" // the named file stays empty; the hook of the next prompt names the session's file
		}
		call.Add(in.SessionLive())
	case "SessionEnd":
		call.Add(in.SessionGone())
	case "BeforeAgent":
		call.Fill(telemetry.SlotFrame)
		call.Add(in.Submitted())
	case "AfterAgent":
		// AfterAgent runs after an answer, after Esc and after an API error. It shows
		// that the turn stopped, but not why.
		call.Add(in.Signal(telemetry.TurnStop, ""))
		call.Clears = true
	case "BeforeTool":
		call.Add(in.ToolStart())
		call.Use = in.Use() // CanAsk is not set, because no known answer makes Gemini CLI ask the user
	case "AfterTool":
		call.Fill(telemetry.SlotTool)
		call.Add(in.ToolEnd())
	case "Notification":
		kind := telemetry.Alive
		if in.Notice == "ToolPermission" {
			kind = telemetry.NeedsInput
		}
		call.Add(in.Signal(kind, in.Notice))
	case "PreCompress":
		// PreCompress runs before every request to the model, even if no compaction
		// follows.
		call.Add(in.Signal(telemetry.Alive, in.Trigger))
	default:
		call.Add(in.Signal(telemetry.Alive, ""))
	}
	return call, nil
}

// Answer implements telemetry.Dialect. It returns an answer for three events only. For
// the others, Gemini CLI drops the context in an answer, or the answer makes the model
// continue.
func (Hooks) Answer(event, context string) []byte {
	if !slices.Contains([]string{"SessionStart", "BeforeAgent", "AfterTool"}, event) {
		return nil
	}
	return telemetry.HookOutput(event, context)
}

// Refuse implements telemetry.Refuser.
func (Hooks) Refuse(_ string, _ telemetry.Decision, reason string) []byte {
	return telemetry.RefusePlain(reason)
}

// Clear implements telemetry.Clearer. Its answer has "continue":false, so the model does
// not continue: Gemini CLI shows the reason and waits for its user, even if the user
// ended the turn with Esc. With "decision":"deny" in place of "continue":false, the model
// would continue at once, except after Esc.
func (Hooks) Clear(event, reason string) []byte {
	if event != "AfterAgent" {
		return nil
	}
	type output struct {
		Event string `json:"hookEventName"`
		Clear bool   `json:"clearContext"`
	}
	return telemetry.Render(reason, struct {
		Continue bool   `json:"continue"`
		Reason   string `json:"stopReason"`
		Output   output `json:"hookSpecificOutput"`
	}{false, reason, output{event, true}})
}
