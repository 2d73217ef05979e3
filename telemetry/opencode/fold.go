// Package opencode decodes OpenCode's events, from its bus and from its store,
// the stream of its run command, and the calls of our plugin. It renders the
// answers to those calls.
//
//	d := opencode.Bus()
//	signals := d.Decode(event)
package opencode

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// This file folds the events that OpenCode tells of itself, whichever way they
// come: from its bus they come with the state of the session (busy, idle, an
// error), from its store without.
//
// A turn is what lies between busy and idle, and is named by the message that
// began it. A message that is sent meanwhile is answered in the same turn. So
// are the answers to the two messages that OpenCode writes to itself around a
// compaction. A message that nobody answers (`noReply`, one with parts that are
// all synthetic) begins none.

// opencodeFold is what is known of the sessions of one OpenCode.
type fold struct {
	telemetry.Tally
	telemetry.Digests
	source   string
	store    bool // there are no events of a session's state
	sessions map[string]*session
	id       string             // of the event that is read
	now      time.Time          // and its time, as far as it is known
	said     []telemetry.Signal // by the event that is read
}

// opencodeSession is one session of OpenCode's.
type session struct {
	id      string
	parent  string    // of a sub-agent's session: who started it
	created time.Time // what is older was copied from another session
	window  int64

	// The newest message of the user's, or what OpenCode wrote in their name.
	asked   string
	askedAt time.Time
	human   bool // a person wrote a part of it, and nobody answered it yet

	compactOf string // the newest message that asked for a compaction
	trigger   string // auto or manual; empty once it was compacted

	turn    string         // the message that began the running turn
	state   telemetry.Kind // told last: Working, LimitWait, NeedsInput, Idle
	doubt   bool           // the bus was not heard for a while
	failure *failureInfo
	answer  messageInfo     // the newest of the model's messages
	done    bool            // it is complete
	held    bool            // store: the turn is over unless the next row goes on with it
	tokens  int64           // store: the session's sum, which moves when a turn is over
	calls   map[string]bool // the tool calls that are not over, and whether they have begun
	heard   time.Time       // the newest signal's time

	next  uint64 // store: the number of the next row
	begun bool
}

// maxSessions bounds what is remembered: a store holds all that ever were.
const maxSessions = 1024

func (d *fold) session(id string) *session {
	s := d.sessions[id]
	if s != nil {
		return s
	}
	if d.sessions == nil || len(d.sessions) >= maxSessions {
		kept := map[string]*session{}
		for id, s := range d.sessions {
			if s.turn != "" && len(d.sessions) < 2*maxSessions {
				kept[id] = s
			}
		}
		d.sessions = kept
	}
	s = &session{id: id}
	d.sessions[id] = s
	return s
}

// tell adds a signal of a session. Of a sub-agent's session only what it costs
// and what it does is told, in the name of the session that it works for.
func (d *fold) tell(s *session, sig telemetry.Signal, detail string) {
	sig.Source, sig.Detail, sig.At, sig.Session = d.source, detail, d.now, s.id
	s.heard = d.now
	switch sig.Kind {
	case telemetry.Working, telemetry.Idle, telemetry.NeedsInput, telemetry.LimitWait:
		s.state = sig.Kind
	case telemetry.TurnEnd:
		s.state = telemetry.Idle
	}
	if s.parent == "" {
		d.said = append(d.said, sig)
		return
	}
	switch sig.Kind {
	case telemetry.SessionLive, telemetry.SessionGone, telemetry.Prompt, telemetry.Working, telemetry.Idle, telemetry.TurnEnd, telemetry.Compacting, telemetry.Compacted, telemetry.WindowSeen:
		return
	}
	root := s
	for range 8 { // a sub-agent's sub-agent
		if up := d.sessions[root.parent]; up != nil && root.parent != "" {
			root = up
			continue
		}
		break
	}
	sig.Agent, sig.Session = s.id, cmp.Or(root.parent, root.id)
	d.said = append(d.said, sig)
}

