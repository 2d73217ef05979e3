package openclaw

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

// recordings are the files of one installation of OpenClaw: two local turns, a
// local terminal, a gateway with a compaction, a reset and a heartbeat, and a
// local terminal that was ended during a turn.
var recordings = []struct {
	decoder    string
	newDecoder func() telemetry.Decoder
	file       string
	whole      bool // the whole file is one record
}{
	{"transcript", Transcript, "transcript_events.jsonl", false},
	{"run", Run, "trajectory_runtime_events.jsonl", false},
	{"node", Node, "session_nodes.jsonl", false},
	{"plugin", Plugin, "plugin-hook-log.jsonl", false},
	{"agent", Agent, "agent-local-json-output.json", true},
}

func records(t testing.TB, file string, whole bool) [][]byte {
	t.Helper()
	file = filepath.Join("testdata", file)
	if !whole {
		return telemetrytest.Records(t, file)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return [][]byte{data}
}

// ocRow is a row of session s with the given event.
func ocRow(id, rest string) string {
	return fmt.Sprintf(`{"session_id":"s","seq":1,"created_at":1000,"event":{"id":%q,%s}}`, id, rest)
}

func ocUser(id, key, rest string) string {
	return ocRow(id, fmt.Sprintf(`"type":"message","message":{"role":"user","content":"hi","idempotencyKey":"%s:user"%s}`, key, rest))
}

func ocAnswer(id, run, stop, content string) string {
	return ocRow(id, fmt.Sprintf(`"type":"message","message":{"role":"assistant","content":%s,"model":"m","responseId":"resp-%s","usage":{"input":10,"cacheRead":5,"cacheWrite":1,"output":2},"stopReason":%q,"__openclaw":{"runId":%q}}`, content, id, stop, run))
}

func TestTranscript(t *testing.T) {
	usage := func(id, run, more string) string {
		return fmt.Sprintf("usage from=transcript detail=%s at=00:00:01.000 session=s turn=%s%s used=16 call=resp-%s request=%s input=10 cache_read=5 cache_write=1 output=2 model=m", id, run, more, id, run)
	}
	sig := func(kind, id, rest string) string {
		return fmt.Sprintf("%s from=transcript detail=%s at=00:00:01.000 session=s%s", kind, id, rest)
	}
	for _, c := range []struct {
		name string
		rows []string
		want []string
	}{
		{"a gateway's prompt bears the run's id",
			[]string{ocUser("u1", "r1", ""), ocAnswer("a1", "r1", "stop", "[]")},
			[]string{sig("working", "u1", ""), sig("prompt", "u1", " turn=r1"), usage("a1", "r1", ""), sig("turn_stop", "a1", " turn=r1 outcome=completed")}},
		{"a local one another, which the answer settles",
			[]string{ocUser("u1", "k1", ""), ocAnswer("a1", "r1", "stop", "[]")},
			[]string{sig("working", "u1", ""), sig("prompt", "u1", " turn=r1"), usage("a1", "r1", ""), sig("turn_stop", "a1", " turn=r1 outcome=completed")}},
		{"text typed into a running turn is not a prompt",
			[]string{ocUser("u1", "r1", ""), ocAnswer("a1", "r1", "toolUse", `[{"type":"text","text":"x"},{"type":"toolCall","id":"t1","name":"read","arguments":{"id":"no"}}]`),
				ocRow("t", `"type":"message","message":{"role":"toolResult","toolCallId":"t1","content":"x"}`),
				ocUser("u2", "k2", ""), ocAnswer("a2", "r1", "stop", "[]")},
			[]string{sig("working", "u1", ""), sig("prompt", "u1", " turn=r1"), usage("a1", "r1", ""), sig("tool_start", "a1", " turn=r1 tool=t1 name=read"),
				sig("tool_end", "t", " turn=r1 tool=t1"), sig("working", "u2", ""), usage("a2", "r1", ""), sig("turn_stop", "a2", " turn=r1 outcome=completed")}},
		{"a prompt that no run answered is reported with the next one",
			[]string{ocUser("u1", "k1", ""), ocUser("u2", "k2", "")},
			[]string{sig("working", "u1", ""), sig("prompt", "u1", " turn=k1"), sig("working", "u2", "")}},
		{"or with a reset",
			[]string{ocUser("u1", "k1", ""), ocRow("x", `"type":"reset","reason":"reset"`)},
			[]string{sig("working", "u1", ""), sig("prompt", "u1", " turn=k1"), sig("session_live", "x", " cause=clear")}},
		{"a message on a channel is the user's",
			[]string{ocUser("u1", "r1", `,"provenance":{"kind":"external_user"}`), ocAnswer("a1", "r1", "stop", "[]")},
			[]string{sig("working", "u1", ""), sig("prompt", "u1", " turn=r1"), usage("a1", "r1", ""), sig("turn_stop", "a1", " turn=r1 outcome=completed")}},
		{"another session and the harness itself are not",
			[]string{ocUser("u1", "k1", `,"provenance":{"kind":"inter_session"}`), ocAnswer("a1", "r1", "stop", "[]"),
				ocRow("x", `"type":"custom","customType":"openclaw:bootstrap-context:full","data":{"runId":"r1"}`),
				ocUser("u2", "r2", ""), ocAnswer("a2", "r2", "stop", "[]")},
			[]string{usage("a1", "r1", " side=inter_session"),
				sig("working", "u2", ""), sig("prompt", "u2", " turn=r2"), usage("a2", "r2", ""), sig("turn_stop", "a2", " turn=r2 outcome=completed")}},
		{"an error is final when the next prompt comes",
			[]string{ocUser("u1", "r1", ""), ocRow("a1", `"type":"message","message":{"role":"assistant","content":[],"usage":{"input":0},"stopReason":"error","errorMessage":"no","__openclaw":{"runId":"r1"}}`), ocUser("u2", "r2", "")},
			[]string{sig("working", "u1", ""), sig("prompt", "u1", " turn=r1"), sig("fault", "a1", " turn=r1 error=unknown"),
				sig("turn_end", "u2", " turn=r1 outcome=failed error=unknown"), sig("working", "u2", "")}},
		{"and not when the run continues",
			[]string{ocUser("u1", "r1", ""), ocAnswer("a1", "r1", "error", "[]"), ocAnswer("a2", "r1", "stop", "[]"), ocUser("u2", "r2", "")},
			[]string{sig("working", "u1", ""), sig("prompt", "u1", " turn=r1"), usage("a1", "r1", ""), sig("fault", "a1", " turn=r1 error=unknown"),
				usage("a2", "r1", ""), sig("turn_stop", "a2", " turn=r1 outcome=completed"), sig("working", "u2", "")}},
		{"it was interrupted",
			[]string{ocUser("u1", "r1", ""), ocAnswer("a1", "r1", "aborted", "[]")},
			[]string{sig("working", "u1", ""), sig("prompt", "u1", " turn=r1"), usage("a1", "r1", ""), sig("turn_end", "a1", " turn=r1 outcome=interrupted")}},
		{"a note of what was sent to a channel",
			[]string{ocRow("a1", `"type":"message","message":{"role":"assistant","provider":"openclaw","model":"delivery-mirror","content":[],"usage":{"input":0,"output":0},"stopReason":"stop"}`)},
			[]string{}},
		{"a fork has a parent",
			[]string{ocRow("s", `"type":"session","cwd":"/d","parentSession":"p"`)},
			[]string{sig("session_live", "s", " cause=fork dir=/d")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, telemetrytest.Decoded(t, Transcript, c.rows...))
		})
	}
}

