package telemetry

import (
	"strings"
	"time"
)

// openclawTranscript decodes the rows of OpenClaw's transcript_events, as the
// profile's query gives them: the session's id, the row's own time and the
// event. One store holds many sessions, and their rows may be mixed.
//
// A prompt's row does not name its run. A gateway gives the prompt a key that
// is the run's id, a local session another one, and nothing in the row tells
// which. So a prompt is kept back until the next row of the session that names
// a run; that the harness works is told at once. A prompt whose run was told
// already is text typed into the running turn.
type openclawTranscript struct {
	tally
	digesting
	sessions map[string]*openclawSession
}

// openclawSession is what is remembered of one session.
type openclawSession struct {
	held   *Signal // a prompt whose run is not known yet
	side   string  // the newest row of a user was this: what else than a person asked
	run    string  // the newest run of a person
	beside string  // the newest run that no person asked for, and
	what   string  // what did
	failed string  // the run whose last answer was an error
}

// openclawRow is one row, with its event not yet read.
type openclawRow struct {
	session, id, kind string
	at                time.Time
	message, data     []byte
	custom, dir       string
	forked            bool
	before, after     *int64
}

func (d *openclawTranscript) Decode(record []byte) []Signal {
	var r openclawRow
	var event []byte
	ok := members(record, func(key, val []byte) bool {
		switch string(key) {
		case "session_id":
			r.session = name(val)
		case "created_at":
			r.at = stampMilli(val)
		case "event":
			event = val
		}
		return true
	})
	switch {
	case !ok || r.session == "" || len(event) == 0:
		d.miss(malformed)
		return nil
	case isNull(event):
		d.miss("compressed") // the row holds its event as zstd
		return nil
	}
	if !r.read(event) || r.kind == "" {
		d.miss(malformed)
		return nil
	}
	return d.row(r)
}

func (r *openclawRow) read(event []byte) bool {
	return members(event, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			r.kind = word(val)
		case "id":
			r.id = name(val)
		case "timestamp":
			if t := stamp(val); !t.IsZero() {
				r.at = t
			}
		case "message":
			r.message = val
		case "data":
			r.data = val
		case "customType":
			r.custom = word(val)
		case "cwd":
			r.dir = path(val)
		case "parentSession":
			r.forked = name(val) != ""
		case "tokensBefore":
			r.before = known(val)
		case "tokensAfter":
			r.after = known(val)
		}
		return true
	})
}

// known is the number of tokens val, nil when it is none.
func known(val []byte) *int64 {
	if n := count(val); n > 0 {
		return &n
	}
	return nil
}

func (d *openclawTranscript) row(r openclawRow) []Signal {
	s := d.session(r.session)
	switch r.kind {
	case "session":
		live := r.signal(SessionLive)
		live.Cause, live.Dir = "startup", r.dir
		if r.forked {
			live.Cause = "fork"
		}
		return []Signal{live}
	case "message":
		return d.message(r, s)
	case "custom":
		if r.custom == "openclaw:bootstrap-context:full" {
			return s.settled(r)
		}
	case "compaction":
		c := r.signal(Compacted)
		c.Compaction = &Compaction{Half: "record", Trigger: "unknown", Before: r.before, After: r.after}
		return []Signal{c}
	case "reset":
		// The session keeps its id and starts from nothing.
		out := s.over(r)
		*s = openclawSession{}
		live := r.signal(SessionLive)
		live.Cause = "clear"
		return append(out, live)
	case "model_change", "thinking_level_change", "custom_message", "branch_summary", "label", "session_info", "leaf":
	default:
		d.miss(r.kind)
	}
	return nil
}

func (d *openclawTranscript) session(id string) *openclawSession {
	if s := d.sessions[id]; s != nil {
		return s
	}
	if d.sessions == nil || len(d.sessions) >= openclawRuns {
		d.sessions = make(map[string]*openclawSession)
	}
	s := new(openclawSession)
	d.sessions[id] = s
	return s
}

// signal starts a signal told by the row.
func (r openclawRow) signal(kind Kind) Signal {
	return Signal{Kind: kind, Source: "transcript", Detail: r.id, At: r.at, Session: r.session}
}

func (d *openclawTranscript) message(r openclawRow, s *openclawSession) []Signal {
	m := readOpenclawMessage(r.message)
	switch string(m.role) {
	case `"user"`:
		return s.asked(r, m)
	case `"assistant"`:
		return s.answered(r, m, &d.digesting)
	case `"toolResult"`:
		if m.tool == "" || s.isBeside(m.run) {
			return nil
		}
		end := r.signal(ToolEnd)
		end.Turn, end.Tool, end.ToolName = s.run, m.tool, m.toolName
		end.Result, end.ToolError = d.sized(m.content), toolError(m.failed)
		return []Signal{end}
	case `"bashExecution"`, `"custom"`, `"branchSummary"`, `"compactionSummary"`:
	default:
		d.miss("message/" + word(m.role))
	}
	return nil
}

