package gemini

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// chat decodes one line of a chat file of Gemini CLI.
//
// A line is a header, a change of the whole file (`$set`, `$rewindTo`) or one
// message. A message with the id of an earlier one replaces it. Gemini CLI also
// writes the history again on many occasions, with the old ids
// (`$set.messages`) or as messages with new ids; these repetitions are not
// reported. The file records the end of a turn only if the turn was not answered or
// a hook stopped the turn. Any other end is reported at the next prompt or compaction.
type chat struct {
	telemetry.Tally
	telemetry.Digests
	session string
	agent   string    // in a sub-agent's file, the id of the sub-agent; no record has the parent's id
	began   time.Time // the start time in the newest header
	header  bool      // a header was read: decoding began at the file's start, so all ids so far are known
	cleared bool      // a further header with a later start was read, but not yet the new history that follows
	loading bool      // messages repeat the history, until `$set.messages` follows
	first   bool      // no message of the user was read since the header

	seen     telemetry.Calls // ids of messages other than the model's
	counted  telemetry.Calls // ids of the model's messages
	tools    telemetry.Calls // the tool calls that were reported
	turn     string          // the open turn: the id of its prompt
	answered bool            // the model's newest message in the turn was an answer
	typed    uint64          // hash of the text that the user typed for the newest prompt
	blocked  map[uint64]bool // hashes of the tasks that hooks gave the model at the end of the turn, since the newest prompt
}

// chatRecord is one line. Its content and other members that may be text are
// not read yet.
type chatRecord struct {
	id, kind                         string
	at                               time.Time
	content, display, tokens, called []byte
	model                            string

	session, chat string // from a header: the session's id, and "subagent" for a sub-agent's file
	project       bool
	start         time.Time
	set           []byte
	rewind        bool
}

// Owner reads the header of a chat file, which is the first record. It returns the session
// in the header, and whether the file is of a main session in the folder dir. The header
// has only a digest of the folder's path. The session is empty if the first line is
// incomplete or is not a header.
func Owner(head []byte, dir string) (session string, here bool) {
	record, _, whole := bytes.Cut(head, []byte("\n"))
	var id, project, kind string
	ok := scan.Object(record, scan.Name("sessionId", &id), scan.Name("projectHash", &project), scan.Word("kind", &kind))
	if !whole || !ok || kind == "" {
		return "", false
	}
	digest := sha256.Sum256([]byte(dir))
	return id, kind == "main" && project == hex.EncodeToString(digest[:])
}

// Chat returns a decoder of chat file lines.
func Chat() telemetry.Decoder { return new(chat) }

func (d *chat) Decode(record []byte) []telemetry.Signal {
	var r chatRecord
	switch {
	case !r.read(record):
		d.Miss(telemetry.Malformed)
		return nil
	case r.rewind:
		return []telemetry.Signal{d.signal(telemetry.Cleared, "rewound", time.Time{})}
	case r.id != "":
		return d.message(r)
	case r.set != nil:
		return d.change(r.set)
	case r.session != "" && r.project:
		return d.head(r)
	}
	d.Miss(telemetry.Malformed)
	return nil
}

func (r *chatRecord) read(record []byte) bool {
	return scan.Object(record,
		scan.Name("id", &r.id), scan.Time("timestamp", &r.at), scan.Word("type", &r.kind), scan.Raw("content", &r.content),
		scan.Raw("displayContent", &r.display), scan.Raw("tokens", &r.tokens), scan.Name("model", &r.model), scan.Raw("toolCalls", &r.called),
		scan.Name("sessionId", &r.session), scan.Has("projectHash", &r.project), scan.Time("startTime", &r.start), scan.Word("kind", &r.chat),
		scan.Raw("$set", &r.set), scan.Has("$rewindTo", &r.rewind))
}

// signal returns a signal of this kind, with this id and time and the current session,
// sub-agent and turn.
func (d *chat) signal(kind telemetry.Kind, id string, at time.Time) telemetry.Signal {
	return telemetry.Signal{Kind: kind, Source: "transcript", Detail: id, At: at, Session: d.session, Agent: d.agent, Turn: d.turn}
}

