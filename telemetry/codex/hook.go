// Package codex decodes the output of Codex: rollouts, the streams of exec and
// of the app-server, notifications, history, terminal state, OTLP logs and the
// input of hooks. It also writes the answers to hooks.
//
//	d := codex.Rollout()
//	signals := d.Decode(line)
package codex

import (
	"slices"

	"lifeloop/telemetry"
)

// Hooks is the dialect of Codex's hooks. No hook reports a failed turn; the
// rollout does.
type Hooks struct{ telemetry.Waits }

// Decode implements telemetry.Dialect.
func (Hooks) Decode(event string, stdin []byte) (telemetry.HookCall, error) {
	in, err := telemetry.ReadHook(event, stdin)
	if err != nil {
		return telemetry.HookCall{}, err
	}
	call := telemetry.HookCall{Event: event, Session: in.Session, Turn: in.Turn}
	switch {
	case event == "PreToolUse":
		call.Add(in.ToolStart())
		call.Use = in.Use() // CanAsk is not set, because Codex rejects the answer `ask`
	case event == "PostToolUse":
		call.Add(in.ToolEnd())
		if in.Agent == "" {
			call.Fill(telemetry.SlotTool)
		}
	case event == "PermissionRequest":
		call.Add(in.Signal(telemetry.NeedsInput, in.ToolName))
	case in.Agent != "":
		s := in.Signal(telemetry.Alive, in.AgentType)
		if event == "SubagentStart" { // in SubagentStop the path is that of the parent's rollout
			s.Path = in.Path
		}
		call.Add(s)
	case event == "Interrupt":
		call.Add(in.Ended(telemetry.TurnEnd, telemetry.Interrupted))
	default:
		call.AddMain(in) // for text typed into a running turn, Codex calls the prompt's hook too, with the id of that turn
	}
	return call, nil
}

// contextEvents are the hooks whose answer has a member for context.
var contextEvents = []string{"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart"}

// Answer implements telemetry.Dialect.
func (Hooks) Answer(event, context string) []byte {
	if !slices.Contains(contextEvents, event) {
		return nil
	}
	return telemetry.HookOutput(event, context)
}

// Refuse implements telemetry.Refuser.
func (Hooks) Refuse(event string, _ telemetry.Decision, reason string) []byte {
	return telemetry.RefuseTool(event, telemetry.Deny, reason)
}
