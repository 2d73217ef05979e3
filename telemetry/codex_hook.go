package telemetry

// codexHook decodes a hook call of Codex. Codex tells no failed turn to any
// hook: those are in the rollout alone.
func codexHook(event string, stdin []byte) (HookCall, error) {
	in, err := readHook(event, stdin)
	if err != nil {
		return HookCall{}, err
	}
	call := HookCall{Event: event, Session: in.session, Turn: in.turn}
	base := Signal{Source: "hook", Session: in.session, Turn: in.turn, Agent: in.agent}
	sign := func(kind Kind, variant string) Signal {
		s := base
		s.Kind, s.Detail = kind, detail(event, variant)
		return s
	}

	switch event {
	case "PreToolUse":
		call.tell(in.begun(sign(ToolStart, in.toolName)))
		return call, nil
	case "PostToolUse":
		call.tell(in.over(sign(ToolEnd, in.toolName)))
		if in.agent == "" {
			call.fill(slotTool)
		}
		return call, nil
	case "PermissionRequest":
		call.tell(sign(NeedsInput, in.toolName))
		return call, nil
	}
	if in.agent != "" {
		s := sign(Alive, in.agentType)
		if event == "SubagentStart" { // at its stop the path is its parent's again
			s.Path = in.path
		}
		call.tell(s)
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
		s.Reason = in.reason
		call.tell(s)
	case "UserPromptSubmit":
		// Text typed into a running turn comes here too, with the turn's own id.
		call.fill(slotFrame)
		s := sign(Prompt, "")
		s.Path = in.path
		call.tell(s)
	case "Stop":
		s := sign(TurnStop, "")
		s.Outcome = Completed
		call.tell(s)
	case "Interrupt":
		s := sign(TurnEnd, "")
		s.Outcome = Interrupted
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
