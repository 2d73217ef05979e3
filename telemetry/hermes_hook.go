package telemetry

import "fmt"

// hermesHook decodes what Hermes gives a shell hook: a few members of its own,
// and below extra what the event has beside. Hermes names its events as seen
// from the model: a "session" starts with the first turn and "ends" with every
// turn; on_session_finalize is the end of the session.
//
// All of it is read from Hermes's source. It was never run.
func hermesHook(event string, stdin []byte) (HookCall, error) {
	in, err := readHermes(event, stdin)
	if err != nil {
		return HookCall{}, err
	}
	call := HookCall{Event: event, Session: in.session, Turn: in.turn}
	sign := func(kind Kind) Signal {
		s := Signal{Kind: kind, Source: "hook", Detail: event, Session: in.session, Turn: in.turn, Agent: in.agent}
		if in.agent != "" {
			s.Session = "" // whose sub-agent it is, is not told here
		}
		return s
	}
	switch event {
	case "on_session_start", "on_session_reset":
		s := sign(SessionLive)
		s.Turn, s.Cause, s.Dir, s.Model = "", "startup", in.dir, in.model
		if event == "on_session_reset" {
			s.Cause = "clear"
		}
		call.tell(s)
	case "on_session_finalize":
		s := sign(SessionGone)
		s.Turn, s.Reason = "", in.reason
		call.tell(s)
	case "pre_llm_call":
		// Once a turn, after any compaction: what is answered is put behind the
		// prompt.
		if in.agent != "" {
			call.tell(sign(Working)) // asked by the session, not by a person
			break
		}
		call.fill(slotFrame)
		call.tell(sign(Prompt))
	case "pre_api_request":
		call.tell(sign(Working))
	case "post_api_request":
		in.usage.ID = in.request
		call.tell(in.used(sign(UsageSeen)))
	case "api_request_error":
		call.tell(in.refused(sign(Fault)))
	case "post_llm_call":
		s := sign(TurnStop)
		s.Outcome = Completed // it is called for nothing else
		call.tell(s)
	case "on_session_end":
		call.tell(in.ended(sign(TurnEnd)))
	case "pre_tool_call", "post_tool_call":
		call.tell(in.toolCall(sign(ToolStart), event == "post_tool_call"))
	case "pre_approval_request":
		if in.surface == "smart" {
			call.tell(sign(Alive)) // a model is asked, and no person
			break
		}
		call.tell(sign(NeedsInput))
	case "post_approval_response":
		call.tell(sign(Working))
	case "post_auxiliary_call":
		// That a summary was written does not say that it is used: a compression's
		// calls are told as what they cost, and no hook tells the compaction.
		in.usage.ID = in.request
		s := sign(UsageSeen)
		if s.Side = in.task; s.Side == "" {
			s.Side = "auxiliary"
		}
		call.tell(in.used(s))
	default:
		call.tell(sign(Alive))
	}
	return call, nil
}

// hermesInput is what is read of a hook's input.
type hermesInput struct {
	event, session, agent, dir            string
	turn, request, tool, toolName, model  string
	toolInput                             []byte
	reason, task, surface, platform       string
	usage                                 Usage
	window, status                        int64
	completed, failed, interrupted, retry bool
	told                                  bool // how the turn ended was told
}

func readHermes(event string, stdin []byte) (hermesInput, error) {
	var in hermesInput
	ok := members(stdin, func(key, val []byte) bool {
		switch string(key) {
		case "hook_event_name":
			in.event = word(val)
		case "session_id":
			in.session = name(val)
		case "cwd":
			in.dir = path(val)
		case "tool_name":
			in.toolName = word(val)
		case "tool_input":
			in.toolInput = val
		case "extra":
			in.readExtra(val)
		}
		return true
	})
	if !ok {
		return in, fmt.Errorf("read input of hook %s: it is not a JSON object", event)
	}
	if in.event != "" && in.event != event {
		return in, fmt.Errorf("read input of hook %s: it says that it is of hook %s", event, in.event)
	}
	// An approval and a call beside the main chain may belong to no session.
	switch event {
	case "pre_approval_request", "post_approval_response", "pre_auxiliary_call", "post_auxiliary_call":
	default:
		if in.session == "" {
			return in, fmt.Errorf("read input of hook %s: it names no session", event)
		}
	}
	if in.platform == "subagent" {
		in.agent = in.session
	}
	return in, nil
}

