package telemetry

import (
	"strings"
	"time"
)

// openclawPlugin decodes the log of a plugin that writes down each hook it is
// called by: the hook's name k, the time t, the event e and its context c. A
// gateway calls all of them, `openclaw agent --local` those of a turn, the
// local terminal none.
//
// The context of a gateway's start holds its whole configuration. It is never
// looked into.
type openclawPlugin struct {
	tally
	digesting
	beside map[string]string // runs that no person asked for, and what did
	ended  map[string]string // why a session ended that another one follows
	window int64
	call   string // the newest call that was told
	last   uint64 // digest of the newest record: one that is there twice is one call
}

// openclawCall is one call of a hook, with its event not yet read.
type openclawCall struct {
	hook                       string
	at                         time.Time
	event                      []byte
	session, run, trigger, dir string
	model                      string
}

func (d *openclawPlugin) Decode(record []byte) []Signal {
	this := digest(record)
	if this == d.last {
		return nil
	}
	d.last = this
	var c openclawCall
	var context []byte
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "k":
			c.hook = word(val)
		case "t":
			c.at = stampMilli(val)
		case "e":
			c.event = val
		case "c":
			context = val
		}
		return true
	})
	if !ok || c.hook == "" {
		d.miss(malformed)
		return nil
	}
	if c.hook == "gateway_start" || c.hook == "gateway_stop" {
		return nil // the harness, and no session of it
	}
	members(context, func(key, val []byte) bool {
		switch string(key) {
		case "sessionId":
			c.session = name(val)
		case "runId":
			c.run = name(val)
		case "trigger":
			c.trigger = word(val)
		case "workspaceDir":
			c.dir = path(val)
		case "modelId":
			c.model = name(val)
		}
		return true
	})
	return d.hook(c)
}

// signal starts a signal told by the call.
func (c openclawCall) signal(kind Kind) Signal {
	return Signal{Kind: kind, Source: "hook", Detail: c.hook, At: c.at, Session: c.session, Turn: c.run}
}

func (d *openclawPlugin) hook(c openclawCall) []Signal {
	if c.run != "" && !openclawPerson(c.trigger) {
		if d.beside == nil || len(d.beside) >= openclawRuns {
			d.beside = make(map[string]string)
		}
		d.beside[c.run] = c.trigger
	}
	what, beside := d.beside[c.run]
	if run, _, side := strings.Cut(c.run, ":compaction:"); side {
		c.run, what, beside = run, "compaction", true
	}
	switch c.hook {
	case "session_start":
		return d.sessionStart(c)
	case "session_end":
		return d.sessionEnd(c)
	case "before_compaction":
		return []Signal{c.signal(Compacting)} // it may still fail
	case "after_compaction":
		s := c.signal(Compacted)
		s.Compaction = &Compaction{Half: "hook", Trigger: "unknown"}
		return []Signal{s}
	case "llm_output":
		return d.output(c, what)
	case "agent_turn_prepare", "before_prompt_build", "before_agent_run", "llm_input", "model_call_started", "model_call_ended",
		"before_agent_finalize", "agent_end", "before_tool_call", "after_tool_call", "before_reset":
	default:
		d.miss(c.hook)
		return nil
	}
	if beside {
		if c.hook == "agent_end" {
			return d.calls(c, what)
		}
		return nil
	}
	switch c.hook {
	case "agent_turn_prepare":
		return []Signal{c.signal(Prompt)}
	case "model_call_started":
		return append([]Signal{c.signal(Working)}, d.windowSeen(c)...)
	case "model_call_ended":
		if member(c.event, "outcome", word) == "error" {
			s := c.signal(Fault)
			s.Error = ErrUnknown
			return []Signal{s}
		}
	case "before_tool_call", "after_tool_call":
		return c.tool(&d.digesting)
	case "before_agent_finalize":
		s := c.signal(TurnStop)
		s.Outcome = Completed
		return []Signal{s}
	case "agent_end":
		return append(d.calls(c, ""), c.end())
	}
	return nil
}

// sessionStart tells a new session. A reset that keeps the session's id looks
// like its being taken up again; what ended it says which.
func (d *openclawPlugin) sessionStart(c openclawCall) []Signal {
	s := c.signal(SessionLive)
	s.Cause = "startup"
	if from := member(c.event, "resumedFrom", name); from != "" {
		s.Cause = "resume"
		switch d.ended[from] {
		case "reset", "new", "idle", "daily":
			s.Cause = "clear"
		case "compaction":
			s.Cause = "compact"
		}
		delete(d.ended, from)
	}
	return []Signal{s}
}

