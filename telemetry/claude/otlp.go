package claude

import (
	"slices"
	"strings"

	"lifeloop/telemetry"
	"lifeloop/telemetry/otlplog"
)

// otlp decodes the log events that Claude Code exports by OTLP. A record is the
// body of one request, with the events since the previous request: usually those
// of one second, unless the user has set another interval.
//
// It is the only source that names the model calls outside the main chain, such
// as those for titles. It does not report the end of a turn, the context window
// or an interrupt.
type otlp struct {
	telemetry.Tally
	session string
	next    int64 // the sequence number of the session's next event
	// others are the sessions that are not reported as live when an event of them
	// arrives, the newest last: those of other processes that export to the same
	// address, and the previous sessions of this process.
	others  []string
	pending *pendingPrompt // the newest prompt; nil if it was reported
	calls   telemetry.Calls
}

const maxOthers = 64

// pendingPrompt is a submitted prompt that is not reported yet. It is reported when the
// main chain calls the model or a tool for it, or when the next prompt arrives. If the
// prompt were reported before its hooks are called, the hooks would count as missing. A
// slash command is not reported when the next prompt arrives: Claude Code answers some
// slash commands without a model, such as /clear, and does not say which.
type pendingPrompt struct {
	prompt  telemetry.Signal
	command bool // the prompt is a slash command
}

// OTLP returns a decoder of exported log requests.
func OTLP() telemetry.Decoder { return new(otlp) }

func (d *otlp) Decode(record []byte) []telemetry.Signal {
	out, ok := otlplog.Read(record, "claude_code.", d.event)
	if !ok {
		d.Miss(telemetry.Malformed)
	}
	return out
}

func (d *otlp) event(r *otlplog.Record) []telemetry.Signal {
	s := telemetry.Signal{Source: "otlp", Detail: r.Event, At: r.At, Session: r.Attrs.Get("session.id").Name(), Turn: r.Attrs.Get("prompt.id").Name()}
	if r.Event == "" || s.Session == "" {
		return nil // a line of the exporter's own log
	}
	return append(d.live(r, s), d.report(r, s)...)
}

// live reports the session of the first event, and each later session of the same
// process. A process numbers its events: a session after `/clear` continues the
// numbers, while those of another process, started inside the session, begin at 0.
func (d *otlp) live(r *otlplog.Record, s telemetry.Signal) []telemetry.Signal {
	n := r.Attrs.Get("event.sequence").Count()
	from := d.session
	switch {
	case from == s.Session:
		d.next = max(d.next, n+1)
		return nil
	case slices.Contains(d.others, s.Session):
		return nil
	case from != "" && n != d.next:
		d.other(s.Session)
		return nil
	case from != "":
		d.other(from) // the last events of the previous session may still arrive
	}
	d.next = n + 1
	d.session = s.Session
	s.Kind, s.Turn = telemetry.SessionLive, ""
	s.Version = r.Resource.Get("service.version").Word()
	hook := r.Attrs.Get("hook_name").Word()
	if why, ok := strings.CutPrefix(hook, "SessionStart:"); ok && why != "compact" {
		s.Cause, s.Detail = telemetry.CauseOf(why), hook
	} else if from != "" {
		s.Cause = "unknown"
	}
	return []telemetry.Signal{s}
}

// other adds a session to d.others. For the events of these sessions, live reports nothing.
func (d *otlp) other(session string) {
	if len(d.others) >= maxOthers {
		d.others = slices.Delete(d.others, 0, 1)
	}
	d.others = append(d.others, session)
}