func (in *hermesInput) readExtra(extra []byte) {
	members(extra, func(key, val []byte) bool {
		switch string(key) {
		case "turn_id":
			in.turn = name(val)
		case "api_request_id":
			in.request = name(val)
		case "tool_call_id":
			in.tool = name(val)
		case "model":
			in.model = name(val)
		case "reason":
			in.reason = word(val)
		case "aux_task":
			in.task = word(val)
		case "surface":
			in.surface = word(val)
		case "platform":
			in.platform = word(val)
		case "context_length":
			in.window = count(val)
		case "status_code":
			in.status = count(val)
		case "retryable":
			in.retry = isTrue(val)
		case "completed":
			in.completed, in.told = isTrue(val), true
		case "failed":
			in.failed, in.told = isTrue(val), true
		case "interrupted":
			in.interrupted, in.told = isTrue(val), true
		case "usage":
			in.usage = hermesUsage(val)
		}
		return true
	})
}

// hermesUsage reads the tokens of one call. Hermes counts cached tokens beside
// the input, and prompt_tokens is all of what went to the model.
func hermesUsage(val []byte) Usage {
	var u Usage
	var prompt int64
	members(val, func(key, val []byte) bool {
		switch string(key) {
		case "input_tokens":
			u.Input = count(val)
		case "output_tokens":
			u.Output = count(val)
		case "cache_read_tokens":
			u.CacheRead = count(val)
		case "cache_write_tokens":
			u.CacheWrite = count(val)
		case "reasoning_tokens":
			u.Reasoning = count(val)
		case "prompt_tokens":
			prompt = count(val)
		}
		return true
	})
	if u.Used = u.Input + u.CacheRead + u.CacheWrite; u.Used == 0 {
		u.Used = prompt
	}
	return u
}

// used makes s tell the call's usage; without one it is a sign of life.
func (in *hermesInput) used(s Signal) Signal {
	if in.usage.Used == 0 {
		s.Kind, s.Side = Alive, ""
		return s
	}
	s.Model, s.Usage = in.model, &in.usage
	if in.window > 0 && s.Side == "" {
		s.Window, s.WindowSource = in.window, "reported"
	}
	return s
}

// refused reads a request that failed. Hermes waits and tries again where it
// calls the failure retryable.
func (in *hermesInput) refused(s Signal) Signal {
	s.Error = httpError(in.status)
	if in.retry && (s.Error == ErrRateLimit || s.Error == ErrServer) {
		s.Kind = LimitWait
	}
	return s
}

func (in *hermesInput) ended(s Signal) Signal {
	switch {
	case in.interrupted:
		s.Outcome = Interrupted
	case in.completed && !in.failed:
		s.Outcome = Completed
	case in.told:
		s.Outcome, s.Error = Failed, ErrUnknown
	}
	return s
}

// toolCall tells a tool's start or end. These hooks do not say whether the
// session that they name is a sub-agent's, so the signal names none: what a
// sub-agent does happens inside a tool call of the session.
func (in *hermesInput) toolCall(s Signal, over bool) Signal {
	s.Session, s.Turn, s.Tool = "", "", in.tool
	switch {
	case in.tool == "":
		s.Kind = Alive
		return s
	case over:
		s.Kind = ToolEnd
	default:
		s.Args = sized(in.toolInput)
	}
	s.ToolName = in.toolName
	return s
}