func TestRuns(t *testing.T) {
	event := func(kind, data string) string {
		return fmt.Sprintf(`{"type":%q,"ts":"2026-01-02T03:04:05Z","sessionId":"s","runId":"r","modelId":"m","data":%s}`, kind, data)
	}
	sig := func(kind, detail, rest string) string {
		return fmt.Sprintf("%s from=stream detail=%s at=03:04:05.000 session=s turn=r%s", kind, detail, rest)
	}
	ended := func(data, rest string) {
		t.Helper()
		require.Equal(t, []string{sig("turn_end", "session.ended", rest)}, telemetrytest.Decoded(t, Run, event("session.ended", data)), data)
	}
	ended(`{"status":"success"}`, " outcome=completed")
	ended(`{"status":"interrupted","aborted":true}`, " outcome=interrupted")
	ended(`{"status":"error","aborted":true,"externalAbort":true}`, " outcome=interrupted")
	ended(`{"status":"error","aborted":true,"timedOut":true}`, " outcome=failed error=unknown")
	ended(`{"status":"error","idleTimedOut":true}`, " outcome=failed error=unknown")
	ended(`{"status":"error"}`, " outcome=failed error=unknown")

	d := new(run)
	require.Len(t, d.Decode([]byte(event("session.ended", `{"status":"pondered"}`))), 1)
	require.Empty(t, d.Decode([]byte(event("run.dreamt", `{}`))))
	require.Equal(t, map[string]int{"session.ended/pondered": 1, "run.dreamt": 1}, d.Unknown())

	live := "session_live from=stream detail=prompt.submitted at=03:04:05.000 session=s cause=unknown model=m"
	for _, trigger := range []string{"user", "manual"} {
		require.Equal(t, []string{sig("working", "session.started", ""), live, sig("prompt", "prompt.submitted", "")},
			telemetrytest.Decoded(t, Run, event("session.started", `{"trigger":"`+trigger+`"}`), event("prompt.submitted", `{}`)))
	}
	last := event("model.completed", `{"usage":{"input":11,"output":3},"promptCache":{"lastCallUsage":{"input":7,"output":1}},"messagesSnapshot":[{"role":"assistant","responseId":"x","usage":{"input":9},"__openclaw":{"runId":"before"}},{"truncated":true}]}`)
	for _, trigger := range []string{"heartbeat", "cron", "memory"} {
		require.Equal(t, []string{sig("usage", "model.completed", " side="+trigger+" used=7 request=r input=11 output=3 model=m")},
			telemetrytest.Decoded(t, Run, event("session.started", `{"trigger":"`+trigger+`"}`), event("trace.metadata", `{}`), event("prompt.submitted", `{}`), last, event("session.ended", `{"status":"success"}`)), trigger)
	}
	// No prompt is reported for a run that is read from its middle.
	require.Empty(t, telemetrytest.Decoded(t, Run, event("prompt.submitted", `{}`)))
}

