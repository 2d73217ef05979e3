package gemini_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/gemini"
)

// TestClear checks the answer that makes Gemini CLI empty its context. Only AfterAgent, the
// hook at the end of a turn, has such an answer, and only its call has Clears set.
func TestClear(t *testing.T) {
	var dialect telemetry.Clearer = gemini.Hooks{}
	for _, event := range []string{"SessionStart", "SessionEnd", "BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool", "Notification", "PreCompress"} {
		call, err := gemini.Hooks{}.Decode(event, []byte(`{"session_id":"s","hook_event_name":"`+event+`","tool_name":"t","tool_input":{}}`))
		require.NoError(t, err)
		require.Equal(t, event == "AfterAgent", call.Clears, event)
		if answer := dialect.Clear(event, "why <b>"); event == "AfterAgent" {
			require.Equal(t, `{"continue":false,"stopReason":"why <b>","hookSpecificOutput":{"hookEventName":"AfterAgent","clearContext":true}}`, string(answer))
		} else {
			require.Nil(t, answer, event)
		}
	}
}