// sessionEnd tells that a session is over. One that the next one follows under
// the same id is told by the start of that.
func (d *openclawPlugin) sessionEnd(c openclawCall) []Signal {
	reason, next := member(c.event, "reason", word), member(c.event, "nextSessionId", name)
	if next != "" {
		if d.ended == nil || len(d.ended) >= openclawRuns {
			d.ended = make(map[string]string)
		}
		d.ended[c.session] = reason
		if next == c.session {
			return nil
		}
	}
	s := c.signal(SessionGone)
	s.Reason = reason
	return []Signal{s}
}

// windowSeen tells the window that a call was made with, when it is news.
func (d *openclawPlugin) windowSeen(c openclawCall) []Signal {
	w := c.window()
	if w == 0 || w == d.window {
		return nil
	}
	d.window = w
	s := c.signal(WindowSeen)
	s.Window, s.WindowSource = w, "reported"
	return []Signal{s}
}

func (c openclawCall) window() (w int64) {
	members(c.event, func(key, val []byte) bool {
		if string(key) == "contextTokenBudget" {
			w = count(val)
		}
		return true
	})
	return w
}

// calls tells the calls of a run that has ended, from the session's messages.
func (d *openclawPlugin) calls(c openclawCall, side string) []Signal {
	var out []Signal
	members(c.event, func(key, val []byte) bool {
		if string(key) != "messages" {
			return true
		}
		for _, m := range openclawCalls(val, c.run) {
			out = append(out, d.usage(c, m, side))
		}
		return false
	})
	return out
}

func (d *openclawPlugin) usage(c openclawCall, m openclawMessage, side string) Signal {
	d.call = c.run + " " + m.response
	s := c.signal(UsageSeen)
	s.Model, s.Side, s.Usage = m.model, side, m.call(c.run, "")
	if d.window > 0 && side == "" {
		s.Window, s.WindowSource = d.window, "reported"
	}
	return s
}

// output tells the last call of a run, unless the run's end told it.
func (d *openclawPlugin) output(c openclawCall, side string) []Signal {
	var last []byte
	members(c.event, func(key, val []byte) bool {
		if string(key) == "lastAssistant" {
			last = val
		}
		return true
	})
	if side == "" {
		if w := c.window(); w > 0 {
			d.window = w
		}
	}
	m := readOpenclawMessage(last)
	if m.usage == nil || m.response == "" || d.call == c.run+" "+m.response {
		return nil
	}
	return []Signal{d.usage(c, m, side)}
}

func (c openclawCall) tool(d *digesting) []Signal {
	s := c.signal(ToolStart)
	var args, result []byte
	failed := false
	members(c.event, func(key, val []byte) bool {
		switch string(key) {
		case "toolCallId":
			s.Tool = name(val)
		case "toolName":
			s.ToolName = word(val)
		case "params":
			args = val
		case "result":
			result = val
		case "error":
			failed = !isNull(val)
		}
		return true
	})
	if s.Tool == "" {
		return nil
	}
	if c.hook == "before_tool_call" {
		s.Args = d.sized(args)
		return []Signal{s}
	}
	s.Kind, s.Result, s.ToolError = ToolEnd, d.sized(result), toolError(failed)
	return []Signal{s}
}

// end tells how a run ended. Of one that did not succeed the last answer says
// whether somebody stopped it.
func (c openclawCall) end() Signal {
	s := c.signal(TurnEnd)
	var success, told bool
	var stop []byte
	members(c.event, func(key, val []byte) bool {
		switch string(key) {
		case "success":
			success, told = isTrue(val), true
		case "messages":
			elements(val, func(val []byte) bool {
				if m := readOpenclawMessage(val); string(m.role) == `"assistant"` {
					stop = m.stop
				}
				return true
			})
		}
		return true
	})
	switch {
	case success:
		s.Outcome = Completed
	case !told:
	case string(stop) == `"aborted"`:
		s.Outcome = Interrupted
	default:
		s.Outcome, s.Error = Failed, ErrUnknown
	}
	return s
}