func TestRunsReportEachCall(t *testing.T) {
	got := telemetrytest.Decoded(t, Run, `{"type":"model.completed","sessionId":"s","runId":"r","data":{"messagesSnapshot":[
		{"role":"assistant","responseId":"old","usage":{"input":9},"__openclaw":{"runId":"before"}},
		{"role":"user","content":"x"},
		{"role":"assistant","responseId":"one","usage":{"input":1,"output":2}},
		{"role":"toolResult"},
		{"role":"assistant","responseId":"two","usage":{"input":3,"output":4},"__openclaw":{"runId":"r"}}]}}`)
	require.Len(t, got, 2)
	require.Contains(t, got[0], "used=1 call=one request=r input=1 output=2")
	require.Contains(t, got[1], "used=3 call=two request=r input=3 output=4")
}

func TestNodes(t *testing.T) {
	row := func(entry string) string {
		return `{"session_key":"k","current_session_id":"s","updated_at":1000,"entry":` + entry + `}`
	}
	sig := func(kind, status, rest string) string {
		return fmt.Sprintf("%s from=store detail=%s at=00:00:01.000 session=s%s", kind, status, rest)
	}
	for status, outcome := range map[string]string{
		"done": "completed", "failed": "failed error=unknown", "killed": "interrupted", "timeout": "failed error=unknown",
	} {
		require.Equal(t, []string{sig("working", "running", " turn=r2"), sig("turn_end", status, " turn=r2 outcome="+outcome)},
			telemetrytest.Decoded(t, Node, row(`{"status":"running","lastRunId":"r1","activeWriterRunId":"r2"}`),
				row(`{"status":"`+status+`","lastRunId":"r2","activeWriterRunId":"r2"}`), row(`{"status":"`+status+`","lastRunId":"r2","label":"x"}`)), status)
	}
	require.Equal(t, []string{sig("turn_end", "done", " turn=r outcome=interrupted")},
		telemetrytest.Decoded(t, Node, row(`{"status":"done","lastRunId":"r","abortedLastRun":true}`)))
	// A token count that OpenClaw marks as stale is ignored.
	require.Equal(t, []string{"window from=store at=00:00:01.000 session=s window=200 by=reported", "usage from=store at=00:00:01.000 session=s used=50 window=200 by=reported"},
		telemetrytest.Decoded(t, Node, row(`{"totalTokens":90,"totalTokensFresh":false,"contextTokens":200}`), row(`{"totalTokens":50,"totalTokensFresh":true,"contextTokens":200}`),
			row(`{"totalTokens":50,"totalTokensFresh":true,"contextTokens":200,"label":"x"}`)))
	d := new(node)
	require.Empty(t, d.Decode([]byte(row(`{"status":"pensive","lastRunId":"r"}`))))
	require.Equal(t, map[string]int{"status/pensive": 1}, d.Unknown())
}

