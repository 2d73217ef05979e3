//go:build unix

package fakeharness

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const codexVersion = "0.169.0"

// codex does what the Codex CLI does: it writes a rollout and OSC 7501 on the
// terminal, and runs hooks.
type codex struct {
	h               *harness
	session, turnID string
	threads         []codexThread // loaded, oldest first
	model           string
	window, used    int64
	total           int64 // tokens of the whole thread
	calls           int
	source          string // of the SessionStart hooks that run in the next turn
	over            bool
}

type codexThread struct {
	id      string
	born    time.Time
	ordinal int
}

func newCodex(h *harness) *codex {
	c := &codex{h: h, model: cmp.Or(h.args.model, "gpt-5.2-codex"), window: 258_400}
	c.open("startup")
	return c
}

// open begins a thread; its SessionStart hooks run in its first turn.
func (c *codex) open(source string) {
	c.threads = append(c.threads, codexThread{id: newID(true), born: time.Now()})
	c.session, c.turnID, c.source, c.used, c.total = c.thread().id, "", source, 0, 0
}

func (c *codex) thread() *codexThread { return &c.threads[len(c.threads)-1] }

func (c *codex) home() string { return c.h.home("CODEX_HOME", ".codex") }

func (t codexThread) rollout(home string) string {
	stamp := t.born.Format("2006-01-02T15-04-05")
	return filepath.Join(home, "sessions", t.born.Format("2006/01/02"), "rollout-"+stamp+"-"+t.id+".jsonl")
}

// fatal: the real program dies of its signals and prints nothing.
func (c *codex) fatal(os.Signal) (int, bool) { return 0, false }

