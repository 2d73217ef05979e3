package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// told decodes the records in order and returns what they told, one line per
// signal, without the members that are the same for every record.
func told(t *testing.T, decoder string, records ...string) []string {
	t.Helper()
	d, err := NewDecoder(decoder)
	require.NoError(t, err)
	out := []string{}
	for _, r := range records {
		for _, s := range d.Decode([]byte(r)) {
			out = append(out, line(s))
		}
	}
	return out
}

func TestUnknownDecoderNamesTheKnownOnes(t *testing.T) {
	names := func(err error) []string {
		t.Helper()
		require.Error(t, err)
		_, list, ok := strings.Cut(err.Error(), ": use one of ")
		require.True(t, ok, err)
		return strings.Split(list, ", ")
	}
	_, err := NewDecoder("claude")
	require.ErrorContains(t, err, `no telemetry decoder is named "claude": use one of claude-osc, `)
	known := names(err)
	if !slices.IsSorted(known) {
		t.Errorf("not in order: %v", known)
	}
	for _, name := range known {
		if _, err := NewDecoder(name); err != nil {
			t.Error(err)
		}
	}
	_, err = DecodeHook("claude-transcript", "Stop", []byte(`{}`))
	require.ErrorContains(t, err, `no telemetry decoder is named "claude-transcript": use one of `)
	if got := names(err); !slices.Contains(got, "claude-hook") || !slices.Contains(got, "codex-hook") {
		t.Errorf("hooks are decoded by %v", got)
	}
}

// A change of an activity file is a sign of life at that time, and no more.
func TestActivityFiles(t *testing.T) {
	require.Equal(t, []string{"alive from=file detail=changed at=03:04:05.600"}, told(t, "file", "2026-01-02T04:04:05.6+01:00"))
	require.Empty(t, told(t, "file", "", "now", `{"at":"2026-01-02T03:04:05Z"}`))
}

func TestModelWindow(t *testing.T) {
	for _, c := range []struct {
		model  string
		tokens int64
		source string
	}{
		{"claude-opus-4-8[1m]", 1_000_000, "suffix"},
		{"claude-sonnet-4-5[1m]", 1_000_000, "suffix"},
		{"claude-sonnet-4-5", 200_000, "table"},
		{"claude-sonnet-4-5-20250929", 200_000, "table"},
		{"claude-sonnet-4-6", 200_000, "table"},
		{"claude-opus-4-6", 200_000, "table"},
		{"claude-opus-4-8", 0, ""},
		{"claude-sonnet-4-50", 0, ""},
		{"gpt-5.2-codex", 0, ""},
		{"gemini-2.5-pro", 1_048_576, "table"},
		{"gemini-3-flash-preview", 1_048_576, "table"},
		{"gemma-4-31b-it", 256_000, "table"},
		{"gemma-3-27b-it", 0, ""},
		{"geminid", 0, ""},
		{"", 0, ""},
	} {
		tokens, source := ModelWindow(c.model)
		if tokens != c.tokens || source != c.source {
			t.Errorf("ModelWindow(%q) = %d, %q; want %d, %q", c.model, tokens, source, c.tokens, c.source)
		}
	}
}

// The lines of a Claude transcript that the recordings lack, with the members
// that matter.
const (
	typedA    = `{"type":"user","uuid":"u1","timestamp":"2026-11-21T08:00:00.000Z","sessionId":"s","promptId":"A","promptSource":"typed","origin":{"kind":"human"},"message":{"role":"user","content":"do it"}}`
	answerA   = `{"message":{"id":"m1","model":"claude-x","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":1,"cache_read_input_tokens":10,"cache_creation_input_tokens":100,"output_tokens":5}},"type":"assistant","uuid":"a1","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s"}`
	endA      = `{"type":"system","subtype":"turn_duration","uuid":"e1","timestamp":"2026-11-21T08:00:02.000Z","sessionId":"s"}`
	promptA   = `prompt from=transcript detail=u1 at=08:00:00.000 session=s turn=A`
	usageA    = `usage from=transcript detail=a1 at=08:00:01.000 session=s turn=A used=111 call=m1 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`
	toolA     = `tool_start from=transcript detail=a1 at=08:00:01.000 session=s turn=A tool=t1 name=Bash`
	turnEndA  = `turn_end from=transcript detail=e1 at=08:00:02.000 session=s turn=A`
	escMarked = `{"type":"user","uuid":"i1","timestamp":"2026-11-21T08:00:02.000Z","sessionId":"s","promptId":"A","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]}}`
)

