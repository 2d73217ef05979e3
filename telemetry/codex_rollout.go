package telemetry

import (
	"strconv"
	"time"
)

// codexRollout decodes one line of a Codex rollout.
//
// A compaction is a model call like any other until the `compacted` record
// follows its usage, and its usage is no measure of the session's context. A
// usage is told at once when the model is known to have answered or called a
// tool; else it is kept back until the next record says what it was.
type codexRollout struct {
	tally
	session  string
	turn     string // of the newest task_started
	prompted string // the turn whose prompt was told
	model    string
	window   int64
	answered bool // since the last usage the model answered or called a tool
	kept     *Signal
	used     int64 // the newest usage told or kept, 0 when there is none
	rewrote  bool  // compacted; the next token_count is Codex's own estimate

	next  uint64 // the ordinal that must follow; Codex numbers without a hole
	begun bool   // next is known
}

// codexRecord is one line, with its payload not yet read.
type codexRecord struct {
	kind, payload []byte
	ordinal       string
	n             uint64 // the ordinal, when there is one
	at            time.Time
}

func (d *codexRollout) Decode(record []byte) []Signal {
	var r codexRecord
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "timestamp":
			r.at = stamp(val)
		case "ordinal":
			if n, err := strconv.ParseUint(string(val), 10, 53); err == nil {
				r.ordinal, r.n = "ordinal "+strconv.FormatUint(n, 10), n
			}
		case "type":
			r.kind = val
			return string(val) != `"world_state"` // large, and never of use
		case "payload":
			r.payload = val
		}
		return true
	})
	if !ok || len(r.kind) == 0 {
		d.miss(malformed)
		return nil
	}
	return append(d.sequence(r), d.record(r)...)
}

// sequence follows the ordinals. The first one seen is where we came in: a
// resumed file is read from its middle, a fork's begins behind its origin's.
func (d *codexRollout) sequence(r codexRecord) []Signal {
	if r.ordinal == "" {
		d.begun = false // nothing can be said about the next one
		return nil
	}
	missing := [2]uint64{d.next, r.n - 1}
	jumped := d.begun && r.n > d.next
	d.begun, d.next = true, max(d.next, r.n+1)
	if !jumped {
		return nil
	}
	s := d.signal(r, Gap)
	s.Missing = &missing
	return []Signal{s}
}

// record reads one record by its kind.
func (d *codexRollout) record(r codexRecord) []Signal {
	switch string(r.kind) {
	case `"token_usage_record"`:
		return append(d.release(), d.usage(r)...)
	case `"compacted"`:
		return d.compacted(r)
	case `"event_msg"`:
		return d.event(r)
	case `"session_meta"`:
		return append(d.release(), d.meta(r)...)
	case `"response_item"`:
		return append(d.release(), d.item(r)...)
	case `"turn_context"`:
		d.readModel(r.payload)
	case `"world_state"`:
	default:
		d.miss(word(r.kind))
	}
	return d.release()
}

// signal starts a signal told by the record.
func (d *codexRollout) signal(r codexRecord, kind Kind) Signal {
	return Signal{Kind: kind, Source: "rollout", Detail: r.ordinal, At: r.at, Session: d.session, Turn: d.turn}
}

// release tells the usage that was kept back: it was no compaction's.
func (d *codexRollout) release() []Signal {
	if d.kept == nil {
		return nil
	}
	s := *d.kept
	d.kept = nil
	return []Signal{s}
}

// readModel takes the model's name from the settings of a turn or a thread.
func (d *codexRollout) readModel(settings []byte) {
	members(settings, func(key, val []byte) bool {
		if string(key) != "model" {
			return true
		}
		d.model = name(val)
		return false
	})
}

func (d *codexRollout) meta(r codexRecord) []Signal {
	from := "startup"
	members(r.payload, func(key, val []byte) bool {
		switch string(key) {
		case "id":
			d.session = name(val)
		case "forked_from_id":
			if name(val) != "" {
				from = "fork"
			}
		}
		return true
	})
	s := d.signal(r, SessionLive)
	s.Cause = from
	return []Signal{s}
}

// item reads a response_item: only calls of tools and their results matter.
func (d *codexRollout) item(r codexRecord) []Signal {
	var kind Kind
	var call string
	members(r.payload, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			switch string(val) {
			case `"function_call"`, `"custom_tool_call"`, `"local_shell_call"`:
				kind, d.answered = ToolStart, true
			case `"function_call_output"`, `"custom_tool_call_output"`:
				kind = ToolEnd
			default:
				return false
			}
		case "call_id":
			call = name(val)
		}
		return true
	})
	if kind == "" || call == "" {
		return nil
	}
	s := d.signal(r, kind)
	s.Tool = call
	return []Signal{s}
}

func (d *codexRollout) usage(r codexRecord) []Signal {
	var id string
	var used, output int64
	members(r.payload, func(key, val []byte) bool {
		switch string(key) {
		case "thread_id":
			if thread := name(val); thread != "" {
				d.session = thread
			}
		case "turn_id":
			d.turn = name(val)
		case "response_id":
			id = name(val)
		case "usage":
			used, output = codexTokens(val)
		}
		return true
	})
	answered := d.answered
	d.answered, d.rewrote = false, false
	if used == 0 {
		return nil
	}
	d.used = used
	s := d.signal(r, UsageSeen)
	s.Model = d.model
	s.Usage = &Usage{ID: id, Used: used, Output: output}
	s.Window, s.WindowSource = d.reported()
	if !answered {
		d.kept = &s
		return nil
	}
	return []Signal{s}
}

func (d *codexRollout) reported() (int64, string) {
	if d.window == 0 {
		return 0, ""
	}
	return d.window, "reported"
}

