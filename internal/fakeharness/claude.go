//go:build unix

package fakeharness

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

const claudeVersion = "2.1.197"

// claude behaves like Claude Code: it writes a transcript and a registry file,
// and runs hooks and a status line command.
type claude struct {
	h                     *harness
	session, prompt, last string // session id, id of the prompt, text of the newest prompt
	parent                string // uuid of the newest record
	model, version        string
	window, used          int64
	calls                 int // the number of model calls, used for their ids
	status                string
	over                  bool // SessionEnd was reported
}

func newClaude(h *harness) *claude {
	return &claude{
		h: h, session: cmp.Or(h.args.resume, h.args.sessionID, uuid.NewString()),
		model: cmp.Or(h.args.model, "claude-sonnet-4-5"), version: claudeVersion, window: 200_000,
	}
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
	return 0, true // for SIGINT
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

func (c *claude) base(event string) object {
	m := object{
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

// forgetful reports whether this session runs inside another session of Claude Code.
// As in the real program, an inner session writes no records.
func (c *claude) forgetful() bool { return c.h.env["CLAUDE_CODE_CHILD_SESSION"] != "" }

func (c *claude) start(s startStep) {
	c.model, c.version = cmp.Or(s.Model, c.model), cmp.Or(s.Version, c.version)
	c.window = cmp.Or(s.Window, c.window)
	source := cmp.Or(s.Source, "startup")
	if c.h.args.resume != "" && s.Source == "" {
		source = "resume"
	}
	c.over = false
	if !c.h.args.print {
		c.h.term.raw()
		c.h.write("\x1b[?2004h\x1b[?1004h\x1b]0;✳ fake harness\x07")
		c.h.line("fake Claude Code " + c.version + " · " + c.model)
	}
	more := object{"source": source}
	if source == "startup" {
		more["model"] = c.model
	}
	c.h.hook("SessionStart", more)
	c.registry(object{"status": "idle"})
	c.statusline(nil)
}

func (c *claude) turn(t turnStep) {
	began := time.Now()
	c.prompt, c.last = cmp.Or(t.PromptID, uuid.NewString()), t.Prompt
	if t.Records {
		c.userRecord(t.Prompt)
		c.answerRecord(t, object{"type": "text", "text": t.Answer}, "end_turn")
		c.durationRecord(began)
		return
	}
	c.registry(object{"status": "busy"})
	c.h.line("❯ " + t.Prompt)
	asked := c.h.hook("UserPromptSubmit", object{"prompt": t.Prompt})
	if asked.blocked {
		c.record(object{"type": "system", "subtype": "informational", "content": "prompt blocked by a hook", "level": "warning", "isMeta": false})
		c.registry(object{"status": "idle"})
		return
	}
	c.userRecord(t.Prompt)
	for _, text := range asked.context {
		c.record(object{"type": "attachment", "attachment": object{"type": "hook_additional_context", "content": []string{text}, "hookName": "UserPromptSubmit", "hookEvent": "UserPromptSubmit"}})
	}
	if t.Tool != "" {
		c.tool(t)
	}
	c.h.pause(time.Duration(t.MS) * time.Millisecond)
	if t.Fail != "" {
		c.failed(t, began)
		return
	}
	c.answerRecord(t, object{"type": "text", "text": t.Answer}, "end_turn")
	c.h.line("● " + t.Answer)
	c.statusline(nil)
	c.stop(t)
	c.turnOver(began)
}

// stop runs the Stop hooks. If one of them forbids the end of the turn, the model
// answers once more.
func (c *claude) stop(t turnStep) {
	more := object{"stop_hook_active": false, "last_assistant_message": t.Answer, "background_tasks": []any{}, "session_crons": []any{}}
	asked := c.h.hook("Stop", more)
	if !asked.blocked {
		return
	}
	c.record(object{"type": "user", "isMeta": true, "promptId": c.prompt, "message": object{"role": "user", "content": "Stop hook feedback:\n" + asked.reason}})
	c.answerRecord(t, object{"type": "text", "text": t.Answer}, "end_turn")
	more["stop_hook_active"] = true
	c.h.hook("Stop", more)
}

func (c *claude) failed(t turnStep, began time.Time) {
	message := "API Error: " + t.Fail
	c.record(object{
		"type": "assistant", "isApiErrorMessage": true, "error": t.Fail,
		"message": object{
			"id": uuid.NewString(), "type": "message", "role": "assistant", "model": "<synthetic>", "stop_reason": "stop_sequence",
			"content": []any{object{"type": "text", "text": message}},
			"usage":   object{"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
		},
	})
	c.h.line(message)
	c.h.hook("StopFailure", object{"error": t.Fail, "last_assistant_message": message})
	c.turnOver(began)
}

func (c *claude) turnOver(began time.Time) {
	if !c.h.args.print {
		c.durationRecord(began)
	}
	c.registry(object{"status": "idle"})
}

func (c *claude) durationRecord(began time.Time) {
	c.record(object{"type": "system", "subtype": "turn_duration", "durationMs": time.Since(began).Milliseconds(), "messageCount": 2, "isMeta": false})
}

func (c *claude) userRecord(prompt string) {
	source := "typed"
	if c.h.args.print {
		source = "sdk"
	}
	c.record(object{
		"type": "user", "promptId": c.prompt, "message": object{"role": "user", "content": prompt},
		"permissionMode": "default", "origin": object{"kind": "human"}, "promptSource": source,
	})
}

// tool runs a command for the model, with its hooks and the records of its call and result.
func (c *claude) tool(t turnStep) {
	id := fmt.Sprintf("toolu_fake_%d", c.calls+1)
	input := object{"command": t.Tool, "description": "run it"}
	c.answerRecord(t, object{"type": "tool_use", "id": id, "name": "Bash", "input": input}, "tool_use")
	members := object{"tool_name": "Bash", "tool_input": input, "tool_use_id": id}
	asked := c.h.hook("PreToolUse", members)
	result, failed := asked.reason, true
	if !asked.blocked {
		began := time.Now()
		result, failed = c.h.shell(t.Tool)
		members["duration_ms"] = time.Since(began).Milliseconds()
		members["tool_response"] = object{"stdout": result, "stderr": "", "interrupted": false, "isImage": false}
		c.h.hook("PostToolUse", members)
	}
	c.record(object{
		"type": "user", "promptId": c.prompt,
		"message": object{"role": "user", "content": []any{object{"tool_use_id": id, "type": "tool_result", "content": result, "is_error": failed}}},
	})
}

// answerRecord writes one model call's answer, with the usage that the turn reports.
func (c *claude) answerRecord(t turnStep, content object, stop string) {
	c.calls++
	c.used = cmp.Or(t.tokens(), c.used)
	usage := c.usage()
	for member, n := range t.Usage {
		usage[member] = n
	}
	c.record(object{
		"type": "assistant", "requestId": fmt.Sprintf("req_fake_%d", c.calls),
		"message": object{
			"id": fmt.Sprintf("msg_%s_%d", c.session[:min(8, len(c.session))], c.calls), "type": "message", "role": "assistant",
			"model": strings.TrimSuffix(c.model, "[1m]"), "content": []any{content}, "stop_reason": stop, "stop_sequence": nil, "usage": usage,
		},
	})
}

// usage divides the tokens in use into parts, as for a cached conversation.
func (c *claude) usage() object {
	return object{
		"input_tokens": c.used % 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": c.used - c.used%1000,
		"output_tokens": 100, "service_tier": "standard",
	}
}

func (c *claude) compact(s compactStep) {
	trigger, before := cmp.Or(s.Trigger, "auto"), c.used
	asked := c.h.hook("PreCompact", object{"trigger": trigger, "custom_instructions": nil})
	if asked.blocked {
		c.h.line("Compaction blocked by PreCompact hook")
		return
	}
	// In Claude Code, a sub-agent without a type makes the compaction.
	c.h.hook("SubagentStop", object{"agent_id": "afake", "agent_type": "", "stop_hook_active": false, "last_assistant_message": "<summary>what happened so far</summary>"})
	c.h.hook("SessionStart", object{"source": "compact", "model": c.model})
	parent := c.parent
	c.parent, c.used = "", cmp.Or(s.After, 9_000)
	c.record(object{
		"logicalParentUuid": parent, "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": false, "level": "info",
		"compactMetadata": object{"trigger": trigger, "preTokens": before, "postTokens": c.used, "durationMs": 71},
	})
	c.record(object{
		"type": "user", "promptId": cmp.Or(c.prompt, uuid.NewString()), "isCompactSummary": true, "isVisibleInTranscriptOnly": true,
		"message": object{"role": "user", "content": "This session is being continued from a previous conversation. Summary: what happened so far."},
	})
	c.h.hook("PostCompact", object{"trigger": trigger, "compact_summary": "what happened so far"})
	c.h.line("Conversation compacted")
	// Until the next answer the status line shows 0, not the tokens in the context.
	left := c.used
	c.used = 0
	c.statusline(nil)
	c.used = left
}

func (c *claude) clear() {
	c.h.hook("SessionEnd", object{"reason": "clear"})
	c.session, c.prompt, c.parent, c.used = uuid.NewString(), "", "", 0
	c.h.hook("SessionStart", object{"source": "clear"})
	c.h.line("(cleared)")
	c.registry(object{"status": "idle"})
	c.statusline(nil)
}

func (c *claude) end(reason string) {
	if c.over {
		return
	}
	c.over = true
	c.h.hook("SessionEnd", object{"reason": cmp.Or(reason, "prompt_input_exit")})
	if _, err := os.Stat(c.transcript()); err == nil {
		c.record(object{"type": "last-prompt", "lastPrompt": c.last, "leafUuid": c.parent})
	}
	if err := os.Remove(c.registryPath()); !os.IsNotExist(err) {
		must(err)
	}
	if c.h.args.print {
		return
	}
	// After a hangup these writes fail, which is not a failure of the script.
	_ = c.h.term.write("\x1b[?1004l\x1b[?2004l\x1b[?25h\x1b]0;\x07")
	_ = c.h.term.line("Resume this session with: claude --resume " + c.session)
	c.h.term.restore()
}

// record appends one record and adds the usual members that are missing in it.
func (c *claude) record(given object) {
	if c.forgetful() {
		return
	}
	rec := object{"sessionId": c.session}
	switch given["type"] {
	case "user", "assistant", "system", "attachment":
		id := uuid.NewString()
		maps.Copy(rec, object{
			"uuid": id, "parentUuid": nil, "isSidechain": false, "timestamp": now(), "userType": "external",
			"entrypoint": c.entrypoint(), "cwd": c.h.dir, "version": c.version, "gitBranch": "HEAD",
		})
		if c.parent != "" {
			rec["parentUuid"] = c.parent
		}
		c.parent = id
	}
	maps.Copy(rec, given)
	appendLines(c.transcript(), rec, object{"type": "mode", "mode": "normal", "sessionId": c.session},
		object{"type": "permission-mode", "permissionMode": "default", "sessionId": c.session})
}

func (c *claude) registryPath() string {
	return filepath.Join(c.h.home("CLAUDE_CONFIG_DIR", ".claude"), "sessions", fmt.Sprintf("%d.json", os.Getpid()))
}

// registry rewrites the registry file, which holds the state of this process.
func (c *claude) registry(given object) {
	if c.forgetful() {
		return
	}
	ms := time.Now().UnixMilli()
	reg := object{
		"pid": os.Getpid(), "sessionId": c.session, "cwd": c.h.dir, "startedAt": c.h.began.UnixMilli(), "procStart": procStart(),
		"version": c.version, "peerProtocol": 1, "kind": "interactive", "entrypoint": c.entrypoint(),
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
	must(os.MkdirAll(filepath.Dir(c.registryPath()), 0o700))
	must(os.WriteFile(c.registryPath(), marshal(reg), 0o600))
}

// statusline runs the status line's command; print mode has none.
func (c *claude) statusline(given object) {
	if c.h.hooks.statusline == "" || c.h.args.print {
		return
	}
	in := c.base("")
	delete(in, "hook_event_name")
	delete(in, "permission_mode")
	window := object{"total_input_tokens": c.used, "total_output_tokens": 0, "context_window_size": c.window,
		"current_usage": nil, "used_percentage": nil, "remaining_percentage": nil}
	if c.calls > 0 {
		percent := int(math.Round(100 * float64(c.used) / float64(max(1, c.window))))
		window["current_usage"], window["used_percentage"], window["remaining_percentage"] = c.usage(), percent, 100-percent
	}
	maps.Copy(in, object{
		"model": object{"id": c.model, "display_name": c.model}, "version": c.version, "context_window": window,
		"workspace":           object{"current_dir": c.h.dir, "project_dir": c.h.dir, "added_dirs": []any{}},
		"cost":                object{"total_cost_usd": 0.0075 * float64(c.calls), "total_duration_ms": time.Since(c.h.began).Milliseconds()},
		"exceeds_200k_tokens": c.used > 200_000, "fast_mode": false, "thinking": object{"enabled": true},
	})
	maps.Copy(in, given)
	c.h.run(c.h.hooks.statusline, marshal(in), 5*time.Second)
}

// appendLines appends rec to the file at path; head comes first in a new file.
func appendLines(path string, rec object, head ...object) {
	must(os.MkdirAll(filepath.Dir(path), 0o700))
	lines := []object{rec}
	if _, err := os.Stat(path); os.IsNotExist(err) {
		lines = append(head, rec)
	}
	var out []byte
	for _, l := range lines {
		out = append(append(out, marshal(l)...), '\n')
	}
	f := got(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	got(f.Write(out))
	must(f.Close())
}

// now returns the time in the format that the harnesses use.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// procStart returns field 22 of /proc/self/stat: the time at which this process started,
// in clock ticks since the machine started.
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