// head reads a header. When the context is cleared within the session, a
// further header with a later start is written into the same file.
func (d *chat) head(r chatRecord) []telemetry.Signal {
	again := d.header && (r.session == d.session || r.session == d.agent)
	if again && !r.start.After(d.began) {
		return nil // the header was read before: the file is being read again
	}
	d.header, d.began, d.first, d.cleared = true, r.start, true, again
	if again {
		return nil
	}
	d.session, d.agent, d.turn, d.answered = r.session, "", "", false
	if r.chat == "subagent" {
		d.session, d.agent = "", r.session
	}
	return []telemetry.Signal{d.signal(telemetry.SessionLive, "header", r.start)}
}

// change reads a `$set`.
func (d *chat) change(set []byte) []telemetry.Signal {
	var history []byte
	var at time.Time
	if !scan.Members(set, func(key, val []byte) bool {
		switch string(key) {
		case "messages":
			history = val
		case "lastUpdated":
			at = scan.TimeOf(val)
		case "sessionId":
			if d.session == "" && d.agent == "" {
				d.session = scan.NameOf(val)
			}
		case "summary", "directories", "memoryScratchpad", "kind", "projectHash", "startTime":
		default:
			d.Miss("set/" + string(key))
		}
		return true
	}) {
		d.Miss(telemetry.Malformed)
		return nil
	}
	if history == nil {
		return nil
	}
	return d.replaced(history, at)
}

// replaced reads a history that replaces the previous one. The replacement is a
// compaction if the history holds a new summary. An old summary shows nothing,
// because every later history repeats it.
func (d *chat) replaced(history []byte, at time.Time) []telemetry.Signal {
	summary := ""
	scan.Elements(history, func(val []byte) bool {
		var r chatRecord
		r.read(val)
		if r.id == "" || r.kind != "user" || !d.seen.News("", r.id, "", 0) {
			return true
		}
		// In a file that is read from its middle, only the time shows that a
		// summary is new.
		if has(r.content, "<state_snapshot>") && (d.header || at.Sub(r.at) < time.Second) {
			summary = r.id
		}
		return true
	})
	cleared := d.cleared
	d.cleared, d.loading = false, false
	switch {
	case summary != "":
		var out []telemetry.Signal
		if d.answered && d.blocked == nil {
			// The compaction was started by the user or precedes the next prompt, so the
			// turn has ended. A compaction within a turn would follow a tool's result.
			out = d.end(chatRecord{id: summary, at: at}, telemetry.Completed)
		}
		s := d.signal(telemetry.Compacted, summary, at)
		s.Compaction = &telemetry.Compaction{Half: "record", Trigger: "unknown"}
		return append(out, s)
	case cleared:
		return []telemetry.Signal{d.signal(telemetry.Cleared, "header", d.began)}
	}
	return nil
}

func (d *chat) message(r chatRecord) []telemetry.Signal {
	switch r.kind {
	case "user":
		return d.user(r)
	case "gemini":
		return d.model(r)
	case "error", "info", "warning":
		if !d.seen.News("", r.id, "", 0) {
			return nil // the record was read before, so it does not end the turn that may be open now
		}
		if r.kind == "error" {
			return d.end(r, telemetry.Failed)
		}
		return d.notice(r)
	}
	d.Miss("type/" + r.kind)
	return nil
}

// Texts, or beginnings of texts, that Gemini CLI writes about a turn.
const (
	cancelled = "Request cancelled."
	givenUp   = "User cancelled the request."
	blocked   = "Agent execution blocked: "
	stopped   = "Agent execution stopped: "
	cleared   = "Conversation context has been cleared."
)

// notice reads an info message or a warning of Gemini CLI to the user.
func (d *chat) notice(r chatRecord) []telemetry.Signal {
	text := scan.Inner(r.content)
	switch {
	case string(text) == cancelled, string(text) == givenUp:
		return d.end(r, telemetry.Interrupted)
	case string(text) == cleared:
		// The file may end here while the session continues in another file.
		return []telemetry.Signal{d.signal(telemetry.Cleared, r.id, r.at)}
	case bytes.HasPrefix(text, []byte(blocked)):
		// A hook prevented the end of the turn and gave the model another task. If a hook
		// rejects a prompt, Gemini CLI writes the same words, and no record of the
		// prompt itself.
		if d.blocked == nil {
			d.blocked = map[uint64]bool{}
		}
		d.blocked[scan.Hash(text[len(blocked):])] = true
		if d.turn != "" && d.agent == "" {
			return []telemetry.Signal{d.signal(telemetry.Alive, r.id, r.at)} // the turn may continue
		}
	case bytes.HasPrefix(text, []byte(stopped)):
		if d.answered {
			return d.end(r, telemetry.Completed)
		}
		return d.end(r, telemetry.Interrupted)
	}
	return nil
}