func (d *codexRollout) compacted(r codexRecord) []Signal {
	d.kept, d.used, d.rewrote = nil, 0, true
	s := d.signal(r, Compacted)
	s.Compaction = &Compaction{Half: "record", Trigger: "unknown"}
	return []Signal{s}
}

// codexEvent is what is read of an event_msg's payload.
type codexEvent struct {
	kind, info, item, failure, settings []byte
	turn, thread                        string
	window                              int64
}

func (d *codexRollout) event(r codexRecord) []Signal {
	var e codexEvent
	members(r.payload, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			e.kind = val
		case "info":
			e.info = val
		case "item":
			e.item = val
		case "error":
			e.failure = val
		case "turn_id":
			e.turn = name(val)
		case "thread_id":
			e.thread = name(val)
		case "thread_settings":
			e.settings = val
		case "model_context_window":
			e.window = count(val)
		}
		return true
	})
	if string(e.kind) == `"token_count"` {
		return d.tokenCount(r, e.info)
	}
	out := d.release()
	// A rollout that is read from its middle names its thread here first.
	if e.thread != "" {
		d.session = e.thread
	}
	switch string(e.kind) {
	case `"task_started"`:
		d.turn, d.answered = e.turn, false
		if e.window > 0 {
			d.window = e.window
		}
		s := d.signal(r, Working)
		s.Window, s.WindowSource = d.reported()
		return append(out, s)
	case `"item_completed"`:
		return append(out, d.completed(r, e)...)
	case `"task_complete"`:
		s := d.signal(r, TurnEnd)
		s.Turn, s.Outcome = e.turn, Completed
		if len(e.failure) > 0 && !isNull(e.failure) {
			s.Outcome, s.Error = Failed, codexError(e.failure)
		}
		d.turn = ""
		return append(out, s)
	case `"turn_aborted"`:
		s := d.signal(r, TurnEnd)
		s.Turn, s.Outcome = e.turn, Interrupted
		d.turn = ""
		return append(out, s)
	case `"thread_settings_applied"`:
		d.readModel(e.settings)
		return out
	}
	d.miss("event_msg/" + word(e.kind))
	return out
}

// completed reads an item_completed event. A turn with a user's message is a
// turn that somebody asked for; one without is `/compact`.
func (d *codexRollout) completed(r codexRecord, e codexEvent) []Signal {
	var kind []byte
	members(e.item, func(key, val []byte) bool {
		if string(key) != "type" {
			return true
		}
		kind = val
		return false
	})
	switch string(kind) {
	case `"AgentMessage"`:
		d.answered = true
	case `"UserMessage"`:
		if e.turn == d.prompted {
			return nil // text typed into the running turn
		}
		d.prompted = e.turn
		s := d.signal(r, Prompt)
		s.Turn = e.turn
		return []Signal{s}
	}
	return nil
}

// tokenCount reads the state of the context. It mostly repeats what the usage
// record before it told; it is news when it differs, or after a compaction.
func (d *codexRollout) tokenCount(r codexRecord, info []byte) []Signal {
	var used, output, window int64
	members(info, func(key, val []byte) bool {
		switch string(key) {
		case "last_token_usage":
			used, output = codexTokens(val)
		case "model_context_window":
			window = count(val)
		}
		return true
	})
	if used == 0 {
		return nil // null: no news
	}
	sameWindow := window == 0 || window == d.window
	if window > 0 {
		d.window = window
	}
	if used == d.used && d.kept != nil {
		d.kept.Window, d.kept.WindowSource = d.reported()
		return nil // it stays kept back: `compacted` may still follow
	}
	if used == d.used && sameWindow {
		return nil
	}
	out := d.release()
	d.used = used
	s := d.signal(r, UsageSeen)
	s.Model = d.model
	s.Usage = &Usage{Used: used, Output: output, Estimate: d.rewrote}
	s.Window, s.WindowSource = d.reported()
	d.rewrote = false
	return append(out, s)
}

func codexTokens(val []byte) (total, output int64) {
	members(val, func(key, val []byte) bool {
		switch string(key) {
		case "total_tokens":
			total = count(val)
		case "output_tokens":
			output = count(val)
		}
		return true
	})
	return total, output
}

// codexError reads `codex_error_info` of a failed turn: a word, or a word with
// the HTTP status that the last attempt got.
func codexError(failure []byte) ErrorKind {
	var info []byte
	members(failure, func(key, val []byte) bool {
		if string(key) == "codex_error_info" {
			info = val
		}
		return true
	})
	cause, status := word(info), int64(0)
	members(info, func(key, val []byte) bool {
		cause = string(key)
		members(val, func(key, val []byte) bool {
			if string(key) == "http_status_code" {
				status = count(val)
			}
			return true
		})
		return false
	})
	switch cause {
	case "context_window_exceeded":
		return ErrContextFull
	case "usage_limit_exceeded":
		return ErrQuota
	case "internal_server_error", "server_overloaded":
		return ErrServer
	case "unauthorized":
		return ErrAuth
	case "bad_request":
		return ErrInvalidRequest
	case "http_connection_failed", "response_stream_connection_failed",
		"response_stream_disconnected", "response_too_many_failed_attempts":
		return httpError(status)
	}
	return ErrUnknown
}

// httpError is the cause that the status of a failed request tells; without a
// status no answer came at all.
func httpError(status int64) ErrorKind {
	switch {
	case status == 0:
		return ErrNetwork
	case status == 429:
		return ErrRateLimit
	case status == 401, status == 403:
		return ErrAuth
	case status == 402:
		return ErrQuota
	case status >= 500:
		return ErrServer
	case status >= 400:
		return ErrInvalidRequest
	}
	return ErrUnknown
}