// over tells what only a later row proves: that a run had failed for good, and
// that the prompt before was given to no run that answered.
func (s *openclawSession) over(r openclawRow) []Signal {
	var out []Signal
	if s.failed != "" {
		end := r.signal(TurnEnd)
		end.Turn, end.Outcome, end.Error = s.failed, Failed, ErrUnknown
		out, s.failed = append(out, end), ""
	}
	if s.held != nil {
		out, s.run, s.held = append(out, *s.held), s.held.Turn, nil
	}
	return out
}

// asked reads a row of the user's side. What another session, a tool or the
// harness itself says there is no prompt.
func (s *openclawSession) asked(r openclawRow, m openclawMessage) []Signal {
	if s.side = m.provenance; s.side == "external_user" {
		s.side = "" // a person, on a channel
	}
	if s.side != "" {
		return nil
	}
	out := s.over(r)
	if s.beside == "" {
		s.what = "" // a run without a name is over with the next prompt
	}
	p := r.signal(Prompt)
	if p.Turn = strings.TrimSuffix(m.key, ":user"); p.Turn == "" {
		p.Turn = r.id
	}
	s.held = &p
	return append(out, r.signal(Working))
}

// named takes the run that a row names: it is that of what was asked last.
func (s *openclawSession) named(run string) []Signal {
	if s.side != "" {
		s.beside, s.what, s.side = run, s.side, ""
		return nil
	}
	if s.held == nil {
		if run != "" && run != s.beside {
			s.run = run
		}
		return nil
	}
	p := *s.held
	s.held = nil
	if run != "" {
		if run == s.run {
			return nil // typed into the running turn
		}
		p.Turn = run
	}
	s.run, s.failed = p.Turn, ""
	return []Signal{p}
}

// isBeside says that a row belongs to the newest run that no person asked for.
func (s *openclawSession) isBeside(run string) bool { return s.what != "" && run == s.beside }

func (s *openclawSession) answered(r openclawRow, m openclawMessage, d *digesting) []Signal {
	if m.mirrored {
		return nil // what was sent to a channel, noted
	}
	out := s.named(m.run)
	beside := s.isBeside(m.run)
	turn := m.run
	if turn == "" {
		turn = s.run
	}
	if m.usage != nil {
		u := r.signal(UsageSeen)
		u.Turn, u.Model, u.Usage = turn, m.model, m.call(m.run, r.id)
		if beside {
			u.Side = s.what
		}
		out = append(out, u)
	}
	if beside {
		return out
	}
	s.failed = ""
	switch string(m.stop) {
	case `"stop"`, `"length"`:
		stop := r.signal(TurnStop)
		stop.Turn, stop.Outcome = turn, Completed
		out = append(out, stop)
	case `"toolUse"`:
		out = append(out, openclawToolCalls(r, turn, m.content, d)...)
	case `"aborted"`:
		end := r.signal(TurnEnd)
		end.Turn, end.Outcome = turn, Interrupted
		out = append(out, end)
	case `"error"`:
		// The same run may go on with another attempt or another model.
		fault := r.signal(Fault)
		fault.Turn, fault.Error = turn, ErrUnknown
		s.failed = turn
		out = append(out, fault)
	}
	return out
}

func openclawToolCalls(r openclawRow, turn string, content []byte, d *digesting) []Signal {
	var out []Signal
	elements(content, func(val []byte) bool {
		var kind, args []byte
		var id, tool string
		members(val, func(key, val []byte) bool {
			switch string(key) {
			case "type":
				kind = val
			case "id":
				id = name(val)
			case "name":
				tool = word(val)
			case "arguments":
				args = val
			}
			return len(kind) == 0 || string(kind) == `"toolCall"`
		})
		if string(kind) == `"toolCall"` && id != "" {
			start := r.signal(ToolStart)
			start.Turn, start.Tool, start.ToolName, start.Args = turn, id, tool, d.sized(args)
			out = append(out, start)
		}
		return true
	})
	return out
}

// settled reads the note that OpenClaw appends when a run with the whole
// context has ended well. Not every run leaves one.
func (s *openclawSession) settled(r openclawRow) []Signal {
	run := member(r.data, "runId", name)
	out := s.named(run)
	if run == "" || s.isBeside(run) {
		return out
	}
	end := r.signal(TurnEnd)
	end.Turn, end.Outcome = run, Completed
	s.failed = ""
	return append(out, end)
}
