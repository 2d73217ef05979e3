//go:build unix

package fakeharness

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const claudeVersion = "2.1.197"

// claude does what Claude Code does: it writes a transcript and a registry file,
// and runs hooks and a status line.
type claude struct {
	h                     *harness
	session, prompt, last string // last is the newest prompt's text
	parent                string // uuid of the newest record
	model                 string
	window, used          int64
	calls                 int // model calls, for their ids
	status                string
	over                  bool // the session's end was reported
}

func newClaude(h *harness) *claude {
	c := &claude{h: h, session: h.args.sessionID, model: "claude-sonnet-4-5", window: 200_000}
	if h.args.resume != "" {
		c.session = h.args.resume
	}
	if c.session == "" {
		c.session = newID(false)
	}
	if h.args.model != "" {
		c.model = h.args.model
	}
	return c
}

func (c *claude) entrypoint() string {
	if c.h.args.print {
		return "sdk-cli"
	}
	return "cli"
}

func (c *claude) fatal(sig os.Signal) (int, bool) {
	switch sig {
	case unix.SIGTERM:
		return 143, true
	case unix.SIGHUP:
		return 129, true
	}
	return 0, true // SIGINT
}

func (c *claude) transcript() string {
	slug := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '-'
	}, c.h.dir)
	return filepath.Join(c.h.home("CLAUDE_CONFIG_DIR", ".claude"), "projects", slug, c.session+".jsonl")
}

func (c *claude) base(event string) map[string]any {
	m := map[string]any{
		"session_id": c.session, "transcript_path": c.transcript(), "cwd": c.h.dir, "hook_event_name": event,
	}
	if c.prompt != "" {
		m["prompt_id"] = c.prompt
	}
	switch event {
	case "SessionStart", "SessionEnd", "PreCompact", "PostCompact", "StopFailure":
	default:
		m["permission_mode"] = "default"
	}
	return m
}

// forgetful reports whether no records are written, as inside another session of
// Claude Code.
func (c *claude) forgetful() bool { return c.h.env["CLAUDE_CODE_CHILD_SESSION"] != "" }

func (c *claude) start(s startStep) error {
	c.model = cmp.Or(s.Model, c.model)
	c.window = cmp.Or(s.Window, c.window)
	source := cmp.Or(s.Source, "startup")
	if c.h.args.resume != "" && s.Source == "" {
		source = "resume"
	}
	c.over = false
	if !c.h.args.print {
		c.h.term.raw()
		if err := c.h.term.write([]byte("\x1b[?2004h\x1b[?1004h\x1b]0;✳ fake harness\x07")); err != nil {
			return err
		}
		if err := c.h.term.line("fake Claude Code " + claudeVersion + " · " + c.model); err != nil {
			return err
		}
	}
	more := map[string]any{"source": source}
	if source == "startup" {
		more["model"] = c.model
	}
	if _, err := c.h.hook("SessionStart", more); err != nil {
		return err
	}
	if err := c.registry(map[string]any{"status": "idle"}); err != nil {
		return err
	}
	return c.statusline(nil)
}

func (c *claude) turn(t turnStep) error {
	began := time.Now()
	c.prompt, c.last = cmp.Or(t.PromptID, newID(false)), t.Prompt
	if t.Records {
		return c.turnRecords(t, began)
	}
	if err := c.registry(map[string]any{"status": "busy"}); err != nil {
		return err
	}
	if err := c.say("❯ " + t.Prompt); err != nil {
		return err
	}
	asked, err := c.h.hook("UserPromptSubmit", map[string]any{"prompt": t.Prompt})
	if err != nil {
		return err
	}
	if asked.blocked {
		if err := c.record(map[string]any{"type": "system", "subtype": "informational", "content": "prompt blocked by a hook", "level": "warning", "isMeta": false}); err != nil {
			return err
		}
		return c.registry(map[string]any{"status": "idle"})
	}
	if err := c.userRecord(t.Prompt); err != nil {
		return err
	}
	for _, text := range asked.context {
		if err := c.record(map[string]any{"type": "attachment", "attachment": map[string]any{"type": "hook_additional_context", "content": []string{text}, "hookName": "UserPromptSubmit", "hookEvent": "UserPromptSubmit"}}); err != nil {
			return err
		}
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
		return c.failed(t, began)
	}
	if err := c.answerRecord(t, []any{map[string]any{"type": "text", "text": t.Answer}}, "end_turn"); err != nil {
		return err
	}
	if err := c.say("● " + t.Answer); err != nil {
		return err
	}
	if err := c.statusline(nil); err != nil {
		return err
	}
	if err := c.stop(t); err != nil {
		return err
	}
	return c.turnOver(began)
}

