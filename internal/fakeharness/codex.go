//go:build unix

package fakeharness

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"
)

const codexVersion = "0.169.0"

// codex behaves like the Codex CLI: it writes a rollout (a thread's transcript),
// reports its state to the terminal by the sequence OSC 7501, and runs hooks.
type codex struct {
	h               *harness
	session, turnID string
	threads         []codexThread // the loaded threads, oldest first
	locks           []*os.File    // locked files, one for each thread
	model           string
	window, used    int64
	total           int64 // sum of the tokens of all calls of the thread
	calls           int
	source          string // the source for the SessionStart hooks of the next turn; empty if none are to run
	over            bool
}

type codexThread struct {
	id      string
	born    time.Time
	ordinal int
}

// newID returns a UUID that begins with the time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

func newCodex(h *harness) *codex {
	c := &codex{h: h, model: cmp.Or(h.args.model, "gpt-5.2-codex"), window: 258_400}
	c.open("startup")
	return c
}

// open begins a thread, whose first turn will run the SessionStart hooks.
func (c *codex) open(source string) {
	c.threads = append(c.threads, codexThread{id: newID(), born: time.Now()})
	c.session, c.turnID, c.source, c.used, c.total = c.thread().id, "", source, 0, 0
}

func (c *codex) thread() *codexThread { return &c.threads[len(c.threads)-1] }

func (c *codex) home() string { return c.h.home("CODEX_HOME", ".codex") }

func (t codexThread) rollout(home string) string {
	stamp := t.born.Format("2006-01-02T15-04-05")
	return filepath.Join(home, "sessions", t.born.Format("2006/01/02"), "rollout-"+stamp+"-"+t.id+".jsonl")
}

// fatal reports that no signal ends the program gracefully: a signal kills the real
// program without any cleanup.
func (c *codex) fatal(os.Signal) (int, bool) { return 0, false }

func (c *codex) base(event string) object {
	m := object{
		"session_id": c.session, "transcript_path": c.thread().rollout(c.home()), "cwd": c.h.dir,
		"hook_event_name": event, "model": c.model,
	}
	switch event {
	case "SessionEnd":
		delete(m, "model")
		return m
	case "PreCompact", "PostCompact":
	default:
		m["permission_mode"] = "bypassPermissions"
	}
	if event != "SessionStart" && c.turnID != "" {
		m["turn_id"] = c.turnID
	}
	return m
}

func (c *codex) start(s startStep) {
	c.model, c.window, c.source = cmp.Or(s.Model, c.model), cmp.Or(s.Window, c.window), cmp.Or(s.Source, c.source)
	c.over = false
	c.h.term.raw()
	c.lock()
	c.h.write("\x1b[?2004h\x1b[>4;0m\x1b[>7u\x1b[?1004h\x1b[?1049h")
	c.h.line("fake Codex " + codexVersion + " · " + c.model)
	if c.h.hooks.warning != "" {
		c.h.line(c.h.hooks.warning)
	}
	c.osc("idle:app=codex")
}

