package opencode

import "lifeloop/telemetry"

// Hooks is the dialect of our own plugin for OpenCode. The plugin sends the same
// members as other harnesses' hooks, with OpenCode's names of events. A turn has
// the id of the message that began it. A launch with --policy loads a second plugin,
// which calls toolHook to ask whether each tool call is allowed.
type Hooks struct{}

// toolHook is the hook that can refuse a tool. A call of toolHook gives no signals,
// because the store and our plugin in OpenCode's terminal interface report the tool calls.
const toolHook = "tool.execute.before"

// Decode implements telemetry.Dialect.
func (Hooks) Decode(event string, stdin []byte) (telemetry.HookCall, error) {
	in, err := telemetry.ReadHook(event, stdin)
	if err != nil {
		return telemetry.HookCall{}, err
	}
	call := telemetry.HookCall{Event: event, Session: in.Session, Turn: in.Turn}
	in.Agent = ""
	s := in.Signal(telemetry.Alive, "")

	switch event {
	case toolHook:
		call.Use = in.Use() // CanAsk is not set, because no answer to this hook makes OpenCode ask its user
		return call, nil
	case "session.created":
		// A session is created when its first prompt is sent: after the program's start,
		// after `/new` or after a fork.
		s.Kind, s.Cause, s.Turn = telemetry.SessionLive, telemetry.CauseOf(""), ""
	case "chat.message":
		call.Fill(telemetry.SlotFrame)
		s.Kind = telemetry.Prompt
	case "session.idle":
		s.Kind, s.Detail = telemetry.TurnEnd, telemetry.DetailOf(event, in.Failure)
		switch in.Failure {
		case "":
			s.Outcome = telemetry.Completed
		case "MessageAbortedError":
			s.Outcome = telemetry.Interrupted
		default:
			s.Outcome, s.Error = telemetry.Failed, errorKind(in.Failure)
		}
	case "session.compacted":
		s.Kind, s.Compaction = telemetry.Compacted, &telemetry.Compaction{Half: "hook", Trigger: telemetry.TriggerOf("")}
	}
	call.Add(s)
	return call, nil
}

// Answer implements telemetry.Dialect.
func (Hooks) Answer(event, context string) []byte {
	switch event {
	case "chat.message":
		return telemetry.PlainOutput(context)
	case sessionRequest, promptRequest, freshSession:
		return []byte(context) // the whole answer is text for OpenCode
	}
	return nil
}

// Refuse implements telemetry.Refuser.
func (Hooks) Refuse(_ string, _ telemetry.Decision, reason string) []byte {
	return telemetry.RefusePlain(reason)
}

// errorKind translates the name of an OpenCode error. For APIError it returns
// ErrUnknown, because that name alone does not show the cause.
func errorKind(name string) telemetry.ErrorKind {
	if name == "ProviderAuthError" {
		return telemetry.ErrAuth
	}
	return telemetry.ErrUnknown
}