func TestPlugin(t *testing.T) {
	call := func(hook, event, context string) string {
		return fmt.Sprintf(`{"k":%q,"t":1000,"e":%s,"c":{"sessionId":"s"%s}}`, hook, event, context)
	}
	sig := func(kind, hook, rest string) string {
		return fmt.Sprintf("%s from=hook detail=%s at=00:00:01.000 session=s%s", kind, hook, rest)
	}
	const run = `,"runId":"r"`
	for _, c := range []struct {
		name  string
		calls []string
		want  []string
	}{
		{"interrupted", []string{call("agent_end", `{"success":false,"messages":[{"role":"assistant","stopReason":"aborted"}]}`, run)},
			[]string{sig("turn_end", "agent_end", " turn=r outcome=interrupted")}},
		{"failed", []string{call("agent_end", `{"success":false,"error":"no","messages":[{"role":"assistant","stopReason":"error"}]}`, run)},
			[]string{sig("turn_end", "agent_end", " turn=r outcome=failed error=unknown")}},
		{"a tool", []string{call("before_tool_call", `{"toolName":"read","toolCallId":"t"}`, run), call("after_tool_call", `{"toolCallId":"t"}`, run)},
			[]string{sig("tool_start", "before_tool_call", " turn=r tool=t name=read"), sig("tool_end", "after_tool_call", " turn=r tool=t")}},
		{"a call that failed", []string{call("model_call_ended", `{"outcome":"error"}`, run)},
			[]string{sig("fault", "model_call_ended", " turn=r error=unknown")}},
		{"a compaction's failed call is not the turn's", []string{call("model_call_ended", `{"outcome":"error"}`, `,"runId":"r:compaction:c"`)}, []string{}},
		{"a compaction that only began", []string{call("before_compaction", `{}`, "")}, []string{sig("compacting", "before_compaction", "")}},
		{"a session that another one follows", []string{call("session_end", `{"reason":"new","nextSessionId":"n"}`, ""), `{"k":"session_start","t":1000,"e":{"resumedFrom":"s"},"c":{"sessionId":"n"}}`},
			[]string{sig("session_gone", "session_end", " reason=new"), "session_live from=hook detail=session_start at=00:00:01.000 session=n cause=clear"}},
		{"a resumed session", []string{call("session_start", `{"resumedFrom":"s"}`, "")}, []string{sig("session_live", "session_start", " cause=resume")}},
		{"a gateway is not a session", []string{call("gateway_start", `{"port":1}`, `,"config":{"token":"secret"}`), call("gateway_stop", `{"reason":"x"}`, "")}, []string{}},
		{"a schedule's run", []string{call("agent_turn_prepare", `{}`, run+`,"trigger":"cron"`), call("model_call_started", `{"contextTokenBudget":9}`, run),
			call("agent_end", `{"success":true,"messages":[{"role":"assistant","responseId":"x","usage":{"input":1}}]}`, run+`,"trigger":"cron"`)},
			[]string{sig("usage", "agent_end", " turn=r side=cron used=1 call=x request=r input=1")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, telemetrytest.Decoded(t, Plugin, c.calls...))
		})
	}
	d := new(plugin)
	require.Empty(t, d.Decode([]byte(call("agent_dreams", `{}`, ""))))
	require.Equal(t, map[string]int{"agent_dreams": 1}, d.Unknown())
}

