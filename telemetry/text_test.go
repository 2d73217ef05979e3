package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

// canary replaces a session's text. No name or id can contain it.
const canary = "CANARY⟦text of the session⟧"

// A textLaw checks that no text of a source's sessions is in its signals. It
// returns how many texts it checked.
type textLaw func(t *testing.T, s source) int

// TestTextIsNeverReported checks the law of each source.
func TestTextIsNeverReported(t *testing.T) {
	all := 0
	for _, s := range sources {
		t.Run(s.name, func(t *testing.T) { all += s.text(t, s) })
	}
	require.Greater(t, all, 3000, "the recordings have text to replace")
}

// replacing returns a law that replaces the text of every recording by a canary.
// The signals must stay the same, which shows that they contain no text.
func replacing(muffle func(v any, key string) any) textLaw {
	return func(t *testing.T, s source) (replaced int) {
		var d, quiet telemetry.Decoder
		for i, file := range s.files(t) {
			if i == 0 || !strings.HasSuffix(s.name, "-otlp") { // an OTLP session consists of many files
				d, quiet = s.new(), s.new()
			}
			for i, record := range s.split(t, file) {
				m := muffled(t, record, muffle)
				replaced += bytes.Count(m, []byte("CANARY"))
				got := quiet.Decode(m)
				require.Equal(t, d.Decode(record), got, "%s:%d", file, i+1)
				require.NotContains(t, fmt.Sprint(telemetrytest.Lines(got)), "CANARY")
			}
		}
		return replaced
	}
}

func muffled(t *testing.T, record []byte, muffle func(v any, key string) any) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(record))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	out, err := json.Marshal(muffle(v, ""))
	require.NoError(t, err)
	return out
}

// sameFor returns a law for a source without recordings. The law fills each template
// with two different texts. The two records must give the same signals.
func sameFor(templates ...string) textLaw {
	return func(t *testing.T, s source) (replaced int) {
		for _, template := range templates {
			fill := func(text string) []string {
				return telemetrytest.Lines(s.new().Decode([]byte(strings.ReplaceAll(template, "TEXT", text))))
			}
			require.Equal(t, fill("a title"), fill(canary), template)
			replaced++
		}
		return replaced
	}
}

// notFound looks for each text of a recording in the signals of its record.
func notFound(t *testing.T, s source) (texts int) {
	for _, file := range s.files(t) {
		d := s.new()
		for i, record := range s.split(t, file) {
			reported := strings.Join(telemetrytest.Lines(d.Decode(record)), "\n")
			var v any
			if json.Unmarshal(record, &v) != nil {
				v = map[string]any{"title": strings.TrimSpace(string(record))}
			}
			textsIn(v, "", func(text string) {
				texts++
				if strings.Contains(reported, text) {
					t.Errorf("%s: record %d: %q is in %s", file, i+1, text, reported)
				}
			})
		}
	}
	return texts
}

// textsIn collects the texts of a record: strings with a space, and strings
// where a text is expected.
func textsIn(v any, key string, found func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, val := range v {
			textsIn(val, k, found)
		}
	case []any:
		for _, val := range v {
			textsIn(val, key, found)
		}
	case string:
		switch {
		case len(v) < 4:
		case strings.Contains(v, " "):
			found(v)
		case key == "content", key == "text", key == "message", key == "output", key == "file_path", key == "command" && v != "clear": // clear is a command of Gemini CLI, not text of the user
			found(v)
		}
	}
}

// names are the members whose strings are ids, times and words of the harness's
// own vocabulary. The tests treat every other string of a record as text.
var names = map[string]bool{
	"type": true, "subtype": true, "uuid": true, "parentUuid": true, "sessionId": true, "timestamp": true,
	"promptId": true, "promptSource": true, "kind": true, "model": true, "id": true, "role": true,
	"tool_use_id": true, "tool": true, "toolName": true, "trigger": true, "agentId": true, "error": true,
	"session_id": true, "prompt_id": true, "turn_id": true, "thread_id": true, "transcript_path": true,
	"hook_event_name": true, "source": true, "reason": true, "agent_id": true, "agent_type": true,
	"notification_type": true, "tool_name": true, "status": true, "waitingFor": true,
	"procStart": true, "version": true, "turnOrigin": true, "claude_code_version": true, "parent_tool_use_id": true,
	"hook_name": true, "hook_event": true, "compact_result": true, "stop_reason": true,
	"call_id": true, "response_id": true, "requestId": true, "forked_from_id": true, "codex_error_info": true,
	"parent_thread_id": true, "thread_source": true, "subagent": true, "cli_version": true, "cwd": true,
	"compaction_response_id": true, "rate_limit_reached_type": true, "rateLimitType": true,
	// OpenCode
	"sessionID": true, "messageID": true, "parentID": true, "callID": true, "modelID": true, "providerID": true, "name": true,
	"mode": true, "agent": true, "finish": true, "directory": true, "k": true, "aggregate_id": true, "permission": true,
	"dir": true, "method": true, "threadId": true, "turnId": true, "parentThreadId": true, "forkedFromId": true,
	"cliVersion": true, "path": true, "thread-id": true, "turn-id": true, "codexErrorInfo": true,
	// No decoder reads these members, but they are ids too.
	"root_turn_id": true, "window_id": true,
}

