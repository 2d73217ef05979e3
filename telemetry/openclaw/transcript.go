package openclaw

import (
	"cmp"
	"strings"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// transcript decodes the rows of OpenClaw's transcript_events, as the query in package
// profiles returns them: the session's id, the row's own time and the event. One
// store holds many sessions, and their rows may be mixed.
//
// The row of a prompt does not name a run. The row's key is the run's id in a gateway
// but another id in a local session, and the row does not show which. A prompt
// is therefore held until the session's next answer, which may name a run; only
// Working is reported at once. If the named run already has a prompt, the held prompt
// is text added to the running turn.
type transcript struct {
	telemetry.Tally
	telemetry.Digests
	sessions map[string]*session
}

// session is the state that the decoder keeps for one session.
type session struct {
	held    *telemetry.Signal // a prompt whose run is not known yet
	side    string            // the sender of the newest row with the role user, until a run answers it; empty if the user sent it
	run     string            // the newest run that the user asked for
	beside  string            // the newest run that the user did not ask for
	trigger string            // the sender of the row that the run s.beside answers
	failed  string            // the run whose last answer was an error
}

// row is one row, with its event not yet decoded.
type row struct {
	session, id, kind string
	at                time.Time
	message, data     []byte
	custom, dir       string
	forked            bool
	before, after     *int64
}

// Transcript returns a decoder of rows of transcript_events.
func Transcript() telemetry.Decoder { return new(transcript) }

func (d *transcript) Decode(record []byte) []telemetry.Signal {
	var r row
	var event []byte
	ok := scan.Object(record,
		scan.Name("session_id", &r.session), scan.Milli("created_at", &r.at), scan.Raw("event", &event))
	switch {
	case !ok || r.session == "" || len(event) == 0:
		d.Miss(telemetry.Malformed)
		return nil
	case scan.IsNull(event):
		d.Miss("compressed") // the event is compressed with zstd
		return nil
	}
	if !r.read(event) || r.kind == "" {
		d.Miss(telemetry.Malformed)
		return nil
	}
	return d.row(r)
}

func (r *row) read(event []byte) bool {
	return scan.Object(event,
		scan.Word("type", &r.kind), scan.Name("id", &r.id),
		scan.Func("timestamp", func(val []byte) {
			if t := scan.TimeOf(val); !t.IsZero() {
				r.at = t
			}
		}),
		scan.Raw("message", &r.message), scan.Raw("data", &r.data), scan.Word("customType", &r.custom), scan.Path("cwd", &r.dir),
		scan.Func("parentSession", func(val []byte) { r.forked = scan.NameOf(val) != "" }),
		scan.Func("tokensBefore", func(val []byte) { r.before = known(val) }),
		scan.Func("tokensAfter", func(val []byte) { r.after = known(val) }))
}

// known returns val as a number of tokens, or nil if val is 0 or not such a number.
func known(val []byte) *int64 {
	if n := scan.CountOf(val); n > 0 {
		return &n
	}
	return nil
}

func (d *transcript) row(r row) []telemetry.Signal {
	s := d.session(r.session)
	switch r.kind {
	case "session":
		live := r.signal(telemetry.SessionLive)
		live.Cause, live.Dir = "startup", r.dir
		if r.forked {
			live.Cause = "fork"
		}
		return []telemetry.Signal{live}
	case "message":
		return d.message(r, s)
	case "custom":
		if r.custom == "openclaw:bootstrap-context:full" {
			return s.settled(r)
		}
	case "compaction":
		c := r.signal(telemetry.Compacted)
		c.Compaction = &telemetry.Compaction{Half: "record", Trigger: "unknown", Before: r.before, After: r.after}
		return []telemetry.Signal{c}
	case "reset":
		// The session keeps its id and starts with an empty context.
		out := s.over(r)
		*s = session{}
		live := r.signal(telemetry.SessionLive)
		live.Cause = "clear"
		return append(out, live)
	case "model_change", "thinking_level_change", "custom_message", "branch_summary", "label", "session_info", "leaf":
	default:
		d.Miss(r.kind)
	}
	return nil
}

func (d *transcript) session(id string) *session {
	if s := d.sessions[id]; s != nil {
		return s
	}
	s := new(session)
	remember(&d.sessions, id, s)
	return s
}

// signal returns a signal of this kind, with the fields that the row
// determines.
func (r row) signal(kind telemetry.Kind) telemetry.Signal {
	return telemetry.Signal{Kind: kind, Source: "transcript", Detail: r.id, At: r.at, Session: r.session}
}

func (d *transcript) message(r row, s *session) []telemetry.Signal {
	m := readMessage(r.message)
	switch string(m.role) {
	case `"user"`:
		return s.asked(r, m)
	case `"assistant"`:
		return s.answered(r, m, &d.Digests)
	case `"toolResult"`:
		if m.tool == "" || s.isBeside(m.run) {
			return nil
		}
		end := r.signal(telemetry.ToolEnd)
		end.Turn, end.Tool, end.ToolName = s.run, m.tool, m.toolName
		end.Result, end.ToolError = d.Sized(m.content), telemetry.ToolErrorOf(m.failed)
		return []telemetry.Signal{end}
	case `"bashExecution"`, `"custom"`, `"branchSummary"`, `"compactionSummary"`:
	default:
		d.Miss("message/" + scan.WordOf(m.role))
	}
	return nil
}

// over is called at the next prompt and at a reset. It reports the end of a run that
// failed and did not continue, and a held prompt that no run has answered.
func (s *session) over(r row) []telemetry.Signal {
	var out []telemetry.Signal
	if s.failed != "" {
		end := r.signal(telemetry.TurnEnd)
		end.Turn, end.Outcome, end.Error = s.failed, telemetry.Failed, telemetry.ErrUnknown
		out, s.failed = append(out, end), ""
	}
	if s.held != nil {
		out, s.run, s.held = append(out, *s.held), s.held.Turn, nil
	}
	return out
}

// asked reads a row with the role user. A row that another session, a tool or
// the harness wrote is not a prompt.
func (s *session) asked(r row, m message) []telemetry.Signal {
	if s.side = m.provenance; s.side == "external_user" {
		s.side = "" // the user wrote this message in a chat program
	}
	if s.side != "" {
		return nil
	}
	out := s.over(r)
	if s.beside == "" {
		s.trigger = "" // from this prompt on, a row without a run's id belongs to the user's run
	}
	p := r.signal(telemetry.Prompt)
	p.Turn = cmp.Or(strings.TrimSuffix(m.key, ":user"), r.id)
	s.held = &p
	return append(out, r.signal(telemetry.Working))
}

// named records the run that a row names. If the newest row with the role user is the
// held prompt, the prompt belongs to that run, and named returns the prompt unless the
// run already has one.
func (s *session) named(run string) []telemetry.Signal {
	if s.side != "" {
		s.beside, s.trigger, s.side = run, s.side, ""
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
			return nil // the prompt is text added to the running turn
		}
		p.Turn = run
	}
	s.run, s.failed = p.Turn, ""
	return []telemetry.Signal{p}
}