func TestClaudeTranscriptStories(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"a turn", []string{typedA, answerA, endA}, []string{promptA, usageA, toolA, turnEndA}},
		{"a turn cut by Esc in a tool has no turn_duration",
			[]string{typedA, answerA,
				`{"type":"user","uuid":"r1","timestamp":"2026-11-21T08:00:02.000Z","sessionId":"s","promptId":"A","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"rejected"}]}}`,
				escMarked},
			[]string{promptA, usageA, toolA,
				`tool_end from=transcript detail=r1 at=08:00:02.000 session=s turn=A tool=t1 tool_error=EXECUTION_ERROR`,
				`turn_end from=transcript detail=i1 at=08:00:02.000 session=s turn=A outcome=interrupted`}},
		{"a turn cut by Esc while the answer streams",
			[]string{typedA, `{"type":"user","uuid":"i1","timestamp":"2026-11-21T08:00:02.000Z","sessionId":"s","message":{"role":"user","content":"[Request interrupted by user]"}}`},
			[]string{promptA, `turn_end from=transcript detail=i1 at=08:00:02.000 session=s turn=A outcome=interrupted`}},
		{"the mark of an interrupt, typed by a person, is a prompt",
			[]string{strings.Replace(typedA, "do it", "[Request interrupted by user]", 1)},
			[]string{promptA}},
		{"a turn's end that was flushed above its prompt waits for it",
			[]string{endA, typedA, answerA},
			[]string{promptA, turnEndA,
				`usage from=transcript detail=a1 at=08:00:01.000 session=s used=111 call=m1 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`,
				`tool_start from=transcript detail=a1 at=08:00:01.000 session=s tool=t1 name=Bash`}},
		{"the end of a turn that began before the first line belongs to no later prompt",
			[]string{strings.Replace(endA, "08:00:02", "07:59:00", 1), typedA, endA},
			[]string{`turn_end from=transcript detail=e1 at=07:59:00.000 session=s`, promptA, turnEndA}},
		{"a failed turn stops before it ends",
			[]string{typedA,
				`{"type":"assistant","uuid":"x1","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s","isApiErrorMessage":true,"error":"overloaded","message":{"id":"z","model":"<synthetic>","content":[],"usage":{"input_tokens":0,"output_tokens":0}}}`,
				endA},
			[]string{promptA,
				`turn_stop from=transcript detail=x1 at=08:00:01.000 session=s turn=A outcome=failed error=server_error`,
				turnEndA}},
		{"usage is told once per call, and again when its output has grown",
			[]string{typedA, answerA, answerA, strings.Replace(answerA, `"output_tokens":5`, `"output_tokens":9`, 1)},
			[]string{promptA, usageA, toolA, toolA, strings.Replace(usageA, "output=5", "output=9", 1), toolA}},
		{"a prompt with a picture", []string{strings.Replace(typedA, `"do it"`, `[{"type":"text","text":"see"},{"type":"image","source":{}}]`, 1)}, []string{promptA}},
		{"a queued and a print mode prompt",
			[]string{strings.Replace(typedA, "typed", "queued", 1), strings.Replace(strings.Replace(typedA, "typed", "sdk", 1), `"origin":{"kind":"human"},`, "", 1)},
			[]string{promptA, promptA}},
		{"no prompt: what Claude Code writes in the user's name",
			[]string{
				strings.Replace(typedA, `"promptSource":"typed",`, "", 1),
				strings.Replace(typedA, `"human"`, `"task-notification"`, 1),
				strings.Replace(typedA, `"type":"user"`, `"type":"user","isMeta":true`, 1),
				strings.Replace(typedA, `"type":"user"`, `"type":"user","isCompactSummary":true`, 1),
				strings.Replace(typedA, `"type":"user"`, `"type":"user","isSidechain":true`, 1),
				strings.Replace(typedA, `"type":"user"`, `"type":"user","agentId":"ag"`, 1),
				strings.Replace(typedA, "do it", "<command-name>/exit</command-name>", 1),
				strings.Replace(typedA, "do it", "<local-command-stdout>bye</local-command-stdout>", 1),
				strings.Replace(typedA, "do it", "<bash-input>ls</bash-input>", 1),
			}, []string{}},
		{"an id that is no id is dropped",
			[]string{strings.NewReplacer(`"uuid":"u1"`, `"uuid":"`+strings.Repeat("u", 300)+`"`, `"sessionId":"s"`, `"sessionId":"a\nb"`).Replace(typedA)},
			[]string{`prompt from=transcript at=08:00:00.000 turn=A`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, told(t, "claude-transcript", c.records...))
		})
	}
}

