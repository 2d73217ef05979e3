package hermes

import (
	"strconv"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// store decodes the rows of Hermes's state.db, as the queries in package profiles
// return them: either a message, with data of its session's row, or a session. The
// queries leave all text in the database.
//
// A row has no turn id, so the signals have no turn. The tokens in a row are totals
// of the session. Each usage is the increase since the session's previous row, so the
// tokens before the first row that is read are not reported.
type store struct {
	telemetry.Tally
	sessions map[string]*session
}

// session is the state that the decoder keeps for one session.
type session struct {
	parent     string    // the session that a sub-agent works for
	newest     time.Time // time of the newest message
	summarized bool      // the context was rewritten: older messages may be repeated
	expects    bool      // begin reported the compaction that began the session; the row of its summary is not read yet
	aside      bool      // the newest row with the role user was not a prompt
	live, gone bool
	counted    bool // the totals of an earlier row are known
	totals     totals
}

// totals are the token columns of a session's row.
type totals struct{ calls, input, output, read, write, reasoning int64 }

// row is one row that a query returns.
type row struct {
	table, id, session, role, finish, tool, kind string
	at                                           time.Time
	calls                                        []byte
	summary, observed                            bool
	of                                           owner
}

// owner holds the columns of the session's own row.
type owner struct {
	parent, source, model, dir, reason, parentReason string
	started, ended, parentEnded                      time.Time
	delegated, branched, reset                       bool
	totals                                           totals
	known                                            bool
}

// Store returns a decoder of rows of state.db.
func Store() telemetry.Decoder { return new(store) }

func (d *store) Decode(record []byte) []telemetry.Signal {
	var r row
	ok := scan.Object(record,
		scan.Word("table", &r.table),
		scan.Func("id", func(val []byte) {
			if n := scan.CountOf(val); n > 0 {
				r.id = "message-" + strconv.FormatInt(n, 10)
			}
		}),
		scan.Name("session_id", &r.session), scan.Word("role", &r.role), scan.Seconds("timestamp", &r.at),
		scan.Word("finish_reason", &r.finish), scan.Name("tool_call_id", &r.tool), scan.Raw("tool_calls", &r.calls),
		scan.Word("display_kind", &r.kind), scan.Func("_compressed_summary", func(val []byte) { r.summary = scan.CountOf(val) > 0 }),
		scan.Func("observed", func(val []byte) { r.observed = scan.CountOf(val) > 0 }),
		scan.Func("session", func(val []byte) { r.of.read(val) }))
	if !ok || r.session == "" {
		d.Miss(telemetry.Malformed)
		return nil
	}
	switch r.table {
	case "messages":
		return d.message(r)
	case "sessions":
		return d.row(r)
	}
	d.Miss("table/" + r.table)
	return nil
}

func (o *owner) read(val []byte) {
	o.known = scan.Object(val,
		scan.Name("parent_session_id", &o.parent), scan.Word("source", &o.source), scan.Name("model", &o.model),
		scan.Path("cwd", &o.dir), scan.Word("end_reason", &o.reason), scan.Word("parent_end_reason", &o.parentReason),
		scan.Seconds("started_at", &o.started), scan.Seconds("ended_at", &o.ended), scan.Seconds("parent_ended_at", &o.parentEnded),
		scan.Func("delegated", func(val []byte) { o.delegated = scan.CountOf(val) > 0 }),
		scan.Func("branched", func(val []byte) { o.branched = scan.CountOf(val) > 0 }),
		scan.Func("reset", func(val []byte) { o.reset = scan.CountOf(val) > 0 }), scan.Count("api_call_count", &o.totals.calls),
		scan.Count("input_tokens", &o.totals.input), scan.Count("output_tokens", &o.totals.output),
		scan.Count("cache_read_tokens", &o.totals.read), scan.Count("cache_write_tokens", &o.totals.write),
		scan.Count("reasoning_tokens", &o.totals.reasoning))
}

// begun returns how a session with a parent began.
func (o owner) begun() string {
	switch {
	case o.parent == "":
		return "unknown"
	case o.delegated, o.source == "subagent":
		return "agent"
	case o.branched:
		return "fork"
	case o.reset:
		return "clear"
	case o.parentReason == "compression":
		return "compact"
	case o.parentReason == "branched":
		return "fork"
	case o.parentEnded.IsZero(), o.started.Before(o.parentEnded):
		return "agent" // the parent continued, so this session is a sub-agent's
	}
	return "unknown"
}

func (d *store) session(r row) *session {
	if s := d.sessions[r.session]; s != nil {
		return s
	}
	if d.sessions == nil || len(d.sessions) >= 4096 {
		d.sessions = make(map[string]*session)
	}
	s := new(session)
	if r.of.begun() == "agent" {
		s.parent = r.of.parent
	}
	d.sessions[r.session] = s
	return s
}

// signal returns a signal of this kind, with the fields that the row
// determines.
func (r row) signal(kind telemetry.Kind, s *session) telemetry.Signal {
	out := telemetry.Signal{Kind: kind, Source: "store", Detail: r.id, At: r.at, Session: r.session}
	if s.parent != "" {
		out.Session, out.Agent = s.parent, r.session
	}
	return out
}

// row reads a session's own row: its tokens, and its end. The row alone does
// not make the session live.
func (d *store) row(r row) []telemetry.Signal {
	s := d.session(r)
	r.id, r.at = "session", r.of.ended
	out := s.grown(r)
	if r.of.ended.IsZero() {
		s.gone = false // a session that had ended was resumed
		return out
	}
	// A session that a compaction ended continues under another id.
	if s.gone || s.parent != "" || r.of.reason == "compression" {
		return out
	}
	s.gone = true
	gone := r.signal(telemetry.SessionGone, s)
	gone.Reason = r.of.reason
	return append(out, gone)
}

func (d *store) message(r row) []telemetry.Signal {
	s := d.session(r)
	var out []telemetry.Signal
	if !s.live {
		s.live = true
		out = append(out, d.begin(r, s)...)
	}
	out = append(out, s.grown(r)...)
	if r.summary {
		s.summarized = true
		if s.expects {
			s.expects = false
			return out
		}
		c := r.signal(telemetry.Compacted, s)
		c.Compaction = &telemetry.Compaction{Half: "record", Trigger: "unknown"}
		return append(out, c)
	}
	// Messages that a compaction keeps are stored a second time after the summary,
	// with their old times.
	if s.summarized && !r.at.After(s.newest) {
		return out
	}
	if r.at.After(s.newest) {
		s.newest = r.at
	}
	switch r.role {
	case "user":
		// The message has a kind if Hermes itself started the turn. A message
		// that belongs to no turn is marked as observed.
		if s.aside = r.kind != "" || r.observed; s.aside {
			return out
		}
		if s.parent != "" {
			return append(out, r.signal(telemetry.Working, s)) // the parent session wrote this message, not the user
		}
		return append(out, r.signal(telemetry.Prompt, s))
	case "assistant":
		return append(out, s.answered(r)...)
	case "tool":
		if r.tool != "" {
			end := r.signal(telemetry.ToolEnd, s)
			end.Tool = r.tool
			out = append(out, end)
		}
	case "system", "session_meta":
	default:
		d.Miss("role/" + r.role)
	}
	return out
}

// begin reports that a session is live. If the session continues another one
// after a compaction, begin also reports that compaction.
func (d *store) begin(r row, s *session) []telemetry.Signal {
	if s.parent != "" {
		return nil
	}
	live := r.signal(telemetry.SessionLive, s)
	live.Cause, live.Dir, live.Model = r.of.begun(), r.of.dir, r.of.model
	if live.Cause != "compact" {
		return []telemetry.Signal{live}
	}
	live.From = r.of.parent
	s.summarized, s.expects = true, true
	if before := d.sessions[r.of.parent]; before != nil {
		s.newest = before.newest
	}
	c := r.signal(telemetry.Compacted, s)
	c.Session = r.of.parent
	c.Compaction = &telemetry.Compaction{Half: "record", Trigger: "unknown"}
	return []telemetry.Signal{c, live}
}

// grown reports the increase of the session's tokens. If it is the increase by
// a single call, it also shows the size of the context.
func (s *session) grown(r row) []telemetry.Signal {
	if !r.of.known {
		return nil
	}
	before, now := s.totals, r.of.totals
	counted := s.counted
	s.totals, s.counted = now, true
	if !counted || now == before || now.calls < before.calls || now.input < before.input || now.output < before.output ||
		now.read < before.read || now.write < before.write || now.reasoning < before.reasoning {
		return nil
	}
	u := &telemetry.Usage{ID: "calls-" + strconv.FormatInt(now.calls, 10), Input: now.input - before.input, Output: now.output - before.output,
		CacheRead: now.read - before.read, CacheWrite: now.write - before.write, Reasoning: now.reasoning - before.reasoning}
	if now.calls == before.calls+1 {
		u.Used = u.Input + u.CacheRead + u.CacheWrite
	}
	if u.Input+u.Output+u.CacheRead+u.CacheWrite == 0 {
		return nil
	}
	sig := r.signal(telemetry.UsageSeen, s)
	sig.Model, sig.Usage = r.of.model, u
	return []telemetry.Signal{sig}
}

func (s *session) answered(r row) []telemetry.Signal {
	var out []telemetry.Signal
	scan.Elements(r.calls, func(val []byte) bool {
		if id := scan.NameOf(val); id != "" {
			start := r.signal(telemetry.ToolStart, s)
			start.Tool = id
			out = append(out, start)
		}
		return true
	})
	if len(out) > 0 || r.finish == "tool_calls" || s.aside {
		return out
	}
	stop := r.signal(telemetry.TurnStop, s)
	if r.finish == "stop" || r.finish == "length" {
		stop.Outcome = telemetry.Completed
	}
	return []telemetry.Signal{stop}
}
