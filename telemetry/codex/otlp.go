package codex

import (
	"lifeloop/telemetry"
	"lifeloop/telemetry/otlplog"
)

// codexOTLP decodes the log events that Codex exports by OTLP. A record is the
// body of one request.
//
// It tells when a thread begins, before its first prompt, which no file does.
// It names no turn and tells no turn's end, no compaction and no window. A
// prompt is therefore told as work only: a frame for it could not be matched
// with the one that hooks and rollout tell.
type otlp struct {
	telemetry.Tally
	// thread is the one that was heard first, the only one that is told to be
	// live. Codex makes another one for the title of each, which looks the same
	// from here; what is asked there is told under its own id.
	thread string
}

// OTLP returns a decoder of exported log requests.
func OTLP() telemetry.Decoder { return new(otlp) }

func (d *otlp) Decode(record []byte) []telemetry.Signal {
	records, ok := otlplog.Read(record, "codex.")
	if !ok {
		d.Miss(telemetry.Malformed)
		return nil
	}
	var out []telemetry.Signal
	for i := range records {
		out = append(out, d.event(&records[i])...)
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
		if code == 0 || code < 400 {
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

// codexOTLPUsage reads the figures of a completed response. OpenAI counts what
// was cached within the input, and Codex calls the total a tool's.
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