// event reads one event and returns what it told. The id of an event holds its
// time.
func (d *fold) event(id, kind string, props []byte) []telemetry.Signal {
	d.said, d.id = nil, id
	d.now = timeOf(id, d.now)
	var session string
	var info, part, status, failure, asks []byte
	ok := scan.Object(props,
		scan.Name("sessionID", &session), scan.Raw("info", &info), scan.Raw("part", &part), scan.Raw("status", &status),
		scan.Raw("error", &failure), scan.Raw("permission", &asks))
	if !ok {
		d.Miss(telemetry.Malformed)
		return nil
	}
	if kind == "server.connected" {
		for _, s := range d.sessions {
			s.doubt = true
		}
		return nil
	}
	if session == "" {
		d.sessionless(kind, failure)
		return d.said
	}
	s := d.session(session)
	switch kind {
	case "session.created", "session.updated":
		d.sessionInfo(s, kind, info)
	case "session.deleted":
		d.tell(s, telemetry.Signal{Kind: telemetry.SessionGone, Reason: "deleted"}, kind)
		delete(d.sessions, s.id)
	case "session.status":
		d.status(s, status)
	case "session.idle":
		d.idle(s, kind)
	case "session.error":
		d.failed(s, kind, failure)
	case "session.compacted":
		d.compacted(s, "hook", kind)
	case "message.updated":
		d.message(s, info)
	case "message.part.updated":
		d.part(s, part)
	case "message.part.delta":
		if d.now.Sub(s.heard) >= time.Second {
			d.tell(s, telemetry.Signal{Kind: telemetry.Alive, Turn: s.turn}, kind)
		}
	case "permission.asked", "question.asked":
		d.tell(s, telemetry.Signal{Kind: telemetry.NeedsInput, Turn: s.turn}, telemetry.DetailOf(kind, scan.WordOf(asks)))
	case "permission.replied", "question.replied", "question.rejected":
		d.work(s, kind)
	case "session.diff", "message.removed", "message.part.removed", "todo.updated", "command.executed":
	default:
		d.sessionless(kind, nil)
	}
	return d.said
}

// sessionless reads an event that is not of one session.
func (d *fold) sessionless(kind string, failure []byte) {
	family, _, _ := strings.Cut(kind, ".")
	switch family {
	case "server", "global", "catalog", "reference", "integration", "plugin", "models-dev", "tui", "file", "lsp", "mcp", "pty", "vcs",
		"ide", "installation", "project", "worktree", "workspace", "todo", "command":
		return // of the program, not of what is done with it
	}
	if kind == "session.error" {
		f := readFailure(failure)
		d.said = append(d.said, telemetry.Signal{Kind: telemetry.Fault, Source: d.source, Detail: kind, At: d.now, Error: f.kind()})
		return
	}
	d.Miss(kind)
}

func (d *fold) sessionInfo(s *session, kind string, info []byte) {
	live := telemetry.Signal{Kind: telemetry.SessionLive, Cause: telemetry.CauseOf("")}
	var model, provider string
	tokens := int64(-1)
	scan.Object(info,
		scan.Name("parentID", &s.parent), scan.Path("directory", &live.Dir), scan.Name("version", &live.Version),
		scan.In("model", scan.Name("id", &model), scan.Name("providerID", &provider)),
		scan.Func("tokens", func(val []byte) {
			m := messageInfo{}
			m.readTokens(val)
			tokens = m.sum()
		}),
		scan.In("time", scan.Milli("created", &s.created), scan.Func("updated", func(val []byte) { d.sync(scan.MilliOf(val)) })))
	d.sync(s.created)
	if kind == "session.created" {
		live.Model = modelName(provider, model)
		d.tell(s, live, kind)
	}
	if !d.store || tokens < 0 {
		return
	}
	// When a turn is over its tokens are added up; a new title adds none.
	moved := tokens != s.tokens
	s.tokens = tokens
	if s.held && moved {
		d.idle(s, kind)
	}
}

// opencodeModel is a model's name as OpenCode spells it: who provides it is a
// part, for the same model may have another window elsewhere.
func modelName(provider, model string) string {
	if provider == "" || model == "" {
		return model
	}
	return provider + "/" + model
}

func (d *fold) status(s *session, status []byte) {
	var kind []byte
	var until time.Time
	scan.Object(status, scan.Raw("type", &kind), scan.Milli("next", &until))
	switch string(kind) {
	case `"busy"`:
		if f := s.failure; f != nil { // it went on behind an error
			s.failure = nil
			d.tell(s, telemetry.Signal{Kind: telemetry.Fault, Turn: s.turn, Error: f.kind()}, "session.error")
		}
		d.work(s, "session.status:busy")
	case `"retry"`:
		d.tell(s, telemetry.Signal{Kind: telemetry.LimitWait, Turn: s.turn, Until: until}, "session.status:retry")
	case `"idle"`:
		d.idle(s, "session.status:idle")
	default:
		d.Miss("session.status/" + scan.WordOf(kind))
	}
}

// work tells that the session works, unless that was told last.
func (d *fold) work(s *session, detail string) {
	if s.state != telemetry.Working {
		d.tell(s, telemetry.Signal{Kind: telemetry.Working, Turn: s.turn}, detail)
	}
}

