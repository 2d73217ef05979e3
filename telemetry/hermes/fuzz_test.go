package hermes

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry/scan"
	"lifeloop/telemetry/telemetrytest"
)

func FuzzStore(f *testing.F) {
	telemetrytest.Fuzz(f, Store, "[ms]e*.jsonl",
		`{"table":"messages","id":1,"session_id":"s","role":"user","content":TEXT,"timestamp":1.5,"display_kind":TEXT,"session":{"title":TEXT,"source":TEXT,"end_reason":TEXT}}`,
		`{"table":"messages","id":2,"session_id":"s","role":"assistant","finish_reason":TEXT,"tool_calls":[{"id":TEXT}],"timestamp":2.5}`,
		`{"table":"sessions","session_id":"s","session":{"ended_at":3.5,"end_reason":TEXT}}`,
		`{"table":TEXT,"session_id":"s"}`)
}

func FuzzHook(f *testing.F) {
	for _, record := range telemetrytest.Records(f, filepath.Join("testdata", "hooks", "sequence-turns.jsonl")) {
		var r struct {
			Stdin json.RawMessage `json:"stdin"`
		}
		require.NoError(f, json.Unmarshal(record, &r))
		var in struct {
			Event string `json:"hook_event_name"`
		}
		require.NoError(f, json.Unmarshal(r.Stdin, &in))
		f.Add(in.Event, []byte(r.Stdin), "hello")
	}
	f.Fuzz(func(t *testing.T, event string, stdin []byte, text string) {
		if len(event) > 100 || !scan.IsWord(event) {
			return // event names are set by this program and are always words
		}
		call, err := Hooks{}.Decode(event, stdin)
		if err == nil && (call.Slot == "") != (call.Capacity == 0) {
			t.Fatalf("slot %q has capacity %d", call.Slot, call.Capacity)
		}
		for _, s := range call.Signals {
			telemetrytest.CheckSignal(t, s)
		}
		quoted, err := json.Marshal("⟦" + text + "⟧")
		require.NoError(t, err)
		call, err = Hooks{}.Decode(event, []byte(strings.ReplaceAll(`{"session_id":"s","tool_name":TEXT,"tool_input":{"command":TEXT},
			"extra":{"user_message":TEXT,"assistant_response":TEXT,"command":TEXT,"reason":TEXT,"aux_task":TEXT,"surface":TEXT,"platform":TEXT,
			"error":{"message":TEXT},"turn_exit_reason":TEXT,"usage":{"input_tokens":1}}}`, "TEXT", string(quoted))))
		require.NoError(t, err)
		for _, s := range call.Signals {
			telemetrytest.CheckSignal(t, s)
			if strings.Contains(telemetrytest.Line(s), "⟦") {
				t.Fatalf("a signal contains text of the session: %s", telemetrytest.Line(s))
			}
		}
	})
}
