package openclaw

import (
	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// Hooks is the dialect of our own plugin in a launch of OpenClaw. The plugin sends
// the same members as other harnesses' hooks, with OpenClaw's names of hooks. It
// reports one session at a time, and a turn has the id of its run.
type Hooks struct{}

// The hooks whose answer the plugin passes to the model. The answers to sessionStart and
// sessionContext are put before the session's next prompt, the answer to buildPrompt
// after the prompt.
const (
	sessionStart   = "session_start"
	sessionContext = "session_context" // called at the first prompt after a reset that sessionReset has reported
	buildPrompt    = "before_prompt_build"
)

// sessionReset reports a session that the plugin has reset on request (reset.go). The
// plugin defines the events sessionReset and sessionContext; OpenClaw has no such hooks.
const sessionReset = "session_reset"

// Decode implements telemetry.Dialect.
func (Hooks) Decode(event string, stdin []byte) (telemetry.HookCall, error) {
	in, err := telemetry.ReadHook(event, stdin)
	if err != nil {
		return telemetry.HookCall{}, err
	}
	in.Agent = ""
	call := telemetry.HookCall{Event: event, Session: in.Session, Turn: in.Turn}
	switch event {
	case "before_tool_call":
		call.Use = in.Use() // CanAsk is not set, because the plugin only allows or refuses; without an answer it refuses
		if !isTrue(stdin, "aside") {
			call.Add(in.ToolStart())
		}
	case "after_tool_call":
		s := in.ToolEnd()
		s.ToolError = telemetry.ToolErrorOf(isTrue(stdin, "failed"))
		call.Add(s)
	case sessionStart:
		call.Fill(telemetry.SlotSession)
		s := in.SessionLive()
		scan.Object(stdin, scan.Word("version", &s.Version), scan.Path("cwd", &s.Dir))
		call.Add(s)
	case sessionReset:
		call.Add(in.SessionLive())
	case sessionContext:
		call.Fill(telemetry.SlotSession)
		call.Add(in.Signal(telemetry.Alive, ""))
	case buildPrompt:
		call.Fill(telemetry.SlotFrame)
		call.Add(in.Submitted())
	case "model_call_started":
		call.Add(in.Signal(telemetry.Working, ""))
		if w := windowOf(stdin); w > 0 {
			s := in.Signal(telemetry.WindowSeen, "")
			s.ReportWindow(w)
			call.Add(s)
		}
	case "model_call_ended":
		s := in.Signal(telemetry.Fault, in.Failure)
		s.Error = failureKind(in.Failure)
		call.Add(s)
	case "before_agent_finalize":
		call.Add(in.Ended(telemetry.TurnStop, telemetry.Completed))
	case "agent_end":
		callsEnded(&call, in, stdin)
	case "before_compaction":
		call.Add(in.Compacting())
	case "after_compaction":
		call.Add(in.Compacted())
	case "session_end":
		call.Add(in.SessionGone())
	default:
		call.Add(in.Signal(telemetry.Alive, ""))
	}
	return call, nil
}

func isTrue(stdin []byte, member string) (is bool) {
	scan.Object(stdin, scan.True(member, &is))
	return is
}

func windowOf(stdin []byte) (w int64) {
	scan.Object(stdin, scan.Count("contextTokenBudget", &w))
	return w
}

// callsEnded adds the model calls of a run that has ended, and the end of the turn. For
// a run that is not a turn of the user, side is the purpose of the run, and only its model
// calls are reported.
func callsEnded(call *telemetry.HookCall, in telemetry.HookInput, stdin []byte) {
	side := scan.MemberOf(stdin, "side", scan.WordOf)
	end := in.Signal(telemetry.TurnEnd, in.Failure)
	end.Outcome = telemetry.Completed
	if !isTrue(stdin, "success") {
		end.Outcome, end.Error = telemetry.Failed, failureKind(in.Failure)
	}
	scan.Object(stdin, scan.Func("messages", func(val []byte) {
		for _, m := range callsOf(val, in.Turn) {
			s := in.Signal(telemetry.UsageSeen, "")
			s.Model, s.Side, s.Usage = m.model, side, m.call(in.Turn, "")
			if side == "" {
				s.ReportWindow(windowOf(stdin))
			}
			call.Add(s)
		}
		if end.Outcome == telemetry.Failed && aborted(val) {
			end.Outcome, end.Error = telemetry.Interrupted, ""
		}
	}))
	if side == "" {
		call.Add(end)
	}
}

// aborted reports whether the last answer among messages was interrupted.
func aborted(messages []byte) (was bool) {
	scan.Elements(messages, func(val []byte) bool {
		if m := readMessage(val); string(m.role) == `"assistant"` {
			was = string(m.stop) == `"aborted"`
		}
		return true
	})
	return was
}

// failureKind translates OpenClaw's word for the failure of a model call.
func failureKind(word string) telemetry.ErrorKind {
	switch word {
	case "connection_closed", "connection_reset", "terminated", "timeout":
		return telemetry.ErrNetwork
	}
	return telemetry.ErrUnknown
}

// Answer implements telemetry.Dialect.
func (Hooks) Answer(event, context string) []byte {
	switch event {
	case sessionStart, sessionContext, buildPrompt:
		return telemetry.PlainOutput(context)
	}
	return nil
}

// Refuse implements telemetry.Refuser.
func (Hooks) Refuse(_ string, _ telemetry.Decision, reason string) []byte {
	return telemetry.RefusePlain(reason)
}
