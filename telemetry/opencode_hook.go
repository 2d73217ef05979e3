package telemetry

// opencodeHook decodes a call of our own plugin for OpenCode. The plugin speaks
// in the members of other harnesses' hooks and in OpenCode's names of events.
// A turn is named by the id of the message that began it.
func opencodeHook(event string, stdin []byte) (HookCall, error) {
	in, err := readHook(event, stdin)
	if err != nil {
		return HookCall{}, err
	}
	call := HookCall{Event: event, Session: in.session, Turn: in.turn}
	s := Signal{Source: "hook", Detail: event, Session: in.session, Turn: in.turn}

	switch event {
	case "session.created":
		// The first prompt makes a session, whether it is the first of the
		// program, or comes after `/new` or a fork.
		s.Kind, s.Cause, s.Turn = SessionLive, cause(""), ""
	case "chat.message":
		call.fill(slotFrame)
		s.Kind = Prompt
	case "session.idle":
		s.Kind, s.Detail = TurnEnd, detail(event, in.failure)
		switch in.failure {
		case "":
			s.Outcome = Completed
		case "MessageAbortedError":
			s.Outcome = Interrupted
		default:
			s.Outcome, s.Error = Failed, opencodeError(in.failure)
		}
	case "session.compacted":
		s.Kind, s.Compaction = Compacted, &Compaction{Half: "hook", Trigger: trigger("")}
	default:
		s.Kind = Alive
	}
	call.tell(s)
	return call, nil
}

// opencodeError reads the name of an error. An APIError may be anything that a
// provider answers.
func opencodeError(name string) ErrorKind {
	if name == "ProviderAuthError" {
		return ErrAuth
	}
	return ErrUnknown
}
