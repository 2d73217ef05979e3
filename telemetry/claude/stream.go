package claude

import (
	"strings"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// claudeStream decodes what Claude Code's print mode writes to its standard
// output: the lines of `--output-format stream-json`, or the one result object
// of `--output-format json`.
//
// The stream has no ids of turns and hardly any times. It is written once per
// message that went in, and each of those is answered by a result. A message
// is a prompt when the model is asked because of it: `/clear` and `/compact`
// get a result as well, and no model answers them.
//
// What it tells of tokens is of two kinds. An assistant's message carries the
// figures of its start: they say how full the context is, and of its output
// nothing. A result carries what all calls of the turn cost, as one sum.
type stream struct {
	telemetry.Tally
	telemetry.Digests
	session, version, dir, model string // as the newest init told
	cause                        string // of the session that the next init tells
	prompted                     bool   // the prompt that is being answered was told
	compacting                   bool   // between a compaction's beginning and its end
	compacted                    bool   // since the last result
	interrupted                  bool   // the mark of an interrupt came since the last result
	failure                      telemetry.ErrorKind
	until                        time.Time // when the limit of use is lifted that is reached
	message                      string    // id of the newest message whose figures were told
	answerer                     string    // the model of the newest message
	used                         int64     // tokens in the context, by the newest message
	// spent is what the process cost up to the last result, by all models, and
	// of what; it only grows.
	spent telemetry.Usage
}

// claudeLine is what is read of one line. Its slices point into it.
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
		// Pieces of the message that follows whole. A model that begins to
		// answer was asked.
		return d.prompt(r)
	case `"rate_limit_event"`:
		return d.limited(r)
	case `"control_request"`, `"control_response"`:
	default:
		d.Miss(scan.WordOf(r.kind))
	}
	return nil
}

// signal starts a signal told by the line.
func (r streamLine) signal(kind telemetry.Kind, detail string) telemetry.Signal {
	s := telemetry.Signal{Kind: kind, Source: "stream", Detail: detail, At: scan.TimeOf(r.at), Session: scan.NameOf(r.session)}
	if s.Detail == "" {
		s.Detail = scan.NameOf(r.uuid)
	}
	s.Agent = scan.NameOf(r.parent) // the call of the Agent tool that the sub-agent works for
	return s
}

// prompt tells the prompt that is being answered, once. What a compaction
// asks the model is no prompt: `/compact` begins with the same lines as one that
// runs before the first call of a turn. Which it was is told by its boundary.
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
			s.Error = telemetry.ErrNetwork // there was no answer that could have had a status
		}
		return append(d.prompt(r), s)
	case `"status"`:
		return d.status(r)
	case `"compact_boundary"`:
		d.compacting, d.compacted = false, true
		s := r.signal(telemetry.Compacted, "")
		s.Compaction = readCompaction(r.compact)
		if s.Compaction.Trigger == "auto" { // it looks how full the context is because somebody asked
			return append(d.prompt(r), s)
		}
		return []telemetry.Signal{s}
	case `"thinking_tokens"`:
		return append(d.prompt(r), r.signal(telemetry.Alive, "thinking_tokens"))
	case `"task_started"`:
		return []telemetry.Signal{r.signal(telemetry.Alive, "task_started")}
	case `"hook_response"`:
		return nil
	}
	d.Miss("system/" + scan.WordOf(r.subtype))
	return nil
}

// init begins the answer to each message. It is news when it tells of another
// session, or for the first time what this one is.
func (d *stream) init(r streamLine) []telemetry.Signal {
	s := r.signal(telemetry.SessionLive, "init")
	s.Model, s.Version, s.Dir, s.Cause = scan.NameOf(r.model), scan.WordOf(r.version), scan.PathOf(r.dir), d.cause
	if s.Session == d.session && s.Model == d.model && s.Version == d.version && s.Dir == d.dir {
		return nil
	}
	if s.Cause == "" && d.session != "" && s.Session != d.session {
		s.Cause = "unknown" // there was no hook to say why
	}
	if s.Session != d.session {
		d.cause, d.used, d.message = "", 0, ""
	}
	d.session, d.model, d.version, d.dir = s.Session, s.Model, s.Version, s.Dir
	s.Window, s.WindowSource = telemetry.ModelWindow(s.Model)
	return []telemetry.Signal{s}
}