// stop runs the Stop hooks; a block makes the model answer once more.
func (c *claude) stop(t turnStep) error {
	more := map[string]any{"stop_hook_active": false, "last_assistant_message": t.Answer, "background_tasks": []any{}, "session_crons": []any{}}
	said, err := c.h.hook("Stop", more)
	if err != nil || !said.blocked {
		return err
	}
	if err := c.record(map[string]any{"type": "user", "isMeta": true, "promptId": c.prompt, "message": map[string]any{"role": "user", "content": "Stop hook feedback:\n" + said.reason}}); err != nil {
		return err
	}
	if err := c.answerRecord(t, []any{map[string]any{"type": "text", "text": t.Answer}}, "end_turn"); err != nil {
		return err
	}
	more["stop_hook_active"] = true
	_, err = c.h.hook("Stop", more)
	return err
}

func (c *claude) failed(t turnStep, began time.Time) error {
	message := "API Error: " + t.Fail
	rec := map[string]any{
		"type": "assistant", "isApiErrorMessage": true, "error": t.Fail,
		"message": map[string]any{
			"id": newID(false), "type": "message", "role": "assistant", "model": "<synthetic>", "stop_reason": "stop_sequence",
			"content": []any{map[string]any{"type": "text", "text": message}},
			"usage":   map[string]any{"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
		},
	}
	if err := c.record(rec); err != nil {
		return err
	}
	if err := c.say(message); err != nil {
		return err
	}
	if _, err := c.h.hook("StopFailure", map[string]any{"error": t.Fail, "last_assistant_message": message}); err != nil {
		return err
	}
	return c.turnOver(began)
}

func (c *claude) turnOver(began time.Time) error {
	if !c.h.args.print {
		if err := c.record(map[string]any{"type": "system", "subtype": "turn_duration", "durationMs": time.Since(began).Milliseconds(), "messageCount": 2, "isMeta": false}); err != nil {
			return err
		}
	}
	return c.registry(map[string]any{"status": "idle"})
}

func (c *claude) turnRecords(t turnStep, began time.Time) error {
	if err := c.userRecord(t.Prompt); err != nil {
		return err
	}
	if err := c.answerRecord(t, []any{map[string]any{"type": "text", "text": t.Answer}}, "end_turn"); err != nil {
		return err
	}
	return c.record(map[string]any{"type": "system", "subtype": "turn_duration", "durationMs": time.Since(began).Milliseconds(), "messageCount": 2, "isMeta": false})
}

func (c *claude) userRecord(prompt string) error {
	source := "typed"
	if c.h.args.print {
		source = "sdk"
	}
	return c.record(map[string]any{
		"type": "user", "promptId": c.prompt, "message": map[string]any{"role": "user", "content": prompt},
		"permissionMode": "default", "origin": map[string]any{"kind": "human"}, "promptSource": source,
	})
}

// tool runs a command of the model with its hooks, and records the call and its
// result.
func (c *claude) tool(t turnStep) error {
	id := fmt.Sprintf("toolu_fake_%d", c.calls+1)
	input := map[string]any{"command": t.Tool, "description": "run it"}
	use := map[string]any{"type": "tool_use", "id": id, "name": "Bash", "input": input}
	if err := c.answerRecord(t, []any{use}, "tool_use"); err != nil {
		return err
	}
	members := map[string]any{"tool_name": "Bash", "tool_input": input, "tool_use_id": id}
	asked, err := c.h.hook("PreToolUse", members)
	if err != nil {
		return err
	}
	result, failed := asked.reason, true
	if !asked.blocked {
		began := time.Now()
		result, failed, err = c.h.shell(t.Tool)
		if err != nil {
			return err
		}
		members["duration_ms"] = time.Since(began).Milliseconds()
		members["tool_response"] = map[string]any{"stdout": result, "stderr": "", "interrupted": false, "isImage": false}
		if _, err := c.h.hook("PostToolUse", members); err != nil {
			return err
		}
	}
	return c.record(map[string]any{
		"type": "user", "promptId": c.prompt,
		"message": map[string]any{"role": "user", "content": []any{map[string]any{"tool_use_id": id, "type": "tool_result", "content": result, "is_error": failed}}},
	})
}

// answerRecord is one model call's answer, with the usage of the turn.
func (c *claude) answerRecord(t turnStep, content []any, stop string) error {
	c.calls++
	c.used = cmp.Or(t.tokens(), c.used)
	usage := c.usage()
	for member, n := range t.Usage {
		usage[member] = n
	}
	return c.record(map[string]any{
		"type": "assistant", "requestId": fmt.Sprintf("req_fake_%d", c.calls),
		"message": map[string]any{
			"id": fmt.Sprintf("msg_%s_%d", c.session[:min(8, len(c.session))], c.calls), "type": "message", "role": "assistant",
			"model": strings.TrimSuffix(c.model, "[1m]"), "content": content, "stop_reason": stop, "stop_sequence": nil, "usage": usage,
		},
	})
}

// usage splits the tokens in use as a cached conversation does.
func (c *claude) usage() map[string]any {
	return map[string]any{
		"input_tokens": c.used % 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": c.used - c.used%1000,
		"output_tokens": 100, "service_tier": "standard",
	}
}

func (c *claude) compact(s compactStep) error {
	trigger, before := cmp.Or(s.Trigger, "auto"), c.used
	asked, err := c.h.hook("PreCompact", map[string]any{"trigger": trigger, "custom_instructions": nil})
	if err != nil {
		return err
	}
	if asked.blocked {
		return c.say("Compaction blocked by PreCompact hook")
	}
	// The compactor is a sub-agent without a type.
	if _, err := c.h.hook("SubagentStop", map[string]any{"agent_id": "afake", "agent_type": "", "stop_hook_active": false, "last_assistant_message": "<summary>what happened so far</summary>"}); err != nil {
		return err
	}
	if _, err := c.h.hook("SessionStart", map[string]any{"source": "compact", "model": c.model}); err != nil {
		return err
	}
	parent := c.parent
	c.parent, c.used = "", cmp.Or(s.After, 9_000)
	if err := c.record(map[string]any{
		"logicalParentUuid": parent, "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": false, "level": "info",
		"compactMetadata": map[string]any{"trigger": trigger, "preTokens": before, "postTokens": c.used, "durationMs": 71},
	}); err != nil {
		return err
	}
	if err := c.record(map[string]any{
		"type": "user", "promptId": cmp.Or(c.prompt, newID(false)), "isCompactSummary": true, "isVisibleInTranscriptOnly": true,
		"message": map[string]any{"role": "user", "content": "This session is being continued from a previous conversation. Summary: what happened so far."},
	}); err != nil {
		return err
	}
	if _, err := c.h.hook("PostCompact", map[string]any{"trigger": trigger, "compact_summary": "what happened so far"}); err != nil {
		return err
	}
	if err := c.say("Conversation compacted"); err != nil {
		return err
	}
	// Until the next answer the status line shows 0 tokens.
	used := c.used
	c.used = 0
	defer func() { c.used = used }()
	return c.statusline(nil)
}

func (c *claude) clear() error {
	if _, err := c.h.hook("SessionEnd", map[string]any{"reason": "clear"}); err != nil {
		return err
	}
	c.session, c.prompt, c.parent, c.used = newID(false), "", "", 0
	if _, err := c.h.hook("SessionStart", map[string]any{"source": "clear"}); err != nil {
		return err
	}
	if err := c.say("(cleared)"); err != nil {
		return err
	}
	if err := c.registry(map[string]any{"status": "idle"}); err != nil {
		return err
	}
	return c.statusline(nil)
}

func (c *claude) end(reason string) error {
	if c.over {
		return nil
	}
	c.over = true
	if _, err := c.h.hook("SessionEnd", map[string]any{"reason": cmp.Or(reason, "prompt_input_exit")}); err != nil {
		return err
	}
	if _, err := os.Stat(c.transcript()); err == nil {
		if err := c.record(map[string]any{"type": "last-prompt", "lastPrompt": c.last, "leafUuid": c.parent}); err != nil {
			return err
		}
	}
	if err := os.Remove(c.registryPath()); err != nil && !os.IsNotExist(err) {
		return err
	}
	if c.h.args.print {
		return nil
	}
	// The terminal may have hung up, which is no failure.
	_ = c.h.term.write([]byte("\x1b[?1004l\x1b[?2004l\x1b[?25h\x1b]0;\x07"))
	_ = c.h.term.line("Resume this session with: claude --resume " + c.session)
	c.h.term.restore()
	return nil
}

// say prints text for the user.
func (c *claude) say(text string) error { return c.h.term.line(text) }

// record appends one record and adds the usual members that it lacks.
func (c *claude) record(given map[string]any) error {
	if c.forgetful() {
		return nil
	}
	path := c.transcript()
	rec := map[string]any{"sessionId": c.session}
	switch given["type"] {
	case "user", "assistant", "system", "attachment":
		id := newID(false)
		maps.Copy(rec, map[string]any{
			"uuid": id, "parentUuid": nil, "isSidechain": false, "timestamp": now(), "userType": "external",
			"entrypoint": c.entrypoint(), "cwd": c.h.dir, "version": claudeVersion, "gitBranch": "HEAD",
		})
		if c.parent != "" {
			rec["parentUuid"] = c.parent
		}
		c.parent = id
	}
	maps.Copy(rec, given)
	return appendLines(path, rec, map[string]any{"type": "mode", "mode": "normal", "sessionId": c.session},
		map[string]any{"type": "permission-mode", "permissionMode": "default", "sessionId": c.session})
}

func (c *claude) registryPath() string {
	return filepath.Join(c.h.home("CLAUDE_CONFIG_DIR", ".claude"), "sessions", fmt.Sprintf("%d.json", os.Getpid()))
}

// registry rewrites the file with the state of this process.
func (c *claude) registry(given map[string]any) error {
	if c.forgetful() {
		return nil
	}
	ms := time.Now().UnixMilli()
	reg := map[string]any{
		"pid": os.Getpid(), "sessionId": c.session, "cwd": c.h.dir, "startedAt": c.h.began.UnixMilli(), "procStart": procStart(),
		"version": claudeVersion, "peerProtocol": 1, "kind": "interactive", "entrypoint": c.entrypoint(),
		"name": "fake", "nameSource": "derived", "updatedAt": ms, "statusUpdatedAt": ms,
	}
	if c.status != "" && !c.h.args.print {
		reg["status"] = c.status
	}
	maps.Copy(reg, given)
	if s, ok := reg["status"].(string); ok {
		c.status = s
	}
	if c.h.args.print {
		delete(reg, "status")
	}
	data, err := json.Marshal(reg)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.registryPath()), 0o700); err != nil {
		return err
	}
	return os.WriteFile(c.registryPath(), data, 0o600)
}