// begin tells the prompt that a turn begins with: once it is answered, for only
// then it is known that it is.
func (d *fold) begin(s *session) {
	if s.turn != "" || !s.human {
		return
	}
	s.turn, s.human, s.doubt = s.asked, false, false
	s.failure, s.held = nil, false
	clear(s.calls)
	d.tell(s, telemetry.Signal{Kind: telemetry.Prompt, Turn: s.turn}, "message.updated")
}

// idle ends the turn. It comes twice behind an error.
func (d *fold) idle(s *session, detail string) {
	f := s.failure
	s.failure, s.held = nil, false
	if s.turn != "" {
		d.over(s, f, detail)
		return
	}
	if f != nil && f.name != "MessageAbortedError" { // of a compaction that was asked for
		d.tell(s, telemetry.Signal{Kind: telemetry.Fault, Error: f.kind()}, "session.error")
	}
	clear(s.calls)
	if s.state != telemetry.Idle {
		d.tell(s, telemetry.Signal{Kind: telemetry.Idle}, detail)
	}
}

// over ends the turn, with the error that was told of it or as its last answer
// says.
func (d *fold) over(s *session, f *failureInfo, detail string) {
	var last messageInfo
	if s.answer.turn == s.turn {
		last = s.answer
	}
	if f == nil {
		f = last.failure
	}
	end := telemetry.Signal{Kind: telemetry.TurnEnd, Turn: s.turn, Outcome: telemetry.Completed}
	switch {
	case f != nil && f.name == "MessageAbortedError":
		end.Outcome = telemetry.Interrupted
	case f != nil:
		end.Outcome, end.Error = telemetry.Failed, f.kind()
	case last.finish == "error":
		end.Outcome, end.Error = telemetry.Failed, telemetry.ErrUnknown
	case last.finish == "", last.finish == "tool-calls":
		// Stopped while it waited for another attempt, or before it could go on
		// with what its tools say, as after a permission that was refused.
		end.Outcome = telemetry.Interrupted
	}
	s.turn = ""
	clear(s.calls)
	d.tell(s, end, detail)
}

func (d *fold) failed(s *session, kind string, failure []byte) {
	f := readFailure(failure)
	if s.state == telemetry.Working {
		d.begin(s) // it failed before an answer was begun
	}
	if s.turn == "" && s.state == telemetry.Idle {
		d.tell(s, telemetry.Signal{Kind: telemetry.Fault, Error: f.kind()}, kind)
		return
	}
	s.failure = &f // how the turn ends, unless it goes on
}

// message reads message.updated.
func (d *fold) message(s *session, info []byte) {
	var m messageInfo
	if !m.read(info) {
		d.Miss("message.updated/" + scan.WordOf(info))
		return
	}
	d.sync(m.completed)
	d.sync(m.created)
	if !s.created.IsZero() && m.created.Before(s.created) {
		return // a fork is filled with copies of what its origin said
	}
	switch m.role {
	case "user":
		d.asks(s, m)
	case "assistant":
		d.answers(s, m)
	default:
		d.Miss("message.updated/" + m.role)
	}
}

// asks reads a message in the user's name. OpenCode writes it again and again.
func (d *fold) asks(s *session, m messageInfo) {
	if m.id == s.asked || m.created.Before(s.askedAt) {
		return
	}
	s.held = false // in the store another message is there before the turn goes on
	s.asked, s.askedAt, s.human = m.id, m.created, false
}

// answers reads a message of the model's: one for each of its calls.
func (d *fold) answers(s *session, m messageInfo) {
	if m.id != s.answer.id {
		if m.created.Before(s.answer.created) {
			return
		}
		s.held = false
		d.follows(s, m)
		if m.parent == s.asked {
			d.begin(s)
		}
		d.work(s, "message.updated")
		s.answer, s.done = m, false
		s.answer.turn = s.turn
	}
	if m.completed.IsZero() || s.done {
		return
	}
	m.turn = s.answer.turn
	s.answer, s.done = m, true
	d.usage(s, m)
	if !d.store {
		return // the bus tells the rest in its own events
	}
	switch {
	case m.summary && m.failure == nil && m.finish != "":
		d.compacted(s, "record", m.id)
		s.held = true
	case m.failure != nil, m.finish == "":
		s.failure = m.failure
		d.idle(s, m.id)
	default:
		s.held = true
	}
}

func (d *fold) compacted(s *session, half, detail string) {
	c := telemetry.Compaction{Half: half, Trigger: cmp.Or(s.trigger, "unknown")}
	s.trigger = ""
	d.tell(s, telemetry.Signal{Kind: telemetry.Compacted, Turn: s.turn, Compaction: &c}, detail)
}

