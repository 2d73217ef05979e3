package telemetry

import (
	"strings"
	"time"
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
type claudeStream struct {
	tally
	digesting
	session, version, dir, model string // as the newest init told
	cause                        string // of the session that the next init tells
	prompted                     bool   // the prompt that is being answered was told
	compacting                   bool   // between a compaction's beginning and its end
	compacted                    bool   // since the last result
	interrupted                  bool   // the mark of an interrupt came since the last result
	failure                      ErrorKind
	until                        time.Time // when the limit of use is lifted that is reached
	message                      string    // id of the newest message whose figures were told
	answerer                     string    // the model of the newest message
	used                         int64     // tokens in the context, by the newest message
	// spent is what the process cost up to the last result, by all models, and
	// of what; it only grows.
	spent Usage
}

// claudeLine is what is read of one line. Its slices point into it.
type claudeLine struct {
	kind, subtype, message, compact, status, session []byte
	hook, failure, parent, event                     []byte
	uuid, at, model, version, dir, usage, models     []byte
	turns, code, result, limit                       []byte
	isError, synthetic                               bool
}

func (d *claudeStream) Decode(record []byte) []Signal {
	var r claudeLine
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			r.kind = val
		case "subtype":
			r.subtype = val
		case "message":
			r.message = val
		case "compact_metadata":
			r.compact = val
		case "status":
			r.status = val
		case "compact_result":
			r.result = val
		case "session_id":
			r.session = val
		case "hook_name":
			r.hook = val
		case "hook_event":
			r.event = val
		case "error":
			r.failure = val
		case "error_status", "api_error_status":
			r.code = val
		case "parent_tool_use_id":
			r.parent = val
		case "uuid":
			r.uuid = val
		case "timestamp":
			r.at = val
		case "model":
			r.model = val
		case "claude_code_version":
			r.version = val
		case "cwd":
			r.dir = val
		case "usage":
			r.usage = val
		case "modelUsage":
			r.models = val
		case "num_turns":
			r.turns = val
		case "rate_limit_info":
			r.limit = val
		case "is_error":
			r.isError = isTrue(val)
		case "isSynthetic":
			r.synthetic = isTrue(val)
		}
		return true
	})
	if !ok || len(r.kind) == 0 {
		d.miss(malformed)
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
		d.miss(word(r.kind))
	}
	return nil
}

// signal starts a signal told by the line.
func (r claudeLine) signal(kind Kind, detail string) Signal {
	s := Signal{Kind: kind, Source: "stream", Detail: detail, At: stamp(r.at), Session: name(r.session)}
	if s.Detail == "" {
		s.Detail = name(r.uuid)
	}
	s.Agent = name(r.parent) // the call of the Agent tool that the sub-agent works for
	return s
}

// prompt tells the prompt that is being answered, once. What a compaction
// asks the model is no prompt: `/compact` begins with the same lines as one that
// runs before the first call of a turn. Which it was is told by its boundary.
func (d *claudeStream) prompt(r claudeLine) []Signal {
	if d.prompted || d.compacting || len(name(r.parent)) > 0 {
		return nil
	}
	d.prompted = true
	return []Signal{r.signal(Prompt, "")}
}

func (d *claudeStream) system(r claudeLine) []Signal {
	switch string(r.subtype) {
	case `"init"`:
		return d.init(r)
	case `"hook_started"`:
		return d.hook(r)
	case `"api_retry"`:
		s := r.signal(LimitWait, "api_retry")
		s.Error = claudeFailure(word(r.failure), count(r.code))
		if s.Error == ErrUnknown && isNull(r.code) {
			s.Error = ErrNetwork // there was no answer that could have had a status
		}
		return append(d.prompt(r), s)
	case `"status"`:
		return d.status(r)
	case `"compact_boundary"`:
		d.compacting, d.compacted = false, true
		s := r.signal(Compacted, "")
		s.Compaction = claudeCompaction(r.compact)
		if s.Compaction.Trigger == "auto" { // it looks how full the context is because somebody asked
			return append(d.prompt(r), s)
		}
		return []Signal{s}
	case `"thinking_tokens"`:
		return append(d.prompt(r), r.signal(Alive, "thinking_tokens"))
	case `"task_started"`:
		return []Signal{r.signal(Alive, "task_started")}
	case `"hook_response"`:
		return nil
	}
	d.miss("system/" + word(r.subtype))
	return nil
}