// end reports the end of the open turn. If no turn is open it reports nothing:
// the record may belong to a command.
func (d *chat) end(r chatRecord, outcome telemetry.Outcome) []telemetry.Signal {
	if d.turn == "" || d.agent != "" {
		return nil
	}
	s := d.signal(telemetry.TurnEnd, r.id, r.at)
	if s.Outcome = outcome; outcome == telemetry.Failed {
		s.Error = telemetry.ErrUnknown // the cause is only in the text, which is not read
	}
	d.turn, d.answered = "", false
	return []telemetry.Signal{s}
}

func (d *chat) user(r chatRecord) []telemetry.Signal {
	if !d.seen.News("", r.id, "", 0) {
		return nil
	}
	u := readUser(r.content)
	switch {
	case u.context:
		// Gemini CLI sends a session context only at the start of a history. A session
		// context here shows that an old history is being written again.
		d.loading = true
		return nil
	case d.loading:
		return nil
	case u.results && !u.typed:
		d.answered = false
		if d.turn == "" {
			return nil // the result of a tool that was cancelled together with its turn
		}
		return []telemetry.Signal{d.signal(telemetry.Working, r.id, r.at)}
	case !u.typed:
		return nil
	}
	first := d.first
	d.first = false
	if d.agent != "" {
		return nil // another agent wrote the message
	}
	typed := r.typed(u)
	if d.continues(r, u, typed, first) {
		d.answered, d.typed = false, typed
		if d.turn == "" {
			return nil
		}
		return []telemetry.Signal{d.signal(telemetry.Working, r.id, r.at)}
	}
	var out []telemetry.Signal
	if d.turn != "" && d.answered {
		out = d.end(r, telemetry.Completed)
	}
	d.turn, d.answered, d.typed, d.blocked = r.id, false, typed, nil
	return append(out, d.signal(telemetry.Prompt, r.id, r.at))
}

// continues reports whether a message with the role user was not written by the
// user. Such a message is a task that a hook gave the model at the end of a turn,
// or a request by Gemini CLI to continue. The message belongs to the previous
// prompt, and its displayContent repeats the typed text of that prompt.
func (d *chat) continues(r chatRecord, u userParts, typed uint64, first bool) bool {
	if d.blocked[u.text] {
		return true
	}
	if r.display == nil || u.text == typed {
		return false
	}
	if !first {
		return typed == d.typed
	}
	// A session whose context was cleared may continue in a new file, which does not
	// have the previous prompt. A message soon after the start of that file was not
	// typed by the user if its content does not contain its displayContent. The
	// exception is a typed command, whose displayContent begins with "/".
	shown := firstText(r.display)
	return !d.began.IsZero() && r.at.Sub(d.began) < soonAfterStart && !bytes.HasPrefix(shown, []byte("/")) &&
		!bytes.Contains(r.content, shown)
}

// soonAfterStart is longer than the hooks at a start usually take, and shorter than a
// user needs to type a prompt.
const soonAfterStart = 3 * time.Second

// model reads a message of the model. Gemini CLI writes it first without its
// tool calls, and again with them once they have ended.
func (d *chat) model(r chatRecord) []telemetry.Signal {
	var out []telemetry.Signal
	var calls []call
	scan.Elements(r.called, func(val []byte) bool {
		calls = append(calls, readCall(val))
		return true
	})
	if !d.loading {
		d.answered = len(calls) == 0 && len(scan.Inner(r.content)) > 0
	}
	if s, ok := d.usage(r); ok {
		out = append(out, s)
	}
	for _, c := range calls {
		if c.id == "" || !d.tools.News("", c.id, "", 0) {
			continue
		}
		if d.turn == "" && d.agent == "" {
			continue // the tool was cancelled with its turn, whose end was already reported
		}
		s := d.signal(telemetry.ToolStart, r.id, r.at)
		s.Tool, s.ToolName = c.id, c.tool
		end := s
		s.Args = d.Sized(c.args)
		end.Kind, end.Result, end.ToolError = telemetry.ToolEnd, d.Sized(c.result), telemetry.ToolErrorOf(c.status == "error" || c.status == "cancelled")
		out = append(out, s, end)
	}
	return out
}