// codex writes a line of a rollout.
func codex(ordinal int, kind, payload string) string {
	return fmt.Sprintf(`{"timestamp":"2026-11-21T08:00:00.000Z","ordinal":%d,"type":"%s","payload":%s}`, ordinal, kind, payload)
}

func TestCodexRolloutStories(t *testing.T) {
	const (
		started  = `{"type":"task_started","turn_id":"T","model_context_window":1000}`
		typed    = `{"type":"item_completed","thread_id":"S","turn_id":"T","item":{"type":"UserMessage","id":"i"}}`
		answered = `{"type":"item_completed","thread_id":"S","turn_id":"T","item":{"type":"AgentMessage","id":"j"}}`
		usage    = `{"thread_id":"S","turn_id":"T","response_id":"R","usage":{"input_tokens":90,"output_tokens":10,"total_tokens":100},"thread_token_usage":{"total_tokens":9999}}`
		counted  = `{"type":"token_count","info":{"total_token_usage":{"total_tokens":9999},"last_token_usage":{"input_tokens":90,"output_tokens":10,"total_tokens":100},"model_context_window":1000}}`
		estimate = `{"type":"token_count","info":{"last_token_usage":{"input_tokens":0,"output_tokens":0,"total_tokens":40},"model_context_window":1000}}`
	)
	from := func(ordinal int, rest string) string {
		kind, rest, _ := strings.Cut(rest, " ")
		return fmt.Sprintf(`%s from=rollout detail="ordinal %d" at=08:00:00.000 %s`, kind, ordinal, rest)
	}
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"steering: one prompt per turn", []string{
			codex(1, "event_msg", started), codex(2, "event_msg", typed), codex(3, "event_msg", typed),
		}, []string{
			from(1, `working turn=T window=1000 by=reported`),
			from(2, `prompt session=S turn=T`),
		}},
		{"usage after an answer is told at once and not repeated", []string{
			codex(1, "event_msg", answered), codex(2, "token_usage_record", usage), codex(3, "event_msg", counted),
		}, []string{
			from(2, `usage session=S turn=T used=100 call=R request=T input=90 output=10`),
			from(3, `usage session=S turn=T used=100 window=1000 by=reported`), // the window is news, and no call
		}},
		{"a usage without an answer waits until the next record shows that it was no compaction", []string{
			codex(1, "event_msg", started), codex(2, "token_usage_record", usage), codex(3, "event_msg", counted),
			codex(4, "response_item", `{"type":"function_call_output","call_id":"c","output":"x"}`),
		}, []string{
			from(1, `working turn=T window=1000 by=reported`),
			from(2, `usage session=S turn=T used=100 call=R request=T input=90 output=10 window=1000 by=reported`),
			from(4, `tool_end session=S turn=T tool=c`),
		}},
		{"a compaction's own usage is beside the main chain; the estimate after it is of it", []string{
			codex(1, "event_msg", started), codex(2, "token_usage_record", usage), codex(3, "event_msg", counted),
			codex(4, "compacted", `{"message":"summary","compaction_response_id":"R"}`), codex(5, "event_msg", estimate),
			codex(6, "event_msg", estimate),
		}, []string{
			from(1, `working turn=T window=1000 by=reported`),
			from(2, `usage session=S turn=T side=compaction used=100 call=R request=T input=90 output=10 window=1000 by=reported`),
			from(4, `compacted session=S turn=T half=record trigger=unknown`),
			from(5, `usage session=S turn=T used=40 estimate window=1000 by=reported`),
		}},
		{"no news: info null, thread settings, world state", []string{
			codex(1, "event_msg", `{"type":"token_count","info":null}`),
			codex(2, "event_msg", `{"type":"thread_settings_applied","thread_id":"S","thread_settings":{"model":"gpt-x"}}`),
			codex(3, "world_state", `{"full":true}`),
		}, []string{}},
		{"a rollout read from its middle learns its session from the thread settings", []string{
			codex(14, "event_msg", `{"type":"thread_settings_applied","thread_id":"S","thread_settings":{"model":"gpt-x"}}`),
			codex(15, "event_msg", started),
		}, []string{from(15, `working session=S turn=T window=1000 by=reported`)}},
		{"a fork", []string{
			codex(30, "session_meta", `{"id":"S2","session_id":"S2","forked_from_id":"S","forked_from_ordinal_exclusive":30}`),
		}, []string{from(30, `session_live session=S2 cause=fork`)}},
		{"a custom tool", []string{
			codex(1, "response_item", `{"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"secret"}`),
			codex(2, "response_item", `{"type":"custom_tool_call_output","call_id":"c","output":"secret"}`),
			codex(3, "response_item", `{"type":"reasoning","summary":[]}`),
		}, []string{from(1, `tool_start tool=c name=apply_patch`), from(2, `tool_end tool=c`)}},
		{"a command that failed, as its item says, and one that did not", []string{
			codex(1, "response_item", `{"type":"function_call","call_id":"c","name":"exec_command","arguments":"{}"}`),
			codex(2, "event_msg", `{"type":"item_completed","item":{"type":"CommandExecution","id":"c","command":["x"],"status":"failed","aggregated_output":"secret"}}`),
			codex(3, "response_item", `{"type":"function_call_output","call_id":"c","output":"secret"}`),
			codex(4, "event_msg", `{"type":"item_completed","item":{"type":"CommandExecution","id":"d","status":"completed","aggregated_output":"secret"}}`),
			codex(5, "response_item", `{"type":"function_call_output","call_id":"d","output":"secret"}`),
			codex(6, "event_msg", `{"type":"item_completed","item":{"type":"FileChange","id":"e","changes":{},"status":"declined"}}`),
			codex(7, "response_item", `{"type":"custom_tool_call_output","call_id":"e","output":"secret"}`),
		}, []string{from(1, `tool_start tool=c name=exec_command`), from(3, `tool_end tool=c tool_error=EXECUTION_ERROR`),
			from(5, `tool_end tool=d`), from(7, `tool_end tool=e tool_error=EXECUTION_ERROR`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, told(t, "codex-rollout", c.records...))
		})
	}
}

