package telemetry

// geminiStream decodes one line of `gemini -p … --output-format stream-json`:
// one session, one prompt, one end. The figures at the end are sums of all
// calls, those beside the main chain too, and say nothing of the context.
type geminiStream struct {
	tally
	digesting
	session string
	working bool // told since the newest prompt or result of a tool
}

func (d *geminiStream) Decode(record []byte) []Signal {
	var kind, session, model, role, tool, called, status string
	var failure, args, result []byte
	s := Signal{Source: "stream"}
	if !members(record, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			kind = word(val)
		case "timestamp":
			s.At = stamp(val)
		case "session_id":
			session = name(val)
		case "model":
			model = name(val)
		case "role":
			role = word(val)
		case "tool_id":
			tool = name(val)
		case "tool_name":
			called = word(val)
		case "parameters":
			args = val
		case "output":
			result = val
		case "status":
			status = word(val)
		case "error":
			failure = val
		}
		return true
	}) {
		d.miss(malformed)
		return nil
	}
	if kind == "init" {
		d.session = session
	}
	s.Session, s.Detail = d.session, kind
	switch kind {
	case "init":
		s.Kind, s.Model = SessionLive, model
	case "message":
		if role == "user" {
			s.Kind, s.Detail, d.working = Prompt, "message:user", false
			break
		}
		if d.working {
			return nil // one of many pieces of an answer
		}
		s.Kind, s.Detail, d.working = Working, "message:assistant", true
	case "tool_use":
		s.Kind, s.Tool, s.ToolName, s.Args = ToolStart, tool, called, d.sized(args)
	case "tool_result":
		s.Kind, s.Tool, s.Result, d.working = ToolEnd, tool, d.sized(result), false
		if status != "success" {
			s.ToolError = geminiToolError(failure)
		}
	case "error":
		s.Kind, s.Error = Fault, ErrUnknown // the cause is told in a sentence only
	case "result":
		s.Kind, s.Outcome = TurnEnd, Completed
		if status != "success" {
			s.Outcome, s.Error = geminiFailure(failure)
		}
	default:
		d.miss("type/" + kind)
		return nil
	}
	return []Signal{s}
}

// geminiToolError reads the kind of an error that a tool had.
func geminiToolError(failure []byte) string {
	switch member(failure, "type", word) {
	case "tool_not_registered":
		return ToolNotFound
	case "invalid_tool_params":
		return ToolRefused
	}
	return ToolFailed
}

// geminiFailure reads the kind of an error that ended a run.
func geminiFailure(failure []byte) (Outcome, ErrorKind) {
	var kind string
	members(failure, func(key, val []byte) bool {
		if string(key) == "type" {
			kind = word(val)
		}
		return true
	})
	switch kind {
	case "FatalCancellationError":
		return Interrupted, ""
	case "FatalAuthenticationError":
		return Failed, ErrAuth
	case "FatalInputError":
		return Failed, ErrInvalidRequest
	}
	return Failed, ErrUnknown
}
