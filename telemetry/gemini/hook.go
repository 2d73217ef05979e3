// Package gemini decodes what Gemini CLI writes and calls: chat files, its
// telemetry file, the list of typed lines, print mode's stream, the terminal's
// title and hooks. It renders the answers to its hooks.
//
//	d := gemini.Chat()
//	signals := d.Decode(line)
package gemini

import (
	"slices"

	"lifeloop/telemetry"
)

// Hooks is the dialect of Gemini CLI's hooks. They name no turn and no tool
// call. Each has a time, but that is the time of the call itself.
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
		if in.Cause != "clear" { // an answer after `/clear` reaches no model
			call.Fill(telemetry.SlotSession)
		}
		if in.Cause == "resume" {
			in.Path = "" // this file is a stub that is not written again; the prompt's hook names the file
		}
		call.Add(in.SessionLive())
	case "SessionEnd":
		call.Add(in.SessionGone())
	case "BeforeAgent":
		call.Fill(telemetry.SlotFrame)
		call.Add(in.Submitted())
	case "AfterAgent":
		// AfterAgent runs after an answer, after Esc and after an API error alike,
		// so it reports that the turn stopped and not how.
		call.Add(in.Signal(telemetry.TurnStop, ""))
	case "BeforeTool":
		call.Add(in.ToolStart())
		call.Use = in.Use() // no answer was seen to make Gemini CLI ask
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
		// PreCompress runs before every request to the model, with a compaction or
		// not.
		call.Add(in.Signal(telemetry.Alive, in.Trigger))
	default:
		call.Add(in.Signal(telemetry.Alive, ""))
	}
	return call, nil
}

// Answer implements telemetry.Dialect. An answer to any other event is dropped,
// or makes the model continue.
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