// isBeside reports whether a row belongs to the newest run that the user did
// not ask for.
func (s *session) isBeside(run string) bool { return s.trigger != "" && run == s.beside }

func (s *session) answered(r row, m message, d *telemetry.Digests) []telemetry.Signal {
	if m.mirrored {
		return nil // not the model's answer: OpenClaw's own record of a message sent to a chat channel
	}
	out := s.named(m.run)
	beside := s.isBeside(m.run)
	turn := cmp.Or(m.run, s.run)
	if m.usage != nil {
		u := r.signal(telemetry.UsageSeen)
		u.Turn, u.Model, u.Usage = turn, m.model, m.call(m.run, r.id)
		if beside {
			u.Side = s.trigger
		}
		out = append(out, u)
	}
	if beside {
		return out
	}
	s.failed = ""
	switch string(m.stop) {
	case `"stop"`, `"length"`:
		stop := r.signal(telemetry.TurnStop)
		stop.Turn, stop.Outcome = turn, telemetry.Completed
		out = append(out, stop)
	case `"toolUse"`:
		out = append(out, toolCalls(r, turn, m.content, d)...)
	case `"aborted"`:
		end := r.signal(telemetry.TurnEnd)
		end.Turn, end.Outcome = turn, telemetry.Interrupted
		out = append(out, end)
	case `"error"`:
		// The same run may continue with another attempt or another model.
		fault := r.signal(telemetry.Fault)
		fault.Turn, fault.Error = turn, telemetry.ErrUnknown
		s.failed = turn
		out = append(out, fault)
	}
	return out
}

func toolCalls(r row, turn string, content []byte, d *telemetry.Digests) []telemetry.Signal {
	var out []telemetry.Signal
	scan.Elements(content, func(val []byte) bool {
		var kind, args []byte
		var id, tool string
		scan.Object(val, scan.Raw("type", &kind), scan.Name("id", &id), scan.Word("name", &tool), scan.Raw("arguments", &args))
		if string(kind) == `"toolCall"` && id != "" {
			start := r.signal(telemetry.ToolStart)
			start.Turn, start.Tool, start.ToolName, start.Args = turn, id, tool, d.Sized(args)
			out = append(out, start)
		}
		return true
	})
	return out
}

// settled reads the record that OpenClaw appends after some, but not all, runs
// that ended successfully.
func (s *session) settled(r row) []telemetry.Signal {
	run := scan.MemberOf(r.data, "runId", scan.NameOf)
	out := s.named(run)
	if run == "" || s.isBeside(run) {
		return out
	}
	end := r.signal(telemetry.TurnEnd)
	end.Turn, end.Outcome = run, telemetry.Completed
	s.failed = ""
	return append(out, end)
}