func (c *codex) base(event string) map[string]any {
	m := map[string]any{
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

func (c *codex) start(s startStep) error {
	c.model, c.window, c.source = cmp.Or(s.Model, c.model), cmp.Or(s.Window, c.window), cmp.Or(s.Source, c.source)
	c.over = false
	c.h.term.raw()
	lock := filepath.Join(c.home(), "thread-writer-locks", c.session+".lock")
	if err := os.MkdirAll(filepath.Dir(lock), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		return err
	}
	if err := c.h.term.write([]byte("\x1b[?2004h\x1b[>4;0m\x1b[>7u\x1b[?1004h\x1b[?1049h")); err != nil {
		return err
	}
	if err := c.h.term.line("fake Codex " + codexVersion + " · " + c.model); err != nil {
		return err
	}
	if c.h.hooks.warning != "" {
		if err := c.h.term.line(c.h.hooks.warning); err != nil {
			return err
		}
	}
	return c.osc("idle:app=codex")
}

func (c *codex) osc(state string) error {
	return c.h.term.write([]byte("\x1b]7501;state=" + state + "\x1b\\"))
}

func (c *codex) turn(t turnStep) error {
	began := time.Now()
	if err := c.begin(t.PromptID, "user"); err != nil {
		return err
	}
	if t.Records {
		if err := c.prompt(t.Prompt); err != nil {
			return err
		}
		if err := c.answer(t); err != nil {
			return err
		}
		return c.complete(t.Answer, "", began)
	}
	if err := c.osc("working:app=codex"); err != nil {
		return err
	}
	if err := c.h.term.line("› " + t.Prompt); err != nil {
		return err
	}
	if err := c.owed(); err != nil {
		return err
	}
	asked, err := c.h.hook("UserPromptSubmit", map[string]any{"prompt": t.Prompt})
	if err != nil {
		return err
	}
	if asked.blocked {
		// The prompt reaches neither the model nor the rollout.
		if err := c.complete(nil, "", began); err != nil {
			return err
		}
		return c.osc("done:app=codex")
	}
	if err := c.prompt(t.Prompt); err != nil {
		return err
	}
	if err := c.developer(asked.context); err != nil {
		return err
	}
	if t.Tool != "" {
		if err := c.tool(t); err != nil {
			return err
		}
	}
	if err := c.h.pause(time.Duration(t.MS) * time.Millisecond); err != nil {
		return err
	}
	if t.Fail != "" {
		if err := c.h.term.line("■ " + t.Fail); err != nil {
			return err
		}
		if err := c.complete(nil, t.Fail, began); err != nil {
			return err
		}
		return c.osc("done:app=codex")
	}
	if err := c.answer(t); err != nil {
		return err
	}
	if err := c.h.term.line("• " + t.Answer); err != nil {
		return err
	}
	if err := c.stop(t); err != nil {
		return err
	}
	if err := c.complete(t.Answer, "", began); err != nil {
		return err
	}
	return c.osc("done:app=codex")
}

// stop runs the Stop hooks; a block calls the model again in the same turn.
func (c *codex) stop(t turnStep) error {
	more := map[string]any{"stop_hook_active": false, "last_assistant_message": t.Answer}
	said, err := c.h.hook("Stop", more)
	if err != nil || !said.blocked {
		return err
	}
	if err := c.item(map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": "<hook_prompt>" + said.reason + "</hook_prompt>"}}}); err != nil {
		return err
	}
	if err := c.answer(t); err != nil {
		return err
	}
	more["stop_hook_active"] = true
	_, err = c.h.hook("Stop", more)
	return err
}

// begin writes the head of the rollout, if it is missing, and the start of a turn.
func (c *codex) begin(id, trigger string) error {
	c.turnID = cmp.Or(id, newID(true))
	if c.thread().ordinal == 0 {
		if err := c.line("session_meta", map[string]any{
			"session_id": c.session, "id": c.session, "timestamp": now(), "cwd": c.h.dir, "originator": "codex-tui", "cli_version": codexVersion,
			"source": "cli", "thread_source": "user", "model_provider": "fake", "history_mode": "paginated",
		}); err != nil {
			return err
		}
	}
	if err := c.event("task_started", map[string]any{
		"turn_id": c.turnID, "root_turn_id": c.turnID, "started_at": time.Now().Unix(), "model_context_window": c.window,
		"collaboration_mode_kind": "default", "turn_attribution": map[string]any{"turn_id": c.turnID, "turn_trigger": trigger, "root_turn_id": c.turnID},
	}); err != nil {
		return err
	}
	return c.line("turn_context", map[string]any{"turn_id": c.turnID, "root_turn_id": c.turnID, "cwd": c.h.dir, "approval_policy": "never", "model": c.model})
}

// owed runs the pending SessionStart hooks before a thread's next model call.
func (c *codex) owed() error {
	if c.source == "" {
		return nil
	}
	source := c.source
	c.source = ""
	said, err := c.h.hook("SessionStart", map[string]any{"source": source})
	if err != nil {
		return err
	}
	return c.developer(said.context)
}

func (c *codex) prompt(text string) error {
	if err := c.item(map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": text}}}); err != nil {
		return err
	}
	return c.completed(map[string]any{"type": "UserMessage", "id": newID(true), "content": []any{map[string]any{"type": "text", "text": text, "text_elements": []any{}}}})
}

// developer writes the additional context from hooks, as the model sees it.
func (c *codex) developer(context []string) error {
	for _, text := range context {
		if err := c.item(map[string]any{"type": "message", "role": "developer", "content": []any{map[string]any{"type": "input_text", "text": text}}}); err != nil {
			return err
		}
	}
	return nil
}

func (c *codex) tool(t turnStep) error {
	id := fmt.Sprintf("call_fake_%d", c.calls+1)
	if err := c.item(map[string]any{"type": "function_call", "status": "completed", "id": "fc_" + id, "name": "exec_command", "arguments": `{"cmd":` + text(t.Tool) + `}`, "call_id": id}); err != nil {
		return err
	}
	if err := c.usage(t.tokens()); err != nil {
		return err
	}
	members := map[string]any{"tool_name": "Bash", "tool_input": map[string]any{"command": t.Tool}, "tool_use_id": id}
	asked, err := c.h.hook("PreToolUse", members)
	if err != nil {
		return err
	}
	result := "Command blocked by PreToolUse hook: " + asked.reason + ". Command: " + t.Tool
	if !asked.blocked {
		var failed bool
		if result, failed, err = c.h.shell(t.Tool); err != nil {
			return err
		}
		members["tool_response"] = result
		said, err := c.h.hook("PostToolUse", members)
		if err != nil {
			return err
		}
		code := 0
		if failed {
			code = 1
		}
		if err := c.completed(map[string]any{"type": "CommandExecution", "id": id, "command": []string{"/bin/sh", "-c", t.Tool}, "status": "completed", "aggregated_output": result, "exit_code": code}); err != nil {
			return err
		}
		if said.blocked {
			result = said.reason
		}
		if err := c.developer(said.context); err != nil {
			return err
		}
	}
	if err := c.item(map[string]any{"type": "function_call_output", "id": "fco_" + id, "call_id": id, "output": result}); err != nil {
		return err
	}
	return c.tokenCount(c.used) // only after the tools ran
}

func (c *codex) answer(t turnStep) error {
	id := fmt.Sprintf("msg_fake_%d", c.calls+1)
	if err := c.completed(map[string]any{"type": "AgentMessage", "id": id, "content": []any{map[string]any{"type": "Text", "text": t.Answer}}}); err != nil {
		return err
	}
	if err := c.item(map[string]any{"type": "message", "status": "completed", "id": id, "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": t.Answer, "annotations": []any{}}}}); err != nil {
		return err
	}
	if err := c.usage(t.tokens()); err != nil {
		return err
	}
	return c.tokenCount(c.used)
}

// usage is the token usage of one model call; 0 changes nothing.
func (c *codex) usage(used int64) error {
	c.calls++
	c.used = cmp.Or(used, c.used)
	c.total += c.used
	return c.line("token_usage_record", map[string]any{
		"thread_id": c.session, "turn_id": c.turnID, "session_id": c.session, "root_turn_id": c.turnID,
		"response_id": fmt.Sprintf("resp_fake_%d", c.calls), "usage": tokens(c.used), "thread_token_usage": tokens(c.total),
	})
}

func (c *codex) tokenCount(used int64) error {
	return c.tokenCountOf(tokens(used))
}