// texts are the members that hold text. Everything below such a member is text too.
var texts = map[string]bool{
	"tool_input": true, "tool_response": true, "toolUseResult": true, "input": true, "arguments": true,
	"output": true, "attachment": true, "replacement_history": true, "retained_context": true, "tool_calls": true,
}

// muffle replaces every text in v by the canary.
func muffle(v any, _ string) any { return muffleText(v, false) }

func muffleText(v any, text bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, val := range v {
			_, isString := val.(string)
			v[key] = muffleText(val, text || texts[key] || isString && !names[key])
		}
	case []any:
		for i := range v {
			// A string in a list is text, and so is everything below a member that holds
			// text.
			_, isString := v[i].(string)
			v[i] = muffleText(v[i], text || isString)
		}
	case string:
		if text && !strings.HasPrefix(v, "[Request interrupted by user") { // this text is Claude Code's own, not the user's
			return canary
		}
	}
	return v
}

// openclawNames are the members whose strings are ids, times and words of OpenClaw's
// own vocabulary. The tests treat every other string of a record as text.
var openclawNames = map[string]bool{
	"k": true, "type": true, "id": true, "parentId": true, "timestamp": true, "ts": true, "session_id": true, "sessionId": true,
	"runId": true, "session_key": true, "current_session_id": true, "cwd": true, "workspaceDir": true, "role": true, "model": true,
	"modelId": true, "provider": true, "responseId": true, "stopReason": true, "customType": true, "idempotencyKey": true, "kind": true,
	"trigger": true, "status": true, "version": true, "lastRunId": true, "activeWriterRunId": true, "reason": true, "resumedFrom": true,
	"nextSessionId": true, "outcome": true, "toolCallId": true,
}

func muffleOpenclaw(v any, _ string) any {
	switch v := v.(type) {
	case map[string]any:
		for key, val := range v {
			if _, isString := val.(string); isString && !openclawNames[key] {
				v[key] = canary
				continue
			}
			v[key] = muffleOpenclaw(val, "")
		}
	case []any:
		for i := range v {
			if _, isString := v[i].(string); isString {
				v[i] = canary
				continue
			}
			v[i] = muffleOpenclaw(v[i], "")
		}
	}
	return v
}

// otlpNames are the attributes whose strings are ids and words of the harness's own
// vocabulary. The tests treat every other string of a body as text.
var otlpNames = map[string]bool{
	"event.name": true, "session.id": true, "prompt.id": true, "conversation.id": true, "request_id": true, "model": true,
	"query_source": true, "trigger": true, "success": true, "decision": true, "tool_use_id": true, "call_id": true,
	"hook_name": true, "event.kind": true, "service.version": true, "command_name": true, "tool_name": true,
	// Numbers that are written as strings.
	"pre_tokens": true, "post_tokens": true, "status_code": true, "event.sequence": true, "http.response.status_code": true,
	"input_token_count": true, "output_token_count": true, "cached_token_count": true, "cache_write_token_count": true,
	"reasoning_token_count": true, "tool_token_count": true,
}

func muffleOTLP(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		if k, ok := v["key"].(string); ok {
			key = k
		}
		for member, val := range v {
			if member == "body" {
				key = member
			}
			if s, ok := val.(string); ok && member == "stringValue" && !otlpNames[key] && !strings.HasPrefix(s, "claude_code.") {
				v[member] = canary
				continue
			}
			v[member] = muffleOTLP(val, key)
		}
	case []any:
		for i := range v {
			v[i] = muffleOTLP(v[i], "")
		}
	}
	return v
}

// TestHooksReportNoText checks that no text of a session is in the signals of a
// recorded hook call.
func TestHooksReportNoText(t *testing.T) {
	replaced := 0
	for decoder, pattern := range map[string]string{
		"claude-hook": "claude/testdata/hooks/*.json", "codex-hook": "codex/testdata/hooks/stdin.*.json", "gemini-hook": "gemini/testdata/hooks/stdin.*.json",
	} {
		for _, file := range files(t, pattern) {
			stdin := read(t, file)
			m := muffled(t, stdin, muffle)
			// The member `error` is a name in StopFailure, so muffle keeps it. In
			// PostToolUseFailure it is a tool's output, so the canary is added here.
			if strings.Contains(file, "PostToolUseFailure") {
				m = bytes.Replace(m, []byte(`"error":"`), []byte(`"error":"`+canary), 1)
			}
			replaced += bytes.Count(m, []byte("CANARY"))
			got, want := decodeRecordedHook(t, decoder, m), decodeRecordedHook(t, decoder, stdin)
			got.Use, want.Use = nil, nil // Use may contain text: only the gate reads it, and it is never printed or recorded
			for _, call := range []telemetry.HookCall{got, want} {
				for i := range call.Signals { // removed, because the canary has another digest than the text
					call.Signals[i].Args, call.Signals[i].Result = nil, nil
				}
			}
			require.Equal(t, want, got, file)
			require.NotContains(t, telemetrytest.HookLines(got), "CANARY")
		}
	}
	require.Greater(t, replaced, 100, "the recordings have text to replace")
}
