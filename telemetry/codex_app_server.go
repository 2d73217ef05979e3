package telemetry

import (
	"cmp"
	"strings"
	"time"
)

// codexAppServer decodes one message of Codex's app-server, JSON-RPC in lines:
// as it stands in the stream, or within {"dir":…,"msg":…}, which also says who
// spoke. Only the server is listened to.
//
// The usage of a thread is told as a running total, so its steps are the calls.
// A stream may have several threads, and sub-agents have theirs.
type codexAppServer struct {
	tally
	digesting
	threads map[string]*codexThread
	limits  codexLimits
}

// codexThread is what is remembered of one thread.
type codexThread struct {
	root       string // the session it belongs to, when it is a sub-agent's
	model      string
	ours       bool // it began in this stream
	total      codexTotal
	used       int64
	prompted   string // the turn whose prompt was told
	compacting bool
	estimate   *Signal // told of a compaction that is not over yet
}

// codexMessage is one message, with its params not yet read.
type codexMessage struct {
	method         string
	params         []byte
	at             time.Time
	thread, turn   string
	item, usage    []byte
	status, failed []byte
	again          bool
}

// maxThreads bounds what is remembered; sub-agents come and go.
const maxThreads = 1024

func (d *codexAppServer) Decode(record []byte) []Signal {
	var msg, dir []byte
	if !members(record, func(key, val []byte) bool {
		switch string(key) {
		case "msg":
			msg = val
		case "dir":
			dir = val
		}
		return true
	}) {
		d.miss(malformed)
		return nil
	}
	if msg == nil {
		msg = record
	}
	if string(dir) == `"out"` {
		return nil
	}
	var m codexMessage
	answer := false
	members(msg, func(key, val []byte) bool {
		switch string(key) {
		case "method":
			m.method = word(val)
		case "params":
			m.params = val
		case "emittedAtMs":
			m.at = stampMilli(val)
		case "result", "error":
			answer = true
		}
		return true
	})
	if m.method == "" {
		if !answer {
			d.miss(malformed)
		}
		return nil
	}
	return d.message(m)
}

func (d *codexAppServer) message(m codexMessage) []Signal {
	var thread, turn, limits []byte
	members(m.params, func(key, val []byte) bool {
		switch string(key) {
		case "thread":
			thread = val
		case "turn":
			turn = val
		case "threadId", "conversationId":
			m.thread = name(val)
		case "turnId":
			m.turn = name(val)
		case "item":
			m.item = val
		case "tokenUsage":
			m.usage = val
		case "rateLimits":
			limits = val
		case "status":
			m.status = val
		case "error":
			m.failed = val
		case "willRetry":
			m.again = isTrue(val)
		}
		return true
	})
	switch m.method {
	case "thread/started":
		return d.started(m, thread)
	case "thread/status/changed":
		return d.state(m)
	case "turn/started", "turn/completed":
		return d.turned(m, turn)
	case "item/started", "item/completed":
		return d.itemized(m, m.method == "item/started")
	case "thread/tokenUsage/updated":
		return d.tokens(m)
	case "account/rateLimits/updated":
		if !d.limits.see(limits, m.at) {
			return nil
		}
		s := d.signal(m, Fault)
		s.Error, s.Until = ErrQuota, d.limits.until
		return []Signal{s}
	case "error":
		s := d.signal(m, Fault)
		if m.again {
			s.Kind = LimitWait
		}
		s.Error = codexError(m.failed)
		if s.Error == ErrQuota || s.Error == ErrRateLimit {
			s.Until = d.limits.until
		}
		return []Signal{s}
	case "thread/closed":
		s := d.signal(m, SessionGone)
		s.Reason = "closed"
		delete(d.threads, m.thread)
		return []Signal{s}
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/permissions/requestApproval",
		"item/tool/requestUserInput", "mcpServer/elicitation/request", "applyPatchApproval", "execCommandApproval":
		return []Signal{d.signal(m, NeedsInput)}
	case "serverRequest/resolved":
		return []Signal{d.signal(m, Working)}
	}
	if !codexSilent(m.method) {
		d.miss(m.method)
	}
	return nil
}