// statusline runs the status line's command; print mode has none.
func (c *claude) statusline(given map[string]any) error {
	if c.h.hooks.statusline == "" || c.h.args.print {
		return nil
	}
	in := c.base("")
	delete(in, "hook_event_name")
	delete(in, "permission_mode")
	window := map[string]any{"total_input_tokens": c.used, "total_output_tokens": 0, "context_window_size": c.window,
		"current_usage": nil, "used_percentage": nil, "remaining_percentage": nil}
	if c.calls > 0 {
		percent := int(math.Round(100 * float64(c.used) / float64(max(1, c.window))))
		window["current_usage"], window["used_percentage"], window["remaining_percentage"] = c.usage(), percent, 100-percent
	}
	maps.Copy(in, map[string]any{
		"model": map[string]any{"id": c.model, "display_name": c.model}, "version": claudeVersion, "context_window": window,
		"workspace":           map[string]any{"current_dir": c.h.dir, "project_dir": c.h.dir, "added_dirs": []any{}},
		"cost":                map[string]any{"total_cost_usd": 0.0075 * float64(c.calls), "total_duration_ms": time.Since(c.h.began).Milliseconds()},
		"exceeds_200k_tokens": c.used > 200_000, "fast_mode": false, "thinking": map[string]any{"enabled": true},
	})
	maps.Copy(in, given)
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	c.h.run(c.h.hooks.statusline, data, 5*time.Second)
	return nil
}

// appendLines appends rec to the file at path; head comes first in a new file.
func appendLines(path string, rec map[string]any, head ...map[string]any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lines := []map[string]any{rec}
	if _, err := os.Stat(path); os.IsNotExist(err) {
		lines = append(head, rec)
	}
	var out []byte
	for _, l := range lines {
		data, err := json.Marshal(l)
		if err != nil {
			return err
		}
		out = append(append(out, data...), '\n')
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(out); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// now is the time in the format of both programs.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// newID returns a random UUID, or one that begins with the time.
func newID(timed bool) string {
	var b [16]byte
	rand.Read(b[:])
	version := byte(4)
	if timed {
		version = 7
		ms := uint64(time.Now().UnixMilli())
		for i := range 6 {
			b[i] = byte(ms >> (40 - 8*i))
		}
	}
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// procStart is field 22 of /proc/self/stat: the start of this process in ticks.
func procStart() string {
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return ""
	}
	// The name in brackets may contain spaces; field 3 comes after it.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}
