package codex

import (
	"cmp"
	"strings"
	"time"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
)

// appServer decodes one message of Codex's app-server, which writes JSON-RPC in
// lines. A record is such a line, or {"dir":…,"msg":…} with the message as msg; a
// dir of "out" marks a message to the server, which is not decoded.
//
// A thread's usage is a running total, so each increase is one model call. A
// stream may have several threads; each sub-agent has its own.
type appServer struct {
	telemetry.Tally
	telemetry.Waits
	telemetry.Digests
	threads map[string]*threadState
	limits  limitState
}

// threadState is the state that the decoder keeps for one thread.
type threadState struct {
	root       string // the root session of a sub-agent's thread
	model      string
	ours       bool // the thread began in this stream
	total      runningTotal
	used       int64
	prompted   string // the turn whose prompt was reported
	compacting bool
	estimate   *telemetry.Signal // the estimated size of the new context, held until the compaction ends
}

// message is one message, with its params not yet read.
type message struct {
	method         string
	params         []byte
	at             time.Time
	thread, turn   string
	item, usage    []byte
	status, failed []byte
	retries        bool
}

// maxThreads limits the number of remembered threads, because a session may
// start many sub-agents.
const maxThreads = 1024

// AppServer returns a decoder of app-server messages.
func AppServer() telemetry.Decoder { return new(appServer) }

func (d *appServer) Decode(record []byte) []telemetry.Signal {
	var msg, dir []byte
	if !scan.Object(record, scan.Raw("msg", &msg), scan.Raw("dir", &dir)) {
		d.Miss(telemetry.Malformed)
		return nil
	}
	if msg == nil {
		msg = record
	}
	if string(dir) == `"out"` {
		return nil
	}
	var m message
	answer := false
	scan.Object(msg,
		scan.Word("method", &m.method), scan.Raw("params", &m.params), scan.Milli("emittedAtMs", &m.at),
		scan.Has("result", &answer), scan.Has("error", &answer))
	if m.method == "" {
		if !answer {
			d.Miss(telemetry.Malformed)
		}
		return nil
	}
	return d.message(m)
}

func (d *appServer) message(m message) []telemetry.Signal {
	var thread, turn, limits []byte
	scan.Object(m.params,
		scan.Raw("thread", &thread), scan.Raw("turn", &turn), scan.Name("threadId", &m.thread),
		scan.Name("conversationId", &m.thread), scan.Name("turnId", &m.turn), scan.Raw("item", &m.item),
		scan.Raw("tokenUsage", &m.usage), scan.Raw("rateLimits", &limits), scan.Raw("status", &m.status),
		scan.Raw("error", &m.failed), scan.True("willRetry", &m.retries))
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
		s := d.signal(m, telemetry.Fault)
		s.Error, s.Until = telemetry.ErrQuota, d.limits.until
		return []telemetry.Signal{s}
	case "error":
		s := d.signal(m, telemetry.Fault)
		if m.retries {
			s.Kind = telemetry.LimitWait
		}
		s.Error = errorKind(m.failed)
		if s.Error == telemetry.ErrQuota || s.Error == telemetry.ErrRateLimit {
			s.Until = d.limits.until
		}
		return []telemetry.Signal{s}
	case "thread/closed":
		s := d.signal(m, telemetry.SessionGone)
		s.Reason = "closed"
		delete(d.threads, m.thread)
		return []telemetry.Signal{s}
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/permissions/requestApproval",
		"item/tool/requestUserInput", "mcpServer/elicitation/request", "applyPatchApproval", "execCommandApproval":
		return []telemetry.Signal{d.signal(m, telemetry.NeedsInput)}
	case "serverRequest/resolved":
		return []telemetry.Signal{d.signal(m, telemetry.Working)}
	}
	if !silent(m.method) {
		d.Miss(m.method)
	}
	return nil
}

