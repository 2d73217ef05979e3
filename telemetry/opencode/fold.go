// Package opencode decodes the events of OpenCode's bus and store, the output of
// `opencode run`, OpenCode's log, and the events and calls of our plugins. It also
// encodes the answers to those calls, and the requests to our plugin.
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

// This file derives signals from OpenCode's events. The events of its bus include
// the state of the session (busy, idle, an error); the events of its store do not.
//
// A turn begins with busy and ends with idle, and has the id of the message
// that began it. A message that is sent during a turn is answered in that turn. The
// two messages that OpenCode itself adds around a compaction are also answered in the
// running turn. A message without an answer (`noReply`, or with synthetic parts only)
// begins no turn.

// fold is the state of all sessions of one OpenCode process or store.
type fold struct {
	telemetry.Tally
	telemetry.Digests
	source   string
	store    bool // the source is the store, which has no events of a session's state
	sessions map[string]*session
	id       string             // id of the event that is being read
	now      time.Time          // time of the event that is being read; zero if it is not known
	began    *session           // if the event that is being read began an answer other than a compaction's summary, the session of this answer; terminal.Decode sets this field to nil before each event
	signals  []telemetry.Signal // the signals of the event that is being read
}

// session is the state of one OpenCode session.
type session struct {
	id      string
	parent  string    // for the session of a sub-agent: the session that started the sub-agent
	created time.Time // when the session was created; older messages are copies from another session
	window  int64

	// The newest message with the role user, written by the user or by OpenCode.
	userMessage   string
	userMessageAt time.Time
	byUser        bool // userMessage has a part that the user wrote, and has no answer yet

	compactOf string // the newest userMessage that asked for a compaction
	trigger   string // auto or manual until the compaction of compactOf is complete, then empty

	turn        string         // the message that began the running turn
	state       telemetry.Kind // the state that was reported last: Working, LimitWait, NeedsInput or Idle
	gapPossible bool           // events of the bus may have been lost
	failure     *failureInfo
	answer      messageInfo     // the newest of the model's messages
	done        bool            // the model's newest message is complete
	begun       bool            // the model began to write its newest message
	called      bool            // the model's newest message calls tools
	held        bool            // in the store: the model's newest message is complete, and the turn ends unless a later row continues the turn
	tokens      int64           // in the store: the session's sum of tokens, which changes at the end of a turn
	calls       map[string]bool // the tool calls that have not ended; true for a call that has begun
	lastAt      time.Time       // the time of the newest signal

	next     uint64 // in the store: the number of the next row
	numbered bool
}

// sent reports whether the request for the newest answer was already sent, or will
// not be sent.
func (s *session) sent() bool {
	return s.begun || s.done || s.failure != nil || s.state == telemetry.Idle || s.state == telemetry.LimitWait
}

// maxSessions limits the number of remembered sessions, because a store contains
// all sessions of a user. At this number the sessions without a running turn are
// forgotten, and at twice this number all sessions.
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
	s = &session{id: id, calls: map[string]bool{}}
	d.sessions[id] = s
	return s
}

// emit adds a signal of a session. It drops the signals about a sub-agent's own session,
// turns and context. It reports the other signals of a sub-agent for the session that
// the sub-agent works for.
func (d *fold) emit(s *session, sig telemetry.Signal, detail string) {
	sig.Source, sig.Detail, sig.At, sig.Session = d.source, detail, d.now, s.id
	s.lastAt = d.now
	switch sig.Kind {
	case telemetry.Working, telemetry.Idle, telemetry.NeedsInput, telemetry.LimitWait:
		s.state = sig.Kind
	case telemetry.TurnEnd:
		s.state = telemetry.Idle
	}
	if s.parent == "" {
		d.signals = append(d.signals, sig)
		return
	}
	switch sig.Kind {
	case telemetry.SessionLive, telemetry.SessionGone, telemetry.Prompt, telemetry.Working, telemetry.Idle, telemetry.TurnEnd, telemetry.Compacting, telemetry.Compacted, telemetry.WindowSeen:
		return
	}
	root := s
	for range 8 { // go up to the session of the main agent: a sub-agent can start sub-agents
		if up := d.sessions[root.parent]; up != nil && root.parent != "" {
			root = up
			continue
		}
		break
	}
	sig.Agent, sig.Session = s.id, cmp.Or(root.parent, root.id)
	d.signals = append(d.signals, sig)
}

// event reads one event and returns its signals. The id of an event contains
// its time.
func (d *fold) event(id, kind string, props []byte) []telemetry.Signal {
	d.signals, d.id = nil, id
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
			s.gapPossible = true
		}
		return nil
	}
	if session == "" {
		d.sessionless(kind, failure)
		return d.signals
	}
	s := d.session(session)
	switch kind {
	case "session.created", "session.updated":
		d.sessionInfo(s, kind, info)
	case "session.deleted":
		d.emit(s, telemetry.Signal{Kind: telemetry.SessionGone, Reason: "deleted"}, kind)
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
		if d.now.Sub(s.lastAt) >= time.Second {
			d.emit(s, telemetry.Signal{Kind: telemetry.Alive, Turn: s.turn}, kind)
		}
	case "permission.asked", "question.asked":
		d.emit(s, telemetry.Signal{Kind: telemetry.NeedsInput, Turn: s.turn}, telemetry.DetailOf(kind, scan.WordOf(asks)))
	case "permission.replied", "question.replied", "question.rejected":
		d.work(s, kind)
	case "session.diff", "message.removed", "message.part.removed", "todo.updated", "command.executed":
	default:
		d.sessionless(kind, nil)
	}
	return d.signals
}

