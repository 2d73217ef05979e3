package telemetry

// codexOTLP decodes the log events that Codex exports by OTLP. A record is the
// body of one request.
//
// It tells when a thread begins, before its first prompt, which no file does.
// It names no turn and tells no turn's end, no compaction and no window. A
// prompt is therefore told as work only: a frame for it could not be matched
// with the one that hooks and rollout tell.
type codexOTLP struct {
	tally
	// thread is the one that was heard first, the only one that is told to be
	// live. Codex makes another one for the title of each, which looks the same
	// from here; what is asked there is told under its own id.
	thread string
}

func (d *codexOTLP) Decode(record []byte) []Signal {
	records, ok := readOTLP(record, "codex.")
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

func (d *codexOTLP) event(r *otlpRecord) []Signal {
	s := Signal{Source: "otlp", Detail: r.event, At: r.at, Session: r.attrs.get("conversation.id").name()}
	if r.event == "" || s.Session == "" {
		return nil // a line of the exporter's own log
	}
	var out []Signal
	if d.thread == "" {
		d.thread = s.Session
		live := s
		live.Kind, live.Model, live.Version = SessionLive, r.attrs.get("model").name(), r.resource.get("service.version").word()
		out = append(out, live)
	}
	switch r.event {
	case "user_prompt":
		s.Kind = Working
	case "api_request":
		code := r.attrs.get("http.response.status_code").count()
		if code == 0 || code < 400 {
			return out
		}
		s.Kind, s.Error = Fault, httpError(code)
	case "sse_event":
		u := codexOTLPUsage(r.attrs)
		if !r.attrs.get("event.kind").is("response.completed") || u.Used == 0 {
			return out
		}
		s.Kind, s.Model, s.Usage = UsageSeen, r.attrs.get("model").name(), &u
	case "tool_decision":
		if d := r.attrs.get("decision"); !d.is("approved") && !d.is("approved_for_session") {
			return out
		}
		s.Kind = ToolStart
		s.Tool = r.attrs.get("call_id").name()
	case "tool_result":
		s.Kind = ToolEnd
		s.Tool = r.attrs.get("call_id").name()
		s.ToolError = toolError(r.attrs.get("success").is("false"))
	case "conversation_starts", "startup_phase", "turn_ttft":
		return out
	default:
		d.miss(r.event)
		return out
	}
	if s.Kind == ToolStart || s.Kind == ToolEnd {
		if s.Tool == "" {
			return out
		}
		s.ToolName = r.attrs.get("tool_name").word()
	}
	return append(out, s)
}

// codexOTLPUsage reads the figures of a completed response. OpenAI counts what
// was cached within the input, and Codex calls the total a tool's.
func codexOTLPUsage(attrs otlpAttrs) Usage {
	u := Usage{
		Used:       attrs.get("tool_token_count").count(),
		CacheRead:  attrs.get("cached_token_count").count(),
		CacheWrite: attrs.get("cache_write_token_count").count(),
		Output:     attrs.get("output_token_count").count(),
		Reasoning:  attrs.get("reasoning_token_count").count(),
	}
	u.Input = max(0, attrs.get("input_token_count").count()-u.CacheRead-u.CacheWrite)
	return u
}