// silent reports whether a message with this method gives no signal, because it is of no
// interest here or repeats another message (`thread/compacted` repeats an item).
func silent(method string) bool {
	area, _, _ := strings.Cut(method, "/")
	switch area {
	case "account", "app", "attestation", "autoApprovalReview", "command", "configWarning", "deprecationNotice", "externalAgentConfig",
		"fs", "fuzzyFileSearch", "guardianWarning", "hook", "item", "mcpServer", "model", "modelProvider", "process", "project",
		"remoteControl", "skills", "thread", "turn", "warning", "windows", "windowsSandbox":
		return true
	}
	return false
}

// of returns the state of a thread, a new one if there is none.
func (d *appServer) of(thread string) *threadState {
	t := d.threads[thread]
	if t == nil {
		if d.threads == nil || len(d.threads) >= maxThreads {
			d.threads = map[string]*threadState{}
		}
		t = new(threadState)
		d.threads[thread] = t
	}
	return t
}

// signal returns a signal of this kind, with the fields that the message
// determines.
func (d *appServer) signal(m message, kind telemetry.Kind) telemetry.Signal {
	s := telemetry.Signal{Kind: kind, Source: "stream", Detail: m.method, At: m.at, Session: m.thread, Turn: m.turn}
	if t := d.threads[m.thread]; t != nil && t.root != "" {
		s.Session, s.Agent = t.root, m.thread
	}
	return s
}

// started reports a thread that began, was forked or was resumed.
func (d *appServer) started(m message, thread []byte) []telemetry.Signal {
	var session, parent, dir, file, version, model string
	var created time.Time
	var forked, agent bool
	scan.Object(thread,
		scan.Name("id", &m.thread), scan.Name("sessionId", &session), scan.Name("parentThreadId", &parent),
		scan.Func("forkedFromId", func(val []byte) { forked = scan.NameOf(val) != "" }), scan.Seconds("createdAt", &created),
		scan.Path("cwd", &dir), scan.Path("path", &file), scan.Word("cliVersion", &version), scan.Name("model", &model),
		scan.Func("source", func(val []byte) {
			scan.Members(val, func(key, _ []byte) bool {
				agent = agent || string(key) == "subAgent"
				return true
			})
		}))
	if m.thread == "" {
		d.Miss(m.method + "/nameless")
		return nil
	}
	delete(d.threads, m.thread)
	t := d.of(m.thread)
	t.model = model
	if root := cmp.Or(session, parent); (agent || parent != "") && root != m.thread {
		t.root = root
	}
	s := d.signal(m, telemetry.SessionLive)
	s.Dir, s.Path, s.Version, s.Model = dir, file, version, model
	switch {
	case forked:
		s.Cause = "fork"
	case m.at.IsZero() || created.IsZero():
		s.Cause = "unknown"
	case m.at.Sub(created) > time.Minute: // the thread is much older than this message, so it was resumed
		s.Cause = "resume"
	default:
		s.Cause, t.ours = "startup", true
	}
	return []telemetry.Signal{s}
}

// state reads a message about a thread's status and reports the state.
func (d *appServer) state(m message) []telemetry.Signal {
	var kind, waits []byte
	scan.Object(m.status,
		scan.Raw("type", &kind),
		scan.Func("activeFlags", func(val []byte) {
			scan.Elements(val, func(val []byte) bool {
				waits = val
				return false
			})
		}))
	s := d.signal(m, telemetry.Working)
	switch string(kind) {
	case `"active"`:
		if len(waits) > 0 { // the thread waits for the user
			s.Kind, s.Detail = telemetry.NeedsInput, telemetry.DetailOf(m.method, scan.WordOf(waits))
		}
	case `"idle"`:
		s.Kind = telemetry.Idle
	case `"systemError"`:
		s.Kind, s.Error = telemetry.Fault, telemetry.ErrUnknown
	case `"notLoaded"`:
		return nil
	default:
		d.Miss(m.method + "/" + scan.WordOf(kind))
		return nil
	}
	return []telemetry.Signal{s}
}

