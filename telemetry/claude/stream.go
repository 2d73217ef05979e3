package claude

import (
	"cmp"
	"strings"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// stream decodes the standard output of Claude Code's print mode: the lines of
// `--output-format stream-json`, or the one result object of `--output-format
// json`.
//
// The stream has no ids of turns and hardly any times. It has one result for
// each input message. A message is a prompt only if the model is called to answer it:
// `/clear` and `/compact` have a result too, but the model answers neither.
//
// It has two kinds of token counts. A message of the assistant has the counts of
// the message's start: they show how full the context is, but not the output. A
// result has the sum over all calls of the turn.
type stream struct {
	telemetry.Tally
	telemetry.Digests
	session, version, dir, model string // values of the newest init
	cause                        string // why the session of the next init began; empty if no hook reported it
	prompted                     bool   // the prompt that is being answered was reported
	compacting                   bool   // between a compaction's beginning and its end
	compacted                    bool   // a compaction ended since the last result
	interrupted                  bool   // the mark of an interrupt was read since the last result
	failure                      telemetry.ErrorKind
	until                        time.Time // when the usage limit that was reached will be lifted
	message                      string    // id of the newest message whose token counts were reported
	answeredBy                   string    // the model of the newest message
	used                         int64     // tokens in the context, according to the newest message
	// spent is the usage of the process up to the last result, of all models. It
	// never decreases.
	spent telemetry.Usage
}

// streamLine holds the members that are read from one line. Its slices point
// into the line.
type streamLine struct {
	kind, subtype, message, compact, status, session []byte
	hook, failure, parent, event                     []byte
	uuid, at, model, version, dir, usage, models     []byte
	turns, code, result, limit                       []byte
	isError, synthetic                               bool
}

// Stream returns a decoder of the output of print mode.
func Stream() telemetry.Decoder { return new(stream) }

func (d *stream) Decode(record []byte) []telemetry.Signal {
	var r streamLine
	ok := scan.Object(record,
		scan.Raw("type", &r.kind), scan.Raw("subtype", &r.subtype), scan.Raw("message", &r.message),
		scan.Raw("compact_metadata", &r.compact), scan.Raw("status", &r.status), scan.Raw("compact_result", &r.result),
		scan.Raw("session_id", &r.session), scan.Raw("hook_name", &r.hook), scan.Raw("hook_event", &r.event),
		scan.Raw("error", &r.failure), scan.Raw("error_status", &r.code), scan.Raw("api_error_status", &r.code),
		scan.Raw("parent_tool_use_id", &r.parent), scan.Raw("uuid", &r.uuid), scan.Raw("timestamp", &r.at),
		scan.Raw("model", &r.model), scan.Raw("claude_code_version", &r.version), scan.Raw("cwd", &r.dir),
		scan.Raw("usage", &r.usage), scan.Raw("modelUsage", &r.models), scan.Raw("num_turns", &r.turns),
		scan.Raw("rate_limit_info", &r.limit), scan.True("is_error", &r.isError), scan.True("isSynthetic", &r.synthetic))
	if !ok || len(r.kind) == 0 {
		d.Miss(telemetry.Malformed)
		return nil
	}
	switch string(r.kind) {
	case `"system"`:
		return d.system(r)
	case `"assistant"`:
		return d.assistant(r)
	case `"user"`:
		return d.user(r)
	case `"result"`:
		return d.end(r)
	case `"stream_event"`:
		// The line is a part of a message, and shows that the model was called. The
		// complete message follows.
		return d.prompt(r)
	case `"rate_limit_event"`:
		return d.limited(r)
	case `"control_request"`, `"control_response"`, `"conversation_reset"`: // conversation_reset is followed by an init that names the new session
	default:
		d.Miss(scan.WordOf(r.kind))
	}
	return nil
}

// signal returns a signal of this kind, with the fields that the line
// determines.
func (r streamLine) signal(kind telemetry.Kind, detail string) telemetry.Signal {
	return telemetry.Signal{Kind: kind, Source: "stream", Detail: cmp.Or(detail, scan.NameOf(r.uuid)), At: scan.TimeOf(r.at),
		Session: scan.NameOf(r.session), Agent: scan.NameOf(r.parent)} // a sub-agent has the id of the Agent tool's call that runs it
}

// prompt reports the prompt that is being answered, once. A compaction calls
// the model without a prompt. `/compact` and an automatic compaction before the
// first call of a turn begin with the same lines; only the compact_boundary line
// after the compaction distinguishes the two.
func (d *stream) prompt(r streamLine) []telemetry.Signal {
	if d.prompted || d.compacting || len(scan.NameOf(r.parent)) > 0 {
		return nil
	}
	d.prompted = true
	return []telemetry.Signal{r.signal(telemetry.Prompt, "")}
}

func (d *stream) system(r streamLine) []telemetry.Signal {
	switch string(r.subtype) {
	case `"init"`:
		return d.init(r)
	case `"hook_started"`:
		return d.hook(r)
	case `"api_retry"`:
		s := r.signal(telemetry.LimitWait, "api_retry")
		s.Error = failureKind(scan.WordOf(r.failure), scan.CountOf(r.code))
		if s.Error == telemetry.ErrUnknown && scan.IsNull(r.code) {
			s.Error = telemetry.ErrNetwork // the request got no answer, so there is no HTTP status
		}
		return append(d.prompt(r), s)
	case `"status"`:
		return d.status(r)
	case `"compact_boundary"`:
		d.compacting, d.compacted = false, true
		s := r.signal(telemetry.Compacted, "")
		s.Compaction = readCompaction(r.compact)
		if s.Compaction.Trigger == "auto" { // automatic compactions happen only while a prompt is being answered
			return append(d.prompt(r), s)
		}
		return []telemetry.Signal{s}
	case `"thinking_tokens"`:
		return append(d.prompt(r), r.signal(telemetry.Alive, "thinking_tokens"))
	case `"task_started"`, `"task_progress"`, `"task_updated"`, `"task_notification"`, `"background_tasks_changed"`:
		return []telemetry.Signal{r.signal(telemetry.Alive, scan.WordOf(r.subtype))}
	case `"hook_response"`:
		return nil
	}
	d.Miss("system/" + scan.WordOf(r.subtype))
	return nil
}

// init reads the line that begins the answer to each message. It reports the
// session unless the previous such line had the same session, model, version and
// folder.
func (d *stream) init(r streamLine) []telemetry.Signal {
	s := r.signal(telemetry.SessionLive, "init")
	s.Model, s.Version, s.Dir, s.Cause = scan.NameOf(r.model), scan.WordOf(r.version), scan.PathOf(r.dir), d.cause
	if s.Session == d.session && s.Model == d.model && s.Version == d.version && s.Dir == d.dir {
		return nil
	}
	if s.Cause == "" && d.session != "" && s.Session != d.session {
		s.Cause = "unknown" // no hook reported the cause
	}
	if s.Session != d.session {
		d.cause, d.used, d.message = "", 0, ""
	}
	d.session, d.model, d.version, d.dir = s.Session, s.Model, s.Version, s.Dir
	s.Window, s.WindowSource = telemetry.ModelWindow(s.Model)
	return []telemetry.Signal{s}
}

// hook reads the start of one of the user's hooks, which shows what the turn is
// doing.
func (d *stream) hook(r streamLine) []telemetry.Signal {
	switch string(r.event) {
	case `"SessionStart"`:
		_, why, _ := strings.Cut(scan.WordOf(r.hook), ":")
		if why == "compact" {
			return nil
		}
		s := r.signal(telemetry.SessionLive, scan.WordOf(r.hook))
		s.Cause = telemetry.CauseOf(why)
		d.cause = s.Cause
		return []telemetry.Signal{s}
	case `"UserPromptSubmit"`:
		return d.prompt(r)
	case `"Stop"`:
		s := r.signal(telemetry.TurnStop, "Stop")
		s.Outcome = telemetry.Completed
		return []telemetry.Signal{s}
	}
	return []telemetry.Signal{r.signal(telemetry.Alive, scan.WordOf(r.hook))}
}

// limited reads the state of a subscription's limits, which Claude Code writes
// when it changes. Claude Code does not wait for the end of a limit: the turn
// fails.
func (d *stream) limited(r streamLine) []telemetry.Signal {
	var kind string
	var until time.Time
	rejected, beyond := false, false
	scan.Object(r.limit,
		scan.Func("status", func(val []byte) { rejected = string(val) == `"rejected"` }), scan.Seconds("resetsAt", &until),
		scan.Word("rateLimitType", &kind), scan.True("isUsingOverage", &beyond)) // overage: use beyond the limit, at a price
	d.until = time.Time{}
	if !rejected || beyond {
		return nil
	}
	d.until = until
	s := r.signal(telemetry.Fault, telemetry.DetailOf("rate_limit_event", kind))
	s.Error, s.Until = telemetry.ErrRateLimit, until
	return append(d.prompt(r), s) // Claude Code gets this state with a model's answer, so a prompt is being answered
}

func (d *stream) status(r streamLine) []telemetry.Signal {
	switch string(r.result) {
	case `"success"`: // a compact_boundary line follows and is reported
		d.compacting = false
		return nil
	case `"failed"`:
		d.compacting = false
		return []telemetry.Signal{r.signal(telemetry.Fault, "compact_result failed")}
	}
	switch string(r.status) {
	case `"compacting"`:
		d.compacting = true
		return []telemetry.Signal{r.signal(telemetry.Compacting, "")}
	case `"requesting"`:
		return d.prompt(r)
	case `null`:
	default:
		d.Miss("status/" + scan.WordOf(r.status))
	}
	return nil
}

func (d *stream) assistant(r streamLine) []telemetry.Signal {
	m := readMessage(r.message)
	if !m.whole {
		d.Miss(telemetry.Malformed)
		return nil
	}
	id, model, usage := scan.NameOf(m.id), scan.NameOf(m.model), readUsage(m.usage)
	if model == "<synthetic>" {
		if len(r.failure) == 0 {
			// Claude Code wrote this answer, not the model. The answer is to a command,
			// or is empty.
			return nil
		}
		d.failure = errorKind(scan.WordOf(r.failure))
		return d.prompt(r)
	}
	out := d.prompt(r)
	mine := scan.NameOf(r.parent) == ""
	if mine && usage.Used > 0 && (id == "" || id != d.message) {
		d.message, d.answeredBy, d.used = id, model, usage.Used
		s := r.signal(telemetry.UsageSeen, "")
		s.Model, s.Usage = d.configured(model), &telemetry.Usage{Used: usage.Used}
		out = append(out, s)
	}
	for _, tool := range m.started {
		out = append(out, tool.begun(r.signal(telemetry.ToolStart, ""), &d.Digests))
	}
	if len(out) == 0 {
		out = append(out, r.signal(telemetry.Alive, ""))
	}
	return out
}

// configured returns the model's name with the suffix "[1m]" if the newest init has it
// with that suffix. The model's name in a message never has the suffix.
func (d *stream) configured(model string) string {
	if strings.TrimSuffix(d.model, telemetry.OneMillion) == model {
		return d.model
	}
	return model
}

func (d *stream) user(r streamLine) []telemetry.Signal {
	content := readMessage(r.message)
	if !r.synthetic && content.interrupted() {
		d.interrupted = true
	}
	var out []telemetry.Signal
	for _, tool := range content.ended {
		out = append(out, tool.over(r.signal(telemetry.ToolEnd, ""), &d.Digests))
	}
	return out
}

// end reads a result, which has the usage of the turn and its outcome.
func (d *stream) end(r streamLine) []telemetry.Signal {
	var out []telemetry.Signal
	// With `--output-format json`, this single object is the only evidence of the
	// prompt.
	if r.isError || scan.CountOf(r.turns) > 0 {
		d.compacting = false
		out = d.prompt(r)
	}
	models := readModels(r.models)
	turn := readUsage(r.usage)
	out = append(out, d.cost(r, turn, models)...)

	end := r.signal(telemetry.TurnEnd, telemetry.DetailOf("result", scan.WordOf(r.subtype)))
	switch {
	case !d.prompted:
		end.Kind = telemetry.Idle
	case d.interrupted:
		end.Outcome = telemetry.Interrupted
	case r.isError || string(r.subtype) != `"success"`:
		end.Outcome, end.Error = telemetry.Failed, cmp.Or(d.failure, telemetry.ErrUnknown)
		if code := scan.CountOf(r.code); end.Error == telemetry.ErrUnknown && code > 0 {
			end.Error = telemetry.HTTPError(code)
		}
		if end.Error == telemetry.ErrRateLimit {
			end.Until = d.until
		}
	default:
		end.Outcome = telemetry.Completed
	}
	d.prompted, d.interrupted, d.compacting, d.compacted, d.failure = false, false, false, false, ""
	return append(out, end)
}

// cost reports the usage of the turn, the usage of calls outside the turn, and
// the context window in the result.
func (d *stream) cost(r streamLine, turn telemetry.Usage, models []model) (out []telemetry.Signal) {
	model := cmp.Or(d.model, d.answeredBy)
	var spent telemetry.Usage
	var window int64
	for _, m := range models {
		spent.Input += m.usage.Input
		spent.CacheRead += m.usage.CacheRead
		spent.CacheWrite += m.usage.CacheWrite
		spent.Output += m.usage.Output
		if len(models) == 1 && model == "" {
			model = m.name
		}
		if m.name == model || strings.TrimSuffix(m.name, telemetry.OneMillion) == model {
			model, window = m.name, m.window
		}
	}
	beside := telemetry.Usage{
		Input: spent.Input - d.spent.Input - turn.Input, CacheRead: spent.CacheRead - d.spent.CacheRead - turn.CacheRead,
		CacheWrite: spent.CacheWrite - d.spent.CacheWrite - turn.CacheWrite, Output: spent.Output - d.spent.Output - turn.Output,
	}
	if len(models) > 0 {
		d.spent = spent
	}

	if turn.Used+turn.Output > 0 {
		s := r.signal(telemetry.UsageSeen, "")
		turn.Used = d.used
		if turn.Used == 0 && scan.CountOf(r.turns) == 1 {
			turn.Used = turn.Input + turn.CacheRead + turn.CacheWrite // the turn was a single call, so its input is the size of the context
		}
		turn.ID = scan.NameOf(r.uuid)
		s.Usage, s.Model = &turn, model
		s.ReportWindow(window)
		out = append(out, s)
	} else if window > 0 {
		s := r.signal(telemetry.WindowSeen, "")
		s.Model, s.Window, s.WindowSource = model, window, "reported"
		out = append(out, s)
	}
	if len(models) > 0 && min(beside.Input, beside.CacheRead, beside.CacheWrite, beside.Output) >= 0 &&
		beside.Input+beside.CacheRead+beside.CacheWrite+beside.Output > 0 {
		s := r.signal(telemetry.UsageSeen, "")
		s.Side = "unknown" // the result does not distinguish titles, sub-agents and other calls
		if d.compacted {
			s.Side = "compaction"
		}
		beside.ID, beside.Request = scan.NameOf(r.uuid), "beside" // an id that differs from that of the turn's own call
		s.Usage = &beside
		out = append(out, s)
	}
	return out
}

// model holds the usage of one model since the process began, and its context
// window, from modelUsage in a result.
type model struct {
	name   string
	usage  telemetry.Usage
	window int64
}

func readModels(val []byte) (models []model) {
	scan.Members(val, func(key, val []byte) bool {
		m := model{name: scan.Printable(quoted(key), 256)}
		scan.Object(val,
			scan.Count("inputTokens", &m.usage.Input), scan.Count("outputTokens", &m.usage.Output),
			scan.Count("cacheReadInputTokens", &m.usage.CacheRead), scan.Count("cacheCreationInputTokens", &m.usage.CacheWrite),
			scan.Count("contextWindow", &m.window))
		models = append(models, m)
		return len(models) < 64
	})
	return models
}

// quoted returns the key in quotes, as it is written in the record.
func quoted(key []byte) []byte {
	return append(append([]byte{'"'}, key...), '"')
}
