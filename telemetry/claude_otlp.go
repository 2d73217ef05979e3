package telemetry

import (
	"slices"
	"strings"
)

// claudeOTLP decodes the log events that Claude Code exports by OTLP. A record
// is the body of one request, with the events of some hundred milliseconds.
//
// It is the only source that names the calls beside the main chain. It tells
// no turn's end and no window, and an interrupt not at all.
type claudeOTLP struct {
	tally
	session string
	next    int64 // the sequence number that the session's next event has
	// others are sessions of other processes that export to the same place, the
	// newest last.
	others []string
	asking *asking // the newest prompt, while no model was heard because of it
	calls  calls
}

const maxOthers = 64

// asking is a prompt that was submitted. It is told when the main chain's model
// was called because of it: then hooks that were asked before have answered,
// and nobody can take it for one whose hook stayed silent. A slash command may
// be one that no model answers, such as /clear; which ones are is Claude Code's
// business.
type asking struct {
	prompt  Signal
	command bool
}

func (d *claudeOTLP) Decode(record []byte) []Signal {
	records, ok := readOTLP(record, "claude_code.")
	if !ok {
		d.miss(malformed)
		return nil
	}
	var out []Signal
	for i := range records {
		out = append(out, d.event(&records[i])...)
	}
	return out
}

func (d *claudeOTLP) event(r *otlpRecord) []Signal {
	s := Signal{Source: "otlp", Detail: r.event, At: r.at, Session: r.attrs.get("session.id").name(), Turn: r.attrs.get("prompt.id").name()}
	if r.event == "" || s.Session == "" {
		return nil // a line of the exporter's own log
	}
	return append(d.live(r, s), d.tell(r, s)...)
}

// live tells the session of the first event, and another one whose first event
// goes on with the sequence, which is the process's own: `/clear` does so, and
// a process that runs inside the session begins at 0.
func (d *claudeOTLP) live(r *otlpRecord, s Signal) []Signal {
	n := r.attrs.get("event.sequence").count()
	from := d.session
	switch {
	case from == s.Session:
		d.next = max(d.next, n+1)
		return nil
	case slices.Contains(d.others, s.Session):
		return nil
	case from != "" && n != d.next:
		if len(d.others) >= maxOthers {
			d.others = slices.Delete(d.others, 0, 1)
		}
		d.others = append(d.others, s.Session)
		return nil
	case from != "":
		d.others = append(d.others, from) // its last events may still come
	}
	d.next = n + 1
	d.session = s.Session
	s.Kind, s.Turn = SessionLive, ""
	s.Version = r.resource.get("service.version").word()
	hook := r.attrs.get("hook_name").word()
	if why, ok := strings.CutPrefix(hook, "SessionStart:"); ok && why != "compact" {
		s.Cause, s.Detail = cause(why), hook
	} else if from != "" {
		s.Cause = "unknown"
	}
	return []Signal{s}
}

func (d *claudeOTLP) tell(r *otlpRecord, s Signal) []Signal {
	switch r.event {
	case "user_prompt":
		out := d.asked(nil) // Esc before the first byte: no model was heard
		s.Kind = Prompt
		d.asking = &asking{s, r.attrs.get("command_name").kind != 0}
		return out
	case "api_request":
		return d.request(r, s)
	case "api_error":
		out := d.asked(r)
		if role(r, &s); s.Side != "" {
			return nil // a title that could not be made is nobody's trouble
		}
		s.Kind, s.Error = Fault, httpError(r.attrs.get("status_code").count())
		return append(out, s)
	case "compaction":
		return []Signal{d.compaction(r, s)}
	case "tool_decision":
		if !r.attrs.get("decision").is("accept") {
			return d.asked(r)
		}
		s.Kind = ToolStart
	case "tool_result":
		s.Kind = ToolEnd
		s.ToolError = toolError(r.attrs.get("success").is("false"))
	case "assistant_response", "api_retries_exhausted", "subagent_completed", "hook_registered",
		"hook_execution_start", "hook_execution_complete":
		return nil // told better by another event, or nothing of the session's life
	default:
		d.miss(r.event)
		return nil
	}
	out := d.asked(r)
	if s.Tool = r.attrs.get("tool_use_id").name(); s.Tool == "" {
		return out
	}
	s.ToolName = r.attrs.get("tool_name").word()
	return append(out, s)
}

// request tells what one model call cost.
func (d *claudeOTLP) request(r *otlpRecord, s Signal) []Signal {
	out := d.asked(r)
	u := Usage{
		Request: r.attrs.get("request_id").name(),
		Input:   r.attrs.get("input_tokens").count(), CacheRead: r.attrs.get("cache_read_tokens").count(),
		CacheWrite: r.attrs.get("cache_creation_tokens").count(), Output: r.attrs.get("output_tokens").count(),
	}
	u.Used = u.Input + u.CacheRead + u.CacheWrite
	if u.Used == 0 || !d.calls.news(s.Session, "", u.Request, u.Output) {
		return out
	}
	role(r, &s)
	s.Kind, s.Model, s.Usage = UsageSeen, r.attrs.get("model").name(), &u
	return append(out, s)
}

// asked tells the prompt that this call or tool is of; nil is the next prompt, which
// shows that there was one before it.
func (d *claudeOTLP) asked(r *otlpRecord) []Signal {
	p := d.asking
	switch {
	case p == nil:
		return nil
	case r == nil:
		if p.command {
			return nil
		}
	default:
		s := Signal{Turn: r.attrs.get("prompt.id").name()}
		if role(r, &s); s.Turn != p.prompt.Turn || s.Side != "" || s.Agent != "" {
			return nil
		}
	}
	d.asking = nil
	return []Signal{p.prompt}
}

// role says for whom a call was made. What it is for is one of Claude Code's
// words; one that is not known as the main chain's is told as a side call.
func role(r *otlpRecord, s *Signal) {
	switch what := r.attrs.get("query_source").word(); {
	case what == "repl_main_thread", what == "sdk", what == "":
	case strings.HasPrefix(what, "agent:"):
		s.Agent = what // its id is not told
	case what == "generate_session_title":
		s.Side = "title"
	case what == "compact":
		s.Side = "compaction"
	default:
		s.Side = what
	}
}

func (d *claudeOTLP) compaction(r *otlpRecord, s Signal) Signal {
	if !r.attrs.get("success").is("true") {
		s.Kind, s.Error = Fault, ErrUnknown
		return s
	}
	s.Kind = Compacted
	s.Compaction = &Compaction{Half: "telemetry", Trigger: trigger(r.attrs.get("trigger").word())}
	if v := r.attrs.get("pre_tokens"); v.kind != 0 {
		n := v.count()
		s.Compaction.Before = &n
	}
	if v := r.attrs.get("post_tokens"); v.kind != 0 {
		n := v.count()
		s.Compaction.After = &n
	}
	return s
}
