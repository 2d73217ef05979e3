package codex

import (
	"bytes"
	"cmp"
	"strconv"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// rollout decodes one line of a Codex rollout: the file of one thread.
//
// The model call of a compaction looks like any other call until the
// `compacted` record follows its usage, and its usage is not the size of the
// session's context. A usage is therefore reported at once only if the model is
// known to have answered or called a tool. Otherwise it is held until the next
// record shows the call's purpose.
//
// A sub-agent's thread has a separate rollout. Its signals have the id of the
// root session, and the thread's id as the agent. A review is also a sub-agent's
// thread. It runs the user's turn, so its signals about the turn have no agent, like
// the signals of the main agent's conversation.
type rollout struct {
	telemetry.Tally
	telemetry.Digests
	session  string
	agent    string    // the id of this thread, if the thread is a sub-agent's
	review   bool      // the thread is a review: its signals about the turn have no agent
	named    bool      // session_meta was read
	ours     bool      // the thread began in this file
	copied   time.Time // when another thread's history was copied into this file
	turn     string    // the turn of the newest task_started
	root     string    // the root_turn_id of the newest task_started
	prompted string    // the turn whose prompt was reported
	model    string
	window   int64
	answered bool   // the model answered or called a tool since the last usage
	failed   string // the id of the newest tool call that failed; its output follows
	held     *telemetry.Signal
	used     int64 // the context size of the newest usage reported or held, 0 if there is none
	rewrote  bool  // a compaction was read; the next token_count is Codex's own estimate

	records bool         // a token_usage_record was read: each model call has one
	total   runningTotal // used if there is no token_usage_record: each increase of the total is a model call
	limits  limitState

	next     uint64 // the ordinal of the next record; Codex numbers the records without gaps
	begun    bool   // next has a value
	position position

	room []scan.Member // memory for the members of the newest record's payload
}

// position is how far the numbered records of a thread were read.
type position struct {
	thread string
	next   uint64 // the ordinal of the newest record, plus 1
	stamp  []byte
}

// isRepeat reports whether a record was read before, as happens when a file is
// read again from its start. The time is compared too, because a rewritten
// history has the same numbers but later times.
func (h *position) isRepeat(r rolloutRecord) bool {
	if !r.numbered {
		return false
	}
	if r.n < h.next && bytes.Compare(r.stamp, h.stamp) <= 0 {
		return true
	}
	h.next, h.stamp = r.n+1, append(h.stamp[:0], r.stamp...)
	return false
}

// rolloutRecord is one line, with its payload's members not yet read.
type rolloutRecord struct {
	kind, stamp []byte
	payload     []scan.Member
	numbered    bool
	n           uint64 // the ordinal, if the record is numbered
}

// at is the record's own time.
func (r rolloutRecord) at() time.Time { return scan.TimeOf(r.stamp) }

// ordinal returns a name for the record, made from its number; empty if it has no number.
func (r rolloutRecord) ordinal() string {
	if !r.numbered {
		return ""
	}
	return "ordinal " + strconv.FormatUint(r.n, 10)
}

// Owner reads the beginning of a rollout: it returns the id of the thread in its first
// record, and whether the thread is a session with the working directory dir. The id is
// empty if the first line is incomplete or is not a session_meta record. A sub-agent's
// thread is a part of another session.
func Owner(head []byte, dir string) (session string, here bool) {
	record, _, whole := bytes.Cut(head, []byte("\n"))
	var kind, id string
	var cwd []byte
	agent := false
	ok := scan.Object(record, scan.Word("type", &kind), scan.In("payload", scan.Name("id", &id), scan.Raw("cwd", &cwd),
		scan.Func("thread_source", func(val []byte) { agent = agent || string(val) == `"subagent"` }),
		scan.Func("source", func(val []byte) { scan.Object(val, scan.Has("subagent", &agent)) })))
	if !whole || !ok || kind != "session_meta" {
		return "", false
	}
	return id, !agent && scan.Is(cwd, dir)
}

// Rollout returns a decoder of rollout lines.
func Rollout() telemetry.Decoder { return new(rollout) }

func (d *rollout) Decode(record []byte) []telemetry.Signal {
	var r rolloutRecord
	passed := false // set to true if the rest of the record is skipped and not checked
	end := scan.Walk(record, scan.Space(record, 0), func(key []byte, i int) (end int) {
		if string(key) == "payload" {
			r.payload, end = scan.Gather(d.room[:0], record, i)
			d.room = r.payload
			return end
		}
		val, end := scan.Take(record, i)
		switch string(key) {
		case "timestamp":
			r.stamp = val
		case "ordinal":
			n, err := strconv.ParseUint(string(val), 10, 53)
			r.numbered, r.n = err == nil, n
		case "type":
			r.kind = val
			if passed = string(val) == `"world_state"`; passed { // these records are large and give no signal
				return scan.Halt
			}
		}
		return end
	})
	ok := passed || end >= 0 && scan.Space(record, end) == len(record)
	if !ok || len(r.kind) == 0 {
		d.Miss(telemetry.Malformed)
		return nil
	}
	out := telemetry.Join(d.sequence(r), d.record(r))
	if id := cmp.Or(d.agent, d.session); id != d.position.thread && string(r.kind) == `"session_meta"` {
		d.position = position{thread: id}
	}
	if d.position.isRepeat(r) {
		return nil
	}
	return out
}

// sequence checks the ordinals from the first one that is read: the first number
// need not be 1, because a resumed file is read from its middle, and a fork
// continues the numbers of its origin.
func (d *rollout) sequence(r rolloutRecord) []telemetry.Signal {
	if !r.numbered {
		d.begun = false // the next ordinal is unknown
		return nil
	}
	if string(r.kind) == `"session_meta"` {
		d.begun, d.next = true, r.n+1 // the check begins anew here, so a jump is no gap
		return nil
	}
	from, jumped := d.next, d.begun && r.n > d.next
	d.begun, d.next = true, max(d.next, r.n+1)
	if !jumped {
		return nil
	}
	s := d.signal(r, telemetry.Gap)
	s.Missing = &[2]uint64{from, r.n - 1}
	return []telemetry.Signal{s}
}

// record reads one record by its kind.
func (d *rollout) record(r rolloutRecord) []telemetry.Signal {
	switch string(r.kind) {
	case `"token_usage_record"`:
		return d.usage(r)
	case `"compacted"`:
		return d.compacted(r)
	case `"event_msg"`:
		return d.event(r)
	case `"session_meta"`:
		return d.meta(r)
	case `"response_item"`:
		return telemetry.Join(d.release(), d.item(r))
	case `"turn_context"`:
		d.readModel(r.payload)
	case `"world_state"`, `"inter_agent_communication"`:
	default:
		d.Miss(scan.WordOf(r.kind))
		return nil // this record does not show the purpose of the held call
	}
	return d.release()
}

// signal returns a signal of this kind, with the ordinal and the time of r and the
// current session, turn and agent.
func (d *rollout) signal(r rolloutRecord, kind telemetry.Kind) telemetry.Signal {
	return telemetry.Signal{Kind: kind, Source: "rollout", Detail: r.ordinal(), At: r.at(), Session: d.session, Turn: d.turn, Agent: d.agent}
}

// ofTurn returns a signal about the turn itself. A review runs a turn of the main agent's
// conversation, so Agent is empty in its signal.
func (d *rollout) ofTurn(r rolloutRecord, kind telemetry.Kind) telemetry.Signal {
	s := d.signal(r, kind)
	if d.review {
		s.Agent = ""
	}
	return s
}

// release returns the held usage, if there is one, and no longer holds it. The
// purpose of the call is now known, or no further record can show it.
func (d *rollout) release() []telemetry.Signal {
	if d.held == nil {
		return nil
	}
	s := *d.held
	d.held = nil
	return []telemetry.Signal{s}
}

// readModel reads the model's name in the settings of a turn or a thread.
func (d *rollout) readModel(settings []scan.Member) {
	scan.Read(settings, scan.Name("model", &d.model))
}

// meta reads the first line of a file. A further such line has one of three
// causes: the file is read again from its start, it was replaced, or (in versions
// without ordinals) another thread's history was copied into it.
func (d *rollout) meta(r rolloutRecord) []telemetry.Signal {
	var id, session, parent, dir, version string
	var forked, agent, review, terminal bool
	var created time.Time
	scan.Read(r.payload,
		scan.Name("id", &id), scan.Name("session_id", &session), scan.Name("parent_thread_id", &parent),
		scan.Time("timestamp", &created), scan.Func("forked_from_id", func(val []byte) { forked = scan.NameOf(val) != "" }),
		scan.Path("cwd", &dir), scan.Word("cli_version", &version),
		scan.Func("thread_source", func(val []byte) { agent = agent || string(val) == `"subagent"` }),
		scan.Func("source", func(val []byte) {
			terminal = string(val) == `"cli"`
			scan.Object(val, scan.Func("subagent", func(val []byte) { agent, review = true, string(val) == `"review"` }))
		}))
	another := id != cmp.Or(d.agent, d.session)
	if d.named && !r.numbered && another {
		d.copied, d.ours = r.at(), false
		return nil
	}
	var out []telemetry.Signal
	// If the same file is read again, the held usage is not released: its record is read
	// again too.
	if another {
		out = d.release()
	}
	*d = rollout{Tally: d.Tally, Digests: d.Digests, named: true, ours: !forked, next: d.next, begun: d.begun, position: d.position}
	if forked && !r.numbered {
		d.copied = r.at()
	}
	d.session = id
	if root := cmp.Or(session, parent); agent && root != "" && root != id {
		d.session, d.agent, d.review = root, id, review
	}
	s := d.signal(r, telemetry.SessionLive)
	s.Cause, s.Dir, s.Version = "startup", dir, version
	if !created.IsZero() && created.Before(r.at()) {
		s.At = created // use the time of creation, because Codex writes the file only with the first turn or when it exits
	}
	switch {
	case forked:
		s.Cause = "fork"
	case terminal:
		s.Cause = "unknown" // a start, `/new` and `/clear` write the same line
	}
	return append(out, s)
}

// item reads a response_item: only tool calls and their results are reported.
func (d *rollout) item(r rolloutRecord) []telemetry.Signal {
	var kind telemetry.Kind
	var call string
	var tool, text []byte
	for _, m := range r.payload {
		switch string(m.Key) {
		case "type":
			switch string(m.Val) {
			case `"function_call"`, `"custom_tool_call"`, `"local_shell_call"`, `"tool_search_call"`:
				kind, d.answered = telemetry.ToolStart, true
			case `"function_call_output"`, `"custom_tool_call_output"`, `"tool_search_output"`:
				kind = telemetry.ToolEnd
			case `"message"`, `"agent_message"`, `"reasoning"`, `"web_search_call"`, `"image_generation_call"`,
				`"compaction"`, `"compaction_summary"`, `"context_compaction"`, `"additional_tools"`, `"ghost_snapshot"`:
				return nil
			default:
				d.Miss("response_item/" + scan.WordOf(m.Val))
				return nil
			}
		case "call_id":
			call = scan.NameOf(m.Val)
		case "name":
			tool = m.Val
		case "arguments", "input", "action", "output", "tools":
			text = m.Val
		}
	}
	if kind == "" || call == "" {
		return nil
	}
	s := d.signal(r, kind)
	s.Tool, s.ToolName = call, scan.WordOf(tool)
	if kind == telemetry.ToolStart {
		s.Args = d.Sized(text)
	} else {
		s.Result, s.ToolError = d.Sized(text), telemetry.ToolErrorOf(call == d.failed)
	}
	return []telemetry.Signal{s}
}

// usage reads the record of one model call. A provider may give two calls of
// one thread the same id, so the turn is part of the call's id.
func (d *rollout) usage(r rolloutRecord) []telemetry.Signal {
	var id, thread, session string
	var t tokens
	scan.Read(r.payload,
		scan.Name("thread_id", &thread), scan.Name("session_id", &session), scan.Name("turn_id", &d.turn),
		scan.Name("response_id", &id), scan.Func("usage", func(val []byte) { t = readTokens(val) }))
	d.learn(thread, session)
	d.records = true
	if !t.call() {
		d.answered, d.rewrote = false, false
		return nil
	}
	u := t.usage()
	u.ID, u.Request = cmp.Or(id, r.ordinal()), d.turn
	return d.called(r, u)
}

// learn sets the thread and session from a record, in a file that is read from
// its middle.
func (d *rollout) learn(thread, session string) {
	if d.named || thread == "" {
		return
	}
	d.session, d.agent = thread, ""
	if session != "" && session != thread {
		d.session, d.agent = session, thread
	}
}

// called reports a model call, or holds it until its purpose is known.
func (d *rollout) called(r rolloutRecord, u *telemetry.Usage) []telemetry.Signal {
	answered := d.answered
	d.answered, d.rewrote, d.used = false, false, u.Used
	s := d.signal(r, telemetry.UsageSeen)
	s.Model, s.Usage = d.model, u
	s.ReportWindow(d.window)
	if !answered {
		d.held = &s
		return nil
	}
	return []telemetry.Signal{s}
}

// compacted reports a compaction and its model call. If the turn's prompt was
// already reported, Codex itself started the compaction. Otherwise nothing shows
// what started the compaction.
func (d *rollout) compacted(r rolloutRecord) []telemetry.Signal {
	var by string
	scan.Read(r.payload, scan.Name("compaction_response_id", &by))
	if d.held != nil && (by == "" || by == d.held.Usage.ID) {
		d.held.Side = "compaction"
	}
	out := d.release()
	d.used, d.rewrote, d.answered = 0, true, false
	s := d.signal(r, telemetry.Compacted)
	s.Compaction = &telemetry.Compaction{Half: "record", Trigger: "unknown"}
	if d.turn != "" && d.turn == d.prompted {
		s.Compaction.Trigger = "auto"
	}
	return append(out, s)
}

// event holds the members that are read from the payload of an event_msg.
type event struct {
	kind, info, item, failure, settings, limits []byte
	turn, root, thread                          string
	window                                      int64
}

func (d *rollout) event(r rolloutRecord) []telemetry.Signal {
	var e event
	// Most lines of a rollout are events, so this loop avoids the cost of a list
	// of scan fields.
	for _, m := range r.payload {
		switch string(m.Key) {
		case "type":
			e.kind = m.Val
		case "info":
			e.info = m.Val
		case "item":
			e.item = m.Val
		case "error":
			e.failure = m.Val
		case "turn_id":
			e.turn = scan.NameOf(m.Val)
		case "root_turn_id":
			e.root = scan.NameOf(m.Val)
		case "thread_id":
			e.thread = scan.NameOf(m.Val)
		case "thread_settings":
			e.settings = m.Val
		case "rate_limits":
			e.limits = m.Val
		case "model_context_window":
			e.window = scan.CountOf(m.Val)
		}
	}
	if string(e.kind) == `"token_count"` {
		return append(d.tokenCount(r, e.info), d.limited(r, e.limits)...)
	}
	held := d.held
	out := d.release()
	switch string(e.kind) {
	case `"task_started"`, `"turn_started"`:
		d.turn, d.root, d.answered = e.turn, e.root, false
		if e.window > 0 {
			d.window = e.window
		}
		s := d.ofTurn(r, telemetry.Working)
		if s.Agent == d.agent { // a review's window is not the main chain's
			s.ReportWindow(d.window)
		}
		return append(out, s)
	case `"item_completed"`:
		return telemetry.Join(out, d.completed(r, e))
	case `"user_message"`: // versions without items write this event for a prompt
		return telemetry.Join(out, d.prompt(r, d.turn))
	case `"agent_message"`:
		d.answered = true
		return out
	case `"task_complete"`, `"turn_complete"`:
		s := d.ended(r, e, telemetry.Completed)
		if len(e.failure) > 0 && !scan.IsNull(e.failure) {
			s.Outcome, s.Error = telemetry.Failed, errorKind(e.failure)
			if s.Error == telemetry.ErrQuota || s.Error == telemetry.ErrRateLimit {
				s.Until = d.limits.until
			}
		}
		return append(out, s)
	case `"turn_aborted"`:
		return append(out, d.ended(r, e, telemetry.Interrupted))
	case `"thread_settings_applied"`:
		// In a rollout that is read from its middle, this is the first record
		// that names the thread.
		if d.session == "" {
			d.session = e.thread
		}
		settings, _ := scan.Gather(nil, e.settings, 0)
		d.readModel(settings)
		return out
	}
	if !quiet(string(e.kind)) {
		d.Miss("event_msg/" + scan.WordOf(e.kind))
		d.held = held
		return nil
	}
	return out
}

// quiet reports whether an event of this kind gives no signal, because it is of no
// interest here or repeats another record.
func quiet(kind string) bool {
	switch kind {
	case `"agent_reasoning"`, `"agent_reasoning_raw_content"`, `"context_compacted"`, `"patch_apply_end"`,
		`"mcp_tool_call_end"`, `"web_search_end"`, `"image_generation_end"`, `"exec_command_end"`, `"view_image_tool_call"`,
		`"entered_review_mode"`, `"exited_review_mode"`, `"thread_rolled_back"`, `"thread_goal_updated"`,
		`"thread_name_updated"`, `"sub_agent_activity"`, `"error"`, `"warning"`:
		return true
	}
	return false
}

// ended returns a signal for the end of a turn. In the main thread's rollout, a review
// starts with the id of its own turn but ends with the id of its root turn. The signal
// of the end has the id of the review's own turn.
func (d *rollout) ended(r rolloutRecord, e event, o telemetry.Outcome) telemetry.Signal {
	s := d.ofTurn(r, telemetry.TurnEnd)
	s.Turn, s.Outcome = e.turn, o
	if e.turn == d.root && d.turn != "" {
		s.Turn = d.turn
	}
	d.turn, d.root = "", ""
	return s
}

// completed reads an item_completed event. A turn that answers a prompt has a
// user's message; the turn of `/compact` has none.
func (d *rollout) completed(r rolloutRecord, e event) []telemetry.Signal {
	var kind, id, status []byte
	scan.Members(e.item, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			kind = val
		case "id":
			id = val
		case "status":
			status = val
		}
		return kind == nil || toolItem(kind) && (id == nil || status == nil)
	})
	if failed(status) {
		d.failed = scan.NameOf(id)
	}
	switch string(kind) {
	case `"AgentMessage"`:
		d.answered = true
	case `"UserMessage"`:
		if d.session == "" {
			d.session = e.thread
		}
		return d.prompt(r, e.turn)
	case `"HookPrompt"`, `"Plan"`, `"Reasoning"`, `"CommandExecution"`, `"FileChange"`, `"McpToolCall"`, `"DynamicToolCall"`,
		`"CollabAgentToolCall"`, `"SubAgentActivity"`, `"WebSearch"`, `"ImageView"`, `"ImageGeneration"`, `"Sleep"`,
		`"FunctionCallOutput"`, `"EnteredReviewMode"`, `"ExitedReviewMode"`, `"ContextCompaction"`:
	default:
		d.Miss("item/" + scan.WordOf(kind))
	}
	return nil
}

