package gemini

import (
	"path/filepath"
	"testing"

	"lifeloop/telemetry/telemetrytest"
)

func FuzzChat(f *testing.F) {
	telemetrytest.Fuzz(f, Chat, "chats/*.jsonl",
		`{"sessionId":"s","projectHash":TEXT,"startTime":"2026-11-21T08:00:00.000Z","kind":TEXT}`,
		`{"id":"p","type":"user","content":[{"text":TEXT}],"displayContent":[{"text":TEXT}]}`,
		`{"id":"m","type":"gemini","content":TEXT,"thoughts":[{"subject":TEXT}],"tokens":{"input":1},"toolCalls":[{"id":"t","name":"x","args":{"id":TEXT},"result":TEXT}]}`,
		`{"id":"w","type":"warning","content":TEXT}`, `{"id":"e","type":"error","content":TEXT}`,
		`{"$set":{"summary":TEXT,"messages":[{"id":"z","type":"user","content":[{"text":TEXT}]}]}}`,
		`{"id":"x","type":TEXT,"content":TEXT}`)
}

func FuzzStream(f *testing.F) {
	telemetrytest.Fuzz(f, Stream, "stream/*.jsonl",
		`{"type":"message","role":"user","content":TEXT}`, `{"type":"message","role":TEXT,"content":TEXT}`,
		`{"type":"tool_use","tool_id":"t","parameters":{"tool_id":TEXT}}`, `{"type":"tool_result","tool_id":"t","output":TEXT,"status":TEXT}`,
		`{"type":"error","message":TEXT}`, `{"type":"result","status":TEXT,"error":{"type":TEXT,"message":TEXT}}`)
}

func FuzzLogs(f *testing.F) {
	telemetrytest.Fuzz(f, Logs, "none", `[{"sessionId":"s","messageId":0,"type":"user","message":TEXT}]`, `[{"sessionId":"s","messageId":1,"type":TEXT,"message":TEXT}]`)
}

func FuzzOSC(f *testing.F) {
	f.Add([]byte("✦  Thinking about it (project)   "), "x")
	telemetrytest.Fuzz(f, OSC, "titles/*.txt", "✦  TEXT (project)", "◇  Ready (TEXT)", "TEXT")
}

func FuzzTelemetry(f *testing.F) {
	for _, v := range telemetrytest.Values(f, filepath.Join("testdata", "telemetry", "headless-agent.log")) {
		f.Add([]byte(v), "hello")
	}
	const of = `{"_body":TEXT,"attributes":{"session.id":"s","event.timestamp":"2026-11-21T08:00:00.000Z","event.name":`
	telemetrytest.Fuzz(f, Telemetry, "none",
		of+`"gemini_cli.user_prompt","prompt_id":"p","prompt":TEXT}}`,
		of+`"gemini_cli.api_request","role":"main","request_text":TEXT}}`,
		of+`"gemini_cli.api_response","role":TEXT,"input_token_count":1,"response_text":TEXT}}`,
		of+`"gemini_cli.api_error","role":"main","error":TEXT,"error.message":TEXT,"status_code":400}}`,
		of+`"gemini_cli.network_retry_attempt","error_type":TEXT,"delay_ms":5000}}`,
		of+`"gemini_cli.chat_compression","tokens_before":2}}`,
		of+`"gemini_cli.hook_call","stdout":TEXT,"hook_input":TEXT}}`,
		of+`TEXT}}`)
}
