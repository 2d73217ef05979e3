package telemetry_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
	"lifeloop/telemetry/telemetrytest"
)

func TestInvalidHookInput(t *testing.T) {
	for _, c := range []struct{ decoder, event, stdin, want string }{
		{"claude-hook", "Stop", ``, "read input of hook Stop: it is not a JSON object"},
		{"codex-hook", "Stop", `[1]`, "read input of hook Stop: it is not a JSON object"},
		{"claude-hook", "Stop", `{"session_id":"s"`, "read input of hook Stop: it is not a JSON object"},
		{"claude-hook", "Stop", `{"session_id":"s","hook_event_name":"SessionEnd"}`, "read input of hook Stop: it belongs to hook SessionEnd"},
		{"codex-hook", "Stop", `{"turn_id":"t"}`, "read input of hook Stop: it names no session"},
		{"claude-hook", "Statusline", `null`, "read input of the status line: it is not a JSON object"},
		{"claude-hook", "Statusline", `{}`, "read input of the status line: it names no session"},
	} {
		_, err := dialects[c.decoder].Decode(c.event, []byte(c.stdin))
		require.EqualError(t, err, c.want)
	}
}

// TestIsHookCall checks that IsHookCall accepts each recorded hook call, but no malformed
// call and no record of another format.
func TestIsHookCall(t *testing.T) {
	for _, file := range files(t, "*/testdata/hooks/sequence-*.jsonl") {
		for _, record := range telemetrytest.Records(t, file) {
			require.True(t, telemetry.IsHookCall(record), file)
		}
	}
	for _, s := range sources {
		for _, file := range s.files(t) {
			for _, record := range s.split(t, file) {
				require.False(t, telemetry.IsHookCall(record), file)
			}
		}
	}
	const call = `{"t":1.5,"stdin":{"session_id":"s","hook_event_name":"Stop"}}`
	require.True(t, telemetry.IsHookCall([]byte(call+"\n")))
	for _, other := range []string{``, call[:len(call)-1], `{"t":1.5}`, `{"stdin":{"hook_event_name":""}}`, `{"stdin":"hook_event_name"}`, `{"hook_event_name":"Stop"}`, `[` + call + `]`} {
		require.False(t, telemetry.IsHookCall([]byte(other)), other)
		require.Empty(t, telemetry.HookCalls(dialects["claude-hook"]).Decode([]byte(other)), other)
	}
}

func TestUnrecordedHooks(t *testing.T) {
	for _, c := range []struct{ decoder, event, stdin, want string }{
		{"claude-hook", "SessionStart", `{"session_id":"s","source":"startup","model":"claude-opus-4-8[1m]","transcript_path":"/t.jsonl"}`,
			"SessionStart slot=pre_session capacity=9500\n  session_live from=hook detail=SessionStart:startup session=s cause=startup model=claude-opus-4-8[1m] window=1000000 by=suffix path=/t.jsonl\n"},
		{"claude-hook", "SessionStart", `{"session_id":"s","source":"teleport"}`,
			"SessionStart slot=pre_session capacity=9500\n  session_live from=hook detail=SessionStart:teleport session=s cause=unknown\n"},
		{"claude-hook", "SessionStart", `{"session_id":"s","source":"startup","agent_id":"a"}`,
			"SessionStart\n  alive from=hook detail=SessionStart session=s agent=a\n"},
		{"claude-hook", "PermissionRequest", `{"session_id":"s","agent_id":"a","tool_name":"Bash"}`,
			"PermissionRequest\n  needs_input from=hook detail=PermissionRequest:Bash session=s agent=a\n"},
		{"claude-hook", "SomethingNew", `{"session_id":"s"}`, "SomethingNew\n  alive from=hook detail=SomethingNew session=s\n"},
		{"codex-hook", "SubagentStop", `{"session_id":"s","turn_id":"t","agent_id":"a","agent_type":"worker","transcript_path":null}`,
			"SubagentStop\n  alive from=hook detail=SubagentStop:worker session=s turn=t agent=a\n"},
		{"codex-hook", "PostToolUse", `{"session_id":"s","turn_id":"t","agent_id":"a","tool_name":"Bash","tool_use_id":"c"}`,
			"PostToolUse\n  tool_end from=hook detail=PostToolUse:Bash session=s turn=t agent=a tool=c name=Bash\n"},
		{"codex-hook", "SessionStart", `{"session_id":"s","source":"startup","transcript_path":null}`,
			"SessionStart slot=pre_session capacity=9500\n  session_live from=hook detail=SessionStart:startup session=s cause=startup\n"},
	} {
		call, err := dialects[c.decoder].Decode(c.event, []byte(c.stdin))
		require.NoError(t, err)
		if got := telemetrytest.HookLines(call); got != c.want {
			t.Errorf("%s %s:\ngot  %swant %s", c.decoder, c.event, got, c.want)
		}
	}
}