// sessionless reads an event that belongs to no session, or one of an unknown kind.
func (d *fold) sessionless(kind string, failure []byte) {
	family, _, _ := strings.Cut(kind, ".")
	switch family {
	case "server", "global", "catalog", "reference", "integration", "plugin", "models-dev", "tui", "file", "lsp", "mcp", "pty", "vcs",
		"ide", "installation", "project", "worktree", "workspace", "todo", "command":
		return // these events concern the program, not a session
	}
	if kind == "session.error" {
		f := readFailure(failure)
		d.signals = append(d.signals, telemetry.Signal{Kind: telemetry.Fault, Source: d.source, Detail: kind, At: d.now, Error: f.kind()})
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
		d.emit(s, live, kind)
	}
	if !d.store || tokens < 0 {
		return
	}
	// At the end of a turn, its tokens are added to the sum. A new title changes
	// the session without adding tokens.
	moved := tokens != s.tokens
	s.tokens = tokens
	if s.held && moved {
		d.idle(s, kind)
	}
}

// modelName returns a model's name as OpenCode writes it. It includes the
// provider, because the same model may have another context window at another
// provider.
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
		if f := s.failure; f != nil { // the turn continued after an error
			s.failure = nil
			d.emit(s, telemetry.Signal{Kind: telemetry.Fault, Turn: s.turn, Error: f.kind()}, "session.error")
		}
		d.work(s, "session.status:busy")
	case `"retry"`:
		d.emit(s, telemetry.Signal{Kind: telemetry.LimitWait, Turn: s.turn, Until: until}, "session.status:retry")
	case `"idle"`:
		d.idle(s, "session.status:idle")
	default:
		d.Miss("session.status/" + scan.WordOf(kind))
	}
}

// work reports Working, unless Working is the state that was reported last.
func (d *fold) work(s *session, detail string) {
	if s.state != telemetry.Working {
		d.emit(s, telemetry.Signal{Kind: telemetry.Working, Turn: s.turn}, detail)
	}
}

// begin reports the prompt of a turn when its answer begins, because a message
// without an answer begins no turn.
func (d *fold) begin(s *session) {
	if s.turn != "" || !s.byUser {
		return
	}
	s.turn, s.byUser, s.gapPossible = s.userMessage, false, false
	s.failure, s.held = nil, false
	clear(s.calls)
	d.emit(s, telemetry.Signal{Kind: telemetry.Prompt, Turn: s.turn}, "message.updated")
}

// idle ends the turn. After an error, OpenCode reports twice that the session is idle.
func (d *fold) idle(s *session, detail string) {
	f := s.failure
	s.failure, s.held = nil, false
	if s.turn != "" {
		d.over(s, f, detail)
		return
	}
	if f != nil && f.name != "MessageAbortedError" { // a compaction that the user started has failed
		d.emit(s, telemetry.Signal{Kind: telemetry.Fault, Error: f.kind()}, "session.error")
	}
	clear(s.calls)
	if s.state != telemetry.Idle {
		d.emit(s, telemetry.Signal{Kind: telemetry.Idle}, detail)
	}
}

// over ends the turn. The outcome comes from the error that was reported for
// the turn, or from its last answer.
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
		// The turn was interrupted while it waited for a retry, or before it could
		// use the results of its tools, for example because a permission was refused.
		end.Outcome = telemetry.Interrupted
	}
	s.turn = ""
	clear(s.calls)
	d.emit(s, end, detail)
}

func (d *fold) failed(s *session, kind string, failure []byte) {
	f := readFailure(failure)
	if s.state == telemetry.Working {
		d.begin(s) // the turn failed before an answer began
	}
	if s.turn == "" && s.state == telemetry.Idle {
		d.emit(s, telemetry.Signal{Kind: telemetry.Fault, Error: f.kind()}, kind)
		return
	}
	s.failure = &f // the error with which the turn ends, unless the turn continues
}