func TestCodexErrors(t *testing.T) {
	for info, want := range map[string]ErrorKind{
		`"context_window_exceeded"`: ErrContextFull,
		`"usage_limit_exceeded"`:    ErrQuota,
		`"session_budget_exceeded"`: ErrBilling,
		`"internal_server_error"`:   ErrServer,
		`"server_overloaded"`:       ErrServer,
		`"unauthorized"`:            ErrAuth,
		`"bad_request"`:             ErrInvalidRequest,
		`"other"`:                   ErrUnknown,
		`"something new"`:           ErrUnknown,
		`null`:                      ErrUnknown,
		`{}`:                        ErrUnknown,
		`{"response_too_many_failed_attempts":{"http_status_code":429}}`: ErrRateLimit,
		`{"http_connection_failed":{"http_status_code":401}}`:            ErrAuth,
		`{"http_connection_failed":{"http_status_code":402}}`:            ErrBilling,
		`{"http_connection_failed":{"http_status_code":418}}`:            ErrInvalidRequest,
		`{"http_connection_failed":{"http_status_code":null}}`:           ErrNetwork,
		`{"response_stream_disconnected":{"http_status_code":null}}`:     ErrNetwork,
		`{"response_stream_connection_failed":{"http_status_code":503}}`: ErrServer,
		`{"response_stream_connection_failed":{"http_status_code":200}}`: ErrUnknown,
	} {
		got := told(t, "codex-rollout", codex(1, "event_msg", `{"type":"task_complete","turn_id":"T","error":{"message":"words","codex_error_info":`+info+`}}`))
		require.Equal(t, []string{`turn_end from=rollout detail="ordinal 1" at=08:00:00.000 turn=T outcome=failed error=` + string(want)}, got, info)
	}
}

func TestClaudeErrors(t *testing.T) {
	for word, want := range map[string]ErrorKind{
		"rate_limit": ErrRateLimit, "server_error": ErrServer, "overloaded": ErrServer,
		"authentication_failed": ErrAuth, "oauth_org_not_allowed": ErrAuth, "billing_error": ErrBilling,
		"invalid_request": ErrInvalidRequest, "model_not_found": ErrInvalidRequest,
		"max_output_tokens": ErrUnknown, "unknown": ErrUnknown, "": ErrUnknown,
	} {
		call, err := DecodeHook("claude-hook", "StopFailure", []byte(`{"session_id":"s","error":"`+word+`"}`))
		require.NoError(t, err)
		require.Len(t, call.Signals, 1)
		if got := call.Signals[0]; got.Kind != TurnStop || got.Outcome != Failed || got.Error != want {
			t.Errorf("%s: got %s; want a failed turn_stop with %s", word, line(got), want)
		}
	}
}