// init begins the answer to each message. It is news when it tells of another
// session, or for the first time what this one is.
func (d *claudeStream) init(r claudeLine) []Signal {
	s := r.signal(SessionLive, "init")
	s.Model, s.Version, s.Dir, s.Cause = name(r.model), word(r.version), path(r.dir), d.cause
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
	s.Window, s.WindowSource = ModelWindow(s.Model)
	return []Signal{s}
}

// hook reads that a hook of the user's began, which says where the turn is.
func (d *claudeStream) hook(r claudeLine) []Signal {
	switch string(r.event) {
	case `"SessionStart"`:
		_, why, _ := strings.Cut(word(r.hook), ":")
		if why == "compact" {
			return nil
		}
		s := r.signal(SessionLive, word(r.hook))
		s.Cause = cause(why)
		d.cause = s.Cause
		return []Signal{s}
	case `"UserPromptSubmit"`:
		return d.prompt(r)
	case `"Stop"`:
		s := r.signal(TurnStop, "Stop")
		s.Outcome = Completed
		return []Signal{s}
	}
	return []Signal{r.signal(Alive, word(r.hook))}
}

// limited reads an account of the limits of a subscription, which comes when it
// changes. Claude Code does not wait for the end of a limit: the turn fails.
func (d *claudeStream) limited(r claudeLine) []Signal {
	var kind string
	var until time.Time
	rejected, beyond := false, false
	members(r.limit, func(key, val []byte) bool {
		switch string(key) {
		case "status":
			rejected = string(val) == `"rejected"`
		case "resetsAt":
			until = stampSeconds(val)
		case "rateLimitType":
			kind = word(val)
		case "isUsingOverage":
			beyond = isTrue(val) // it goes on, and is paid for
		}
		return true
	})
	d.until = time.Time{}
	if !rejected || beyond {
		return nil
	}
	d.until = until
	s := r.signal(Fault, detail("rate_limit_event", kind))
	s.Error, s.Until = ErrRateLimit, until
	return append(d.prompt(r), s) // nobody asked a model before there was a prompt
}

func (d *claudeStream) status(r claudeLine) []Signal {
	switch string(r.result) {
	case `"success"`: // the boundary follows
		d.compacting = false
		return nil
	case `"failed"`:
		d.compacting = false
		return []Signal{r.signal(Fault, "compact_result failed")}
	}
	switch string(r.status) {
	case `"compacting"`:
		d.compacting = true
		return []Signal{r.signal(Compacting, "")}
	case `"requesting"`:
		return d.prompt(r)
	case `null`:
	default:
		d.miss("status/" + word(r.status))
	}
	return nil
}

func (d *claudeStream) assistant(r claudeLine) []Signal {
	m := readClaudeMessage(r.message)
	if !m.whole {
		d.miss(malformed)
		return nil
	}
	id, model, usage := name(m.id), name(m.model), readClaudeUsage(m.usage)
	if model == "<synthetic>" {
		if len(r.failure) == 0 {
			return nil // an answer of Claude Code's own: to a command, or no content at all
		}
		d.failure = claudeError(word(r.failure))
		return d.prompt(r)
	}
	out := d.prompt(r)
	mine := name(r.parent) == ""
	if mine && usage.Used > 0 && (id == "" || id != d.message) {
		d.message, d.answerer, d.used = id, model, usage.Used
		s := r.signal(UsageSeen, "")
		s.Model, s.Usage = d.configured(model), &Usage{Used: usage.Used}
		out = append(out, s)
	}
	for _, tool := range m.started {
		out = append(out, tool.begun(r.signal(ToolStart, ""), &d.digesting))
	}
	if len(out) == 0 {
		out = append(out, r.signal(Alive, ""))
	}
	return out
}

// configured is the model's name with the suffix that a message has lost, where
// init told it.
func (d *claudeStream) configured(model string) string {
	if strings.TrimSuffix(d.model, oneMillion) == model {
		return d.model
	}
	return model
}

func (d *claudeStream) user(r claudeLine) []Signal {
	content := readClaudeMessage(r.message)
	if !r.synthetic && content.interrupted() {
		d.interrupted = true
	}
	var out []Signal
	for _, tool := range content.ended {
		out = append(out, tool.over(r.signal(ToolEnd, ""), &d.digesting))
	}
	return out
}

