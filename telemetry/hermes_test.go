package telemetry

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMadeHermes decodes what was made from Hermes's schema. See the README
// beside it.
func TestMadeHermes(t *testing.T) {
	for _, file := range []string{"messages.jsonl", "sessions.jsonl"} {
		t.Run(file, func(t *testing.T) {
			d := new(hermesStore)
			var b strings.Builder
			for i, record := range records(t, filepath.Join("testdata", "hermes", file)) {
				for _, s := range d.Decode(record) {
					checkSignal(t, s)
					fmt.Fprintf(&b, "%d %s\n", i+1, line(s))
				}
			}
			b.WriteString(unknownLines(d.Unknown()))
			golden(t, filepath.Join("hermes-store", file), b.String())
		})
	}
	t.Run("hooks", func(t *testing.T) {
		var b strings.Builder
		for _, record := range records(t, filepath.Join("testdata", "hermes", "hooks", "sequence-turns.jsonl")) {
			var r struct {
				Stdin json.RawMessage `json:"stdin"`
			}
			require.NoError(t, json.Unmarshal(record, &r))
			var in struct {
				Event string `json:"hook_event_name"`
			}
			require.NoError(t, json.Unmarshal(r.Stdin, &in))
			call, err := DecodeHook("hermes-hook", in.Event, r.Stdin)
			require.NoError(t, err)
			for _, s := range call.Signals {
				checkHermesSignal(t, s)
			}
			b.WriteString(hookLines(call))
		}
		golden(t, filepath.Join("hermes-hook", "sequence-turns.jsonl"), b.String())
	})
}

// checkHermesSignal is checkSignal, for a kind that it does not list yet.
func checkHermesSignal(t *testing.T, s Signal) {
	t.Helper()
	if s.Kind == LimitWait {
		s.Kind = Fault
	}
	checkSignal(t, s)
}

func hermesSessionRow(session string) string {
	return `{"table":"sessions","session_id":"s","session":{` + session + `}}`
}

// Token columns are totals of a session: what they were at first is nobody's
// call, what they grow by is usage, and of one call it is the context too.
func TestHermesTotals(t *testing.T) {
	got := told(t, "hermes-store",
		hermesSessionRow(`"api_call_count":5,"input_tokens":1000,"output_tokens":50,"cache_read_tokens":10,"model":"m"`),
		hermesSessionRow(`"api_call_count":6,"input_tokens":1100,"output_tokens":57,"cache_read_tokens":910,"model":"m"`),
		hermesSessionRow(`"api_call_count":6,"input_tokens":1100,"output_tokens":57,"cache_read_tokens":910,"model":"m"`),
		hermesSessionRow(`"api_call_count":8,"input_tokens":1500,"output_tokens":90,"cache_read_tokens":910,"model":"m"`),
		hermesSessionRow(`"api_call_count":1,"input_tokens":20,"output_tokens":1,"cache_read_tokens":0,"model":"m"`),
		hermesSessionRow(`"api_call_count":2,"input_tokens":70,"output_tokens":3,"cache_read_tokens":0,"model":"m"`))
	require.Equal(t, []string{
		"usage from=store detail=session session=s used=1000 call=calls-6 input=100 cache_read=900 output=7 model=m",
		"usage from=store detail=session session=s used=0 call=calls-8 input=400 output=33 model=m",
		"usage from=store detail=session session=s used=50 call=calls-2 input=50 output=2 model=m",
	}, got)
}

func TestHermesSessionsEnd(t *testing.T) {
	require.Equal(t, []string{"session_gone from=store detail=session at=00:00:09.000 session=s reason=cli_close", "session_gone from=store detail=session at=00:00:12.000 session=s reason=new_session"},
		told(t, "hermes-store", hermesSessionRow(`"ended_at":null`), hermesSessionRow(`"ended_at":9.0,"end_reason":"cli_close"`), hermesSessionRow(`"ended_at":9.0,"end_reason":"cli_close"`),
			hermesSessionRow(`"ended_at":null`), hermesSessionRow(`"ended_at":12.0,"end_reason":"new_session"`)))
}