func TestCodexOSC(t *testing.T) {
	const (
		idle = `idle from=terminal detail="osc 7501 idle"`
		live = `session_live from=terminal detail="osc 7501 idle"`
		work = `working from=terminal detail="osc 7501 working"`
		done = `idle from=terminal detail="osc 7501 done"`
	)
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"recorded: a turn with an approval",
			[]string{"state=idle:app=codex", "state=working:app=codex", "state=blocked:app=codex:kind=permission",
				"state=working:app=codex", "state=done:app=codex", "state=idle:app=codex", "state=clear"},
			[]string{live, idle, work, `needs_input from=terminal detail="osc 7501 blocked permission"`, work, done, idle}},
		{"recorded: an interrupt",
			[]string{"state=idle:app=codex", "state=working:app=codex", "state=idle:app=codex", "state=clear"},
			[]string{live, idle, work, idle}},
		{"another program's state is not Codex's",
			[]string{"state=idle:app=other", "state=idle", "", "idle", "state=napping:app=codex"}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, told(t, "codex-osc", c.records...))
		})
	}
}

func TestClaudeRegistry(t *testing.T) {
	for _, c := range []struct {
		name, record string
		want         []string
	}{
		{"print mode keeps no status", `{"pid":1,"sessionId":"s","entrypoint":"sdk-cli","updatedAt":1795246017263}`,
			[]string{`alive from=registry at=07:26:57.263 session=s process=1/0`}},
		{"a new status is a sign of life", `{"sessionId":"s","status":"dreaming"}`, []string{`alive from=registry session=s`}},
		{"what it waits for is a word or nothing", `{"sessionId":"s","status":"waiting","waitingFor":"Which file shall I delete?"}`,
			[]string{`needs_input from=registry detail=waiting session=s`}},
		{"torn while it was rewritten", `{"pid":1,"sessionId":"s","sta`, []string{}},
		{"not yet written", ``, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, told(t, "claude-registry", c.record))
		})
	}
}

func TestStatuslineComesThroughTheHookDoor(t *testing.T) {
	call, err := DecodeHook("claude-hook", "Statusline", []byte(`{"session_id":"s","prompt_id":"p","model":{"id":"claude-opus-4-8[1m]"},
		"context_window":{"total_input_tokens":12010,"context_window_size":1000000,
		"current_usage":{"input_tokens":10,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":12000}}}`))
	require.NoError(t, err)
	require.Equal(t, HookCall{Event: "Statusline", Session: "s", Turn: "p", Signals: []Signal{{
		Kind: UsageSeen, Source: "statusline", Detail: "Statusline", Session: "s", Turn: "p",
		Usage: &Usage{Used: 12010}, Model: "claude-opus-4-8[1m]", Window: 1_000_000, WindowSource: "statusline",
	}}}, call)
}

func TestHookInputThatIsRefused(t *testing.T) {
	for _, c := range []struct{ decoder, event, stdin, want string }{
		{"claude-hook", "Stop", ``, "read input of hook Stop: it is not a JSON object"},
		{"codex-hook", "Stop", `[1]`, "read input of hook Stop: it is not a JSON object"},
		{"claude-hook", "Stop", `{"session_id":"s"`, "read input of hook Stop: it is not a JSON object"},
		{"claude-hook", "Stop", `{"session_id":"s","hook_event_name":"SessionEnd"}`, "read input of hook Stop: it says that it is of hook SessionEnd"},
		{"codex-hook", "Stop", `{"turn_id":"t"}`, "read input of hook Stop: it names no session"},
		{"claude-hook", "Statusline", `null`, "read input of the status line: it is not a JSON object"},
		{"claude-hook", "Statusline", `{}`, "read input of the status line: it names no session"},
	} {
		_, err := DecodeHook(c.decoder, c.event, []byte(c.stdin))
		require.EqualError(t, err, c.want)
	}
}

