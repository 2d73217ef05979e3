package claude

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// transcript decodes one line of a Claude Code transcript.
//
// The order of lines is not the order of events: lines that are written
// together may be in any order; in one recording the end of a turn is before
// its prompt. If no turn is open, a TurnStop or TurnEnd is therefore held until
// the next prompt. The times show whether it belongs to that prompt or to an
// earlier turn. A TurnEnd that is held also waits for its parent record, which may
// be the error that ended the turn.
type transcript struct {
	telemetry.Tally
	telemetry.Digests
	turn  string    // promptId of the newest user record
	since time.Time // time of the first record of that turn
	last  string    // the previous turn, until its end was read
	open  bool      // a user record of the turn was read, but not the turn's end
	held  []held
	// recent holds the uuids of the newest records.
	recent   [maxHeld][36]byte
	recentAt int
	// compactions are the ids of the reported compactions, because a file that is
	// read again repeats them.
	compactions []string
	// calls are the model calls whose usage was reported, because every line of a
	// call's answer repeats the usage.
	calls  telemetry.Calls
	newest [4][]byte // session, request, message and usage of the newest answer
	// agent is the sub-agent whose record was read last, and agentTurn the turn
	// that it works for.
	agent, agentTurn string
}

const (
	maxHeld        = 16
	maxCompactions = 64
)

// held is a TurnStop or TurnEnd that waits for its turn's prompt and, if after is
// not empty, also for its parent record.
type held struct {
	telemetry.Signal
	after string // the uuid of the parent record until it is read, then empty
}

// transcriptRecord holds the members that are read from a line. Its slices
// point into the line.
type transcriptRecord struct {
	kind, subtype, compact, origin      []byte
	turnOrigin                          []byte
	uuid, session, at, promptID, source []byte
	parent                              []byte
	failure, status, request            []byte
	agent                               string
	sidechain, meta, summary, apiError  bool
	message                             message
}

// Owner reads the beginning of a transcript: it returns the session in the first record
// that has a session and a working directory, and whether that directory is dir. The first
// records may have only one of the two, or neither. The session is empty if no whole line
// has both.
func Owner(head []byte, dir string) (session string, here bool) {
	for {
		record, rest, whole := bytes.Cut(head, []byte("\n"))
		if !whole {
			return "", false
		}
		var id string
		var cwd []byte
		if scan.Object(record, scan.Name("sessionId", &id), scan.Raw("cwd", &cwd)) && id != "" && len(scan.Inner(cwd)) > 0 {
			return id, scan.Is(cwd, dir)
		}
		head = rest
	}
}

// Transcript returns a decoder of transcript lines.
func Transcript() telemetry.Decoder { return new(transcript) }

// Decode and the methods of message compare the keys themselves instead of using
// scan.Object. So they read the message in the same pass, which saves time when a long
// file is read from its start.
func (d *transcript) Decode(record []byte) []telemetry.Signal {
	var r transcriptRecord
	// passed is set if the record's type gives no signal and no held end waits for a
	// record. The rest of the record is then not read.
	passed := false
	end := scan.Walk(record, scan.Space(record, 0), func(key []byte, i int) int {
		if string(key) == "message" {
			return r.message.read(record, i)
		}
		if string(key) == "toolUseResult" {
			return scan.StepOver // skip the largest member, whose format depends on the tool
		}
		val, end := scan.Take(record, i)
		switch string(key) {
		case "type":
			r.kind = val
			if passed = housekeeping(val) && !d.awaits(); passed {
				return scan.Halt
			}
		case "subtype":
			r.subtype = val
		case "compactMetadata":
			r.compact = val
		case "origin":
			r.origin = val
		case "turnOrigin":
			r.turnOrigin = val
		case "uuid":
			r.uuid = val
		case "parentUuid":
			r.parent = val
		case "sessionId":
			r.session = val
		case "timestamp":
			r.at = val
		case "promptId":
			r.promptID = val
		case "promptSource":
			r.source = val
		case "error":
			r.failure = val
		case "apiErrorStatus":
			r.status = val
		case "requestId":
			r.request = val
		case "isSidechain":
			r.sidechain = scan.IsTrue(val)
		case "agentId":
			r.agent = scan.NameOf(val)
		case "isMeta":
			r.meta = scan.IsTrue(val)
		case "isCompactSummary":
			r.summary = scan.IsTrue(val)
		case "isApiErrorMessage":
			r.apiError = scan.IsTrue(val)
		}
		return end
	})
	ok := passed || end >= 0 && scan.Space(record, end) == len(record)
	if !ok || len(r.kind) == 0 {
		d.Miss(telemetry.Malformed)
		return nil
	}
	return telemetry.Join(d.main(r), d.note(r))
}