// turned reports the start or the end of a turn.
func (d *appServer) turned(m message, turn []byte) []telemetry.Signal {
	var status, failure []byte
	scan.Object(turn, scan.Name("id", &m.turn), scan.Raw("status", &status), scan.Raw("error", &failure))
	if m.method == "turn/started" {
		return []telemetry.Signal{d.signal(m, telemetry.Working)}
	}
	s := d.signal(m, telemetry.TurnEnd)
	switch string(status) {
	case `"completed"`:
		s.Outcome = telemetry.Completed
	case `"interrupted"`:
		s.Outcome = telemetry.Interrupted
	case `"failed"`:
		s.Outcome, s.Error = telemetry.Failed, errorKind(failure)
		if s.Error == telemetry.ErrQuota || s.Error == telemetry.ErrRateLimit {
			s.Until = d.limits.until
		}
	default:
		d.Miss(m.method + "/" + scan.WordOf(status))
		return nil
	}
	return []telemetry.Signal{s}
}

// itemized reads an item of a turn and reports a prompt, a tool call or a
// compaction.
func (d *appServer) itemized(m message, started bool) []telemetry.Signal {
	call := readCall(m.item)
	t := d.of(m.thread)
	switch string(call.kind) {
	case `"userMessage"`:
		s := d.signal(m, telemetry.Prompt)
		if s.Agent != "" || m.turn != "" && m.turn == t.prompted {
			return nil // the text is a sub-agent's task, or more input for the same turn
		}
		t.prompted = m.turn
		return []telemetry.Signal{s}
	case `"commandExecution"`, `"fileChange"`, `"mcpToolCall"`, `"dynamicToolCall"`, `"collabAgentToolCall"`, `"webSearch"`, `"imageGeneration"`:
		return []telemetry.Signal{call.report(func(k telemetry.Kind) telemetry.Signal { return d.signal(m, k) }, started, &d.Digests)}
	case `"contextCompaction"`:
		t.compacting = started
		s := d.signal(m, telemetry.Compacting)
		if started {
			return []telemetry.Signal{s}
		}
		s.Kind, s.Compaction = telemetry.Compacted, &telemetry.Compaction{Half: "record", Trigger: "unknown"}
		if m.turn != "" && m.turn == t.prompted {
			s.Compaction.Trigger = "auto"
		}
		out := []telemetry.Signal{s}
		if t.estimate != nil {
			out, t.estimate = append(out, *t.estimate), nil
		}
		return out
	case `"hookPrompt"`, `"agentMessage"`, `"functionCallOutput"`, `"plan"`, `"reasoning"`, `"subAgentActivity"`, `"imageView"`,
		`"sleep"`, `"enteredReviewMode"`, `"exitedReviewMode"`:
	default:
		d.Miss("item/" + scan.WordOf(call.kind))
	}
	return nil
}

// tokens reports a model call, or the size of the context if it changed without
// a call.
func (d *appServer) tokens(m message) []telemetry.Signal {
	var total, last tokens
	var window int64
	scan.Object(m.usage,
		scan.Func("total", func(val []byte) { total = readTokens(val) }),
		scan.Func("last", func(val []byte) { last = readTokens(val) }), scan.Count("modelContextWindow", &window))
	t := d.of(m.thread)
	s := d.signal(m, telemetry.UsageSeen)
	s.Model = t.model
	s.ReportWindow(window)
	if added := t.total.step(total, last, t.ours); added.call() {
		s.Usage = added.usage()
		s.Usage.ID, s.Usage.Request, s.Usage.Used = total.key(), m.turn, last.total
		if t.compacting {
			s.Side = "compaction"
		} else {
			t.used = last.total
		}
		return []telemetry.Signal{s}
	}
	if last.total == 0 || last.total == t.used {
		return nil
	}
	t.used = last.total
	s.Usage = &telemetry.Usage{Used: last.total}
	if t.compacting && !last.call() {
		s.Usage.Estimate, t.estimate = true, &s
		return nil
	}
	return []telemetry.Signal{s}
}