func TestHermesChildren(t *testing.T) {
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
		got := told(t, "hermes-store", `{"table":"messages","id":3,"session_id":"s","role":"user","timestamp":9.0,"session":{`+session+`}}`)
		require.Contains(t, strings.Join(got, "\n"), want, session)
		if strings.HasPrefix(want, "agent") {
			require.Equal(t, []string{"working from=store detail=message-3 at=00:00:09.000 session=p agent=s"}, got, session)
		}
	}
}

func TestHermesUnknown(t *testing.T) {
	d := new(hermesStore)
	for _, r := range []string{`{`, `{"table":"dreams","session_id":"s"}`, `{"table":"messages","id":1,"session_id":"s","role":"oracle","timestamp":1.0,"session":{}}`} {
		for _, s := range d.Decode([]byte(r)) {
			require.Equal(t, SessionLive, s.Kind)
		}
	}
	require.Equal(t, map[string]int{"malformed": 1, "table/dreams": 1, "role/oracle": 1}, d.Unknown())
}

func TestHermesHooksAreRefused(t *testing.T) {
	for stdin, want := range map[string]string{
		`[]`:                                 "it is not a JSON object",
		`{"hook_event_name":"pre_llm_call"}`: "it names no session",
		`{"hook_event_name":"on_session_end","session_id":"s"}`: "it says that it is of hook on_session_end",
	} {
		_, err := DecodeHook("hermes-hook", "pre_llm_call", []byte(stdin))
		require.ErrorContains(t, err, want)
	}
	call, err := DecodeHook("hermes-hook", "kanban_task_claimed", []byte(`{"session_id":"s"}`))
	require.NoError(t, err)
	require.Equal(t, "kanban_task_claimed\n  alive from=hook detail=kanban_task_claimed session=s\n", hookLines(call))
}

func FuzzHermesStore(f *testing.F) {
	fuzzDecoder(f, "hermes-store", "hermes/[ms]e*.jsonl",
		`{"table":"messages","id":1,"session_id":"s","role":"user","content":TEXT,"timestamp":1.5,"display_kind":TEXT,"session":{"title":TEXT,"source":TEXT,"end_reason":TEXT}}`,
		`{"table":"messages","id":2,"session_id":"s","role":"assistant","finish_reason":TEXT,"tool_calls":[{"id":TEXT}],"timestamp":2.5}`,
		`{"table":"sessions","session_id":"s","session":{"ended_at":3.5,"end_reason":TEXT}}`,
		`{"table":TEXT,"session_id":"s"}`)
}

func FuzzHermesHook(f *testing.F) {
	for _, record := range records(f, filepath.Join("testdata", "hermes", "hooks", "sequence-turns.jsonl")) {
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
		if len(event) > 100 || !isWord(event) {
			return // events are named by us
		}
		call, err := DecodeHook("hermes-hook", event, stdin)
		if err == nil && (call.Slot == "") != (call.Capacity == 0) {
			t.Fatalf("slot %q has capacity %d", call.Slot, call.Capacity)
		}
		for _, s := range call.Signals {
			checkHermesSignal(t, s)
		}
		quoted, err := json.Marshal("⟦" + text + "⟧")
		require.NoError(t, err)
		call, err = DecodeHook("hermes-hook", event, []byte(strings.ReplaceAll(`{"session_id":"s","tool_name":TEXT,"tool_input":{"command":TEXT},
			"extra":{"user_message":TEXT,"assistant_response":TEXT,"command":TEXT,"reason":TEXT,"aux_task":TEXT,"surface":TEXT,"platform":TEXT,
			"error":{"message":TEXT},"turn_exit_reason":TEXT,"usage":{"input_tokens":1}}}`, "TEXT", string(quoted))))
		require.NoError(t, err)
		for _, s := range call.Signals {
			checkHermesSignal(t, s)
			if strings.Contains(line(s), "⟦") {
				t.Fatalf("text of the session in a signal: %s", line(s))
			}
		}
	})
}
