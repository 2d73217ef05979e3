package claude

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

func transcriptSub(record string) string {
	return strings.Replace(record, `"sessionId":"s"`, `"sessionId":"s","isSidechain":true,"agentId":"ag"`, 1)
}

func transcriptFailed(members string) string {
	return `{"type":"assistant","uuid":"x1","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s","isApiErrorMessage":true,` + members +
		`"message":{"id":"z","model":"<synthetic>","content":[],"usage":{"input_tokens":0,"output_tokens":0}}}`
}

func transcriptStop(kind string) string {
	return `turn_stop from=transcript detail=x1 at=08:00:01.000 session=s turn=A outcome=failed error=` + kind
}

func transcriptAfter(record, parent string) string {
	return strings.Replace(record, `"uuid"`, `"parentUuid":"`+parent+`","uuid"`, 1)
}

func transcriptTurnB(record, at string) string {
	return strings.NewReplacer(`"promptId":"A"`, `"promptId":"B"`, "08:00:00", at, "08:00:02", at).Replace(record)
}

const transcriptBoundary = `{"type":"system","subtype":"compact_boundary","uuid":"c1","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s","compactMetadata":{"trigger":"auto","preTokens":9,"postTokens":1}}`

var transcriptOddities = []telemetrytest.Story{
	{"a sub-agent's calls and tools are its own, its prompts and errors are not reported",
		[]string{typedA, transcriptSub(typedA), transcriptSub(answerA), transcriptSub(answerA),
			transcriptSub(`{"type":"user","uuid":"r1","timestamp":"2026-11-21T08:00:01.500Z","sessionId":"s","promptId":"A","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]},"toolUseResult":{"usage":{"input_tokens":77}}}`),
			transcriptSub(transcriptFailed(`"error":"rate_limit",`)), transcriptSub(endA)},
		[]string{promptA,
			`usage from=transcript detail=a1 at=08:00:01.000 session=s turn=A agent=ag used=111 call=m1 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`,
			`tool_start from=transcript detail=a1 at=08:00:01.000 session=s turn=A agent=ag tool=t1 name=Bash`,
			`tool_start from=transcript detail=a1 at=08:00:01.000 session=s turn=A agent=ag tool=t1 name=Bash`,
			`tool_end from=transcript detail=r1 at=08:00:01.500 session=s turn=A agent=ag tool=t1`}},
	{"a sub-agent without an id, and one without its prompt",
		[]string{strings.Replace(answerA, `"sessionId":"s"`, `"sessionId":"s","isSidechain":true`, 1), transcriptSub(strings.Replace(answerA, "m1", "m2", 1))},
		[]string{
			`usage from=transcript detail=a1 at=08:00:01.000 session=s agent=sidechain used=111 call=m1 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`,
			`tool_start from=transcript detail=a1 at=08:00:01.000 session=s agent=sidechain tool=t1 name=Bash`,
			`usage from=transcript detail=a1 at=08:00:01.000 session=s agent=ag used=111 call=m2 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`,
			`tool_start from=transcript detail=a1 at=08:00:01.000 session=s agent=ag tool=t1 name=Bash`}},
	{"the usage in a sub-agent's result is not counted: its own file has it",
		[]string{`{"type":"user","uuid":"r1","timestamp":"2026-11-21T08:00:01.500Z","sessionId":"s","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]},"toolUseResult":{"agentId":"ag","totalTokens":6100,"usage":{"input_tokens":0,"cache_read_input_tokens":6000,"output_tokens":100}}}`},
		[]string{`tool_end from=transcript detail=r1 at=08:00:01.500 session=s tool=t1`}},
	{"one message asked for twice is two calls",
		[]string{typedA, strings.Replace(answerA, `"uuid":"a1"`, `"uuid":"a1","requestId":"R1"`, 1), strings.Replace(answerA, `"uuid":"a1"`, `"uuid":"a1","requestId":"R2"`, 1)},
		[]string{promptA, strings.Replace(usageA, "call=m1", "call=m1 request=R1", 1), toolA, strings.Replace(usageA, "call=m1", "call=m1 request=R2", 1), toolA}},
	{"a later line with a smaller output is not reported",
		[]string{typedA, answerA, strings.Replace(answerA, `"output_tokens":5`, `"output_tokens":1`, 1)}, []string{promptA, usageA, toolA, toolA}},
	{"the status of a failed request explains `unknown`",
		[]string{typedA, transcriptFailed(`"error":"unknown","apiErrorStatus":400,`), transcriptFailed(`"error":"unknown","apiErrorStatus":503,`), transcriptFailed(`"error":"a_new_word","apiErrorStatus":429,`),
			transcriptFailed(`"error":"unknown",`), transcriptFailed(`"error":"billing_error","apiErrorStatus":400,`), transcriptFailed(`"error":"max_output_tokens",`), transcriptFailed(`"error":"oauth_org_not_allowed",`)},
		[]string{promptA, transcriptStop("invalid_request"), transcriptStop("server_error"), transcriptStop("rate_limit"), transcriptStop("unknown"), transcriptStop("billing"), transcriptStop("unknown"), transcriptStop("auth")}},
	{"text typed during a tool is delivered in the running turn: no prompt",
		[]string{typedA, answerA,
			`{"type":"queue-operation","operation":"enqueue","content":"and this","sessionId":"s"}`,
			`{"type":"attachment","attachment":{"type":"queued_command","prompt":"and this"},"uuid":"q","sessionId":"s"}`,
			endA},
		[]string{promptA, usageA, toolA, turnEndA}},
	{"`! cmd`: the model answers and the turn ends, without a prompt",
		[]string{
			`{"type":"user","uuid":"b1","timestamp":"2026-11-21T08:00:00.000Z","sessionId":"s","promptId":"A","message":{"content":"<bash-input>ls</bash-input>"}}`,
			`{"type":"user","uuid":"b2","timestamp":"2026-11-21T08:00:00.500Z","sessionId":"s","promptId":"A","message":{"content":"<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>"}}`,
			answerA, endA},
		[]string{usageA, toolA, turnEndA}},
	{"a hook that says continue:false ends the turn without a stop",
		[]string{typedA, answerA,
			`{"type":"attachment","attachment":{"type":"hook_stopped_continuation","message":"no more"},"uuid":"h","sessionId":"s"}`,
			endA},
		[]string{promptA, usageA, toolA, turnEndA}},
	{"Esc before the first byte leaves no mark; the next prompt is another turn",
		[]string{typedA, strings.NewReplacer(`"promptId":"A"`, `"promptId":"B"`, `"u1"`, `"u2"`).Replace(typedA)},
		[]string{promptA, `prompt from=transcript detail=u2 at=08:00:00.000 session=s turn=B`}},
	{"a prompt that a hook refused", []string{typedA,
		`{"type":"system","subtype":"informational","content":"blocked","uuid":"i","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s"}`}, []string{promptA}},
	{"the end of a failed turn may stand above its prompt, and the error that ended it below",
		[]string{transcriptAfter(endA, "x1"), typedA, `{"type":"attachment","uuid":"h","parentUuid":"u1","sessionId":"s"}`, transcriptFailed(`"error":"server_error",`)},
		[]string{promptA, transcriptStop("server_error"), turnEndA}},
	{"an end whose error precedes it",
		[]string{transcriptAfter(endA, "x1"), transcriptFailed(`"error":"server_error",`), typedA}, []string{promptA, transcriptStop("server_error"), turnEndA}},
	{"an end may follow a record without signals",
		[]string{transcriptAfter(endA, "h"), typedA, `{"type":"attachment","sessionId":"s","uuid":"h"}`}, []string{promptA, turnEndA}},
	{"the record that an end follows never came: the next prompt ends the turn",
		[]string{transcriptAfter(endA, "lost"), typedA, transcriptTurnB(typedA, "08:00:03")},
		[]string{promptA, strings.Replace(turnEndA, " turn=A", "", 1), `prompt from=transcript detail=u1 at=08:00:03.000 session=s turn=B`}},
	{"the end of a turn may be written after the next prompt: it is not that one's",
		[]string{typedA, transcriptTurnB(typedA, "08:00:03"), endA, transcriptTurnB(endA, "08:00:04")},
		[]string{promptA, `prompt from=transcript detail=u1 at=08:00:03.000 session=s turn=B`, turnEndA,
			strings.NewReplacer("08:00:02", "08:00:04", "turn=A", "turn=B").Replace(turnEndA)}},
	{"a local command that is written after the next prompt ends nothing",
		[]string{transcriptTurnB(typedA, "08:00:03"),
			`{"type":"user","uuid":"c","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s","promptId":"A","message":{"content":"<local-command-stdout>x</local-command-stdout>"}}`,
			`{"type":"system","subtype":"local_command","uuid":"l","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s"}`,
			transcriptTurnB(endA, "08:00:04")},
		[]string{`prompt from=transcript detail=u1 at=08:00:03.000 session=s turn=B`, strings.NewReplacer("08:00:02", "08:00:04", "turn=A", "turn=B").Replace(turnEndA)}},
	{"print mode writes no end of a turn: the answer says how it went",
		[]string{typedA, strings.Replace(answerA, `"usage"`, `"stop_reason":"end_turn","usage"`, 1)}, []string{promptA, strings.Replace(usageA, "turn=A", "turn=A outcome=completed", 1), toolA}},
	{"a compaction that is read twice is one compaction",
		[]string{transcriptBoundary, transcriptBoundary, strings.Replace(transcriptBoundary, "c1", "c2", 1), transcriptBoundary},
		[]string{`compacted from=transcript detail=c1 at=08:00:01.000 session=s half=record trigger=auto before=9 after=1`,
			`compacted from=transcript detail=c2 at=08:00:01.000 session=s half=record trigger=auto before=9 after=1`}},
	{"a failed compaction leaves no record and is not reported",
		[]string{typedA, `{"type":"system","subtype":"informational","content":"Not enough messages to compact.","uuid":"i","sessionId":"s"}`, answerA, endA},
		[]string{promptA, usageA, toolA, turnEndA}},
}

