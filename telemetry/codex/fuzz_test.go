package codex

import (
	"testing"

	"lifeloop/telemetry/telemetrytest"
)

func FuzzRollout(f *testing.F) {
	telemetrytest.Fuzz(f, Rollout, "rollouts/*.jsonl",
		`{"ordinal":1,"type":"response_item","payload":{"type":"function_call","call_id":"c","name":"x","arguments":TEXT}}`,
		`{"ordinal":2,"type":"event_msg","payload":{"type":"item_completed","turn_id":"t","item":{"type":"UserMessage","content":TEXT}}}`,
		`{"ordinal":3,"type":"event_msg","payload":{"type":"task_complete","turn_id":"t","last_agent_message":TEXT,"error":{"message":TEXT,"codex_error_info":TEXT}}}`,
		`{"ordinal":4,"type":"compacted","payload":{"message":TEXT,"replacement_history":[TEXT]}}`,
		`{"ordinal":5,"type":TEXT,"payload":{"type":TEXT}}`)
}

func FuzzExec(f *testing.F) {
	telemetrytest.Fuzz(f, Exec, "exec-json/*.jsonl",
		`{"type":"thread.started","thread_id":"s"}`, `{"type":"item.completed","item":{"id":"i","type":"command_execution","command":TEXT,"aggregated_output":TEXT}}`,
		`{"type":"item.completed","item":{"id":"i","type":"error","message":TEXT}}`, `{"type":"error","message":TEXT}`,
		`{"type":"turn.failed","error":{"message":TEXT}}`, `{"type":TEXT,"item":{"type":TEXT}}`)
}

func FuzzAppServer(f *testing.F) {
	telemetrytest.Fuzz(f, AppServer, "app-server/*.jsonl",
		`{"method":"thread/started","params":{"thread":{"id":"s","preview":TEXT,"name":TEXT,"agentNickname":TEXT,"source":{"custom":TEXT}}}}`,
		`{"method":"item/started","params":{"threadId":"s","turnId":"t","item":{"id":"i","type":"userMessage","content":[{"type":"text","text":TEXT}]}}}`,
		`{"method":"turn/completed","params":{"threadId":"s","turn":{"id":"t","status":"failed","items":[TEXT],"error":{"message":TEXT,"codexErrorInfo":TEXT}}}}`,
		`{"method":"item/commandExecution/requestApproval","id":7,"params":{"threadId":"s","turnId":"t","command":TEXT,"reason":TEXT}}`,
		`{"method":"error","params":{"threadId":"s","turnId":"t","willRetry":true,"error":{"message":TEXT,"additionalDetails":TEXT}}}`,
		`{"method":"thread/status/changed","params":{"threadId":"s","status":{"type":"active","activeFlags":[TEXT]}}}`,
		`{"id":3,"result":TEXT}`, `{"method":TEXT,"params":TEXT}`)
}

func FuzzNotify(f *testing.F) {
	telemetrytest.Fuzz(f, Notify, "notify/*.json",
		`{"type":"agent-turn-complete","thread-id":"s","turn-id":"t","cwd":TEXT,"input-messages":[TEXT],"last-assistant-message":TEXT}`, `{"type":TEXT}`)
}

func FuzzHistory(f *testing.F) {
	telemetrytest.Fuzz(f, History, "history/*.jsonl", `{"session_id":"s","ts":1795246826,"text":TEXT}`)
}

func FuzzOSC(f *testing.F) {
	telemetrytest.Fuzz(f, OSC, "none", `state=blocked:app=codex:kind=TEXT`, `state=TEXT:app=codex`, `TEXT`)
}
