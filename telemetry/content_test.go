package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// canary stands where a session's text stood. No name or id can contain it.
const canary = "CANARY⟦text of the session⟧"

// names are the members whose strings are ids, times and words of the
// harness's own vocabulary. Every other string of a record is taken to be text.
var names = map[string]bool{
	"type": true, "subtype": true, "uuid": true, "parentUuid": true, "sessionId": true, "timestamp": true,
	"promptId": true, "promptSource": true, "kind": true, "model": true, "id": true, "role": true,
	"tool_use_id": true, "tool": true, "toolName": true, "trigger": true, "agentId": true, "error": true,
	"session_id": true, "prompt_id": true, "turn_id": true, "thread_id": true, "transcript_path": true,
	"hook_event_name": true, "source": true, "reason": true, "agent_id": true, "agent_type": true,
	"notification_type": true, "tool_name": true, "status": true, "waitingFor": true,
	"procStart": true, "version": true, "claude_code_version": true, "parent_tool_use_id": true,
	"hook_name": true, "hook_event": true, "compact_result": true, "stop_reason": true,
	"call_id": true, "response_id": true, "requestId": true, "forked_from_id": true, "codex_error_info": true,
	"parent_thread_id": true, "thread_source": true, "subagent": true, "cli_version": true, "cwd": true,
	"compaction_response_id": true, "rate_limit_reached_type": true, "rateLimitType": true,
	// OpenCode
	"sessionID": true, "messageID": true, "parentID": true, "callID": true, "modelID": true, "providerID": true, "name": true,
	"mode": true, "agent": true, "finish": true, "directory": true, "k": true, "aggregate_id": true, "permission": true,
	"dir": true, "method": true, "threadId": true, "turnId": true, "parentThreadId": true, "forkedFromId": true,
	"cliVersion": true, "path": true, "thread-id": true, "turn-id": true, "codexErrorInfo": true,
	// Not read by a decoder, but ids all the same.
	"root_turn_id": true, "window_id": true,
}

// texts are members that hold text, and everything below them.
var texts = map[string]bool{
	"tool_input": true, "tool_response": true, "toolUseResult": true, "input": true, "arguments": true,
	"output": true, "attachment": true, "replacement_history": true, "retained_context": true, "tool_calls": true,
}

// muffle replaces every text in v by the canary.
func muffle(v any, text bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, val := range v {
			_, isString := val.(string)
			v[key] = muffle(val, text || texts[key] || isString && !names[key])
		}
	case []any:
		for i := range v {
			// A string in a list is text; so is what stands below a text.
			_, isString := v[i].(string)
			v[i] = muffle(v[i], text || isString)
		}
	case string:
		if text {
			return canary
		}
	}
	return v
}

func muffled(t *testing.T, record []byte) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(record))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	out, err := json.Marshal(muffle(v, false))
	require.NoError(t, err)
	return out
}

