package telemetry

// claudeHook decodes a hook call of Claude Code. The status line is a command
// that Claude Code runs like a hook, so it comes through the same door.
func claudeHook(event string, stdin []byte) (HookCall, error) {
	if event == "Statusline" {
		return claudeStatuslineCall(stdin)
	}
	in, err := readHook(event, stdin)
	if err != nil {
		return HookCall{}, err
	}
	call := HookCall{Event: event, Session: in.session, Turn: in.prompt}
	base := Signal{Source: "hook", Detail: event, Session: in.session, Turn: in.prompt, Agent: in.agent}
	sign := func(kind Kind, variant string) Signal {
		s := base
		s.Kind, s.Detail = kind, detail(event, variant)
		return s
	}

	switch event {
	case "PreToolUse":
		call.tell(in.begun(sign(ToolStart, in.toolName)))
		return call, nil
	case "PostToolUse", "PostToolUseFailure":
		s := in.over(sign(ToolEnd, in.toolName))
		s.ToolError = toolError(event == "PostToolUseFailure")
		call.tell(s)
		// A sub-agent's tool result is not read by the main chain's model. What
		// is injected after a failed tool was never seen to arrive.
		if event == "PostToolUse" && in.agent == "" {
			call.fill(slotTool)
		}
		return call, nil
	case "PermissionRequest":
		call.tell(sign(NeedsInput, in.toolName))
		return call, nil
	case "Notification":
		if in.notice == "permission_prompt" {
			call.tell(sign(NeedsInput, in.notice))
		} else {
			// idle_prompt comes a minute after the turn: a sign of life, no news.
			call.tell(sign(Alive, in.notice))
		}
		return call, nil
	case "SubagentStop":
		// The compactor runs as a sub-agent without a type; it is none.
		if in.agentType == "" {
			return call, nil
		}
	}
	if in.agent != "" {
		call.tell(sign(Alive, in.agentType))
		return call, nil
	}

	switch event {
	case "SessionStart":
		call.fill(slotSession)
		if in.cause == "compact" {
			return call, nil // the same session goes on with a rewritten context
		}
		call.tell(in.sessionLive(sign(SessionLive, in.cause)))
	case "SessionEnd":
		s := sign(SessionGone, in.reason)
		s.Turn, s.Reason = "", in.reason // its prompt_id is that of `/exit` or `/clear`, no turn
		call.tell(s)
	case "UserPromptSubmit":
		call.fill(slotFrame)
		s := sign(Prompt, "")
		s.Path = in.path // after --fork-session this is the first sight of the new file
		call.tell(s)
	case "Stop":
		s := sign(TurnStop, "")
		s.Outcome = Completed
		call.tell(s)
	case "StopFailure":
		s := sign(TurnStop, in.failure)
		s.Outcome, s.Error = Failed, claudeError(in.failure)
		call.tell(s)
	case "PreCompact":
		s := sign(Compacting, in.trigger)
		s.Compaction = &Compaction{Trigger: trigger(in.trigger)}
		call.tell(s)
	case "PostCompact":
		s := sign(Compacted, in.trigger)
		s.Compaction = &Compaction{Half: "hook", Trigger: trigger(in.trigger)}
		call.tell(s)
	default:
		call.tell(sign(Alive, ""))
	}
	return call, nil
}

// sessionLive completes a session_live signal from a SessionStart hook.
func (in hookInput) sessionLive(s Signal) Signal {
	s.Turn = ""
	s.Cause = cause(in.cause)
	s.Path = in.path
	s.Model = in.model
	s.Window, s.WindowSource = ModelWindow(in.model)
	return s
}

// claudeError reads the `error` word of StopFailure and of error records.
// A prompt that is too long is told as invalid_request, and only its message
// says more: a message is not a cause.
func claudeError(word string) ErrorKind {
	switch word {
	case "rate_limit":
		return ErrRateLimit
	case "server_error", "overloaded":
		return ErrServer
	case "authentication_failed", "oauth_org_not_allowed":
		return ErrAuth
	case "billing_error":
		return ErrBilling
	case "invalid_request", "model_not_found":
		return ErrInvalidRequest
	}
	return ErrUnknown
}

// claudeFailure is claudeError where the status of the failed request is told
// as well, which says more than "unknown".
func claudeFailure(word string, status int64) ErrorKind {
	if e := claudeError(word); e != ErrUnknown || status == 0 {
		return e
	}
	return httpError(status)
}