func (c *codex) tokenCountOf(last map[string]any) error {
	return c.event("token_count", map[string]any{
		"info":        map[string]any{"total_token_usage": tokens(c.total), "last_token_usage": last, "last_usage_includes_reasoning": false, "model_context_window": c.window},
		"rate_limits": map[string]any{"limit_id": "codex", "primary": nil, "secondary": nil},
	})
}

func tokens(used int64) map[string]any {
	output := min(used, 100)
	return map[string]any{
		"input_tokens": used - output, "cached_input_tokens": 0, "cache_write_input_tokens": 0, "output_tokens": output,
		"reasoning_output_tokens": 0, "total_tokens": used,
	}
}

// complete ends a turn; answer is nil if there is none.
func (c *codex) complete(answer any, failure string, began time.Time) error {
	end := map[string]any{
		"turn_id": c.turnID, "root_turn_id": c.turnID, "last_agent_message": answer, "started_at": began.Unix(),
		"completed_at": time.Now().Unix(), "duration_ms": time.Since(began).Milliseconds(),
	}
	if failure != "" {
		end["error"] = map[string]any{"message": failure, "codex_error_info": failure}
	}
	return c.event("task_complete", end)
}

func (c *codex) compact(s compactStep) error {
	began, trigger := time.Now(), cmp.Or(s.Trigger, "manual")
	// A manual compaction is a separate turn, without prompt and Stop hooks. An
	// automatic one happens at the start of the next turn; here it is a turn too.
	if err := c.begin("", "user"); err != nil {
		return err
	}
	if err := c.osc("working:app=codex"); err != nil {
		return err
	}
	asked, err := c.h.hook("PreCompact", map[string]any{"trigger": trigger})
	if err != nil {
		return err
	}
	if asked.blocked {
		if err := c.event("turn_aborted", map[string]any{"turn_id": c.turnID, "reason": "interrupted", "duration_ms": time.Since(began).Milliseconds()}); err != nil {
			return err
		}
		if _, err := c.h.hook("Interrupt", nil); err != nil {
			return err
		}
		return c.osc("idle:app=codex")
	}
	if err := c.usage(0); err != nil {
		return err
	}
	if err := c.tokenCount(c.used); err != nil {
		return err
	}
	if err := c.line("compacted", map[string]any{"message": "what happened so far", "replacement_history": []any{}, "window_number": 2}); err != nil {
		return err
	}
	c.used = cmp.Or(s.After, 6_401)
	// The tokens left are an estimate: only the total is reported.
	estimate := tokens(0)
	estimate["total_tokens"] = c.used
	if err := c.tokenCountOf(estimate); err != nil {
		return err
	}
	if err := c.completed(map[string]any{"type": "ContextCompaction", "id": newID(true)}); err != nil {
		return err
	}
	if _, err := c.h.hook("PostCompact", map[string]any{"trigger": trigger}); err != nil {
		return err
	}
	c.source = "compact"
	if err := c.h.term.line("• Context compacted"); err != nil {
		return err
	}
	if err := c.complete(nil, "", began); err != nil {
		return err
	}
	return c.osc("done:app=codex")
}

// clear begins a new thread; the old one stays loaded and ends with the process.
func (c *codex) clear() error {
	c.open("clear")
	if err := c.h.term.line("(cleared)"); err != nil {
		return err
	}
	return c.osc("idle:app=codex")
}

// end reports the end of every loaded thread, the newest first, always with the
// same reason.
func (c *codex) end(string) error {
	if c.over {
		return nil
	}
	c.over = true
	for _, t := range slices.Backward(c.threads) {
		more := map[string]any{"reason": "other", "session_id": t.id, "transcript_path": t.rollout(c.home())}
		if _, err := c.h.hook("SessionEnd", more); err != nil {
			return err
		}
	}
	_ = c.osc("clear")
	_ = c.h.term.write([]byte("\x1b[?1049l\x1b[<u\x1b[?1004l\x1b[?2004l\x1b[?25h"))
	_ = c.h.term.line("To continue this session, run codex resume " + c.session)
	c.h.term.restore()
	return nil
}

func (c *codex) item(payload map[string]any) error { return c.line("response_item", payload) }

func (c *codex) completed(item map[string]any) error {
	return c.event("item_completed", map[string]any{"thread_id": c.session, "turn_id": c.turnID, "item": item})
}

func (c *codex) event(kind string, payload map[string]any) error {
	payload["type"] = kind
	return c.line("event_msg", payload)
}

func (c *codex) line(kind string, payload map[string]any) error {
	return c.record(map[string]any{"type": kind, "payload": payload})
}

// record appends one line and adds time and ordinal if they are missing.
func (c *codex) record(given map[string]any) error {
	t := c.thread()
	rec := map[string]any{"timestamp": now(), "ordinal": t.ordinal}
	maps.Copy(rec, given)
	t.ordinal++
	return appendLines(t.rollout(c.home()), rec)
}

// The real program runs no status line and keeps no registry file; a script
// for both kinds may still contain these steps.

func (c *codex) statusline(map[string]any) error { return nil }

func (c *codex) registry(map[string]any) error { return nil }