// TestTextTellsNothing replaces the text of every recorded session and every
// recorded hook call. What is told stays the same, so no text is in it.
func TestTextTellsNothing(t *testing.T) {
	replaced := 0
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-transcript", "claude/transcripts/*.jsonl"},
		{"claude-statusline", "claude/statusline/*"},
		{"claude-registry", "claude/sessions/*"},
		{"claude-stream", "claude/stream/*"},
		{"codex-rollout", "codex/rollouts/*.jsonl"},
		{"opencode-bus", "opencode/bus/*.jsonl"},
		{"opencode-run", "opencode/run/*.jsonl"},
		{"opencode-store", "opencode/store/*.jsonl"},
		{"codex-exec", "codex/exec-json/*.jsonl"},
		{"codex-app-server", "codex/app-server/*.jsonl"},
		{"codex-notify", "codex/notify/*.json"},
		{"codex-history", "codex/history/*.jsonl"},
	} {
		for _, file := range recordings(t, c.pattern) {
			if strings.HasSuffix(file, ".hooks.jsonl") {
				continue
			}
			d, err := NewDecoder(c.decoder)
			require.NoError(t, err)
			quiet, err := NewDecoder(c.decoder)
			require.NoError(t, err)
			for i, record := range records(t, file) {
				m := muffled(t, record)
				replaced += bytes.Count(m, []byte("CANARY"))
				got := quiet.Decode(m)
				require.Equal(t, d.Decode(record), got, "%s:%d", file, i+1)
				require.NotContains(t, fmt.Sprint(lines(got)), "CANARY")
			}
		}
	}
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-hook", "claude/hooks/*.json"},
		{"codex-hook", "codex/hooks/stdin.*.json"},
		{"gemini-hook", "gemini/hooks/stdin.*.json"},
	} {
		for _, file := range recordings(t, c.pattern) {
			stdin, err := os.ReadFile(file)
			require.NoError(t, err)
			m := muffled(t, stdin)
			// `error` is a word in StopFailure and a tool's output elsewhere.
			if strings.Contains(file, "PostToolUseFailure") {
				m = bytes.Replace(m, []byte(`"error":"`), []byte(`"error":"`+canary), 1)
			}
			replaced += bytes.Count(m, []byte("CANARY"))
			got, want := decodeRecordedHook(t, c.decoder, m), decodeRecordedHook(t, c.decoder, stdin)
			for _, call := range []HookCall{got, want} {
				for i := range call.Signals { // the digest of another text is another one
					call.Signals[i].Args, call.Signals[i].Result = nil, nil
				}
			}
			require.Equal(t, want, got, file)
			require.NotContains(t, hookLines(got), "CANARY")
		}
	}
	require.Greater(t, replaced, 1000, "the recordings have text to replace")
}

func lines(signals []Signal) []string {
	out := make([]string, len(signals))
	for i, s := range signals {
		out[i] = line(s)
	}
	return out
}

// checkSignal holds for every signal of every decoder, whatever it read.
func checkSignal(t *testing.T, s Signal) {
	t.Helper()
	switch s.Kind {
	case SessionLive, SessionGone, Prompt, Working, Idle, NeedsInput, TurnStop, TurnEnd, UsageSeen,
		WindowSeen, Compacting, Compacted, Cleared, ToolStart, ToolEnd, LimitWait, Fault, Gap, Alive:
	default:
		t.Fatalf("unknown kind: %s", line(s))
	}
	if s.Source == "" {
		t.Fatalf("no source: %s", line(s))
	}
	if (s.Kind == UsageSeen) != (s.Usage != nil) || s.Kind != Compacting && (s.Kind == Compacted) != (s.Compaction != nil) {
		t.Fatalf("kind and content differ: %s", line(s))
	}
	if u := s.Usage; u != nil && min(u.Used, u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning) < 0 || s.Window < 0 || (s.Window > 0) != (s.WindowSource != "") {
		t.Fatalf("numbers: %s", line(s))
	}
	switch s.ToolError {
	case "", ToolNotFound, ToolFailed, ToolRefused:
	default:
		t.Fatalf("unknown error of a tool: %s", line(s))
	}
	if s.Kind != ToolStart && s.Args != nil || s.Kind != ToolEnd && (s.Result != nil || s.ToolError != "") {
		t.Fatalf("kind and content differ: %s", line(s))
	}
	for _, text := range []*Sized{s.Args, s.Result} {
		if text != nil && (len(text.Digest) != len("sha256:")+64 || text.Size <= 0) {
			t.Fatalf("%+v is no digest: %s", *text, line(s))
		}
	}
	for _, v := range []string{s.Detail, s.Session, s.Turn, s.Agent, s.Cause, s.Reason, s.Tool, s.ToolName, s.Model, s.WindowSource, s.Side, s.Version} {
		if len(v) > 400 || !utf8.ValidString(v) || strings.ContainsAny(v, "\n\x1b\x00") {
			t.Fatalf("%q is no name: %s", v, line(s))
		}
	}
	if _, err := json.Marshal(s); err != nil {
		t.Fatalf("%v: %s", err, line(s))
	}
}

// fuzzDecoder feeds the decoder arbitrary records, and records of its format
// with arbitrary text. It must not fall over, and the text must not come out.
func fuzzDecoder(f *testing.F, decoder, pattern string, templates ...string) {
	files, err := filepath.Glob(filepath.Join("testdata", filepath.FromSlash(pattern)))
	require.NoError(f, err)
	for _, file := range files {
		for _, record := range records(f, file) {
			f.Add(record, "hello")
		}
	}
	f.Add([]byte("state=idle:app=codex"), "[Request interrupted by user]")
	f.Fuzz(func(t *testing.T, record []byte, text string) {
		d, err := NewDecoder(decoder)
		require.NoError(t, err)
		if len(record)%2 == 0 {
			d = Digesting(d)
		}
		quoted, err := json.Marshal("⟦" + text + "⟧")
		require.NoError(t, err)
		for range 2 { // the second round finds what the first left behind
			for _, s := range d.Decode(record) {
				checkSignal(t, s)
			}
			for _, template := range templates {
				for _, s := range d.Decode([]byte(strings.ReplaceAll(template, "TEXT", string(quoted)))) {
					checkSignal(t, s)
					if !bytes.ContainsRune(record, '⟦') && strings.Contains(line(s), "⟦") {
						t.Fatalf("text of the session in a signal: %s", line(s))
					}
				}
			}
		}
		for kind := range d.Unknown() {
			if !isWord(kind) {
				t.Fatalf("text in the count of unknown types: %q", kind)
			}
		}
	})
}

func FuzzClaudeTranscript(f *testing.F) {
	fuzzDecoder(f, "claude-transcript", "claude/transcripts/[a-s]*.jsonl",
		`{"type":"user","uuid":"u","sessionId":"s","promptId":"p","promptSource":"typed","message":{"content":TEXT}}`,
		`{"type":"user","uuid":"u","sessionId":"s","promptId":"p","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":TEXT},{"type":"text","text":TEXT}]},"toolUseResult":{"stdout":TEXT}}`,
		`{"type":"assistant","uuid":"a","message":{"id":"m","model":"x","content":[{"type":"text","text":TEXT},{"type":"tool_use","id":"t","input":{"id":TEXT,"type":TEXT}}],"usage":{"input_tokens":1}}}`,
		`{"type":"assistant","uuid":"a","isApiErrorMessage":true,"error":TEXT,"errorDetails":TEXT,"message":{"content":TEXT}}`,
		`{"type":"system","subtype":TEXT,"content":TEXT,"uuid":"c"}`,
		`{"type":TEXT}`)
}

func FuzzClaudeRegistry(f *testing.F) {
	fuzzDecoder(f, "claude-registry", "claude/sessions/*.json",
		`{"sessionId":"s","name":TEXT,"status":TEXT}`, `{"sessionId":"s","status":"waiting","waitingFor":TEXT}`)
}

func FuzzClaudeStatusline(f *testing.F) {
	fuzzDecoder(f, "claude-statusline", "claude/statusline/*",
		`{"session_id":"s","session_name":TEXT,"cwd":TEXT,"model":{"id":"m","display_name":TEXT},"context_window":{"context_window_size":1}}`)
}

func FuzzClaudeStream(f *testing.F) {
	fuzzDecoder(f, "claude-stream", "claude/stream/*",
		`{"type":"system","subtype":"init","session_id":"s","model":"m[1m]","claude_code_version":TEXT,"tools":[TEXT]}`,
		`{"type":"system","subtype":"hook_started","session_id":"s","hook_event":"SessionStart","hook_name":TEXT}`,
		`{"type":"assistant","session_id":"s","uuid":"a","message":{"id":"m","model":"m","content":[{"type":"text","text":TEXT},{"type":"tool_use","id":"t","input":TEXT}],"usage":{"input_tokens":3,"output_tokens":1}}}`,
		`{"type":"user","session_id":"s","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":TEXT},{"type":"text","text":TEXT}]},"tool_use_result":TEXT}`,
		`{"type":"system","subtype":"status","status":TEXT,"compact_result":TEXT,"compact_error":TEXT}`,
		`{"type":"result","subtype":TEXT,"is_error":true,"result":TEXT,"session_id":"s","uuid":"r","usage":{"input_tokens":3},"modelUsage":{"m[1m]":{"inputTokens":5,"contextWindow":9},TEXT:{"inputTokens":1}},"permission_denials":[TEXT]}`)
}

func FuzzClaudeOSC(f *testing.F) {
	fuzzDecoder(f, "claude-osc", "none", "✳ TEXT", "⠂ TEXT", "TEXT")
}

func FuzzCodexRollout(f *testing.F) {
	fuzzDecoder(f, "codex-rollout", "codex/rollouts/*.jsonl",
		`{"ordinal":1,"type":"response_item","payload":{"type":"function_call","call_id":"c","name":"x","arguments":TEXT}}`,
		`{"ordinal":2,"type":"event_msg","payload":{"type":"item_completed","turn_id":"t","item":{"type":"UserMessage","content":TEXT}}}`,
		`{"ordinal":3,"type":"event_msg","payload":{"type":"task_complete","turn_id":"t","last_agent_message":TEXT,"error":{"message":TEXT,"codex_error_info":TEXT}}}`,
		`{"ordinal":4,"type":"compacted","payload":{"message":TEXT,"replacement_history":[TEXT]}}`,
		`{"ordinal":5,"type":TEXT,"payload":{"type":TEXT}}`)
}

func FuzzCodexExec(f *testing.F) {
	fuzzDecoder(f, "codex-exec", "codex/exec-json/*.jsonl",
		`{"type":"thread.started","thread_id":"s"}`, `{"type":"item.completed","item":{"id":"i","type":"command_execution","command":TEXT,"aggregated_output":TEXT}}`,
		`{"type":"item.completed","item":{"id":"i","type":"error","message":TEXT}}`, `{"type":"error","message":TEXT}`,
		`{"type":"turn.failed","error":{"message":TEXT}}`, `{"type":TEXT,"item":{"type":TEXT}}`)
}

func FuzzCodexAppServer(f *testing.F) {
	fuzzDecoder(f, "codex-app-server", "codex/app-server/*.jsonl",
		`{"method":"thread/started","params":{"thread":{"id":"s","preview":TEXT,"name":TEXT,"agentNickname":TEXT,"source":{"custom":TEXT}}}}`,
		`{"method":"item/started","params":{"threadId":"s","turnId":"t","item":{"id":"i","type":"userMessage","content":[{"type":"text","text":TEXT}]}}}`,
		`{"method":"turn/completed","params":{"threadId":"s","turn":{"id":"t","status":"failed","items":[TEXT],"error":{"message":TEXT,"codexErrorInfo":TEXT}}}}`,
		`{"method":"item/commandExecution/requestApproval","id":7,"params":{"threadId":"s","turnId":"t","command":TEXT,"reason":TEXT}}`,
		`{"method":"error","params":{"threadId":"s","turnId":"t","willRetry":true,"error":{"message":TEXT,"additionalDetails":TEXT}}}`,
		`{"method":"thread/status/changed","params":{"threadId":"s","status":{"type":"active","activeFlags":[TEXT]}}}`,
		`{"id":3,"result":TEXT}`, `{"method":TEXT,"params":TEXT}`)
}

func FuzzCodexNotify(f *testing.F) {
	fuzzDecoder(f, "codex-notify", "codex/notify/*.json",
		`{"type":"agent-turn-complete","thread-id":"s","turn-id":"t","cwd":TEXT,"input-messages":[TEXT],"last-assistant-message":TEXT}`, `{"type":TEXT}`)
}

func FuzzCodexHistory(f *testing.F) {
	fuzzDecoder(f, "codex-history", "codex/history/*.jsonl", `{"session_id":"s","ts":1795246826,"text":TEXT}`)
}

func FuzzCodexOSC(f *testing.F) {
	fuzzDecoder(f, "codex-osc", "none", `state=blocked:app=codex:kind=TEXT`, `state=TEXT:app=codex`, `TEXT`)
}

func FuzzHooks(f *testing.F) {
	for _, pattern := range []string{"testdata/claude/hooks/*.json", "testdata/codex/hooks/stdin.*.json", "testdata/gemini/hooks/stdin.*.json"} {
		files, err := filepath.Glob(filepath.FromSlash(pattern))
		require.NoError(f, err)
		for _, file := range files {
			stdin, err := os.ReadFile(file)
			require.NoError(f, err)
			event, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(file), "stdin."), ".")
			f.Add(event, stdin, "hello")
		}
	}
	f.Add("Statusline", []byte(`{"session_id":"s"}`), "x")
	f.Add("session.idle", []byte(`{"session_id":"s","turn_id":"m","error":"APIError"}`), "x")
	f.Fuzz(func(t *testing.T, event string, stdin []byte, text string) {
		if len(event) > 100 || !isWord(event) {
			return // events are named by us
		}
		quoted, err := json.Marshal("⟦" + text + "⟧")
		require.NoError(t, err)
		withText := strings.ReplaceAll(`{"session_id":"s","prompt":TEXT,"message":TEXT,"delta":TEXT,"error":TEXT,"error_details":TEXT,
			"last_assistant_message":TEXT,"tool_input":{"tool_use_id":TEXT},"tool_response":TEXT,"compact_summary":TEXT,"reason":TEXT,
			"source":TEXT,"trigger":TEXT,"notification_type":TEXT,"agent_type":TEXT,"session_name":TEXT}`, "TEXT", string(quoted))
		for _, decoder := range []string{"claude-hook", "codex-hook", "gemini-hook", "opencode-hook"} {
			call, err := DecodeHook(decoder, event, stdin)
			if err == nil && (call.Slot == "") != (call.Capacity == 0) {
				t.Fatalf("slot %q has capacity %d", call.Slot, call.Capacity)
			}
			for _, s := range call.Signals {
				checkSignal(t, s)
			}
			call, err = DecodeHook(decoder, event, []byte(withText))
			require.NoError(t, err)
			for _, s := range call.Signals {
				checkSignal(t, s)
				if strings.Contains(line(s), "⟦") {
					t.Fatalf("text of the session in a signal: %s", line(s))
				}
			}
		}
	})
}

// BenchmarkClaudeTranscript decodes a tool turn whose text is as long as real
// sessions have it.
func BenchmarkClaudeTranscript(b *testing.B) {
	long := strings.Repeat(`some output of a tool, with \"quotes\" and\nlines `, 100)
	var data [][]byte
	size := 0
	for _, r := range records(b, filepath.Join("testdata", "claude", "transcripts", "tool_turn.jsonl")) {
		r = bytes.ReplaceAll(r, []byte(`"hi"`), []byte(`"`+long+`"`))
		data = append(data, r)
		size += len(r)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	d, err := NewDecoder("claude-transcript")
	require.NoError(b, err)
	for b.Loop() {
		for _, r := range data {
			d.Decode(r)
		}
	}
}
