package codex

import (
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
)

// Codex drops an answer that does not match its schema; the schemas were taken
// from its binary. An event whose schema has no member for context gets no
// answer.
func TestAnswersMatchCodexSchemas(t *testing.T) {
	for event, file := range map[string]string{
		"SessionStart":      "session-start",
		"UserPromptSubmit":  "user-prompt-submit",
		"PreToolUse":        "pre-tool-use",
		"PostToolUse":       "post-tool-use",
		"SubagentStart":     "subagent-start",
		"PermissionRequest": "permission-request",
		"PreCompact":        "pre-compact",
		"PostCompact":       "post-compact",
		"Stop":              "stop",
		"SubagentStop":      "subagent-stop",
		"Interrupt":         "interrupt",
	} {
		schema, err := jsonschema.NewCompiler().Compile("testdata/hook-schemas/" + file + ".command.output.schema.json")
		require.NoError(t, err)
		var answer any
		require.NoError(t, json.Unmarshal(telemetry.HookOutput(event, "text"), &answer))
		takes := schema.Validate(answer) == nil
		if answers := (Hooks{}).Answer(event, "text") != nil; answers != takes {
			t.Errorf("%s: the schema accepts context: %t, the answer has it: %t", event, takes, answers)
		}
	}
}