// lock locks the lock file of the newest thread until this process ends.
func (c *codex) lock() {
	path := filepath.Join(c.home(), "thread-writer-locks", c.session+".lock")
	must(os.MkdirAll(filepath.Dir(path), 0o700))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	must(err)
	must(syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	c.locks = append(c.locks, f)
}

func (c *codex) osc(state string) {
	c.h.write("\x1b]7501;state=" + state + "\x1b\\")
}

func (c *codex) turn(t turnStep) {
	began := time.Now()
	c.begin(t.PromptID)
	if t.Records {
		c.prompt(t.Prompt)
		c.answer(t)
		c.complete(t.Answer, "", began)
		return
	}
	c.osc("working:app=codex")
	c.h.line("› " + t.Prompt)
	c.sessionStart()
	asked := c.h.hook("UserPromptSubmit", object{"prompt": t.Prompt})
	if asked.blocked {
		// A blocked prompt reaches neither the model nor the rollout.
		c.complete(nil, "", began)
		c.osc("done:app=codex")
		return
	}
	c.prompt(t.Prompt)
	c.developer(asked.context)
	if t.Tool != "" {
		c.tool(t)
	}
	c.h.pause(time.Duration(t.MS) * time.Millisecond)
	if t.Fail != "" {
		c.h.line("■ " + t.Fail)
		c.complete(nil, t.Fail, began)
		c.osc("done:app=codex")
		return
	}
	c.answer(t)
	c.h.line("• " + t.Answer)
	c.stop(t)
	c.complete(t.Answer, "", began)
	c.osc("done:app=codex")
}

// stop runs the Stop hooks. If one of them forbids the end of the turn, the model
// answers again in the same turn.
func (c *codex) stop(t turnStep) {
	more := object{"stop_hook_active": false, "last_assistant_message": t.Answer}
	asked := c.h.hook("Stop", more)
	if !asked.blocked {
		return
	}
	c.input("user", "<hook_prompt>"+asked.reason+"</hook_prompt>")
	c.answer(t)
	more["stop_hook_active"] = true
	c.h.hook("Stop", more)
}

// begin writes the head of the rollout, if it is missing, and the start of a turn.
func (c *codex) begin(id string) {
	c.turnID = cmp.Or(id, newID())
	if c.thread().ordinal == 0 {
		c.line("session_meta", object{
			"session_id": c.session, "id": c.session, "timestamp": now(), "cwd": c.h.dir, "originator": "codex-tui", "cli_version": codexVersion,
			"source": "cli", "thread_source": "user", "model_provider": "fake", "history_mode": "paginated",
		})
	}
	c.event("task_started", object{
		"turn_id": c.turnID, "root_turn_id": c.turnID, "started_at": time.Now().Unix(), "model_context_window": c.window,
		"collaboration_mode_kind": "default", "turn_attribution": object{"turn_id": c.turnID, "turn_trigger": "user", "root_turn_id": c.turnID},
	})
	c.line("turn_context", object{"turn_id": c.turnID, "root_turn_id": c.turnID, "cwd": c.h.dir, "approval_policy": "never", "model": c.model})
}

// sessionStart runs the SessionStart hooks if they are due: in a thread's first turn, and
// in the first turn after a compaction.
func (c *codex) sessionStart() {
	if c.source == "" {
		return
	}
	asked := c.h.hook("SessionStart", object{"source": c.source})
	c.source = ""
	c.developer(asked.context)
}

func (c *codex) prompt(text string) {
	c.input("user", text)
	c.completed(object{"type": "UserMessage", "id": newID(), "content": []any{object{"type": "text", "text": text, "text_elements": []any{}}}})
}

// developer writes the additional context from hooks, as the model sees it.
func (c *codex) developer(context []string) {
	for _, text := range context {
		c.input("developer", text)
	}
}

func (c *codex) tool(t turnStep) {
	id := fmt.Sprintf("call_fake_%d", c.calls+1)
	c.item(object{"type": "function_call", "status": "completed", "id": "fc_" + id, "name": "exec_command", "arguments": `{"cmd":` + text(t.Tool) + `}`, "call_id": id})
	c.usage(t.tokens())
	members := object{"tool_name": "Bash", "tool_input": object{"command": t.Tool}, "tool_use_id": id}
	asked := c.h.hook("PreToolUse", members)
	result := "Command blocked by PreToolUse hook: " + asked.reason + ". Command: " + t.Tool
	if !asked.blocked {
		var failed bool
		result, failed = c.h.shell(t.Tool)
		members["tool_response"] = result
		said := c.h.hook("PostToolUse", members)
		code := 0
		if failed {
			code = 1
		}
		c.completed(object{"type": "CommandExecution", "id": id, "command": []string{"/bin/sh", "-c", t.Tool}, "status": "completed", "aggregated_output": result, "exit_code": code})
		if said.blocked {
			result = said.reason
		}
		c.developer(said.context)
	}
	c.item(object{"type": "function_call_output", "id": "fco_" + id, "call_id": id, "output": result})
	c.tokenCount(tokens(c.used)) // reported only after the tools have run
}

func (c *codex) answer(t turnStep) {
	id := fmt.Sprintf("msg_fake_%d", c.calls+1)
	c.completed(object{"type": "AgentMessage", "id": id, "content": []any{object{"type": "Text", "text": t.Answer}}})
	c.item(object{"type": "message", "status": "completed", "id": id, "role": "assistant", "content": []any{object{"type": "output_text", "text": t.Answer, "annotations": []any{}}}})
	c.usage(t.tokens())
	c.tokenCount(tokens(c.used))
}

// usage writes the record of one model call. used is the number of tokens in the context
// after the call; 0 means as many as before.
func (c *codex) usage(used int64) {
	c.calls++
	c.used = cmp.Or(used, c.used)
	c.total += c.used
	c.line("token_usage_record", object{
		"thread_id": c.session, "turn_id": c.turnID, "session_id": c.session, "root_turn_id": c.turnID,
		"response_id": fmt.Sprintf("resp_fake_%d", c.calls), "usage": tokens(c.used), "thread_token_usage": tokens(c.total),
	})
}

func (c *codex) tokenCount(last object) {
	c.event("token_count", object{
		"info":        object{"total_token_usage": tokens(c.total), "last_token_usage": last, "last_usage_includes_reasoning": false, "model_context_window": c.window},
		"rate_limits": object{"limit_id": "codex", "primary": nil, "secondary": nil},
	})
}

func tokens(used int64) object {
	output := min(used, 100)
	return object{
		"input_tokens": used - output, "cached_input_tokens": 0, "cache_write_input_tokens": 0, "output_tokens": output,
		"reasoning_output_tokens": 0, "total_tokens": used,
	}
}

// complete ends a turn; answer is nil if there is no answer.
func (c *codex) complete(answer any, failure string, began time.Time) {
	end := object{
		"turn_id": c.turnID, "root_turn_id": c.turnID, "last_agent_message": answer, "started_at": began.Unix(),
		"completed_at": time.Now().Unix(), "duration_ms": time.Since(began).Milliseconds(),
	}
	if failure != "" {
		end["error"] = object{"message": failure, "codex_error_info": failure}
	}
	c.event("task_complete", end)
}

func (c *codex) compact(s compactStep) {
	began, trigger := time.Now(), cmp.Or(s.Trigger, "manual")
	// A manual compaction is a separate turn, without UserPromptSubmit and Stop hooks.
	// In the real program, an automatic compaction is a part of the next turn; here it
	// is a separate turn too.
	c.begin("")
	c.osc("working:app=codex")
	asked := c.h.hook("PreCompact", object{"trigger": trigger})
	if asked.blocked {
		c.event("turn_aborted", object{"turn_id": c.turnID, "reason": "interrupted", "duration_ms": time.Since(began).Milliseconds()})
		c.h.hook("Interrupt", nil)
		c.osc("idle:app=codex")
		return
	}
	c.usage(0)
	c.tokenCount(tokens(c.used))
	c.line("compacted", object{"message": "what happened so far", "replacement_history": []any{}, "window_number": 2})
	c.used = cmp.Or(s.After, 6_401)
	// After a compaction Codex estimates how many tokens are still in the context,
	// and reports that total without its parts.
	estimate := tokens(0)
	estimate["total_tokens"] = c.used
	c.tokenCount(estimate)
	c.completed(object{"type": "ContextCompaction", "id": newID()})
	c.h.hook("PostCompact", object{"trigger": trigger})
	c.source = "compact"
	c.h.line("• Context compacted")
	c.complete(nil, "", began)
	c.osc("done:app=codex")
}

// clear begins a new thread; the old one stays loaded and ends with the process.
func (c *codex) clear() {
	c.open("clear")
	c.lock()
	c.h.line("(cleared)")
	c.osc("idle:app=codex")
}

// end reports the end of every loaded thread, the newest first. It ignores the reason
// that the script gives: the real program always reports "other".
func (c *codex) end(string) {
	if c.over {
		return
	}
	c.over = true
	for _, t := range slices.Backward(c.threads) {
		c.h.hook("SessionEnd", object{"reason": "other", "session_id": t.id, "transcript_path": t.rollout(c.home())})
	}
	// After a hangup these writes fail, which is not a failure of the script.
	_ = c.h.term.write("\x1b]7501;state=clear\x1b\\\x1b[?1049l\x1b[<u\x1b[?1004l\x1b[?2004l\x1b[?25h")
	_ = c.h.term.line("To continue this session, run codex resume " + c.session)
	c.h.term.restore()
}

func (c *codex) item(payload object) { c.line("response_item", payload) }

func (c *codex) input(role, text string) {
	c.item(object{"type": "message", "role": role, "content": []any{object{"type": "input_text", "text": text}}})
}

func (c *codex) completed(item object) {
	c.event("item_completed", object{"thread_id": c.session, "turn_id": c.turnID, "item": item})
}

func (c *codex) event(kind string, payload object) {
	payload["type"] = kind
	c.line("event_msg", payload)
}

func (c *codex) line(kind string, payload object) {
	c.record(object{"type": kind, "payload": payload})
}

// record appends one line and adds time and ordinal if they are missing.
func (c *codex) record(given object) {
	t := c.thread()
	rec := object{"timestamp": now(), "ordinal": t.ordinal}
	maps.Copy(rec, given)
	t.ordinal++
	appendLines(t.rollout(c.home()), rec)
}

// The methods statusline and registry do nothing, because the real program runs no status
// line command and writes no registry file. A script for several harnesses may still use
// both steps.

func (c *codex) statusline(object) {}

func (c *codex) registry(object) {}