func TestHooksTheRecordingsLack(t *testing.T) {
	for _, c := range []struct{ decoder, event, stdin, want string }{
		{"claude-hook", "SessionStart", `{"session_id":"s","source":"startup","model":"claude-opus-4-8[1m]","transcript_path":"/t.jsonl"}`,
			"SessionStart slot=pre_session capacity=9500\n  session_live from=hook detail=SessionStart:startup session=s cause=startup model=claude-opus-4-8[1m] window=1000000 by=suffix path=/t.jsonl\n"},
		{"claude-hook", "SessionStart", `{"session_id":"s","source":"teleport"}`,
			"SessionStart slot=pre_session capacity=9500\n  session_live from=hook detail=SessionStart:teleport session=s cause=unknown\n"},
		{"claude-hook", "SessionStart", `{"session_id":"s","source":"startup","agent_id":"a"}`,
			"SessionStart\n  alive from=hook detail=SessionStart session=s agent=a\n"},
		{"claude-hook", "PermissionRequest", `{"session_id":"s","agent_id":"a","tool_name":"Bash"}`,
			"PermissionRequest\n  needs_input from=hook detail=PermissionRequest:Bash session=s agent=a\n"},
		{"claude-hook", "SomethingNew", `{"session_id":"s"}`, "SomethingNew\n  alive from=hook detail=SomethingNew session=s\n"},
		{"codex-hook", "SubagentStop", `{"session_id":"s","turn_id":"t","agent_id":"a","agent_type":"worker","transcript_path":null}`,
			"SubagentStop\n  alive from=hook detail=SubagentStop:worker session=s turn=t agent=a\n"},
		{"codex-hook", "PostToolUse", `{"session_id":"s","turn_id":"t","agent_id":"a","tool_name":"Bash","tool_use_id":"c"}`,
			"PostToolUse\n  tool_end from=hook detail=PostToolUse:Bash session=s turn=t agent=a tool=c name=Bash\n"},
		{"codex-hook", "SessionStart", `{"session_id":"s","source":"startup","transcript_path":null}`,
			"SessionStart slot=pre_session capacity=9500\n  session_live from=hook detail=SessionStart:startup session=s cause=startup\n"},
	} {
		call, err := DecodeHook(c.decoder, c.event, []byte(c.stdin))
		require.NoError(t, err)
		if got := hookLines(call); got != c.want {
			t.Errorf("%s %s:\ngot  %swant %s", c.decoder, c.event, got, c.want)
		}
	}
}

func TestWhatIsNotKnownIsCounted(t *testing.T) {
	d, err := NewDecoder("claude-transcript")
	require.NoError(t, err)
	for _, r := range []string{
		`{"type":"new-thing","x":1}`, `{"type":"new-thing"}`, `{"type":"system","subtype":"new"}`,
		`{"type":"a sentence, not a type"}`, `{"type":7}`, `{"x":1}`, `{"type":"user"`, `[]`, ``, "\x00",
		`{"type":"mode","mode":"normal"}`, `{"type":"attachment","attachment":{"type":"whatever"}}`,
	} {
		require.Empty(t, d.Decode([]byte(r)), r)
	}
	require.Equal(t, map[string]int{"new-thing": 2, "system/new": 1, "malformed": 7}, d.Unknown())

	d.Unknown()["new-thing"] = 99
	require.Equal(t, 2, d.Unknown()["new-thing"], "the caller gets a copy")

	for i := range 1000 {
		d.Decode(fmt.Appendf(nil, `{"type":"t%d"}`, i))
	}
	require.Len(t, d.Unknown(), maxTypes+1)
}

func TestUnknownRolloutRecordsAreCounted(t *testing.T) {
	d, err := NewDecoder("codex-rollout")
	require.NoError(t, err)
	for _, r := range []string{
		codex(1, "event_msg", `{"type":"goal_reached"}`), codex(2, "event_msg", `{}`), codex(3, "inter_agent", `{}`),
		codex(4, "token_usage_record", `{"usage":{"total_tokens":-5}}`), codex(5, "token_usage_record", `{"usage":{"total_tokens":1e99}}`),
		codex(6, "response_item", `{"type":"function_call","name":"nameless"}`), `{"ordinal":7}`, `{"type":"event_msg","payload":{`,
	} {
		require.Empty(t, d.Decode([]byte(r)), r)
	}
	require.Equal(t, map[string]int{"event_msg/goal_reached": 1, "event_msg/": 1, "inter_agent": 1, "malformed": 2}, d.Unknown())
}

