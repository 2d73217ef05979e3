package telemetry

// codexExec decodes one line of `codex exec --json`. The lines have no time
// and name no turn; a process runs one.
//
// The usage of a turn is that of its thread so far, over earlier processes and,
// in a fork, over its origin too. What this process added cannot be told from
// it, so the thread's whole usage is told as one call that grows.
type codexExec struct {
	tally
	digesting
	session string
}

func (d *codexExec) Decode(record []byte) []Signal {
	var kind, item, used []byte
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			kind = val
		case "thread_id":
			d.session = name(val)
		case "item":
			item = val
		case "usage":
			used = val
		}
		return true
	})
	if !ok || len(kind) == 0 {
		d.miss(malformed)
		return nil
	}
	signal := func(k Kind) Signal {
		return Signal{Kind: k, Source: "stream", Detail: word(kind), Session: d.session}
	}
	switch string(kind) {
	case `"thread.started"`: // a thread that is resumed begins the same way
		s := signal(SessionLive)
		s.Cause = "unknown"
		return []Signal{s}
	case `"turn.started"`:
		return []Signal{signal(Prompt), signal(Working)}
	case `"item.started"`, `"item.completed"`:
		return d.item(signal, item, string(kind) == `"item.started"`)
	case `"item.updated"`:
		return nil
	case `"error"`:
		// That it tries again, and why, is in the message only.
		s := signal(Fault)
		s.Error = ErrUnknown
		return []Signal{s}
	case `"turn.completed"`:
		end := signal(TurnEnd)
		end.Outcome = Completed
		t := readCodexTokens(used)
		if !t.call() {
			return []Signal{end}
		}
		s := signal(UsageSeen)
		s.Usage = t.usage()
		s.Usage.ID, s.Usage.Used = "thread", 0 // a sum says nothing of the context
		return []Signal{s, end}
	case `"turn.failed"`:
		s := signal(TurnEnd)
		s.Outcome, s.Error = Failed, ErrUnknown
		return []Signal{s}
	}
	d.miss(word(kind))
	return nil
}

// item reads what happens within the turn: tools are told.
func (d *codexExec) item(signal func(Kind) Signal, item []byte, started bool) []Signal {
	call := readCodexCall(item)
	switch string(call.kind) {
	case `"command_execution"`, `"mcp_tool_call"`, `"collab_tool_call"`, `"file_change"`, `"web_search"`:
		return []Signal{call.told(signal, started, &d.digesting)}
	case `"agent_message"`, `"reasoning"`, `"todo_list"`, `"error"`:
	default:
		d.miss("item/" + word(call.kind))
	}
	return nil
}

// codexCall is an item of the streams of exec and the app-server: a call of a
// tool with what went in and came out, as far as the item has it.
type codexCall struct {
	kind, tool, args, result, status []byte
	id                               string
}

func readCodexCall(item []byte) codexCall {
	var c codexCall
	members(item, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			c.kind = val
		case "id":
			c.id = name(val)
		case "tool":
			c.tool = val
		case "arguments", "command", "changes", "query":
			c.args = val
		case "result", "aggregated_output", "aggregatedOutput":
			c.result = val
		case "status":
			c.status = val
		}
		return true
	})
	return c
}

// told is the beginning or the end of the call. What is no tool with a name of
// its own has that of its kind.
func (c codexCall) told(signal func(Kind) Signal, started bool, d *digesting) Signal {
	kind := ToolEnd
	if started {
		kind = ToolStart
	}
	s := signal(kind)
	if s.Tool, s.ToolName = c.id, word(c.tool); s.ToolName == "" {
		s.ToolName = word(c.kind)
	}
	if started {
		s.Args = d.sized(c.args)
	} else {
		s.Result, s.ToolError = d.sized(c.result), toolError(codexFailed(c.status))
	}
	return s
}

// codexNotify decodes the one argument that Codex gives the program of its
// setting `notify` when a turn was completed. A turn that answers nobody's
// message (`/compact`) is no prompt's.
type codexNotify struct{ tally }

func (d *codexNotify) Decode(record []byte) []Signal {
	var kind, asked []byte
	s := Signal{Source: "notify"}
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			kind = val
		case "thread-id":
			s.Session = name(val)
		case "turn-id":
			s.Turn = name(val)
		case "input-messages":
			asked = val
		}
		return true
	})
	switch {
	case !ok || len(kind) == 0:
		d.miss(malformed)
		return nil
	case string(kind) != `"agent-turn-complete"`:
		d.miss(word(kind))
		return nil
	}
	s.Detail = "agent-turn-complete"
	end := s
	end.Kind, end.Outcome = TurnEnd, Completed
	messages := 0
	elements(asked, func([]byte) bool { messages++; return false })
	if messages == 0 {
		return []Signal{end}
	}
	s.Kind = Prompt
	return []Signal{s, end}
}

// codexHistory decodes one line of history.jsonl, where the terminal keeps what
// people typed, of all sessions. It tells no end of a turn and no turn's name,
// and its times are whole seconds.
type codexHistory struct{ tally }

func (d *codexHistory) Decode(record []byte) []Signal {
	s := Signal{Kind: Prompt, Source: "history", Detail: "history"}
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "session_id":
			s.Session = name(val)
		case "ts":
			s.At = stampSeconds(val)
		}
		return true
	})
	if !ok || s.Session == "" || s.At.IsZero() {
		d.miss(malformed)
		return nil
	}
	return []Signal{s}
}