// A hook's decoder reports the digests of a tool's arguments and result even
// without Digesting.
func TestHooksDigest(t *testing.T) {
	for decoder, stdin := range map[string]map[string]string{
		"claude-hook": {"PreToolUse": `"tool_use_id":"c","tool_name":"Bash","tool_input":{"a": 1}`, "PostToolUse": `"tool_use_id":"c","tool_name":"Bash","tool_response":{"b": 2}`,
			"PostToolUseFailure": `"tool_use_id":"c","tool_name":"Bash","error":"no"`},
		"codex-hook":  {"PreToolUse": `"tool_use_id":"c","tool_name":"Bash","tool_input":{"a": 1}`, "PostToolUse": `"tool_use_id":"c","tool_name":"Bash","tool_response":{"b": 2}`},
		"gemini-hook": {"BeforeTool": `"tool_name":"Bash","tool_input":{"a": 1}`, "AfterTool": `"tool_name":"Bash","tool_response":{"b": 2}`},
		"hermes-hook": {"pre_tool_call": `"tool_name":"Bash","tool_input":{"a": 1},"extra":{"tool_call_id":"c"}`},
	} {
		for event, members := range stdin {
			call, err := dialects[decoder].Decode(event, []byte(`{"session_id":"s",`+members+`}`))
			require.NoError(t, err)
			require.Len(t, call.Signals, 1)
			s := call.Signals[0]
			telemetrytest.CheckSignal(t, s)
			require.Equal(t, "Bash", s.ToolName)
			switch {
			case s.Kind == telemetry.ToolStart:
				require.Equal(t, &telemetry.Sized{Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(`{"a": 1}`))), Size: 8}, s.Args)
			case event == "PostToolUseFailure":
				require.Nil(t, s.Result)
				require.Equal(t, "EXECUTION_ERROR", s.ToolError)
			default:
				require.Equal(t, &telemetry.Sized{Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(`{"b": 2}`))), Size: 8}, s.Result)
			}
		}
	}
}

func FuzzHooks(f *testing.F) {
	for _, pattern := range []string{"claude/testdata/hooks/*.json", "codex/testdata/hooks/stdin.*.json", "gemini/testdata/hooks/stdin.*.json"} {
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
		if len(event) > 100 || !scan.IsWord(event) {
			return // event names are set by this program and are always words
		}
		quoted, err := json.Marshal("⟦" + text + "⟧")
		require.NoError(t, err)
		withText := strings.ReplaceAll(`{"session_id":"s","prompt":TEXT,"message":TEXT,"delta":TEXT,"error":TEXT,"error_details":TEXT,
			"last_assistant_message":TEXT,"tool_input":{"tool_use_id":TEXT},"tool_response":TEXT,"compact_summary":TEXT,"reason":TEXT,
			"source":TEXT,"trigger":TEXT,"notification_type":TEXT,"agent_type":TEXT,"session_name":TEXT}`, "TEXT", string(quoted))
		for _, decoder := range []string{"claude-hook", "codex-hook", "gemini-hook", "openclaw-hook", "opencode-hook"} {
			call, err := dialects[decoder].Decode(event, stdin)
			if err == nil && (call.Slot == "") != (call.Capacity == 0) {
				t.Fatalf("slot %q has capacity %d", call.Slot, call.Capacity)
			}
			for _, s := range call.Signals {
				telemetrytest.CheckSignal(t, s)
			}
			call, err = dialects[decoder].Decode(event, []byte(withText))
			require.NoError(t, err)
			for _, s := range call.Signals {
				telemetrytest.CheckSignal(t, s)
				if strings.Contains(telemetrytest.Line(s), "⟦") {
					t.Fatalf("a signal contains text of the session: %s", telemetrytest.Line(s))
				}
			}
		}
	})
}