func TestTimesThatCannotBeWritten(t *testing.T) {
	for record, want := range map[string]string{
		`{"sessionId":"s","status":"idle","updatedAt":1100000000000000}`: `idle from=registry detail=idle session=s`, // the year 36827
		`{"sessionId":"s","status":"idle","updatedAt":-1}`:               `idle from=registry detail=idle session=s`,
		`{"sessionId":"s","status":"idle","updatedAt":"yesterday"}`:      `idle from=registry detail=idle session=s`,
	} {
		require.Equal(t, []string{want}, told(t, "claude-registry", record))
	}
	for _, at := range []string{`"yesterday"`, `7`, `"9999-12-31T23:59:59-23:59"`, `""`} {
		got := told(t, "claude-transcript", strings.Replace(typedA, `"2026-11-21T08:00:00.000Z"`, at, 1))
		require.Equal(t, []string{`prompt from=transcript detail=u1 session=s turn=A`}, got, at)
	}
}

func TestWalk(t *testing.T) {
	for _, c := range []struct {
		json string
		ok   bool
		want string
	}{
		{`{}`, true, ""},
		{" {\t\"a\" : 1 , \"b\":[1,{\"c\":\"}\"}] ,\"d\":\"x\\\"y\\\\\" }\r\n", true, `a=1 b=[1,{"c":"}"}] d="x\"y\\" `},
		{`{"a":"\\\\","b":true}`, true, `a="\\\\" b=true `},
		{`{"a":1}x`, false, `a=1 `},
		{`{"a":1,}`, false, `a=1 `},
		{`{"a":}`, false, ``},
		{`{"a" 1}`, false, ``},
		{`{a:1}`, false, ``},
		{`{"a":"\"}`, false, ``},
		{`{"a":[1,2}`, false, `a=[1,2} `}, // brackets are counted, not matched
		{`{"a":{"b":1}`, false, `a={"b":1} `},
	} {
		var b strings.Builder
		ok := members([]byte(c.json), func(key, val []byte) bool {
			fmt.Fprintf(&b, "%s=%s ", key, val)
			return true
		})
		if ok != c.ok || b.String() != c.want {
			t.Errorf("members(%q) = %v %q, want %v %q", c.json, ok, b.String(), c.ok, c.want)
		}
	}
	require.True(t, members([]byte(`{"a":1,"b":`+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20)+`}`), func(_, _ []byte) bool { return true }))

	var got []string
	require.True(t, elements([]byte(` [ 1, "a,b" ,[2],{"c":3} ] `), func(val []byte) bool { got = append(got, string(val)); return true }))
	require.Equal(t, []string{"1", `"a,b"`, "[2]", `{"c":3}`}, got)
	require.True(t, elements([]byte(`[]`), func([]byte) bool { return false }))
	for _, bad := range []string{``, `{}`, `[1`, `[1 2]`, `[,]`, `[1]]`} {
		require.False(t, elements([]byte(bad), func([]byte) bool { return true }), bad)
	}
}

// TestEachRecordTwice decodes recordings whose every record is there twice in a
// row, as a sender that is not sure gives them: they tell what they told.
func TestEachRecordTwice(t *testing.T) {
	for _, c := range []struct{ decoder, pattern string }{
		{"gemini-chat", "gemini/chats/*.jsonl"},
		{"gemini-hook", "gemini/hooks/sequence-*.jsonl"},
		{"opencode-bus", "opencode/bus/*.jsonl"},
		{"opencode-store", "opencode/store/*.jsonl"},
		{"openclaw-plugin", "openclaw/plugin-hook-log.jsonl"},
		{"hermes-hook", "hermes/hooks/sequence-*.jsonl"},
	} {
		for _, file := range recordings(t, c.pattern) {
			told := func(times int) (out []string) {
				d, err := NewDecoder(c.decoder)
				require.NoError(t, err)
				for _, record := range records(t, file) {
					for range times {
						for _, s := range d.Decode(record) {
							// Signs of life may be told twice: nothing is counted of them.
							if s.Kind != Alive && s.Kind != Working && s.Kind != Idle && s.Kind != ToolEnd && s.Kind != Cleared {
								out = append(out, line(s))
							}
						}
					}
				}
				return out
			}
			require.Equal(t, told(1), told(2), file)
		}
	}
}
