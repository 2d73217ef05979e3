package gemini

import (
	"cmp"
	"strings"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// telemetryLog decodes one value of the file that Gemini CLI writes its
// telemetry to: a log record, a span or a metric. Only log records are read. Of
// their attributes, only names and numbers are read.
//
// The file's ids of turns (`prompt_id`) do not occur in chat files or hooks, and its
// model calls have no id. A prompt is therefore reported without a turn. Only the
// prompt's time links it to the frame that another source opened.
type telemetryLog struct {
	telemetry.Tally
	session  string
	answered bool                // the newest model call of the main chain was answered, and no tool was called since
	failed   telemetry.ErrorKind // why the newest model call of the main chain failed; empty if it did not fail
}

// event holds the attributes that are read from a log record.
type event struct {
	name, stampText              string
	at                           time.Time
	session, prompt, role, model string
	agent, command               string
	status, before, after, delay int64
	hasBefore, hasAfter          bool
	tokens                       tokens
}

// Telemetry returns a decoder of values of the telemetry file.
func Telemetry() telemetry.Decoder { return new(telemetryLog) }

func (d *telemetryLog) Decode(record []byte) []telemetry.Signal {
	var attributes []byte
	other := false
	if !scan.Object(record,
		scan.Raw("attributes", &attributes), scan.Has("scopeMetrics", &other),
		scan.Has("_spanContext", &other)) {
		d.Miss(telemetry.Malformed)
		return nil
	}
	e := readEvent(attributes)
	switch {
	case other:
		return nil // a metric or a span
	case e.name == "":
		d.Miss(telemetry.Malformed)
		return nil
	}
	var out []telemetry.Signal
	newSession := e.session != "" && e.session != d.session
	cleared := newSession && e.name == "gemini_cli.slash_command" && e.command == "clear"
	if cleared {
		out = d.over(e) // the user typed /clear, so the turn has ended
	}
	if newSession {
		d.session, d.answered, d.failed = e.session, false, ""
	}
	if cleared {
		s := d.signal(telemetry.SessionLive, e) // the record has the id of the new session
		s.Cause = "clear"
		return append(out, s)
	}
	return d.event(e)
}

func readEvent(attributes []byte) event {
	var e event
	scan.Object(attributes,
		scan.Word("event.name", &e.name),
		scan.Func("event.timestamp", func(val []byte) { e.at, e.stampText = scan.TimeOf(val), scan.NameOf(val) }),
		scan.Name("session.id", &e.session), scan.Name("prompt_id", &e.prompt), scan.Name("agent_id", &e.agent),
		scan.Word("role", &e.role), scan.Word("command", &e.command), scan.Name("model", &e.model),
		scan.Count("status_code", &e.status), scan.Count("delay_ms", &e.delay),
		scan.Func("tokens_before", func(val []byte) { e.before, e.hasBefore = scan.CountOf(val), true }),
		scan.Func("tokens_after", func(val []byte) { e.after, e.hasAfter = scan.CountOf(val), true }),
		scan.Count("input_token_count", &e.tokens.input), scan.Count("output_token_count", &e.tokens.output),
		scan.Count("cached_content_token_count", &e.tokens.cached), scan.Count("thoughts_token_count", &e.tokens.thoughts),
		scan.Count("tool_token_count", &e.tokens.tool))
	return e
}

func (d *telemetryLog) signal(kind telemetry.Kind, e event) telemetry.Signal {
	return telemetry.Signal{Kind: kind, Source: "telemetry", Detail: strings.TrimPrefix(e.name, "gemini_cli."), At: e.at, Session: d.session}
}

func (d *telemetryLog) event(e event) []telemetry.Signal {
	switch e.name {
	case "gemini_cli.config":
		s := d.signal(telemetry.SessionLive, e)
		s.Model = e.model
		return []telemetry.Signal{s}
	case "gemini_cli.user_prompt":
		return d.prompt(e)
	case "gemini_cli.api_request":
		s := d.beside(d.signal(telemetry.Alive, e), e)
		if e.role == "main" {
			s.Kind, d.answered, d.failed = telemetry.Working, false, ""
		}
		return []telemetry.Signal{s}
	case "gemini_cli.api_response":
		return d.response(e)
	case "gemini_cli.api_error":
		s := d.beside(d.signal(telemetry.Fault, e), e)
		s.Error = telemetry.HTTPError(e.status)
		if e.role == "main" {
			d.answered, d.failed = false, s.Error
		}
		return []telemetry.Signal{s}
	case "gemini_cli.network_retry_attempt", "gemini_cli.chat.content_retry":
		s := d.signal(telemetry.LimitWait, e)
		s.Error = telemetry.ErrNetwork
		if e.name != "gemini_cli.network_retry_attempt" {
			s.Error = telemetry.ErrServer
		}
		if e.delay > 0 && !e.at.IsZero() {
			s.Until = scan.InRange(e.at.Add(time.Duration(e.delay) * time.Millisecond))
		}
		return []telemetry.Signal{s}
	case "gemini_cli.chat_compression":
		s := d.signal(telemetry.Compacted, e)
		s.Compaction = &telemetry.Compaction{Half: "telemetry", Trigger: "unknown"}
		if e.hasBefore {
			s.Compaction.Before = &e.before
		}
		if e.hasAfter {
			s.Compaction.After = &e.after
		}
		return []telemetry.Signal{s}
	case "gemini_cli.tool_call":
		d.answered = false
		return []telemetry.Signal{d.signal(telemetry.Working, e)} // the tool call has ended; it has no id
	case "gemini_cli.agent.start", "gemini_cli.agent.finish", "gemini_cli.agent.recovery_attempt":
		s := d.signal(telemetry.Alive, e)
		s.Agent = e.agent
		return []telemetry.Signal{s}
	case "gemini_cli.slash_command":
		if e.command == "compress" { // the user typed the command, so the turn has ended
			return append(d.over(e), d.signal(telemetry.Alive, e))
		}
		return []telemetry.Signal{d.signal(telemetry.Alive, e)}
	case "gemini_cli.hook_call":
		return []telemetry.Signal{d.signal(telemetry.Alive, e)}
	}
	if !silent(e.name) {
		d.Miss(e.name)
	}
	return nil
}

// silent reports whether an event is known but gives no signal.
func silent(event string) bool {
	switch event {
	case "gen_ai.client.inference.operation.details", "gemini_cli.model_routing", "gemini_cli.startup_stats",
		"gemini_cli.file_operation", "gemini_cli.ripgrep_fallback", "gemini_cli.flash_fallback", "gemini_cli.next_speaker_check",
		"gemini_cli.slash_command.model", "gemini_cli.rewind", "gemini_cli.malformed_json_response", "gemini_cli.ide_connection",
		"gemini_cli.conversation_finished", "gemini_cli.chat.invalid_chunk", "gemini_cli.chat.content_retry_failure",
		"gemini_cli.tool_output_truncated", "gemini_cli.tool_output_masking", "gemini_cli.llm_loop_check",
		"gemini_cli.edit_strategy", "gemini_cli.edit_correction", "gemini_cli.web_fetch_fallback_attempt",
		"gemini_cli.plan.approval_mode_switch", "gemini_cli.plan.approval_mode_duration", "gemini_cli.plan.execution",
		"gemini_cli.keychain.availability", "gemini_cli.token_storage.initialization", "gemini_cli.extension_install",
		"gemini_cli.extension_uninstall", "gemini_cli.extension_update", "gemini_cli.extension_enable",
		"gemini_cli.extension_disable":
		return true
	}
	return false
}

// over reports how the newest turn ended. e is an action that the user takes only after
// a turn. over reports nothing if the turn's model calls do not show how it ended.
func (d *telemetryLog) over(e event) []telemetry.Signal {
	var out []telemetry.Signal
	end := d.signal(telemetry.TurnEnd, e)
	switch d.failed {
	case "":
		if end.Outcome = telemetry.Completed; d.answered {
			out = append(out, end)
		}
	case telemetry.ErrRateLimit, telemetry.ErrServer, telemetry.ErrNetwork:
		// Gemini CLI retries after these errors. The turn may have failed, or the user may
		// have interrupted it, so no end is reported.
	default:
		end.Outcome, end.Error = telemetry.Failed, d.failed
		out = append(out, end)
	}
	d.answered, d.failed = false, ""
	return out
}

// prompt reports the prompt in e. If the model calls of the previous turn show how that
// turn ended, prompt reports this end first.
func (d *telemetryLog) prompt(e event) []telemetry.Signal {
	out := d.over(e)
	s := d.signal(telemetry.Prompt, e)
	s.Detail += " " + e.prompt
	return append(out, s)
}

func (d *telemetryLog) response(e event) []telemetry.Signal {
	if e.role == "main" {
		d.answered, d.failed = true, ""
	}
	// Only the time distinguishes one call of a prompt from the next.
	u := e.tokens.usage(e.stampText)
	u.Request = e.prompt
	if u.Used == 0 {
		return nil
	}
	s := d.beside(d.signal(telemetry.UsageSeen, e), e)
	s.Model, s.Usage = e.model, &u
	return []telemetry.Signal{s}
}

// beside sets Agent if a sub-agent made the model call that s is about, or Side if
// the call had another purpose than the conversation.
func (d *telemetryLog) beside(s telemetry.Signal, e event) telemetry.Signal {
	switch e.role {
	case "main":
	case "subagent":
		s.Agent, _, _ = strings.Cut(e.prompt, "#")
	case "utility_compressor", "utility_state_snapshot_processor":
		s.Side = "compaction"
	default:
		s.Side = cmp.Or(strings.TrimPrefix(e.role, "utility_"), "unknown")
	}
	return s
}