// main reads a record. Records of a sub-agent are passed to subAgent.
func (d *transcript) main(r transcriptRecord) []telemetry.Signal {
	switch string(r.kind) {
	case `"user"`, `"assistant"`, `"system"`:
	default:
		if !housekeeping(r.kind) {
			d.Miss(scan.WordOf(r.kind))
		}
		return nil
	}
	if r.sidechain || r.agent != "" {
		return d.subAgent(r)
	}
	switch string(r.kind) {
	case `"user"`:
		return d.user(r)
	case `"assistant"`:
		return d.assistant(r)
	default:
		return d.system(r)
	}
}

// awaits reports whether a held end waits for a record, which may be of any
// type.
func (d *transcript) awaits() bool {
	for _, h := range d.held {
		if h.after != "" {
			return true
		}
	}
	return false
}

// note records that r was read. If the end of the open turn waited for r, note reports
// that end.
func (d *transcript) note(r transcriptRecord) []telemetry.Signal {
	id := scan.Inner(r.uuid)
	if len(id) == 0 {
		return nil
	}
	d.recent[d.recentAt] = [36]byte{}
	copy(d.recent[d.recentAt][:], id)
	d.recentAt = (d.recentAt + 1) % len(d.recent)
	for i := range d.held {
		if d.held[i].after == string(id) {
			d.held[i].after = ""
		}
	}
	if !d.open {
		return nil
	}
	return d.release()
}

// unseen returns the uuid of r's parent record, or "" if the parent was read
// recently.
func (d *transcript) unseen(r transcriptRecord) string {
	parent := scan.NameOf(r.parent)
	for i := range d.recent {
		if len(parent) <= len(d.recent[i]) && parent == string(bytes.TrimRight(d.recent[i][:], "\x00")) {
			return ""
		}
	}
	return parent
}

// subAgent reads a record of a sub-agent, which has a separate file. The
// sub-agent's context, prompts and errors are not those of the session. Its tool
// calls, and the usage of its model calls, are reported with the sub-agent's id.
func (d *transcript) subAgent(r transcriptRecord) []telemetry.Signal {
	agent := cmp.Or(r.agent, "sidechain") // some versions write no id for sub-agents
	if agent != d.agent {
		d.agent, d.agentTurn = agent, ""
	}
	var out []telemetry.Signal
	switch string(r.kind) {
	case `"user"`:
		if turn := scan.NameOf(r.promptID); turn != "" {
			d.agentTurn = turn
		}
		for _, tool := range r.message.ended {
			out = append(out, tool.over(r.signal(telemetry.ToolEnd), &d.Digests))
		}
	case `"assistant"`:
		if !r.apiError {
			out = d.answer(r)
		}
	}
	for i := range out {
		out[i].Turn, out[i].Agent = d.agentTurn, agent
	}
	return out
}

// housekeeping reports whether records of this type give no signal.
func housekeeping(kind []byte) bool {
	switch string(kind) {
	case `"attachment"`, `"file-history-snapshot"`, `"queue-operation"`, `"last-prompt"`, `"mode"`,
		`"permission-mode"`, `"ai-title"`, `"custom-title"`, `"agent-name"`, `"summary"`,
		`"api-request"`, `"api-request-blob"`, `"api-request-shape"`, `"atis-latch"`, `"tools-used"`, `"cost-state"`:
		return true
	}
	return false
}

// signal returns a signal of this kind, with the fields that the record
// determines.
func (r transcriptRecord) signal(kind telemetry.Kind) telemetry.Signal {
	return telemetry.Signal{Kind: kind, Source: "transcript", Detail: scan.NameOf(r.uuid), At: scan.TimeOf(r.at), Session: scan.NameOf(r.session)}
}

