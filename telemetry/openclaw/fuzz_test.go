package openclaw

import (
	"testing"

	"lifeloop/telemetry/telemetrytest"
)

func FuzzTranscript(f *testing.F) {
	telemetrytest.Fuzz(f, Transcript, "transcript_events.jsonl",
		`{"session_id":"s","created_at":1,"event":{"type":"message","id":"u","message":{"role":"user","content":TEXT,"idempotencyKey":"k:user"}}}`,
		`{"session_id":"s","created_at":1,"event":{"type":"message","id":"u","message":{"role":"user","content":TEXT,"provenance":{"kind":TEXT}}}}`,
		`{"session_id":"s","created_at":1,"event":{"type":"message","id":"a","message":{"role":"assistant","content":[{"type":"text","text":TEXT},{"type":"toolCall","id":"t","arguments":{"id":TEXT}}],"usage":{"input":1},"stopReason":"error","errorMessage":TEXT,"__openclaw":{"runId":"r"}}}}`,
		`{"session_id":"s","created_at":1,"event":{"type":"compaction","id":"c","summary":TEXT,"tokensBefore":1}}`,
		`{"session_id":"s","created_at":1,"event":{"type":TEXT,"id":"c","customType":TEXT,"data":TEXT,"reason":TEXT}}`)
}

func FuzzRun(f *testing.F) {
	telemetrytest.Fuzz(f, Run, "trajectory_runtime_events.jsonl",
		`{"type":"session.started","sessionId":"s","runId":"r","data":{"trigger":TEXT}}`,
		`{"type":"prompt.submitted","sessionId":"s","runId":"r","data":{"prompt":TEXT,"messages":[TEXT]}}`,
		`{"type":"model.completed","sessionId":"s","runId":"r","data":{"assistantTexts":[TEXT],"messagesSnapshot":[{"role":"assistant","responseId":"x","content":TEXT,"usage":{"input":1}}]}}`,
		`{"type":"session.ended","sessionId":"s","runId":"r","data":{"status":TEXT}}`,
		`{"type":TEXT,"sessionId":"s","data":TEXT}`)
}

func FuzzNode(f *testing.F) {
	telemetrytest.Fuzz(f, Node, "session_nodes.jsonl",
		`{"session_key":"k","current_session_id":"s","updated_at":1,"entry":{"displayName":TEXT,"label":TEXT,"status":TEXT,"lastRunId":"r","totalTokens":1,"totalTokensFresh":true}}`)
}

func FuzzPlugin(f *testing.F) {
	telemetrytest.Fuzz(f, Plugin, "plugin-hook-log.jsonl",
		`{"k":"agent_turn_prepare","t":1,"e":{"prompt":TEXT},"c":{"sessionId":"s","runId":"r","trigger":TEXT}}`,
		`{"k":"gateway_start","t":1,"e":{"port":TEXT},"c":{"config":TEXT}}`,
		`{"k":"llm_output","t":1,"e":{"assistantTexts":[TEXT],"lastAssistant":{"role":"assistant","responseId":"x","content":TEXT,"usage":{"input":1}}},"c":{"sessionId":"s","runId":"q"}}`,
		`{"k":"agent_end","t":1,"e":{"success":false,"error":TEXT,"messages":[TEXT,{"role":"assistant","responseId":"y","content":TEXT,"usage":{"input":1}}]},"c":{"sessionId":"s","runId":"q"}}`,
		`{"k":"session_end","t":1,"e":{"reason":TEXT,"sessionFile":TEXT},"c":{"sessionId":"s"}}`,
		`{"k":TEXT,"t":1,"e":TEXT,"c":{}}`)
}

func FuzzAgent(f *testing.F) {
	for _, record := range records(f, "agent-local-json-output.json", true) {
		f.Add(record, "hello")
	}
	telemetrytest.Fuzz(f, Agent, "none",
		`{"payloads":[{"text":TEXT}],"meta":{"finalPromptText":TEXT,"stopReason":TEXT,"error":{"message":TEXT},"agentMeta":{"sessionId":"s","terminalReceipt":{"runId":"r"}}}}`)
}
