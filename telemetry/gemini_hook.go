package telemetry

// geminiHook decodes a hook call of Gemini CLI. It names no turn to its hooks,
// and no tool call. It tells a time with each, but that is the time of the
// call, which we hear anyway.
func geminiHook(event string, stdin []byte) (HookCall, error) {
	in, err := readHook(event, stdin)
	if err != nil {
		return HookCall{}, err
	}
	call := HookCall{Event: event, Session: in.session}
	sign := func(kind Kind, variant string) Signal {
		return Signal{Kind: kind, Source: "hook", Detail: detail(event, variant), Session: in.session}
	}

	switch event {
	case "SessionStart":
		// What is answered behind `/clear` is shown to nobody.
		if in.cause != "clear" {
			call.fill(slotSession)
		}
		if in.cause == "resume" {
			in.path = "" // a stub that is not written again; the prompt's hook names the file
		}
		call.tell(in.sessionLive(sign(SessionLive, in.cause)))
	case "SessionEnd":
		s := sign(SessionGone, in.reason)
		s.Reason = in.reason
		call.tell(s)
	case "BeforeAgent":
		call.fill(slotFrame)
		s := sign(Prompt, "")
		s.Path = in.path
		call.tell(s)
	case "AfterAgent":
		// It comes after an answer, after Esc and after an error of the API all
		// the same, so it says that the turn stopped and not how.
		call.tell(sign(TurnStop, ""))
	case "BeforeTool":
		call.tell(in.begun(sign(ToolStart, in.toolName)))
	case "AfterTool":
		call.fill(slotTool)
		call.tell(in.over(sign(ToolEnd, in.toolName)))
	case "Notification":
		if in.notice == "ToolPermission" {
			call.tell(sign(NeedsInput, in.notice))
		} else {
			call.tell(sign(Alive, in.notice))
		}
	case "PreCompress":
		// It comes before every request to the model, compaction or not.
		call.tell(sign(Alive, in.trigger))
	default:
		call.tell(sign(Alive, ""))
	}
	return call, nil
}