func (d *transcript) user(r transcriptRecord) []telemetry.Signal {
	content := r.message
	promptID := scan.NameOf(r.promptID)

	var before, out, after []telemetry.Signal
	if promptID != "" {
		before, after = d.begin(promptID, scan.TimeOf(r.at))
	}
	origin := r.notHuman()
	if origin != "" || r.human(content) {
		s := r.signal(telemetry.Prompt)
		s.Turn, s.Origin = promptID, origin
		out = append(out, s)
	}
	for _, tool := range content.ended {
		s := tool.over(r.signal(telemetry.ToolEnd), &d.Digests)
		s.Turn = d.current()
		out = append(out, s)
	}
	if len(r.source) == 0 && !r.meta && content.interrupted() {
		s := r.signal(telemetry.TurnEnd)
		s.Outcome = telemetry.Interrupted
		out = append(out, d.end(s, "")...)
	}
	if bytes.HasPrefix(content.text, []byte(`<local-command-stdout>`)) && promptID == d.turn {
		d.open = false // a local command calls no model and has ended when its output is written
	}
	if len(before) > 0 {
		out = append(before, out...)
	}
	return append(out, after...)
}

// notHuman returns the origin of the turn that the record begins. It returns "" if
// the record begins no turn, or a turn of the user. A notification that is
// inserted into a running turn has an origin too, but no turn id.
func (r transcriptRecord) notHuman() string {
	if len(r.promptID) == 0 {
		return ""
	}
	switch string(r.turnOrigin) {
	case `"peer"`:
		return telemetry.ByPeer
	case `"scheduled"`:
		return telemetry.BySchedule
	case `"task_notification"`, `"auto_continuation"`, `"host_synthetic"`, `"system"`:
		return telemetry.ByHarness
	}
	return ""
}

// human reports whether the record is a prompt that the user submitted. A user record that
// Claude Code wrote itself has no promptSource, or one other than typed, queued and sdk.
func (r transcriptRecord) human(c message) bool {
	if r.meta || r.summary || len(c.ended) > 0 || len(r.promptID) == 0 || c.local() {
		return false
	}
	switch string(r.source) {
	case `"typed"`, `"queued"`, `"sdk"`:
	default:
		return false
	}
	if len(r.origin) == 0 || scan.IsNull(r.origin) {
		return true
	}
	human := false
	scan.Object(r.origin, scan.Func("kind", func(val []byte) { human = string(val) == `"human"` }))
	return human
}

// begin opens the turn of a record, unless the record belongs to an earlier turn and
// was written late. It returns the held signals to be reported before the record, and
// those to be reported after it.
func (d *transcript) begin(turn string, at time.Time) (before, after []telemetry.Signal) {
	switch {
	case turn == d.turn:
		if at.Before(d.since) && !at.IsZero() {
			d.since = at
		}
	case d.open && at.Before(d.since) && !at.IsZero():
		return nil, nil // the record is of an earlier turn and was written late
	default:
		if d.last = ""; d.open {
			d.last = d.turn
		}
		d.since = at
	}
	d.turn, d.open = turn, true
	slices.SortStableFunc(d.held, func(a, b held) int { return a.At.Compare(b.At) })
	d.held = slices.DeleteFunc(d.held, func(h held) bool {
		if h.At.Before(at) {
			before = append(before, h.Signal)
		}
		return h.At.Before(at)
	})
	return before, d.release()
}

// release returns the held signals of the open turn.
func (d *transcript) release() (out []telemetry.Signal) {
	for len(d.held) > 0 && d.held[0].after == "" {
		s := d.held[0].Signal
		d.held = d.held[1:]
		s.Turn = d.turn
		out = append(out, s)
		if s.Kind == telemetry.TurnEnd {
			d.open = false
		}
	}
	return out
}