// follows looks at the message that a new answer is for. One that was sent while
// the last answer was written is answered in the running turn. Any other is of
// a new turn, and the one before ended with the program: nothing told its end.
func (d *fold) follows(s *session, m messageInfo) {
	if s.turn == "" || !s.human || m.parent != s.asked {
		return
	}
	if (d.store || s.doubt) && (!s.done || s.askedAt.After(s.answer.completed)) {
		s.turn = ""
		return
	}
	s.human = false
}

func (d *fold) usage(s *session, m messageInfo) {
	if m.sum() == 0 {
		return
	}
	sig := telemetry.Signal{Kind: telemetry.UsageSeen, Turn: m.turn, Model: modelName(m.provider, m.model), Usage: &telemetry.Usage{
		ID: m.id, Used: cmp.Or(m.total, m.sum()), Input: m.input, CacheRead: m.cacheR, CacheWrite: m.cacheW,
		Output: m.output + m.reasoning, Reasoning: m.reasoning}}
	switch {
	case m.summary || m.mode == "compaction" || m.agent == "compaction":
		sig.Side = "compaction"
	case m.mode == "title" || m.agent == "title":
		sig.Side = "title"
	}
	if s.window > 0 && sig.Side == "" {
		sig.Window, sig.WindowSource = s.window, "reported"
	}
	d.tell(s, sig, m.id)
}

// part reads message.part.updated.
func (d *fold) part(s *session, part []byte) {
	var message, call, tool string
	var kind, state []byte
	var synthetic, auto bool
	scan.Object(part,
		scan.Name("messageID", &message), scan.Raw("type", &kind), scan.True("synthetic", &synthetic), scan.True("auto", &auto),
		scan.Name("callID", &call), scan.Word("tool", &tool), scan.Raw("state", &state))
	switch {
	case message == "":
		d.Miss("message.part.updated/" + scan.WordOf(kind))
	case message == s.asked && string(kind) == `"compaction"`:
		if message == s.compactOf {
			return
		}
		s.compactOf, s.trigger = message, "manual"
		if auto {
			s.trigger = "auto"
		}
		d.tell(s, telemetry.Signal{Kind: telemetry.Compacting, Turn: s.turn}, "compaction:"+s.trigger)
	case message == s.asked:
		s.human = s.human || !synthetic && s.answer.parent != message
	case message == s.answer.id && string(kind) == `"tool"`:
		d.tool(s, call, tool, state)
	case message == s.answer.id && !s.done && s.state != telemetry.Idle:
		d.tell(s, telemetry.Signal{Kind: telemetry.Alive, Turn: s.answer.turn}, telemetry.DetailOf("message.part.updated", scan.WordOf(kind)))
	}
}

func (d *fold) tool(s *session, call, tool string, state []byte) {
	c := readCall(state)
	sig := telemetry.Signal{Turn: s.answer.turn, Tool: call, ToolName: tool}
	switch string(c.status) {
	case `"pending"`, `"running"`:
		begun, known := s.calls[call]
		if call == "" || begun {
			return
		}
		if s.calls == nil {
			s.calls = map[string]bool{}
		}
		if string(c.status) == `"pending"` { // the model is still writing its arguments
			if s.calls[call] = false; known {
				return
			}
			sig = telemetry.Signal{Kind: telemetry.Alive, Turn: s.answer.turn}
			break
		}
		s.calls[call] = true
		sig = c.begun(sig, &d.Digests)
	case `"completed"`, `"error"`:
		begun, known := s.calls[call]
		if !known {
			return
		}
		delete(s.calls, call)
		if !begun { // its arguments were refused
			d.tell(s, c.begun(sig, &d.Digests), "message.part.updated:tool")
		}
		sig = c.over(sig, &d.Digests)
	default:
		d.Miss("message.part.updated/tool/" + scan.WordOf(c.status))
		return
	}
	d.tell(s, sig, "message.part.updated:tool")
}

// sync sets the clock by a record's own time, where none was known to tell what
// the event's id means.
func (d *fold) sync(at time.Time) {
	if d.now.IsZero() {
		d.now = timeOf(d.id, at)
	}
}

// opencodeTime is the time that an event's id holds: its milliseconds, of which
// the highest are cut off, and a counter. near tells those; without it nothing
// is known.
func timeOf(id string, near time.Time) time.Time {
	const cut = 1 << 36 // milliseconds, a little more than two years
	hex, ok := strings.CutPrefix(id, "evt_")
	if !ok || len(hex) < 12 || near.IsZero() {
		return near
	}
	n, err := strconv.ParseInt(hex[:12], 16, 64)
	if err != nil {
		return near
	}
	ms := near.UnixMilli()
	at := ms - ms%cut + n>>12
	switch {
	case at-ms > cut/2:
		at -= cut
	case ms-at > cut/2:
		at += cut
	}
	return scan.InRange(time.UnixMilli(at).UTC())
}