// call is a tool call that has ended.
type call struct {
	id, tool, status string
	args, result     []byte
}

func readCall(val []byte) call {
	var c call
	scan.Object(val,
		scan.Name("id", &c.id), scan.Word("name", &c.tool), scan.Raw("args", &c.args), scan.Raw("result", &c.result), scan.Word("status", &c.status))
	return c
}

// usage reports a model call once, and again when its output has grown.
func (d *chat) usage(r chatRecord) (telemetry.Signal, bool) {
	t := readTokens(r.tokens)
	u := t.usage(r.id)
	if u.Used == 0 || !d.counted.News("", r.id, "", u.Output) {
		return telemetry.Signal{}, false
	}
	s := d.signal(telemetry.UsageSeen, r.id, r.at)
	if s.Model, s.Usage = r.model, &u; d.answered && d.turn != "" {
		s.Outcome = telemetry.Completed
	}
	return s, true
}

// tokens are the parts of a usage as Gemini's API counts them: the prompt
// includes cached tokens; thoughts and the prompts of the server's own tools
// are counted separately.
type tokens struct{ input, output, cached, thoughts, tool int64 }

func readTokens(val []byte) tokens {
	var t tokens
	scan.Object(val,
		scan.Count("input", &t.input), scan.Count("output", &t.output), scan.Count("cached", &t.cached),
		scan.Count("thoughts", &t.thoughts), scan.Count("tool", &t.tool))
	return t
}

// usage returns the tokens of a call. No token is counted in two of Input, CacheRead
// and Output; Reasoning is the part of Output that is thoughts. Used is the size of
// the prompt, because Gemini CLI takes the prompt of the newest call as the size of
// the context.
func (t tokens) usage(id string) telemetry.Usage {
	cached := min(t.cached, t.input)
	return telemetry.Usage{ID: id, Used: t.input, Input: t.input - cached + t.tool, CacheRead: cached,
		Output: t.output + t.thoughts, Reasoning: t.thoughts}
}

// userParts describes the parts of a message with the role user.
type userParts struct {
	context bool   // the message has the description of the environment, with which every history begins
	results bool   // the message has results of tools
	typed   bool   // the message has parts from the user or a program of the user, and no results of tools
	text    uint64 // hash of the first text from the user or a program of the user; 0 if there is none
}

// aside reports whether Gemini CLI added this text to the history with the role
// user. Such a text is sent only with the next prompt. The text is the inside
// of a JSON string, so a newline is two characters.
func aside(text []byte) bool {
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

func readUser(content []byte) userParts {
	var u userParts
	part := func(text []byte) {
		switch {
		case bytes.HasPrefix(text, []byte("<session_context>")):
			u.context = true
		case aside(text):
		default:
			if u.text == 0 {
				u.text = scan.Hash(text)
			}
			u.typed = true
		}
	}
	if len(content) > 0 && content[0] == '"' {
		part(scan.Inner(content))
		return u
	}
	scan.Elements(content, func(val []byte) bool {
		if len(val) > 0 && val[0] == '"' {
			part(scan.Inner(val))
			return true
		}
		scan.Members(val, func(key, val []byte) bool {
			switch string(key) {
			case "text":
				part(scan.Inner(val))
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
		u.typed = false // a picture beside a tool's result comes from the tool, not from the user
	}
	return u
}

// firstText returns the first text of a content, still escaped.
func firstText(content []byte) []byte {
	if len(content) > 0 && content[0] == '"' {
		return scan.Inner(content)
	}
	var first []byte
	scan.Elements(content, func(val []byte) bool {
		if len(val) > 0 && val[0] == '"' {
			first = scan.Inner(val)
			return false
		}
		scan.Members(val, func(key, val []byte) bool {
			if string(key) == "text" {
				first = scan.Inner(val)
			}
			return first == nil
		})
		return first == nil
	})
	return first
}

// has reports whether a text of a content contains the mark.
func has(content []byte, mark string) bool {
	found := false
	scan.Elements(content, func(val []byte) bool {
		scan.Members(val, func(key, val []byte) bool {
			found = found || string(key) == "text" && bytes.Contains(val, []byte(mark))
			return !found
		})
		return !found
	})
	return found
}