// end reports s, a TurnStop or TurnEnd, for the open turn. If no turn is open, end holds
// s until the next turn begins. after is the uuid of a record for which s also waits if
// it is held; after may be empty. If s is older than the open turn, its record was
// written late, and s belongs to the previous turn.
func (d *transcript) end(s telemetry.Signal, after string) []telemetry.Signal {
	if d.open && s.At.Before(d.since) && !s.At.IsZero() {
		s.Turn = d.last
		if s.Kind == telemetry.TurnEnd {
			d.last = ""
		}
		return []telemetry.Signal{s}
	}
	if !d.open && len(d.held) < maxHeld {
		d.held = append(d.held, held{s, after})
		return nil
	}
	s.Turn = d.current()
	if s.Kind == telemetry.TurnEnd {
		d.open = false
	}
	return []telemetry.Signal{s}
}

func (d *transcript) current() string {
	if !d.open {
		return ""
	}
	return d.turn
}

func (d *transcript) assistant(r transcriptRecord) []telemetry.Signal {
	if r.apiError {
		s := r.signal(telemetry.TurnStop)
		s.Outcome, s.Error = telemetry.Failed, failureKind(scan.WordOf(r.failure), scan.CountOf(r.status))
		return d.end(s, "")
	}
	out := d.answer(r)
	for i := range out {
		out[i].Turn = d.current()
		if out[i].Kind == telemetry.UsageSeen && r.message.answers() {
			out[i].Outcome = telemetry.Completed // used if the turn ends without a report of its outcome, as in print mode
		}
	}
	return out
}

// answer reads one line of a model call's answer. Each line repeats the call's
// usage.
func (d *transcript) answer(r transcriptRecord) []telemetry.Signal {
	if !r.message.whole {
		d.Miss(telemetry.Malformed)
		return nil
	}
	model := scan.NameOf(r.message.model)
	if model == "<synthetic>" {
		return nil // Claude Code wrote this answer itself; its usage is all zeros
	}
	var out []telemetry.Signal
	if !d.repeated(r) {
		usage := readUsage(r.message.usage)
		usage.ID, usage.Request = scan.NameOf(r.message.id), scan.NameOf(r.request)
		if usage.Used > 0 && d.calls.News(scan.NameOf(r.session), usage.ID, usage.Request, usage.Output) {
			s := r.signal(telemetry.UsageSeen)
			s.Model, s.Usage = model, &usage
			out = append(out, s)
		}
	}
	for _, tool := range r.message.started {
		out = append(out, tool.begun(r.signal(telemetry.ToolStart), &d.Digests))
	}
	return out
}

// repeated reports whether the line has the same call and the same usage, byte
// for byte, as the previous line. The usage then need not be read again.
func (d *transcript) repeated(r transcriptRecord) bool {
	now := [...][]byte{r.session, r.request, r.message.id, r.message.usage}
	same := scan.Inner(r.message.id) != nil && len(r.message.id) > len(`""`)
	for i, b := range now {
		same = same && bytes.Equal(d.newest[i], b)
		d.newest[i] = append(d.newest[i][:0], b...)
	}
	return same
}

func (d *transcript) system(r transcriptRecord) []telemetry.Signal {
	switch string(r.subtype) {
	case `"turn_duration"`:
		return d.end(r.signal(telemetry.TurnEnd), d.unseen(r))
	case `"compact_boundary"`:
		s := r.signal(telemetry.Compacted)
		if s.Detail != "" && slices.Contains(d.compactions, s.Detail) {
			return nil
		}
		d.compactions = append(d.compactions[max(0, len(d.compactions)-maxCompactions+1):], s.Detail)
		s.Turn = d.current()
		s.Compaction = readCompaction(r.compact)
		return []telemetry.Signal{s}
	case `"local_command"`:
		if at := scan.TimeOf(r.at); at.IsZero() || !at.Before(d.since) {
			d.open = false
		}
	case `"stop_hook_summary"`, `"informational"`, `"api_error"`: // an api_error is about a request that is retried
	default:
		d.Miss("system/" + scan.WordOf(r.subtype))
	}
	return nil
}

