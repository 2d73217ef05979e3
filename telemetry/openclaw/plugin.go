package openclaw

import (
	"strings"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// plugin decodes the log of a plugin that records each call of its hooks: the
// hook's name k, the time t, the event e and its context c. A gateway calls all
// hooks, `openclaw agent --local` calls those of a turn, and the local terminal
// calls none.
//
// The context of the hook at a gateway's start contains the whole
// configuration, which is never read.
type plugin struct {
	telemetry.Tally
	telemetry.Digests
	beside map[string]string // triggers of the runs that the user did not ask for
	ended  map[string]string // the reason why each session ended, by its id, until sessionStart reports the next session
	window int64
	call   string // ids of the run and the response of the newest model call that was reported
	last   uint64 // hash of the newest record: a record that repeats it is the same call of a hook
}

// call is one call of a hook, with its event not yet decoded.
type call struct {
	hook                       string
	at                         time.Time
	event                      []byte
	session, run, trigger, dir string
	model                      string
}

// Plugin returns a decoder of the lines in which a plugin logs the calls of its hooks.
func Plugin() telemetry.Decoder { return new(plugin) }

func (d *plugin) Decode(record []byte) []telemetry.Signal {
	this := scan.Hash(record)
	if this == d.last {
		return nil
	}
	d.last = this
	var c call
	var context []byte
	ok := scan.Object(record,
		scan.Word("k", &c.hook), scan.Milli("t", &c.at), scan.Raw("e", &c.event), scan.Raw("c", &context))
	if !ok || c.hook == "" {
		d.Miss(telemetry.Malformed)
		return nil
	}
	if c.hook == "gateway_start" || c.hook == "gateway_stop" {
		return nil // these hooks concern the harness, not a session
	}
	scan.Object(context,
		scan.Name("sessionId", &c.session), scan.Name("runId", &c.run), scan.Word("trigger", &c.trigger),
		scan.Path("workspaceDir", &c.dir), scan.Name("modelId", &c.model))
	return d.hook(c)
}

// signal returns a signal of this kind, with the fields that the call
// determines.
func (c call) signal(kind telemetry.Kind) telemetry.Signal {
	return telemetry.Signal{Kind: kind, Source: "hook", Detail: c.hook, At: c.at, Session: c.session, Turn: c.run}
}

func (d *plugin) hook(c call) []telemetry.Signal {
	if c.run != "" && !byUser(c.trigger) {
		remember(&d.beside, c.run, c.trigger)
	}
	trigger, beside := d.beside[c.run]
	if run, _, side := strings.Cut(c.run, ":compaction:"); side {
		c.run, trigger, beside = run, "compaction", true
	}
	switch c.hook {
	case "session_start":
		return d.sessionStart(c)
	case "session_end":
		return d.sessionEnd(c)
	case "before_compaction":
		return []telemetry.Signal{c.signal(telemetry.Compacting)} // a compaction that begins may still fail
	case "after_compaction":
		s := c.signal(telemetry.Compacted)
		s.Compaction = &telemetry.Compaction{Half: "hook", Trigger: "unknown"}
		return []telemetry.Signal{s}
	case "llm_output":
		return d.output(c, trigger)
	case "agent_turn_prepare", "before_prompt_build", "before_agent_run", "llm_input", "model_call_started", "model_call_ended",
		"before_agent_finalize", "agent_end", "before_tool_call", "after_tool_call", "before_reset":
	default:
		d.Miss(c.hook)
		return nil
	}
	if beside {
		if c.hook == "agent_end" {
			return d.calls(c, trigger)
		}
		return nil
	}
	switch c.hook {
	case "agent_turn_prepare":
		return []telemetry.Signal{c.signal(telemetry.Prompt)}
	case "model_call_started":
		return append([]telemetry.Signal{c.signal(telemetry.Working)}, d.windowSeen(c)...)
	case "model_call_ended":
		if scan.MemberOf(c.event, "outcome", scan.WordOf) == "error" {
			s := c.signal(telemetry.Fault)
			s.Error = telemetry.ErrUnknown
			return []telemetry.Signal{s}
		}
	case "before_tool_call", "after_tool_call":
		return c.tool(&d.Digests)
	case "before_agent_finalize":
		s := c.signal(telemetry.TurnStop)
		s.Outcome = telemetry.Completed
		return []telemetry.Signal{s}
	case "agent_end":
		return append(d.calls(c, ""), c.end())
	}
	return nil
}

// sessionStart reports a new session. A reset that keeps the session's id looks
// like a resume. The reason why the previous session ended distinguishes the two.
func (d *plugin) sessionStart(c call) []telemetry.Signal {
	s := c.signal(telemetry.SessionLive)
	s.Cause = "startup"
	if from := scan.MemberOf(c.event, "resumedFrom", scan.NameOf); from != "" {
		s.Cause = "resume"
		switch d.ended[from] {
		case "reset", "new", "idle", "daily":
			s.Cause = "clear"
		case "compaction":
			s.Cause = "compact"
		}
		delete(d.ended, from)
	}
	return []telemetry.Signal{s}
}

// sessionEnd reports that a session has ended, unless the next session has the
// same id; then sessionStart reports the change.
func (d *plugin) sessionEnd(c call) []telemetry.Signal {
	reason, next := scan.MemberOf(c.event, "reason", scan.WordOf), scan.MemberOf(c.event, "nextSessionId", scan.NameOf)
	if next != "" {
		remember(&d.ended, c.session, reason)
		if next == c.session {
			return nil
		}
	}
	s := c.signal(telemetry.SessionGone)
	s.Reason = reason
	return []telemetry.Signal{s}
}

// windowSeen reports the context window of a model call if it changed.
func (d *plugin) windowSeen(c call) []telemetry.Signal {
	w := c.window()
	if w == 0 || w == d.window {
		return nil
	}
	d.window = w
	s := c.signal(telemetry.WindowSeen)
	s.Window, s.WindowSource = w, "reported"
	return []telemetry.Signal{s}
}

func (c call) window() (w int64) {
	scan.Object(c.event, scan.Count("contextTokenBudget", &w))
	return w
}

// calls reports the model calls of a run that has ended, from the session's messages.
func (d *plugin) calls(c call, side string) []telemetry.Signal {
	var out []telemetry.Signal
	scan.Object(c.event,
		scan.Func("messages", func(val []byte) {
			for _, m := range callsOf(val, c.run) {
				out = append(out, d.usage(c, m, side))
			}
		}))
	return out
}

func (d *plugin) usage(c call, m message, side string) telemetry.Signal {
	d.call = c.run + " " + m.response
	s := c.signal(telemetry.UsageSeen)
	s.Model, s.Side, s.Usage = m.model, side, m.call(c.run, "")
	if side == "" {
		s.ReportWindow(d.window)
	}
	return s
}

// output reports the last model call of a run, unless it was reported at the
// run's end.
func (d *plugin) output(c call, side string) []telemetry.Signal {
	var last []byte
	scan.Object(c.event, scan.Raw("lastAssistant", &last))
	if side == "" {
		if w := c.window(); w > 0 {
			d.window = w
		}
	}
	m := readMessage(last)
	if m.usage == nil || m.response == "" || d.call == c.run+" "+m.response {
		return nil
	}
	return []telemetry.Signal{d.usage(c, m, side)}
}

func (c call) tool(d *telemetry.Digests) []telemetry.Signal {
	s := c.signal(telemetry.ToolStart)
	var args, result []byte
	failed := false
	scan.Object(c.event,
		scan.Name("toolCallId", &s.Tool), scan.Word("toolName", &s.ToolName), scan.Raw("params", &args), scan.Raw("result", &result),
		scan.Func("error", func(val []byte) { failed = !scan.IsNull(val) }))
	if s.Tool == "" {
		return nil
	}
	if c.hook == "before_tool_call" {
		s.Args = d.Sized(args)
		return []telemetry.Signal{s}
	}
	s.Kind, s.Result, s.ToolError = telemetry.ToolEnd, d.Sized(result), telemetry.ToolErrorOf(failed)
	return []telemetry.Signal{s}
}

// end reports how a run ended. If it did not succeed, the last answer shows
// whether it was interrupted.
func (c call) end() telemetry.Signal {
	s := c.signal(telemetry.TurnEnd)
	var success, known bool
	var stop []byte
	scan.Object(c.event,
		scan.Func("success", func(val []byte) { success, known = scan.IsTrue(val), true }),
		scan.Func("messages", func(val []byte) {
			scan.Elements(val, func(val []byte) bool {
				if m := readMessage(val); string(m.role) == `"assistant"` {
					stop = m.stop
				}
				return true
			})
		}))
	switch {
	case success:
		s.Outcome = telemetry.Completed
	case !known:
	case string(stop) == `"aborted"`:
		s.Outcome = telemetry.Interrupted
	default:
		s.Outcome, s.Error = telemetry.Failed, telemetry.ErrUnknown
	}
	return s
}