// codexSilent are messages of the server that say nothing about what is told
// here, or repeat another (`thread/compacted` is the older name of an item).
func codexSilent(method string) bool {
	area, _, _ := strings.Cut(method, "/")
	switch area {
	case "account", "app", "attestation", "autoApprovalReview", "command", "configWarning", "deprecationNotice", "externalAgentConfig",
		"fs", "fuzzyFileSearch", "guardianWarning", "hook", "item", "mcpServer", "model", "modelProvider", "process", "project",
		"remoteControl", "skills", "thread", "turn", "warning", "windows", "windowsSandbox":
		return true
	}
	return false
}

// of returns what is known of a thread, from now on.
func (d *codexAppServer) of(thread string) *codexThread {
	t := d.threads[thread]
	if t == nil {
		if d.threads == nil || len(d.threads) >= maxThreads {
			d.threads = map[string]*codexThread{}
		}
		t = new(codexThread)
		d.threads[thread] = t
	}
	return t
}

// signal starts a signal told by the message.
func (d *codexAppServer) signal(m codexMessage, kind Kind) Signal {
	s := Signal{Kind: kind, Source: "stream", Detail: m.method, At: m.at, Session: m.thread, Turn: m.turn}
	if t := d.threads[m.thread]; t != nil && t.root != "" {
		s.Session, s.Agent = t.root, m.thread
	}
	return s
}

// started tells a thread that was begun, forked or taken up again.
func (d *codexAppServer) started(m codexMessage, thread []byte) []Signal {
	var session, parent, dir, file, version, model string
	var created time.Time
	var forked, agent bool
	members(thread, func(key, val []byte) bool {
		switch string(key) {
		case "id":
			m.thread = name(val)
		case "sessionId":
			session = name(val)
		case "parentThreadId":
			parent = name(val)
		case "forkedFromId":
			forked = name(val) != ""
		case "createdAt":
			created = stampSeconds(val)
		case "cwd":
			dir = path(val)
		case "path":
			file = path(val)
		case "cliVersion":
			version = word(val)
		case "model":
			model = name(val)
		case "source":
			members(val, func(key, _ []byte) bool {
				agent = agent || string(key) == "subAgent"
				return true
			})
		}
		return true
	})
	if m.thread == "" {
		d.miss(m.method + "/nameless")
		return nil
	}
	delete(d.threads, m.thread)
	t := d.of(m.thread)
	t.model = model
	if root := cmp.Or(session, parent); (agent || parent != "") && root != m.thread {
		t.root = root
	}
	s := d.signal(m, SessionLive)
	s.Dir, s.Path, s.Version, s.Model = dir, file, version, model
	switch {
	case forked:
		s.Cause = "fork"
	case m.at.IsZero() || created.IsZero():
		s.Cause = "unknown"
	case m.at.Sub(created) > time.Minute: // its time is that of its first beginning
		s.Cause = "resume"
	default:
		s.Cause, t.ours = "startup", true
	}
	return []Signal{s}
}

// state tells what the thread says that it does.
func (d *codexAppServer) state(m codexMessage) []Signal {
	var kind, waits []byte
	members(m.status, func(key, val []byte) bool {
		switch string(key) {
		case "type":
			kind = val
		case "activeFlags":
			elements(val, func(val []byte) bool {
				waits = val
				return false
			})
		}
		return true
	})
	s := d.signal(m, Working)
	switch string(kind) {
	case `"active"`:
		if len(waits) > 0 { // for a person, whatever for
			s.Kind, s.Detail = NeedsInput, detail(m.method, word(waits))
		}
	case `"idle"`:
		s.Kind = Idle
	case `"systemError"`:
		s.Kind, s.Error = Fault, ErrUnknown
	case `"notLoaded"`:
		return nil
	default:
		d.miss(m.method + "/" + word(kind))
		return nil
	}
	return []Signal{s}
}