// readCompaction reads the metadata of a compact_boundary record. Print mode writes
// the same members in snake case.
func readCompaction(metadata []byte) *telemetry.Compaction {
	c := &telemetry.Compaction{Half: "record", Trigger: "unknown"}
	count := func(name string, to **int64) scan.Field {
		return scan.Func(name, func(val []byte) { *to = new(scan.CountOf(val)) })
	}
	scan.Object(metadata,
		scan.Func("trigger", func(val []byte) { c.Trigger = telemetry.TriggerOf(scan.WordOf(val)) }),
		count("preTokens", &c.Before), count("pre_tokens", &c.Before),
		count("postTokens", &c.After), count("post_tokens", &c.After))
	return c
}

// message holds what is read from a message: the model call and its usage, the
// message's tool calls and tool results, and the message's first text, still
// escaped. The text is not reported.
type message struct {
	whole            bool // the message is a complete object
	id, model, usage []byte
	stop             []byte
	text             []byte
	started, ended   []toolUse
}

// toolUse is a tool call, or its result.
type toolUse struct {
	id         string
	name, text []byte // text is the input of a call, or the content of a result
	failed     bool
}

func (t toolUse) begun(s telemetry.Signal, d *telemetry.Digests) telemetry.Signal {
	s.Tool, s.ToolName, s.Args = t.id, scan.WordOf(t.name), d.Sized(t.text)
	return s
}

func (t toolUse) over(s telemetry.Signal, d *telemetry.Digests) telemetry.Signal {
	s.Tool, s.Result, s.ToolError = t.id, d.Sized(t.text), telemetry.ToolErrorOf(t.failed)
	return s
}

func readMessage(val []byte) (m message) {
	m.read(val, 0)
	return m
}

// read reads the message at b[i] and returns the index after it. It reads the
// members of both roles, because the record's type, which shows the role, may follow.
func (m *message) read(b []byte, i int) int {
	end := scan.Walk(b, i, func(key []byte, i int) int {
		if string(key) == "content" && b[i] == '[' {
			return scan.WalkElements(b, i, func(i int) int { return m.readBlock(b, i) })
		}
		val, end := scan.Take(b, i)
		switch string(key) {
		case "id":
			m.id = val
		case "model":
			m.model = val
		case "usage":
			m.usage = val
		case "stop_reason":
			m.stop = val
		case "content":
			m.text = scan.Inner(val)
		}
		return end
	})
	if m.whole = end >= 0; !m.whole {
		return scan.StepOver
	}
	return end
}

// readBlock reads one block of a message's content.
func (m *message) readBlock(b []byte, i int) int {
	var kind, tool, id, text []byte
	var call toolUse
	end := scan.Walk(b, i, func(key []byte, i int) int {
		val, end := scan.Take(b, i)
		switch string(key) {
		case "type":
			kind = val
		case "tool_use_id":
			tool = val
		case "id":
			id = val
		case "name":
			call.name = val
		case "text":
			text = val
		case "input", "content":
			call.text = val
		case "is_error":
			call.failed = scan.IsTrue(val)
		}
		return end
	})
	if end < 0 {
		return scan.StepOver // the block is not an object
	}
	switch string(kind) {
	case `"tool_use"`:
		if call.id = scan.NameOf(id); call.id != "" {
			m.started = append(m.started, call)
		}
	case `"tool_result"`:
		if call.id = scan.NameOf(tool); call.id != "" {
			m.ended = append(m.ended, call)
		}
	case `"text"`:
		if m.text == nil {
			m.text = scan.Inner(text)
		}
	}
	return end
}

// answers reports whether the model stopped by itself. A hook may still make it
// continue.
func (c message) answers() bool {
	switch string(c.stop) {
	case `"end_turn"`, `"stop_sequence"`:
		return true
	}
	return false
}

// interrupted reports whether the text is Claude Code's mark of an interrupt.
func (c message) interrupted() bool {
	switch string(c.text) {
	case "[Request interrupted by user]", "[Request interrupted by user for tool use]":
		return true
	}
	return false
}

// local reports whether the text records a command that Claude Code runs
// itself, or the output of such a command.
func (c message) local() bool {
	for _, tag := range []string{"<command-", "<local-command-", "<bash-"} {
		if bytes.HasPrefix(c.text, []byte(tag)) {
			return true
		}
	}
	return false
}