// end reads a result: what the turn cost, and how it ended.
func (d *claudeStream) end(r claudeLine) []Signal {
	var out []Signal
	// The one object of `--output-format json` is all there is of its prompt.
	if r.isError || count(r.turns) > 0 {
		d.compacting = false
		out = d.prompt(r)
	}
	models := readClaudeModels(r.models)
	turn := readClaudeUsage(r.usage)
	out = append(out, d.cost(r, turn, models)...)

	end := r.signal(TurnEnd, detail("result", word(r.subtype)))
	switch {
	case !d.prompted:
		end.Kind = Idle
	case d.interrupted:
		end.Outcome = Interrupted
	case r.isError || string(r.subtype) != `"success"`:
		end.Outcome, end.Error = Failed, d.failure
		if end.Error == "" {
			end.Error = ErrUnknown
		}
		if code := count(r.code); end.Error == ErrUnknown && code > 0 {
			end.Error = httpError(code)
		}
		if end.Error == ErrRateLimit {
			end.Until = d.until
		}
	default:
		end.Outcome = Completed
	}
	d.prompted, d.interrupted, d.compacting, d.compacted, d.failure = false, false, false, false, ""
	return append(out, end)
}

// cost tells what the turn cost and what was spent beside it, and the window
// that the result names.
func (d *claudeStream) cost(r claudeLine, turn Usage, models []claudeModel) (out []Signal) {
	model := d.model
	if model == "" {
		model = d.answerer
	}
	var spent Usage
	var window int64
	for _, m := range models {
		spent.Input += m.usage.Input
		spent.CacheRead += m.usage.CacheRead
		spent.CacheWrite += m.usage.CacheWrite
		spent.Output += m.usage.Output
		if len(models) == 1 && model == "" {
			model = m.name
		}
		if m.name == model || strings.TrimSuffix(m.name, oneMillion) == model {
			model, window = m.name, m.window
		}
	}
	beside := Usage{
		Input: spent.Input - d.spent.Input - turn.Input, CacheRead: spent.CacheRead - d.spent.CacheRead - turn.CacheRead,
		CacheWrite: spent.CacheWrite - d.spent.CacheWrite - turn.CacheWrite, Output: spent.Output - d.spent.Output - turn.Output,
	}
	if len(models) > 0 {
		d.spent = spent
	}

	if turn.Used+turn.Output > 0 {
		s := r.signal(UsageSeen, "")
		turn.Used = d.used
		if turn.Used == 0 && count(r.turns) == 1 {
			turn.Used = turn.Input + turn.CacheRead + turn.CacheWrite // the turn was this one call
		}
		turn.ID = name(r.uuid)
		s.Usage, s.Model = &turn, model
		if window > 0 {
			s.Window, s.WindowSource = window, "reported"
		}
		out = append(out, s)
	} else if window > 0 {
		s := r.signal(WindowSeen, "")
		s.Model, s.Window, s.WindowSource = model, window, "reported"
		out = append(out, s)
	}
	if len(models) > 0 && min(beside.Input, beside.CacheRead, beside.CacheWrite, beside.Output) >= 0 &&
		beside.Input+beside.CacheRead+beside.CacheWrite+beside.Output > 0 {
		s := r.signal(UsageSeen, "")
		s.Side = "unknown" // titles, sub-agents, and what else nobody tells apart
		if d.compacted {
			s.Side = "compaction"
		}
		beside.ID, beside.Request = name(r.uuid), "beside" // another call than the turn's own
		s.Usage = &beside
		out = append(out, s)
	}
	return out
}

// claudeModel is what a result says of one model: all that it cost since the
// process began, and its window.
type claudeModel struct {
	name   string
	usage  Usage
	window int64
}

func readClaudeModels(val []byte) (models []claudeModel) {
	members(val, func(key, val []byte) bool {
		m := claudeModel{name: printable(quoted(key), 256)}
		members(val, func(key, val []byte) bool {
			switch string(key) {
			case "inputTokens":
				m.usage.Input = count(val)
			case "outputTokens":
				m.usage.Output = count(val)
			case "cacheReadInputTokens":
				m.usage.CacheRead = count(val)
			case "cacheCreationInputTokens":
				m.usage.CacheWrite = count(val)
			case "contextWindow":
				m.window = count(val)
			}
			return true
		})
		models = append(models, m)
		return len(models) < 64
	})
	return models
}

// quoted puts the quotes back around a key.
func quoted(key []byte) []byte {
	return append(append([]byte{'"'}, key...), '"')
}
