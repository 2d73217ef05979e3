package hermes

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

// The recording was written by hand after reading Hermes's source: see the
// README beside it.
func TestHooks(t *testing.T) {
	var b strings.Builder
	for _, record := range telemetrytest.Records(t, filepath.Join("testdata", "hooks", "sequence-turns.jsonl")) {
		var r struct {
			Stdin json.RawMessage `json:"stdin"`
		}
		require.NoError(t, json.Unmarshal(record, &r))
		var in struct {
			Event string `json:"hook_event_name"`
		}
		require.NoError(t, json.Unmarshal(r.Stdin, &in))
		call, err := Hooks{}.Decode(in.Event, r.Stdin)
		require.NoError(t, err)
		for _, s := range call.Signals {
			telemetrytest.CheckSignal(t, s)
		}
		b.WriteString(telemetrytest.HookLines(call))
	}
	telemetrytest.Golden(t, filepath.Join("testdata", "golden", "hook", "sequence-turns.jsonl.txt"), b.String())
}

func sessionRow(session string) string {
	return `{"table":"sessions","session_id":"s","session":{` + session + `}}`
}

// Token columns are totals of a session. Their first values belong to no known
// call; each increase is usage. An increase by a single call also shows the
// size of the context.
func TestTotals(t *testing.T) {
	got := telemetrytest.Decoded(t, Store,
		sessionRow(`"api_call_count":5,"input_tokens":1000,"output_tokens":50,"cache_read_tokens":10,"model":"m"`),
		sessionRow(`"api_call_count":6,"input_tokens":1100,"output_tokens":57,"cache_read_tokens":910,"model":"m"`),
		sessionRow(`"api_call_count":6,"input_tokens":1100,"output_tokens":57,"cache_read_tokens":910,"model":"m"`),
		sessionRow(`"api_call_count":8,"input_tokens":1500,"output_tokens":90,"cache_read_tokens":910,"model":"m"`),
		sessionRow(`"api_call_count":1,"input_tokens":20,"output_tokens":1,"cache_read_tokens":0,"model":"m"`),
		sessionRow(`"api_call_count":2,"input_tokens":70,"output_tokens":3,"cache_read_tokens":0,"model":"m"`))
	require.Equal(t, []string{
		"usage from=store detail=session session=s used=1000 call=calls-6 input=100 cache_read=900 output=7 model=m",
		"usage from=store detail=session session=s used=0 call=calls-8 input=400 output=33 model=m",
		"usage from=store detail=session session=s used=50 call=calls-2 input=50 output=2 model=m",
	}, got)
}

func TestSessionsEnd(t *testing.T) {
	require.Equal(t, []string{"session_gone from=store detail=session at=00:00:09.000 session=s reason=cli_close", "session_gone from=store detail=session at=00:00:12.000 session=s reason=new_session"},
		telemetrytest.Decoded(t, Store, sessionRow(`"ended_at":null`), sessionRow(`"ended_at":9.0,"end_reason":"cli_close"`), sessionRow(`"ended_at":9.0,"end_reason":"cli_close"`),
			sessionRow(`"ended_at":null`), sessionRow(`"ended_at":12.0,"end_reason":"new_session"`)))
}

func TestChildren(t *testing.T) {
	for session, want := range map[string]string{
		``: "cause=unknown",
		`"parent_session_id":"p","parent_end_reason":"compression","parent_ended_at":5.0,"started_at":5.0`: "cause=compact",
		`"parent_session_id":"p","parent_end_reason":"branched","parent_ended_at":5.0,"started_at":5.0`:    "cause=fork",
		`"parent_session_id":"p","branched":1`:                            "cause=fork",
		`"parent_session_id":"p","reset":1`:                               "cause=clear",
		`"parent_session_id":"p","parent_ended_at":5.0,"started_at":9.0`:  "cause=unknown",
		`"parent_session_id":"p","delegated":1`:                           "agent=s",
		`"parent_session_id":"p","source":"subagent"`:                     "agent=s",
		`"parent_session_id":"p","started_at":4.0,"parent_ended_at":5.0`:  "agent=s",
		`"parent_session_id":"p","started_at":4.0,"parent_ended_at":null`: "agent=s",
	} {
		got := telemetrytest.Decoded(t, Store, `{"table":"messages","id":3,"session_id":"s","role":"user","timestamp":9.0,"session":{`+session+`}}`)
		require.Contains(t, strings.Join(got, "\n"), want, session)
		if strings.HasPrefix(want, "agent") {
			require.Equal(t, []string{"working from=store detail=message-3 at=00:00:09.000 session=p agent=s"}, got, session)
		}
	}
}

func TestUnknown(t *testing.T) {
	d := new(store)
	for _, r := range []string{`{`, `{"table":"dreams","session_id":"s"}`, `{"table":"messages","id":1,"session_id":"s","role":"oracle","timestamp":1.0,"session":{}}`} {
		for _, s := range d.Decode([]byte(r)) {
			require.Equal(t, telemetry.SessionLive, s.Kind)
		}
	}
	require.Equal(t, map[string]int{"malformed": 1, "table/dreams": 1, "role/oracle": 1}, d.Unknown())
}

func TestInvalidHookInput(t *testing.T) {
	for stdin, want := range map[string]string{
		`[]`:                                 "it is not a JSON object",
		`{"hook_event_name":"pre_llm_call"}`: "it names no session",
		`{"hook_event_name":"on_session_end","session_id":"s"}`: "it belongs to hook on_session_end",
	} {
		_, err := Hooks{}.Decode("pre_llm_call", []byte(stdin))
		require.ErrorContains(t, err, want)
	}
	call, err := Hooks{}.Decode("kanban_task_claimed", []byte(`{"session_id":"s"}`))
	require.NoError(t, err)
	require.Equal(t, "kanban_task_claimed\n  alive from=hook detail=kanban_task_claimed session=s\n", telemetrytest.HookLines(call))
}
