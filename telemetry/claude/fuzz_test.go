package claude

import (
	"testing"

	"lifeloop/telemetry/telemetrytest"
)

func FuzzTranscript(f *testing.F) {
	telemetrytest.Fuzz(f, Transcript, "transcripts/[a-s]*.jsonl",
		`{"type":"user","uuid":"u","sessionId":"s","promptId":"p","promptSource":"typed","message":{"content":TEXT}}`,
		`{"type":"user","uuid":"u","sessionId":"s","promptId":"p","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":TEXT},{"type":"text","text":TEXT}]},"toolUseResult":{"stdout":TEXT}}`,
		`{"type":"assistant","uuid":"a","message":{"id":"m","model":"x","content":[{"type":"text","text":TEXT},{"type":"tool_use","id":"t","input":{"id":TEXT,"type":TEXT}}],"usage":{"input_tokens":1}}}`,
		`{"type":"assistant","uuid":"a","isApiErrorMessage":true,"error":TEXT,"errorDetails":TEXT,"message":{"content":TEXT}}`,
		`{"type":"system","subtype":TEXT,"content":TEXT,"uuid":"c"}`,
		`{"type":TEXT}`)
}

func FuzzRegistry(f *testing.F) {
	telemetrytest.Fuzz(f, Registry, "sessions/*.json",
		`{"sessionId":"s","name":TEXT,"status":TEXT}`, `{"sessionId":"s","status":"waiting","waitingFor":TEXT}`)
}

func FuzzStatusline(f *testing.F) {
	telemetrytest.Fuzz(f, Statusline, "statusline/*",
		`{"session_id":"s","session_name":TEXT,"cwd":TEXT,"model":{"id":"m","display_name":TEXT},"context_window":{"context_window_size":1}}`)
}

func FuzzStream(f *testing.F) {
	telemetrytest.Fuzz(f, Stream, "stream/*",
		`{"type":"system","subtype":"init","session_id":"s","model":"m[1m]","claude_code_version":TEXT,"tools":[TEXT]}`,
		`{"type":"system","subtype":"hook_started","session_id":"s","hook_event":"SessionStart","hook_name":TEXT}`,
		`{"type":"assistant","session_id":"s","uuid":"a","message":{"id":"m","model":"m","content":[{"type":"text","text":TEXT},{"type":"tool_use","id":"t","input":TEXT}],"usage":{"input_tokens":3,"output_tokens":1}}}`,
		`{"type":"user","session_id":"s","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":TEXT},{"type":"text","text":TEXT}]},"tool_use_result":TEXT}`,
		`{"type":"system","subtype":"status","status":TEXT,"compact_result":TEXT,"compact_error":TEXT}`,
		`{"type":"result","subtype":TEXT,"is_error":true,"result":TEXT,"session_id":"s","uuid":"r","usage":{"input_tokens":3},"modelUsage":{"m[1m]":{"inputTokens":5,"contextWindow":9},TEXT:{"inputTokens":1}},"permission_denials":[TEXT]}`)
}

func FuzzOSC(f *testing.F) {
	telemetrytest.Fuzz(f, OSC, "none", "✳ TEXT", "⠂ TEXT", "TEXT")
}