// hook reads that a hook of the user's began, which says where the turn is.
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

// limited reads an account of the limits of a subscription, which comes when it
// changes. Claude Code does not wait for the end of a limit: the turn fails.
func (d *stream) limited(r streamLine) []telemetry.Signal {
	var kind string
	var until time.Time
	rejected, beyond := false, false
	scan.Object(r.limit,
		scan.Func("status", func(val []byte) { rejected = string(val) == `"rejected"` }), scan.Seconds("resetsAt", &until),
		scan.Word("rateLimitType", &kind), scan.True("isUsingOverage", &beyond)) // beyond the limit it continues, and is billed
	d.until = time.Time{}
	if !rejected || beyond {
		return nil
	}
	d.until = until
	s := r.signal(telemetry.Fault, telemetry.DetailOf("rate_limit_event", kind))
	s.Error, s.Until = telemetry.ErrRateLimit, until
	return append(d.prompt(r), s) // nobody asked a model before there was a prompt
}

func (d *stream) status(r streamLine) []telemetry.Signal {
	switch string(r.result) {
	case `"success"`: // the boundary follows
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
			return nil // an answer of Claude Code's own: to a command, or no content at all
		}
		d.failure = errorKind(scan.WordOf(r.failure))
		return d.prompt(r)
	}
	out := d.prompt(r)
	mine := scan.NameOf(r.parent) == ""
	if mine && usage.Used > 0 && (id == "" || id != d.message) {
		d.message, d.answerer, d.used = id, model, usage.Used
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

// configured is the model's name with the suffix that a message has lost, where
// init told it.
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

// end reads a result: what the turn cost, and how it ended.
func (d *stream) end(r streamLine) []telemetry.Signal {
	var out []telemetry.Signal
	// The one object of `--output-format json` is all there is of its prompt.
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
		end.Outcome, end.Error = telemetry.Failed, d.failure
		if end.Error == "" {
			end.Error = telemetry.ErrUnknown
		}
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

// cost tells what the turn cost and what was spent beside it, and the window
// that the result names.
func (d *stream) cost(r streamLine, turn telemetry.Usage, models []model) (out []telemetry.Signal) {
	model := d.model
	if model == "" {
		model = d.answerer
	}
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
			turn.Used = turn.Input + turn.CacheRead + turn.CacheWrite // the turn was this one call
		}
		turn.ID = scan.NameOf(r.uuid)
		s.Usage, s.Model = &turn, model
		if window > 0 {
			s.Window, s.WindowSource = window, "reported"
		}
		out = append(out, s)
	} else if window > 0 {
		s := r.signal(telemetry.WindowSeen, "")
		s.Model, s.Window, s.WindowSource = model, window, "reported"
		out = append(out, s)
	}
	if len(models) > 0 && min(beside.Input, beside.CacheRead, beside.CacheWrite, beside.Output) >= 0 &&
		beside.Input+beside.CacheRead+beside.CacheWrite+beside.Output > 0 {
		s := r.signal(telemetry.UsageSeen, "")
		s.Side = "unknown" // titles, sub-agents, and what else nobody tells apart
		if d.compacted {
			s.Side = "compaction"
		}
		beside.ID, beside.Request = scan.NameOf(r.uuid), "beside" // another call than the turn's own
		s.Usage = &beside
		out = append(out, s)
	}
	return out
}

// claudeModel is what a result says of one model: all that it cost since the
// process began, and its window.
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

// quoted puts the quotes back around a key.
func quoted(key []byte) []byte {
	return append(append([]byte{'"'}, key...), '"')
}