func (d *otlp) report(r *otlplog.Record, s telemetry.Signal) []telemetry.Signal {
	switch r.Event {
	case "user_prompt":
		// The previous prompt may still be pending: if the user pressed Esc before the
		// first byte of an answer, no event of a model call followed the prompt.
		out := d.release(nil)
		s.Kind = telemetry.Prompt
		d.pending = &pendingPrompt{s, r.Attrs.Get("command_name").IsSet()}
		return out
	case "api_request":
		return d.request(r, s)
	case "api_error":
		out := d.release(r)
		if role(r, &s); s.Side != "" {
			return nil // an error of a call for a title does not concern the session
		}
		s.Kind, s.Error = telemetry.Fault, telemetry.HTTPError(r.Attrs.Get("status_code").Count())
		return append(out, s)
	case "compaction":
		return []telemetry.Signal{d.compaction(r, s)}
	case "tool_decision":
		if !r.Attrs.Get("decision").Is("accept") {
			return d.release(r)
		}
		s.Kind = telemetry.ToolStart
	case "tool_result":
		s.Kind = telemetry.ToolEnd
		s.ToolError = telemetry.ToolErrorOf(r.Attrs.Get("success").Is("false"))
	case "assistant_response", "api_retries_exhausted", "subagent_completed", "hook_registered",
		"hook_execution_start", "hook_execution_complete":
		return nil // repeats other events in less detail, or is not about the session
	default:
		d.Miss(r.Event)
		return nil
	}
	out := d.release(r)
	if s.Tool = r.Attrs.Get("tool_use_id").Name(); s.Tool == "" {
		return out
	}
	s.ToolName = r.Attrs.Get("tool_name").Word()
	return append(out, s)
}

// request reports the tokens of one model call.
func (d *otlp) request(r *otlplog.Record, s telemetry.Signal) []telemetry.Signal {
	out := d.release(r)
	u := telemetry.Usage{
		Request: r.Attrs.Get("request_id").Name(),
		Input:   r.Attrs.Get("input_tokens").Count(), CacheRead: r.Attrs.Get("cache_read_tokens").Count(),
		CacheWrite: r.Attrs.Get("cache_creation_tokens").Count(), Output: r.Attrs.Get("output_tokens").Count(),
	}
	u.Used = u.Input + u.CacheRead + u.CacheWrite
	if u.Used == 0 || !d.calls.News(s.Session, "", u.Request, u.Output) {
		return out
	}
	role(r, &s)
	s.Kind, s.Model, s.Usage = telemetry.UsageSeen, r.Attrs.Get("model").Name(), &u
	return append(out, s)
}

// release reports the pending prompt if the model call or tool in r belongs to
// that prompt. If r is nil, the next prompt has arrived, and release reports the
// pending prompt unless it is a slash command.
func (d *otlp) release(r *otlplog.Record) []telemetry.Signal {
	p := d.pending
	switch {
	case p == nil:
		return nil
	case r == nil:
		if p.command {
			return nil
		}
	default:
		s := telemetry.Signal{Turn: r.Attrs.Get("prompt.id").Name()}
		if role(r, &s); s.Turn != p.prompt.Turn || s.Side != "" || s.Agent != "" {
			return nil
		}
	}
	d.pending = nil
	return []telemetry.Signal{p.prompt}
}

// role sets s.Agent or s.Side from the purpose of the call in r. For a call of the main
// chain, the main agent's conversation, it sets neither. An unknown purpose becomes
// s.Side.
func role(r *otlplog.Record, s *telemetry.Signal) {
	switch what := r.Attrs.Get("query_source").Word(); {
	case what == "repl_main_thread", what == "sdk", what == "":
	case strings.HasPrefix(what, "agent:"):
		s.Agent = what // the event does not have the sub-agent's id, so the kind of agent is used instead
	case what == "generate_session_title":
		s.Side = "title"
	case what == "compact":
		s.Side = "compaction"
	default:
		s.Side = what
	}
}

func (d *otlp) compaction(r *otlplog.Record, s telemetry.Signal) telemetry.Signal {
	if !r.Attrs.Get("success").Is("true") {
		s.Kind, s.Error = telemetry.Fault, telemetry.ErrUnknown
		return s
	}
	s.Kind = telemetry.Compacted
	s.Compaction = &telemetry.Compaction{Half: "telemetry", Trigger: telemetry.TriggerOf(r.Attrs.Get("trigger").Word()),
		Before: known(r.Attrs.Get("pre_tokens")), After: known(r.Attrs.Get("post_tokens"))}
	return s
}

// known returns the number v, or nil if there is no value.
func known(v otlplog.Value) *int64 {
	if !v.IsSet() {
		return nil
	}
	n := v.Count()
	return &n
}
