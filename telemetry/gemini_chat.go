package telemetry

import (
	"bytes"
	"time"
)

// geminiChat decodes one line of a chat file of Gemini CLI.
//
// A line is a header, a change of the whole (`$set`, `$rewindTo`) or one
// message, and a message that is written again under its id replaces what was
// there. The history is also written out again at many occasions, with its old
// ids (`$set.messages`) or, as messages of their own, with new ones; none of
// that is news. The file tells no end of a turn: that one was answered shows at
// the next prompt, and only what ended it otherwise is written down.
type geminiChat struct {
	tally
	digesting
	session string
	agent   string    // set in the file of a sub-agent: its own id; its parent's stands in no record
	began   time.Time // by the newest header
	header  bool      // one was seen, so every id of this file was
	cleared bool      // a further header with a later start; the history after it says what became of the context
	loading bool      // a history is written out as messages, until `$set.messages` follows
	first   bool      // no message of a person was seen since the header

	seen     map[string]bool  // ids of all messages but the model's
	counted  map[string]int64 // by id of the message, the output that was told
	tools    map[string]bool  // ids of the calls that were told
	turn     string           // the open turn: the id of its prompt
	answered bool             // the model's newest message in it was an answer
	typed    uint64           // digest of what was typed for the newest prompt
	blocked  map[uint64]bool  // digests of what hooks gave instead of an end, since the newest prompt
}

// geminiRecord is one line; content and what else may be text are not read yet.
type geminiRecord struct {
	id, kind                         string
	at                               time.Time
	content, display, tokens, called []byte
	model                            string

	session, chat string // of a header: the id, and whether it is a sub-agent's
	project       bool
	start         time.Time
	set           []byte
	rewind        bool
}

func (d *geminiChat) Decode(record []byte) []Signal {
	var r geminiRecord
	ok := members(record, func(key, val []byte) bool {
		r.read(key, val)
		return true
	})
	switch {
	case !ok:
		d.miss(malformed)
		return nil
	case r.rewind:
		return []Signal{d.signal(Cleared, "rewound", time.Time{})}
	case r.id != "":
		return d.message(r)
	case r.set != nil:
		return d.change(r.set)
	case r.session != "" && r.project:
		return d.head(r)
	}
	d.miss(malformed)
	return nil
}

func (r *geminiRecord) read(key, val []byte) {
	switch string(key) {
	case "id":
		r.id = name(val)
	case "type":
		r.kind = word(val)
	case "timestamp":
		r.at = stamp(val)
	case "content":
		r.content = val
	case "displayContent":
		r.display = val
	case "tokens":
		r.tokens = val
	case "toolCalls":
		r.called = val
	case "model":
		r.model = name(val)
	case "sessionId":
		r.session = name(val)
	case "projectHash":
		r.project = true
	case "startTime":
		r.start = stamp(val)
	case "kind":
		r.chat = word(val)
	case "$set":
		r.set = val
	case "$rewindTo":
		r.rewind = true
	}
}

// signal starts a signal told by a record.
func (d *geminiChat) signal(kind Kind, id string, at time.Time) Signal {
	return Signal{Kind: kind, Source: "transcript", Detail: id, At: at, Session: d.session, Agent: d.agent, Turn: d.turn}
}

// head reads a header. A further one with a later start is written into the
// same file when the context was cleared within the session.
func (d *geminiChat) head(r geminiRecord) []Signal {
	again := d.header && (r.session == d.session || r.session == d.agent)
	if again && !r.start.After(d.began) {
		return nil // the file is read once more
	}
	d.header, d.began, d.first, d.cleared = true, r.start, true, again
	if again {
		return nil
	}
	d.session, d.agent, d.turn, d.answered = r.session, "", "", false
	if r.chat == "subagent" {
		d.session, d.agent = "", r.session
	}
	return []Signal{d.signal(SessionLive, "header", r.start)}
}

// change reads a `$set`.
func (d *geminiChat) change(set []byte) []Signal {
	var history []byte
	var at time.Time
	if !members(set, func(key, val []byte) bool {
		switch string(key) {
		case "messages":
			history = val
		case "lastUpdated":
			at = stamp(val)
		case "sessionId":
			if d.session == "" && d.agent == "" {
				d.session = name(val)
			}
		case "summary", "directories", "memoryScratchpad", "kind", "projectHash", "startTime":
		default:
			d.miss("set/" + string(key))
		}
		return true
	}) {
		d.miss(malformed)
		return nil
	}
	if history == nil {
		return nil
	}
	return d.replaced(history, at)
}