// turned tells the start or the end of a turn.
func (d *codexAppServer) turned(m codexMessage, turn []byte) []Signal {
	var status, failure []byte
	members(turn, func(key, val []byte) bool {
		switch string(key) {
		case "id":
			m.turn = name(val)
		case "status":
			status = val
		case "error":
			failure = val
		}
		return true
	})
	if m.method == "turn/started" {
		return []Signal{d.signal(m, Working)}
	}
	s := d.signal(m, TurnEnd)
	switch string(status) {
	case `"completed"`:
		s.Outcome = Completed
	case `"interrupted"`:
		s.Outcome = Interrupted
	case `"failed"`:
		s.Outcome, s.Error = Failed, codexError(failure)
		if s.Error == ErrQuota || s.Error == ErrRateLimit {
			s.Until = d.limits.until
		}
	default:
		d.miss(m.method + "/" + word(status))
		return nil
	}
	return []Signal{s}
}

// itemized tells the prompt, tools and compactions of a turn.
func (d *codexAppServer) itemized(m codexMessage, started bool) []Signal {
	call := readCodexCall(m.item)
	t := d.of(m.thread)
	switch string(call.kind) {
	case `"userMessage"`:
		s := d.signal(m, Prompt)
		if s.Agent != "" || m.turn != "" && m.turn == t.prompted {
			return nil // a sub-agent's task, or more text for the same turn
		}
		t.prompted = m.turn
		return []Signal{s}
	case `"commandExecution"`, `"fileChange"`, `"mcpToolCall"`, `"dynamicToolCall"`, `"collabAgentToolCall"`, `"webSearch"`, `"imageGeneration"`:
		return []Signal{call.told(func(k Kind) Signal { return d.signal(m, k) }, started, &d.digesting)}
	case `"contextCompaction"`:
		t.compacting = started
		s := d.signal(m, Compacting)
		if started {
			return []Signal{s}
		}
		s.Kind, s.Compaction = Compacted, &Compaction{Half: "record", Trigger: "unknown"}
		if m.turn != "" && m.turn == t.prompted {
			s.Compaction.Trigger = "auto"
		}
		out := []Signal{s}
		if t.estimate != nil {
			out, t.estimate = append(out, *t.estimate), nil
		}
		return out
	case `"hookPrompt"`, `"agentMessage"`, `"functionCallOutput"`, `"plan"`, `"reasoning"`, `"subAgentActivity"`, `"imageView"`,
		`"sleep"`, `"enteredReviewMode"`, `"exitedReviewMode"`:
	default:
		d.miss("item/" + word(call.kind))
	}
	return nil
}

// tokens tells a call, or the context when it changed without one.
func (d *codexAppServer) tokens(m codexMessage) []Signal {
	var total, last codexTokens
	var window int64
	members(m.usage, func(key, val []byte) bool {
		switch string(key) {
		case "total":
			total = readCodexTokens(val)
		case "last":
			last = readCodexTokens(val)
		case "modelContextWindow":
			window = count(val)
		}
		return true
	})
	t := d.of(m.thread)
	s := d.signal(m, UsageSeen)
	s.Model = t.model
	if window > 0 {
		s.Window, s.WindowSource = window, "reported"
	}
	if added := t.total.step(total, last, t.ours); added.call() {
		s.Usage = added.usage()
		s.Usage.ID, s.Usage.Request, s.Usage.Used = total.key(), m.turn, last.total
		if t.compacting {
			s.Side = "compaction"
		} else {
			t.used = last.total
		}
		return []Signal{s}
	}
	if last.total == 0 || last.total == t.used {
		return nil
	}
	t.used = last.total
	s.Usage = &Usage{Used: last.total}
	if t.compacting && !last.call() {
		s.Usage.Estimate, t.estimate = true, &s
		return nil
	}
	return []Signal{s}
}