// toolItem reports whether an item of this kind is a tool call, which has a
// status.
func toolItem(kind []byte) bool {
	switch string(kind) {
	case `"CommandExecution"`, `"FileChange"`, `"McpToolCall"`, `"DynamicToolCall"`:
		return true
	}
	return false
}

// failed reports whether a tool call has this status because it failed or the
// user refused it.
func failed(status []byte) bool {
	return string(status) == `"failed"` || string(status) == `"declined"`
}

// prompt reports the user's prompt once per turn, because the user may add text
// to a running turn. A sub-agent's task is not a prompt.
func (d *rollout) prompt(r rolloutRecord, turn string) []telemetry.Signal {
	s := d.ofTurn(r, telemetry.Prompt)
	if s.Agent != "" || turn != "" && turn == d.prompted {
		return nil
	}
	d.prompted, s.Turn = turn, turn
	return []telemetry.Signal{s}
}

// tokenCount reads the state of the context. If this version of Codex writes a
// separate record for each call, the state mostly repeats the newest of these records.
// Such a state is reported only if its size or window differs, or after a compaction.
// In other versions, each increase of the total is reported as a call.
func (d *rollout) tokenCount(r rolloutRecord, info []byte) []telemetry.Signal {
	var last, total tokens
	var window int64
	scan.Object(info,
		scan.Func("total_token_usage", func(val []byte) { total = readTokens(val) }),
		scan.Func("last_token_usage", func(val []byte) { last = readTokens(val) }), scan.Count("model_context_window", &window))
	if last.total == 0 && total.total == 0 {
		return nil // info is null
	}
	sameWindow := window == 0 || window == d.window
	if window > 0 {
		d.window = window
	}
	added := d.total.step(total, last, d.ours)
	if !d.records && added.call() && !d.copying(r) {
		u := added.usage()
		u.ID, u.Request, u.Used = total.key(), stampKey(r.at()), last.total
		return telemetry.Join(d.release(), d.called(r, u))
	}
	switch {
	case last.total == 0:
		return nil
	case last.total == d.used && d.held != nil:
		d.held.ReportWindow(d.window)
		return nil // the usage is still held: `compacted` may follow
	case last.total == d.used && sameWindow:
		return nil
	}
	out := d.release()
	d.used = last.total
	s := d.signal(r, telemetry.UsageSeen)
	s.Model = d.model
	s.Usage = &telemetry.Usage{Used: last.total, Estimate: d.rewrote}
	s.ReportWindow(d.window)
	d.rewrote = false
	return append(out, s)
}

// copying reports whether a record was copied from another thread. All copies
// have the time of the copying, because they are written at once; the thread's
// own model calls are later.
func (d *rollout) copying(r rolloutRecord) bool {
	return !d.copied.IsZero() && r.at().Sub(d.copied) < time.Second
}

// stampKey returns the time of a call's record, as one part of an id for the call.
// Codex itself gives the call no id.
func stampKey(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Format(time.RFC3339Nano)
}

// limited reports that a rate limit is reached. Codex does not wait for its
// end.
func (d *rollout) limited(r rolloutRecord, limits []byte) []telemetry.Signal {
	if !d.limits.see(limits, r.at()) {
		return nil
	}
	s := d.signal(r, telemetry.Fault)
	s.Error, s.Until = telemetry.ErrQuota, d.limits.until
	return []telemetry.Signal{s}
}