// Records that Claude Code may write but that no recording contains.
func TestTranscriptOddities(t *testing.T) {
	telemetrytest.RunStories(t, Transcript, transcriptOddities)
}

// Lines of one call's answer repeat its usage: it is reported once.
func TestRepeatedUsageIsReportedOnce(t *testing.T) {
	d := Transcript()
	call := func(n int) int {
		line := fmt.Appendf(nil, `{"message":{"id":"m%d","model":"x","usage":{"input_tokens":1,"output_tokens":5}},"type":"assistant","uuid":"a","sessionId":"s","requestId":"r%d"}`, n, n)
		return len(d.Decode(line))
	}
	for n := range 1000 {
		require.Equal(t, 1, call(n), n)
	}
	for n := range 1000 {
		require.Zero(t, call(n), n)
	}
}

// BenchmarkTranscript decodes a tool turn with texts of realistic length.
func BenchmarkTranscript(b *testing.B) {
	long := strings.Repeat(`some output of a tool, with \"quotes\" and\nlines `, 100)
	var data [][]byte
	size := 0
	for _, r := range telemetrytest.Records(b, filepath.Join("testdata", "transcripts", "tool_turn.jsonl")) {
		r = bytes.ReplaceAll(r, []byte(`"hi"`), []byte(`"`+long+`"`))
		data = append(data, r)
		size += len(r)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	d := Transcript()
	for b.Loop() {
		for _, r := range data {
			d.Decode(r)
		}
	}
}

// Lines of a Claude transcript that are not in the recordings, with only the
// members that the decoder reads.
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

func TestTranscriptStories(t *testing.T) {
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
		{"usage is reported once per call, and again when its output has grown",
			[]string{typedA, answerA, answerA, strings.Replace(answerA, `"output_tokens":5`, `"output_tokens":9`, 1)},
			[]string{promptA, usageA, toolA, toolA, strings.Replace(usageA, "output=5", "output=9", 1), toolA}},
		{"a prompt with a picture", []string{strings.Replace(typedA, `"do it"`, `[{"type":"text","text":"see"},{"type":"image","source":{}}]`, 1)}, []string{promptA}},
		{"a queued and a print mode prompt",
			[]string{strings.Replace(typedA, "typed", "queued", 1), strings.Replace(strings.Replace(typedA, "typed", "sdk", 1), `"origin":{"kind":"human"},`, "", 1)},
			[]string{promptA, promptA}},
		{"records that Claude Code writes in the user's name are not prompts",
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
		{"turns that Claude Code opens by itself have an origin",
			[]string{
				strings.Replace(typedA, `"promptSource":"typed"`, `"promptSource":"system","turnOrigin":"task_notification"`, 1),
				strings.Replace(typedA, `"promptSource":"typed"`, `"promptSource":"system","turnOrigin":"scheduled"`, 1),
				strings.Replace(typedA, `"promptSource":"typed"`, `"isMeta":true,"turnOrigin":"peer"`, 1),
				strings.Replace(typedA, `"promptSource":"typed"`, `"promptSource":"sdk","turnOrigin":"sdk"`, 1),
			},
			[]string{promptA + " origin=harness", promptA + " origin=schedule", promptA + " origin=peer", promptA}},
		{"an id that is not an id is dropped",
			[]string{strings.NewReplacer(`"uuid":"u1"`, `"uuid":"`+strings.Repeat("u", 300)+`"`, `"sessionId":"s"`, `"sessionId":"a\nb"`).Replace(typedA)},
			[]string{`prompt from=transcript at=08:00:00.000 turn=A`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, telemetrytest.Decoded(t, Transcript, c.records...))
		})
	}
}

func TestUnknownRecordsAreCounted(t *testing.T) {
	d := Transcript()
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
	require.Len(t, d.Unknown(), telemetry.MaxTypes+1)
}
