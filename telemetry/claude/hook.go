// Package claude decodes the output of Claude Code: transcripts, print mode's
// stream, the registry file, status line, window title, OTLP logs and the input
// of hooks. It also writes the answers to hooks.
//
//	d := claude.Transcript()
//	signals := d.Decode(line)
package claude

import (
	"bytes"
	"slices"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// Hooks is the dialect of Claude Code's hooks. The status line is a command
// that Claude Code runs like a hook, so it is decoded here too.
type Hooks struct{ telemetry.Waits }

// Decode implements telemetry.Dialect.
func (Hooks) Decode(event string, stdin []byte) (telemetry.HookCall, error) {
	if event == "Statusline" {
		return decodeStatusline(stdin)
	}
	in, err := telemetry.ReadHook(event, stdin)
	if err != nil {
		return telemetry.HookCall{}, err
	}
	in.Turn = in.Prompt // the prompt_id identifies the turn; the turn_id of MessageDisplay does not
	call := telemetry.HookCall{Event: event, Session: in.Session, Turn: in.Turn}
	switch event {
	case "PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "Notification":
		decodeTool(&call, in)
		return call, nil
	case "SubagentStop":
		// The compactor runs as a sub-agent without a type; it is not reported.
		if in.AgentType == "" {
			return call, nil
		}
	}
	switch {
	case in.Agent != "":
		call.Add(in.Signal(telemetry.Alive, in.AgentType))
	case event == "StopFailure":
		s := in.Signal(telemetry.TurnStop, in.Failure)
		s.Outcome, s.Error = telemetry.Failed, errorKind(in.Failure)
		call.Add(s)
	case event == "SessionEnd":
		in.Turn = "" // the prompt_id is that of the command `/exit` or `/clear`, which is not a turn
		call.AddMain(in)
	default:
		call.AddMain(in)
	}
	if event == "UserPromptSubmit" && in.Agent == "" && notification(stdin) {
		for i := range call.Signals {
			call.Signals[i].Origin = telemetry.ByHarness
		}
	}
	if event == "SessionStart" && in.Cause == "compact" && in.Agent == "" {
		// Claude Code calls this hook after each compaction. A compaction within a
		// turn is automatic. The trigger of any other compaction is in the
		// transcript.
		s := in.Signal(telemetry.Compacted, in.Cause)
		s.Compaction = &telemetry.Compaction{Half: "start", Trigger: "unknown", InTurn: "auto"}
		call.Add(s)
	}
	return call, nil
}

// notification reports whether Claude Code itself wrote the prompt, because a
// background agent has ended. Only the beginning of the prompt's text shows this origin.
// A message from another session and a schedule's prompt have no such mark. The origin of
// these prompts is known only from the transcript, which is read a moment later.
func notification(stdin []byte) (own bool) {
	scan.Object(stdin, scan.Func("prompt", func(val []byte) {
		own = bytes.HasPrefix(scan.Inner(val), []byte("<task-notification>"))
	}))
	return own
}

// decodeTool decodes the hooks that also run for the tool calls of a sub-agent.
func decodeTool(call *telemetry.HookCall, in telemetry.HookInput) {
	switch call.Event {
	case "PreToolUse":
		call.Add(in.ToolStart())
		call.Use = in.Use()
		// A hook can answer "ask", so that Claude Code asks the user. In other
		// permission modes than these, Claude Code may decide itself instead.
		call.Use.CanAsk = slices.Contains([]string{"default", "acceptEdits", "plan"}, in.Permissions)
	case "PostToolUse", "PostToolUseFailure":
		s := in.ToolEnd()
		s.ToolError = telemetry.ToolErrorOf(call.Event == "PostToolUseFailure")
		call.Add(s)
		// The main chain's model does not read a sub-agent's tool result. In our
		// tests, context injected after a failed tool never reached the model.
		if call.Event == "PostToolUse" && in.Agent == "" {
			call.Fill(telemetry.SlotTool)
		}
	case "PermissionRequest":
		call.Add(in.Signal(telemetry.NeedsInput, in.ToolName))
	case "Notification":
		kind := telemetry.Alive // idle_prompt is sent a minute after the turn and reports nothing new
		if in.Notice == "permission_prompt" {
			kind = telemetry.NeedsInput
		}
		call.Add(in.Signal(kind, in.Notice))
	}
}

// contextEvents are the hooks whose additional context reached the model in our
// tests without changing the turn. Stop accepts context too, but it then makes
// the model continue, so it is not in the list.
var contextEvents = []string{
	"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "SubagentStart",
}

// Answer implements telemetry.Dialect.
func (Hooks) Answer(event, context string) []byte {
	if !slices.Contains(contextEvents, event) {
		return nil
	}
	return telemetry.HookOutput(event, context)
}

// Refuse implements telemetry.Refuser.
func (Hooks) Refuse(event string, d telemetry.Decision, reason string) []byte {
	return telemetry.RefuseTool(event, d, reason)
}

// errorKind reads the `error` word of StopFailure and of error records. If a prompt
// is too long, the word is invalid_request. Only the error's message is more
// specific, and messages are not read.
func errorKind(word string) telemetry.ErrorKind {
	switch word {
	case "rate_limit":
		return telemetry.ErrRateLimit
	case "server_error", "overloaded":
		return telemetry.ErrServer
	case "authentication_failed", "oauth_org_not_allowed":
		return telemetry.ErrAuth
	case "billing_error":
		return telemetry.ErrBilling
	case "invalid_request", "model_not_found":
		return telemetry.ErrInvalidRequest
	}
	return telemetry.ErrUnknown
}

// failureKind is like errorKind, but for an unknown word it returns the cause
// that the HTTP status of the failed request indicates.
func failureKind(word string, status int64) telemetry.ErrorKind {
	if e := errorKind(word); e != telemetry.ErrUnknown || status == 0 {
		return e
	}
	return telemetry.HTTPError(status)
}
