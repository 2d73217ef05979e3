package telemetry_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

func digestCodex(payload string) string {
	return `{"timestamp":"2026-11-21T08:00:00.000Z","type":"response_item","payload":` + payload + `}`
}

func digestPart(state string) string {
	return `{"type":"message.part.updated","properties":{"sessionID":"s","part":{"messageID":"m2","type":"tool","callID":"c","tool":"read","state":` + state + `}}}`
}

// digestCases has one tool call for each format that includes the call's
// arguments or result.
var digestCases = []struct {
	decoder      string
	records      []string
	tool         string
	args, result string // each is empty if the source does not contain that value
	wrong        string
}{
	{"claude-transcript", []string{
		`{"type":"assistant","uuid":"a","sessionId":"s","message":{"id":"m","model":"x","content":[{"type":"tool_use","id":"c","name":"Bash","input":{"command": "é\n"}}]}}`,
		`{"type":"user","uuid":"b","sessionId":"s","message":{"content":[{"tool_use_id":"c","type":"tool_result","content":[{"type":"text","text":"no"}],"is_error":true}]}}`,
	}, "Bash", `{"command": "é\n"}`, `[{"type":"text","text":"no"}]`, "EXECUTION_ERROR"},
	{"claude-stream", []string{
		`{"type":"assistant","session_id":"s","message":{"id":"m","model":"x","content":[{"type":"tool_use","id":"c","name":"Read","input":{}}]}}`,
		`{"type":"user","session_id":"s","message":{"content":[{"tool_use_id":"c","type":"tool_result","content":"yes"}]}}`,
	}, "Read", `{}`, `"yes"`, ""},
	{"codex-rollout", []string{
		`{"timestamp":"2026-11-21T08:00:00.000Z","type":"session_meta","payload":{"id":"s"}}`,
		digestCodex(`{"type":"function_call","name":"exec_command","arguments":"{\"cmd\": \"ls\"}","call_id":"c"}`),
		digestCodex(`{"type":"function_call_output","call_id":"c","output":"a\nb"}`),
	}, "exec_command", `"{\"cmd\": \"ls\"}"`, `"a\nb"`, ""},
	{"codex-exec", []string{
		`{"type":"item.started","item":{"id":"c","type":"mcp_tool_call","server":"x","tool":"look","arguments":{"a":1},"result":null,"status":"in_progress"}}`,
		`{"type":"item.completed","item":{"id":"c","type":"mcp_tool_call","server":"x","tool":"look","arguments":{"a":1},"result":null,"error":{"message":"no"},"status":"failed"}}`,
	}, "look", `{"a":1}`, ``, "EXECUTION_ERROR"},
	{"codex-app-server", []string{
		`{"method":"item/started","params":{"threadId":"s","item":{"type":"commandExecution","id":"c","command":"ls","aggregatedOutput":null,"status":"inProgress"}}}`,
		`{"method":"item/completed","params":{"threadId":"s","item":{"type":"commandExecution","id":"c","command":"ls","aggregatedOutput":"a","status":"declined"}}}`,
	}, "commandExecution", `"ls"`, `"a"`, "EXECUTION_ERROR"},
	{"gemini-stream", []string{
		`{"type":"tool_use","tool_name":"look","tool_id":"c","parameters":{"a":1}}`,
		`{"type":"tool_result","tool_id":"c","status":"error","output":"none","error":{"type":"tool_not_registered","message":"no"}}`,
	}, "look", `{"a":1}`, `"none"`, "NOT_FOUND"},
	{"gemini-chat", []string{
		`{"id":"u","type":"user","content":[{"text":"hi"}]}`,
		`{"id":"m","type":"gemini","content":"","toolCalls":[{"id":"c","name":"look","args":{"a":1},"result":[{"x":1}],"status":"cancelled"}]}`,
	}, "look", `{"a":1}`, `[{"x":1}]`, "EXECUTION_ERROR"},
	{"opencode-bus", []string{
		`{"type":"message.updated","properties":{"sessionID":"s","info":{"id":"m2","role":"assistant","parentID":"m1","time":{"created":2}}}}`,
		digestPart(`{"status":"pending","input":{}}`), digestPart(`{"status":"running","input":{"a":1}}`), digestPart(`{"status":"completed","input":{"a":1},"output":"yes"}`),
	}, "read", `{"a":1}`, `"yes"`, ""},
	{"opencode-run", []string{
		`{"type":"tool_use","timestamp":1,"sessionID":"s","part":{"callID":"c","tool":"read","state":{"status":"error","input":{"a":1},"error":"no"}}}`,
	}, "read", `{"a":1}`, `"no"`, "EXECUTION_ERROR"},
	{"openclaw-transcript", []string{
		`{"session_id":"s","event":{"type":"message","id":"a","message":{"role":"assistant","stopReason":"toolUse","content":[{"type":"text","text":"x"},{"type":"toolCall","id":"c","name":"read","arguments":{"a":1}}]}}}`,
		`{"session_id":"s","event":{"type":"message","id":"b","message":{"role":"toolResult","toolCallId":"c","toolName":"read","isError":true,"content":[{"text":"no"}]}}}`,
	}, "read", `{"a":1}`, `[{"text":"no"}]`, "EXECUTION_ERROR"},
	{"openclaw-plugin", []string{
		`{"k":"before_tool_call","e":{"toolName":"read","toolCallId":"c","params":{"a":1}},"c":{"sessionId":"s","runId":"r"}}`,
		`{"k":"after_tool_call","e":{"toolName":"read","toolCallId":"c","params":{"a":1},"result":{"b":2},"error":"no"},"c":{"sessionId":"s","runId":"r"}}`,
	}, "read", `{"a":1}`, `{"b":2}`, "EXECUTION_ERROR"},
}

