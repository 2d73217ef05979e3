package gemini

import (
	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// stream decodes the lines of `gemini -p … --output-format stream-json`, which
// report one session with one prompt. The token counts at the end are not read: they
// are sums over all model calls, including those for other purposes than the
// conversation, and do not show the size of the context.
type stream struct {
	telemetry.Tally
	telemetry.Digests
	session string
	working bool // Working was reported since the newest prompt or tool result
}

// Stream returns a decoder of stream-json lines.
func Stream() telemetry.Decoder { return new(stream) }

func (d *stream) Decode(record []byte) []telemetry.Signal {
	var kind, session, model, role, tool, called, status string
	var failure, args, result []byte
	s := telemetry.Signal{Source: "stream"}
	if !scan.Object(record,
		scan.Word("type", &kind), scan.Time("timestamp", &s.At), scan.Name("session_id", &session), scan.Name("model", &model),
		scan.Word("role", &role), scan.Name("tool_id", &tool), scan.Word("tool_name", &called), scan.Raw("parameters", &args),
		scan.Raw("output", &result), scan.Word("status", &status), scan.Raw("error", &failure)) {
		d.Miss(telemetry.Malformed)
		return nil
	}
	if kind == "init" {
		d.session = session
	}
	s.Session, s.Detail = d.session, kind
	switch kind {
	case "init":
		s.Kind, s.Model = telemetry.SessionLive, model
	case "message":
		if role == "user" {
			s.Kind, s.Detail, d.working = telemetry.Prompt, "message:user", false
			break
		}
		if d.working {
			return nil // a further piece of an answer gives no signal
		}
		s.Kind, s.Detail, d.working = telemetry.Working, "message:assistant", true
	case "tool_use":
		s.Kind, s.Tool, s.ToolName, s.Args = telemetry.ToolStart, tool, called, d.Sized(args)
	case "tool_result":
		s.Kind, s.Tool, s.Result, d.working = telemetry.ToolEnd, tool, d.Sized(result), false
		if status != "success" {
			s.ToolError = toolErrorOf(failure)
		}
	case "error":
		s.Kind, s.Error = telemetry.Fault, telemetry.ErrUnknown // the cause is only in the text, which is not read
	case "result":
		s.Kind, s.Outcome = telemetry.TurnEnd, telemetry.Completed
		if status != "success" {
			s.Outcome, s.Error = failureOf(failure)
		}
	default:
		d.Miss("type/" + kind)
		return nil
	}
	return []telemetry.Signal{s}
}

// toolErrorOf returns the kind of a tool's error.
func toolErrorOf(failure []byte) string {
	switch scan.MemberOf(failure, "type", scan.WordOf) {
	case "tool_not_registered":
		return telemetry.ToolNotFound
	case "invalid_tool_params":
		return telemetry.ToolRefused
	}
	return telemetry.ToolFailed
}

// failureOf returns the outcome and the cause for an error that ended a run.
func failureOf(failure []byte) (telemetry.Outcome, telemetry.ErrorKind) {
	var kind string
	scan.Object(failure, scan.Word("type", &kind))
	switch kind {
	case "FatalCancellationError":
		return telemetry.Interrupted, ""
	case "FatalAuthenticationError":
		return telemetry.Failed, telemetry.ErrAuth
	case "FatalInputError":
		return telemetry.Failed, telemetry.ErrInvalidRequest
	}
	return telemetry.Failed, telemetry.ErrUnknown
}