// replaced reads a history that takes the place of the one before. It is a
// compaction when it holds a summary that was never seen: the old summary is
// written out with every history after it.
func (d *geminiChat) replaced(history []byte, at time.Time) []Signal {
	summary := ""
	elements(history, func(val []byte) bool {
		var r geminiRecord
		members(val, func(key, val []byte) bool {
			r.read(key, val)
			return true
		})
		if r.id == "" || r.kind != "user" || d.seen[r.id] {
			return true
		}
		d.remember(r.id)
		// Of a file that is read from its middle, only the time tells a new one.
		if geminiHas(r.content, "<state_snapshot>") && (d.header || at.Sub(r.at) < time.Second) {
			summary = r.id
		}
		return true
	})
	cleared := d.cleared
	d.cleared, d.loading = false, false
	switch {
	case summary != "":
		var out []Signal
		if d.answered && d.blocked == nil {
			// It was asked for, or comes before the next prompt is sent: within a
			// turn it comes behind a tool's result.
			out = d.end(geminiRecord{id: summary, at: at}, Completed)
		}
		s := d.signal(Compacted, summary, at)
		s.Compaction = &Compaction{Half: "record", Trigger: "unknown"}
		return append(out, s)
	case cleared:
		return []Signal{d.signal(Cleared, "header", d.began)}
	}
	return nil
}

func (d *geminiChat) remember(id string) {
	if d.seen == nil {
		d.seen = map[string]bool{}
	}
	d.seen[id] = true
}

func (d *geminiChat) message(r geminiRecord) []Signal {
	switch r.kind {
	case "user":
		return d.user(r)
	case "gemini":
		return d.model(r)
	case "error", "info", "warning":
		if d.seen[r.id] {
			return nil // the file is read once more, and another turn is open now
		}
		d.remember(r.id)
		if r.kind == "error" {
			return d.end(r, Failed)
		}
		return d.notice(r)
	}
	d.miss("type/" + r.kind)
	return nil
}

// The texts that Gemini CLI writes about a turn, as they begin.
const (
	geminiCancelled = "Request cancelled."
	geminiGivenUp   = "User cancelled the request."
	geminiBlocked   = "Agent execution blocked: "
	geminiStopped   = "Agent execution stopped: "
	geminiCleared   = "Conversation context has been cleared."
)

// notice reads what Gemini CLI tells the person in between.
func (d *geminiChat) notice(r geminiRecord) []Signal {
	said := inner(r.content)
	switch {
	case string(said) == geminiCancelled, string(said) == geminiGivenUp:
		return d.end(r, Interrupted)
	case string(said) == geminiCleared:
		// The file may end here: what follows is in another one then.
		return []Signal{d.signal(Cleared, r.id, r.at)}
	case bytes.HasPrefix(said, []byte(geminiBlocked)):
		// A hook gave the model something else to do, in the place of an end of
		// the turn. One that refused a prompt is told in the same words, and the
		// prompt then stands nowhere.
		if d.blocked == nil {
			d.blocked = map[uint64]bool{}
		}
		d.blocked[digest(said[len(geminiBlocked):])] = true
		if d.turn != "" && d.agent == "" {
			return []Signal{d.signal(Alive, r.id, r.at)} // the turn may go on
		}
	case bytes.HasPrefix(said, []byte(geminiStopped)):
		if d.answered {
			return d.end(r, Completed)
		}
		return d.end(r, Interrupted)
	}
	return nil
}

// end ends the open turn. Without one, it was no turn's end: of a command, say.
func (d *geminiChat) end(r geminiRecord, outcome Outcome) []Signal {
	if d.turn == "" || d.agent != "" {
		return nil
	}
	s := d.signal(TurnEnd, r.id, r.at)
	if s.Outcome = outcome; outcome == Failed {
		s.Error = ErrUnknown // the cause is told in a sentence only
	}
	d.turn, d.answered = "", false
	return []Signal{s}
}

