package codex

import (
	"lifeloop/telemetry"
	"lifeloop/telemetry/otlplog"
)

// otlp decodes the log events that Codex exports by OTLP. A record is the body
// of one request.
//
// In the terminal interface, these events are the only source that names a thread
// before the thread's first prompt. The events have no turn ids, and report no end of a
// turn, no compaction and no context window. A prompt is therefore reported only as
// Working: without a turn id, the prompt's frame could not be matched with the frame
// that hooks and rollout report.
type otlp struct {
	telemetry.Tally
	// thread is the id of the first thread. Only the first thread is reported as live:
	// Codex starts another thread to write a conversation's title, and that thread's
	// events look like those of a new session. Each signal has the id of its own thread.
	thread string
}

// OTLP returns a decoder of exported log requests.
func OTLP() telemetry.Decoder { return new(otlp) }

func (d *otlp) Decode(record []byte) []telemetry.Signal {
	out, ok := otlplog.Read(record, "codex.", d.event)
	if !ok {
		d.Miss(telemetry.Malformed)
	}
	return out
}

func (d *otlp) event(r *otlplog.Record) []telemetry.Signal {
	s := telemetry.Signal{Source: "otlp", Detail: r.Event, At: r.At, Session: r.Attrs.Get("conversation.id").Name()}
	if r.Event == "" || s.Session == "" {
		return nil // a line of the exporter's own log
	}
	var out []telemetry.Signal
	if d.thread == "" {
		d.thread = s.Session
		live := s
		live.Kind, live.Model, live.Version = telemetry.SessionLive, r.Attrs.Get("model").Name(), r.Resource.Get("service.version").Word()
		out = append(out, live)
	}
	switch r.Event {
	case "user_prompt":
		s.Kind = telemetry.Working
	case "api_request":
		code := r.Attrs.Get("http.response.status_code").Count()
		if code < 400 { // code is 0 if the event has no status code
			return out
		}
		s.Kind, s.Error = telemetry.Fault, telemetry.HTTPError(code)
	case "sse_event":
		u := otlpUsage(r.Attrs)
		if !r.Attrs.Get("event.kind").Is("response.completed") || u.Used == 0 {
			return out
		}
		s.Kind, s.Model, s.Usage = telemetry.UsageSeen, r.Attrs.Get("model").Name(), &u
	case "tool_decision":
		if d := r.Attrs.Get("decision"); !d.Is("approved") && !d.Is("approved_for_session") {
			return out
		}
		s.Kind = telemetry.ToolStart
		s.Tool = r.Attrs.Get("call_id").Name()
	case "tool_result":
		s.Kind = telemetry.ToolEnd
		s.Tool = r.Attrs.Get("call_id").Name()
		s.ToolError = telemetry.ToolErrorOf(r.Attrs.Get("success").Is("false"))
	case "conversation_starts", "startup_phase", "turn_ttft":
		return out
	default:
		d.Miss(r.Event)
		return out
	}
	if s.Kind == telemetry.ToolStart || s.Kind == telemetry.ToolEnd {
		if s.Tool == "" {
			return out
		}
		s.ToolName = r.Attrs.Get("tool_name").Word()
	}
	return append(out, s)
}

// otlpUsage reads the token counts of a completed response. OpenAI counts cached
// tokens within the input. Codex reports the total as tool_token_count.
func otlpUsage(attrs otlplog.Attrs) telemetry.Usage {
	u := telemetry.Usage{
		Used:       attrs.Get("tool_token_count").Count(),
		CacheRead:  attrs.Get("cached_token_count").Count(),
		CacheWrite: attrs.Get("cache_write_token_count").Count(),
		Output:     attrs.Get("output_token_count").Count(),
		Reasoning:  attrs.Get("reasoning_token_count").Count(),
	}
	u.Input = max(0, attrs.Get("input_token_count").Count()-u.CacheRead-u.CacheWrite)
	return u
}