// message reads an event message.updated.
func (d *fold) message(s *session, info []byte) {
	var m messageInfo
	if !m.read(info) {
		d.Miss("message.updated/" + scan.WordOf(info))
		return
	}
	d.sync(m.completed)
	d.sync(m.created)
	if !s.created.IsZero() && m.created.Before(s.created) {
		return // a fork begins with copies of its origin's messages
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

// asks reads a message with the role user. It ignores an older message, and a repeated
// one: OpenCode writes each message several times.
func (d *fold) asks(s *session, m messageInfo) {
	if m.id == s.userMessage || m.created.Before(s.userMessageAt) {
		return
	}
	s.held = false // in the store, a new message shows that the turn continues
	s.userMessage, s.userMessageAt, s.byUser = m.id, m.created, false
}

// answers reads a message with the role assistant. Each model call has one such message.
func (d *fold) answers(s *session, m messageInfo) {
	if m.id != s.answer.id {
		if m.created.Before(s.answer.created) {
			return
		}
		s.held = false
		d.follows(s, m)
		if m.parent == s.userMessage {
			d.begin(s)
		}
		d.work(s, "message.updated")
		s.answer, s.done, s.begun, s.called = m, false, false, false
		s.answer.turn = s.turn
		if m.mode != "compaction" && m.agent != "compaction" {
			d.began = s
		}
	}
	if m.completed.IsZero() || s.done {
		return
	}
	m.turn = s.answer.turn
	s.answer, s.done = m, true
	d.usage(s, m)
	if !d.store {
		return // on the bus, other events report the end of a turn or compaction
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
	d.emit(s, telemetry.Signal{Kind: telemetry.Compacted, Turn: s.turn, Compaction: &c}, detail)
}

// follows decides whether the user's newest message belongs to the running turn. It does
// nothing unless m is the first answer to that message. The message usually belongs to
// the turn, because the end of the turn would have been reported. But the report of the
// end may be missing: the store may not contain it, and the bus may have lost it. In these
// two cases the message belongs to the turn only if the last answer was completed after
// the message was sent. Otherwise the message begins a new turn.
func (d *fold) follows(s *session, m messageInfo) {
	if s.turn == "" || !s.byUser || m.parent != s.userMessage {
		return
	}
	if (d.store || s.gapPossible) && (!s.done || s.userMessageAt.After(s.answer.completed)) {
		s.turn = ""
		return
	}
	s.byUser = false
}

func (d *fold) usage(s *session, m messageInfo) {
	if m.sum() == 0 {
		return
	}
	sig := telemetry.Signal{Kind: telemetry.UsageSeen, Turn: m.turn, Model: modelName(m.provider, m.model), Usage: m.usage(m.id)}
	switch {
	case m.summary || m.mode == "compaction" || m.agent == "compaction":
		sig.Side = "compaction"
	case m.mode == "title" || m.agent == "title":
		sig.Side = "title"
	}
	if sig.Side == "" {
		sig.ReportWindow(s.window)
	}
	d.emit(s, sig, m.id)
}

// part reads an event message.part.updated.
func (d *fold) part(s *session, part []byte) {
	var message, call, tool string
	var kind, state []byte
	var synthetic, auto bool
	scan.Object(part,
		scan.Name("messageID", &message), scan.Raw("type", &kind), scan.True("synthetic", &synthetic), scan.True("auto", &auto),
		scan.Name("callID", &call), scan.Word("tool", &tool), scan.Raw("state", &state))
	s.begun = s.begun || message != "" && message == s.answer.id
	switch {
	case message == "":
		d.Miss("message.part.updated/" + scan.WordOf(kind))
	case message == s.userMessage && string(kind) == `"compaction"`:
		if message == s.compactOf {
			return
		}
		s.compactOf, s.trigger = message, "manual"
		if auto {
			s.trigger = "auto"
		}
		d.emit(s, telemetry.Signal{Kind: telemetry.Compacting, Turn: s.turn}, "compaction:"+s.trigger)
	case message == s.userMessage:
		s.byUser = s.byUser || !synthetic && s.answer.parent != message
	case message == s.answer.id && string(kind) == `"tool"`:
		s.called = true
		d.tool(s, call, tool, state)
	case message == s.answer.id && !s.done && s.state != telemetry.Idle:
		d.emit(s, telemetry.Signal{Kind: telemetry.Alive, Turn: s.answer.turn}, telemetry.DetailOf("message.part.updated", scan.WordOf(kind)))
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
		if string(c.status) == `"pending"` { // the model is still writing the arguments of the call
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
		if !begun { // the tool refused the arguments, so the call did not begin
			d.emit(s, c.begun(sig, &d.Digests), "message.part.updated:tool")
		}
		sig = c.over(sig, &d.Digests)
	default:
		d.Miss("message.part.updated/tool/" + scan.WordOf(c.status))
		return
	}
	d.emit(s, sig, "message.part.updated:tool")
}

// sync sets d.now, the time of the event that is being read, if d.now is zero. It
// computes the time from the event's id and from at, a time in the event.
func (d *fold) sync(at time.Time) {
	if d.now.IsZero() {
		d.now = timeOf(d.id, at)
	}
}

// timeOf returns the time in an event's id. The id has the low 36 bits of the time
// in milliseconds, and a counter. timeOf chooses the high bits so that the result is as
// close as possible to near. If near is zero or the id has another form, timeOf returns
// near.
func timeOf(id string, near time.Time) time.Time {
	const cut = 1 << 36 // in milliseconds: the low 36 bits repeat after a little more than two years
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