func (d *geminiChat) user(r geminiRecord) []Signal {
	if d.seen[r.id] {
		return nil
	}
	d.remember(r.id)
	u := readGeminiUser(r.content)
	switch {
	case u.context:
		// This one is never sent by itself: a history is written out, and all of
		// it is old.
		d.loading = true
		return nil
	case d.loading:
		return nil
	case u.results && !u.typed:
		d.answered = false
		if d.turn == "" {
			return nil // of a tool that was cancelled with its turn
		}
		return []Signal{d.signal(Working, r.id, r.at)}
	case !u.typed:
		return nil
	}
	first := d.first
	d.first = false
	if d.agent != "" {
		return nil // what it is told, it is told by another agent
	}
	typed := u.text
	if r.display != nil {
		typed = digest(firstText(r.display))
	}
	if d.continues(r, u, typed, first) {
		d.answered, d.typed = false, typed
		if d.turn == "" {
			return nil
		}
		return []Signal{d.signal(Working, r.id, r.at)}
	}
	var out []Signal
	if d.turn != "" && d.answered {
		out = d.end(r, Completed)
	}
	d.turn, d.answered, d.typed, d.blocked = r.id, false, typed, nil
	return append(out, d.signal(Prompt, r.id, r.at))
}

// continues says that a message in the user's place is none of the user's: what
// a hook gave the model in the place of an end, or a nudge of Gemini CLI's own.
// Both go on with the prompt before, and repeat what was typed for it.
func (d *geminiChat) continues(r geminiRecord, u geminiUser, typed uint64, first bool) bool {
	if d.blocked[u.text] {
		return true
	}
	if r.display == nil || u.text == typed {
		return false
	}
	if !first {
		return typed == d.typed
	}
	// After its context was cleared a session may go on in a file of its own,
	// which knows nothing of the prompt before. Nobody types that soon, and what
	// a person typed begins what was sent, unless it is a command's name.
	shown := firstText(r.display)
	return !d.began.IsZero() && r.at.Sub(d.began) < geminiSoon && !bytes.HasPrefix(shown, []byte("/")) &&
		!bytes.Contains(r.content, shown)
}

// geminiSoon is longer than the hooks of a new start usually take, and shorter
// than a person needs to type.
const geminiSoon = 3 * time.Second

// model reads a message of the model. It is written without its tool calls
// first, and with them when they are over.
func (d *geminiChat) model(r geminiRecord) []Signal {
	var out []Signal
	var calls []geminiCall
	elements(r.called, func(val []byte) bool {
		calls = append(calls, readGeminiCall(val))
		return true
	})
	if !d.loading {
		d.answered = len(calls) == 0 && len(inner(r.content)) > 0
	}
	if s, ok := d.usage(r); ok {
		out = append(out, s)
	}
	for _, c := range calls {
		if c.id == "" || d.tools[c.id] {
			continue
		}
		if d.tools == nil {
			d.tools = map[string]bool{}
		}
		d.tools[c.id] = true
		if d.turn == "" && d.agent == "" {
			continue // it was cancelled with its turn, which was told first
		}
		s := d.signal(ToolStart, r.id, r.at)
		s.Tool, s.ToolName = c.id, c.tool
		end := s
		s.Args = d.sized(c.args)
		end.Kind, end.Result, end.ToolError = ToolEnd, d.sized(c.result), toolError(c.status == "error" || c.status == "cancelled")
		out = append(out, s, end)
	}
	return out
}

// geminiCall is a call of a tool that is over.
type geminiCall struct {
	id, tool, status string
	args, result     []byte
}

func readGeminiCall(val []byte) geminiCall {
	var c geminiCall
	members(val, func(key, val []byte) bool {
		switch string(key) {
		case "id":
			c.id = name(val)
		case "name":
			c.tool = word(val)
		case "args":
			c.args = val
		case "result":
			c.result = val
		case "status":
			c.status = word(val)
			return false // what follows is for the screen
		}
		return true
	})
	return c
}

// usage tells a call of the model, once, and again when its output has grown.
func (d *geminiChat) usage(r geminiRecord) (Signal, bool) {
	t := readGeminiTokens(r.tokens)
	u := t.usage(r.id)
	before, known := d.counted[r.id]
	if u.Used == 0 || known && u.Output <= before {
		return Signal{}, false
	}
	if d.counted == nil {
		d.counted = map[string]int64{}
	}
	d.counted[r.id] = u.Output
	s := d.signal(UsageSeen, r.id, r.at)
	if s.Model, s.Usage = r.model, &u; d.answered && d.turn != "" {
		s.Outcome = Completed
	}
	return s, true
}