func TestAgent(t *testing.T) {
	result := func(meta string) string {
		return `{"meta":{"agentMeta":{"sessionId":"s","terminalReceipt":{"runId":"r"}}` + meta + `}}`
	}
	for meta, outcome := range map[string]string{
		`,"stopReason":"stop"`:                            "completed",
		`,"aborted":true`:                                 "interrupted",
		`,"stopReason":"error"`:                           "failed error=unknown",
		`,"error":{"kind":"retry_limit"},"aborted":false`: "failed error=unknown",
	} {
		got := telemetrytest.Decoded(t, Agent, result(meta), result(meta))
		require.Len(t, got, 3, "the file is read again and nothing is reported again")
		require.Equal(t, "turn_end from=stream detail=agent session=s turn=r outcome="+outcome, got[2])
	}
}

func TestUnknown(t *testing.T) {
	d := new(transcript)
	for _, r := range []string{
		`{"session_id":"s","event":null}`, `{"session_id":"s","event":{"type":"dream"}}`,
		`{"session_id":"s","event":{"type":"message","message":{"role":"oracle"}}}`, `{"session_id":"s"}`, `{`,
		`{"session_id":"s","event":{"type":"model_change"}}`,
	} {
		require.Empty(t, d.Decode([]byte(r)), r)
	}
	require.Equal(t, map[string]int{"compressed": 1, "dream": 1, "message/oracle": 1, "malformed": 2}, d.Unknown())
}

// TestSourcesAgree checks that several sources report a turn with the same id,
// so that it is one frame, and a model call with the same id, so that it is
// counted once.
func TestSourcesAgree(t *testing.T) {
	type call struct{ session, id, run string }
	prompts, ends, calls := map[string]map[string]bool{}, map[string]map[string]telemetry.Outcome{}, map[string]map[call]telemetry.Usage{}
	for _, c := range recordings {
		prompts[c.decoder], ends[c.decoder], calls[c.decoder] = map[string]bool{}, map[string]telemetry.Outcome{}, map[call]telemetry.Usage{}
		d := c.newDecoder()
		for _, record := range records(t, c.file, c.whole) {
			for _, s := range d.Decode(record) {
				switch s.Kind {
				case telemetry.Prompt:
					require.False(t, prompts[c.decoder][s.Turn], "%s reports the prompt of %s twice", c.decoder, s.Turn)
					prompts[c.decoder][s.Turn] = true
				case telemetry.TurnEnd:
					ends[c.decoder][s.Turn] = s.Outcome
				case telemetry.UsageSeen:
					if s.Usage.ID != "" {
						calls[c.decoder][call{s.Session, s.Usage.ID, s.Usage.Request}] = *s.Usage
					}
				}
			}
		}
	}
	require.Len(t, prompts["run"], 8, "8 prompts of a person, one heartbeat")
	require.Equal(t, prompts["run"], prompts["transcript"])
	require.Len(t, prompts["plugin"], 4, "the plugin was in the gateway only")
	for turn := range prompts["plugin"] {
		require.True(t, prompts["run"][turn], turn)
		require.Equal(t, ends["run"][turn], ends["plugin"][turn])
		require.Equal(t, ends["run"][turn], ends["transcript"][turn])
	}
	// The events of the run whose process got a Unix signal contain no end and no
	// model call; the transcript contains both.
	const killed = "1bc17b23-a584-4cfa-b192-c5059d25c4e9"
	require.NotContains(t, ends["run"], killed)
	require.Equal(t, telemetry.Completed, ends["transcript"][killed])
	want := maps.Clone(calls["transcript"])
	require.Len(t, want, 9, "8 turns and the heartbeat")
	delete(want, call{"74beaf6d-ff9d-484a-a2cf-ad0dc64aaf12", "chatcmpl-1", killed})
	require.Equal(t, want, calls["run"])
	require.Len(t, calls["plugin"], 5)
	for c, u := range calls["plugin"] {
		require.Equal(t, want[c], u)
	}
}