// With Digesting, a decoder reports the digest of the bytes of a tool's
// arguments and result. Without it, a decoder reports none.
func TestDigesting(t *testing.T) {
	for _, c := range digestCases {
		t.Run(c.decoder, func(t *testing.T) {
			digest := func(text string) *telemetry.Sized {
				if text == "" {
					return nil
				}
				return &telemetry.Sized{Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))), Size: int64(len(text))}
			}
			for _, asked := range []bool{false, true} {
				d := newDecoder(t, c.decoder)
				var args, result *telemetry.Sized
				if asked {
					require.Same(t, d, telemetry.Digesting(d))
					args, result = digest(c.args), digest(c.result)
				}
				var starts, ends []telemetry.Signal
				for _, r := range c.records {
					for _, s := range d.Decode([]byte(r)) {
						telemetrytest.CheckSignal(t, s)
						switch s.Kind {
						case telemetry.ToolStart:
							starts = append(starts, s)
						case telemetry.ToolEnd:
							ends = append(ends, s)
						}
					}
				}
				require.Len(t, starts, 1)
				require.Len(t, ends, 1)
				require.Equal(t, "c", starts[0].Tool)
				require.Equal(t, c.tool, starts[0].ToolName)
				require.Equal(t, args, starts[0].Args)
				require.Equal(t, "c", ends[0].Tool)
				require.Equal(t, result, ends[0].Result)
				require.Equal(t, c.wrong, ends[0].ToolError)
			}
		})
	}
}

// A change of an activity file is a sign of life at that time, and nothing
// else.
func TestActivityFiles(t *testing.T) {
	require.Equal(t, []string{"alive from=file detail=changed at=03:04:05.600"}, telemetrytest.Decoded(t, telemetry.File, "2026-01-02T04:04:05.6+01:00"))
	require.Empty(t, telemetrytest.Decoded(t, telemetry.File, "", "now", `{"at":"2026-01-02T03:04:05Z"}`))
}