// geminiTokens are the parts of a usage as the API of Gemini counts them: what
// was cached is within the prompt, thoughts and the prompts of the server's own
// tools are beside everything else.
type geminiTokens struct{ input, output, cached, thoughts, tool int64 }

func readGeminiTokens(val []byte) geminiTokens {
	var t geminiTokens
	members(val, func(key, val []byte) bool {
		switch string(key) {
		case "input":
			t.input = count(val)
		case "output":
			t.output = count(val)
		case "cached":
			t.cached = count(val)
		case "thoughts":
			t.thoughts = count(val)
		case "tool":
			t.tool = count(val)
		}
		return true
	})
	return t
}

// usage is the call in exclusive parts. Gemini CLI takes the prompt of the
// newest call for the size of the context.
func (t geminiTokens) usage(id string) Usage {
	cached := min(t.cached, t.input)
	return Usage{ID: id, Used: t.input, Input: t.input - cached + t.tool, CacheRead: cached,
		Output: t.output + t.thoughts, Reasoning: t.thoughts}
}

// geminiUser says what a message in the user's place consists of.
type geminiUser struct {
	context bool   // the description of the surroundings that every history begins with
	results bool   // results of tools
	typed   bool   // anything that a person, or who speaks for them, sent
	text    uint64 // digest of the first such text
}

// geminiAside says that a text is one that Gemini CLI itself writes into the
// history in the user's place, without sending it: it goes along with the next
// prompt. (It is the inside of a JSON string: a new line is two characters.)
func geminiAside(text []byte) bool {
	for _, mark := range []string{
		"<state_snapshot>",
		`I ran the following shell command:\n`,
		"Here is the user's editor context as a JSON object.",
		"Here is a summary of changes in the user's editor context",
		"User has manually exited Plan Mode.",
		"- **Workspace Directories:**",
	} {
		if bytes.HasPrefix(text, []byte(mark)) {
			return true
		}
	}
	return bytes.HasPrefix(text, []byte("<hook_context>")) && bytes.HasSuffix(text, []byte("</hook_context>"))
}

func readGeminiUser(content []byte) geminiUser {
	var u geminiUser
	part := func(text []byte) {
		switch {
		case bytes.HasPrefix(text, []byte("<session_context>")):
			u.context = true
		case geminiAside(text):
		default:
			if !u.typed {
				u.text = digest(text)
			}
			u.typed = true
		}
	}
	if len(content) > 0 && content[0] == '"' {
		part(inner(content))
		return u
	}
	elements(content, func(val []byte) bool {
		if len(val) > 0 && val[0] == '"' {
			part(inner(val))
			return true
		}
		members(val, func(key, val []byte) bool {
			switch string(key) {
			case "text":
				part(inner(val))
			case "functionResponse":
				u.results = true
				return false
			case "inlineData", "fileData":
				u.typed = true
			}
			return true
		})
		return true
	})
	if u.results {
		u.typed = false // a picture beside a tool's result is the tool's
	}
	return u
}

// firstText is the first text of a content, as it stands in JSON.
func firstText(content []byte) []byte {
	if len(content) > 0 && content[0] == '"' {
		return inner(content)
	}
	var first []byte
	elements(content, func(val []byte) bool {
		if len(val) > 0 && val[0] == '"' {
			first = inner(val)
			return false
		}
		members(val, func(key, val []byte) bool {
			if string(key) == "text" {
				first = inner(val)
			}
			return first == nil
		})
		return first == nil
	})
	return first
}

// geminiHas says whether a text of a content has this in it.
func geminiHas(content []byte, mark string) bool {
	found := false
	elements(content, func(val []byte) bool {
		members(val, func(key, val []byte) bool {
			found = found || string(key) == "text" && bytes.Contains(val, []byte(mark))
			return !found
		})
		return !found
	})
	return found
}

// inner is what stands between the quotes of a JSON string, or nothing.
func inner(val []byte) []byte {
	if len(val) < 2 || val[0] != '"' {
		return nil
	}
	return val[1 : len(val)-1]
}

// digest stands for a text that is only to be recognised again (FNV-1a).
func digest(text []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range text {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
