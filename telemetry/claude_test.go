package telemetry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Claude Code does that no recording shows, record by record.
func TestClaudeTranscriptOddities(t *testing.T) {
	sub := func(record string) string {
		return strings.Replace(record, `"sessionId":"s"`, `"sessionId":"s","isSidechain":true,"agentId":"ag"`, 1)
	}
	failed := func(members string) string {
		return `{"type":"assistant","uuid":"x1","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s","isApiErrorMessage":true,` + members +
			`"message":{"id":"z","model":"<synthetic>","content":[],"usage":{"input_tokens":0,"output_tokens":0}}}`
	}
	stop := func(kind string) string {
		return `turn_stop from=transcript detail=x1 at=08:00:01.000 session=s turn=A outcome=failed error=` + kind
	}
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"a sub-agent's calls and tools are told as its own, its prompts and errors not at all",
			[]string{typedA, sub(typedA), sub(answerA), sub(answerA),
				sub(`{"type":"user","uuid":"r1","timestamp":"2026-11-21T08:00:01.500Z","sessionId":"s","promptId":"A","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]},"toolUseResult":{"usage":{"input_tokens":77}}}`),
				sub(failed(`"error":"rate_limit",`)), sub(endA)},
			[]string{promptA,
				`usage from=transcript detail=a1 at=08:00:01.000 session=s turn=A agent=ag used=111 call=m1 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`,
				`tool_start from=transcript detail=a1 at=08:00:01.000 session=s turn=A agent=ag tool=t1`,
				`tool_start from=transcript detail=a1 at=08:00:01.000 session=s turn=A agent=ag tool=t1`,
				`tool_end from=transcript detail=r1 at=08:00:01.500 session=s turn=A agent=ag tool=t1`}},
		{"a sub-agent without an id, and one whose prompt was not seen, is one all the same",
			[]string{strings.Replace(answerA, `"sessionId":"s"`, `"sessionId":"s","isSidechain":true`, 1), sub(strings.Replace(answerA, "m1", "m2", 1))},
			[]string{
				`usage from=transcript detail=a1 at=08:00:01.000 session=s agent=sidechain used=111 call=m1 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`,
				`tool_start from=transcript detail=a1 at=08:00:01.000 session=s agent=sidechain tool=t1`,
				`usage from=transcript detail=a1 at=08:00:01.000 session=s agent=ag used=111 call=m2 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`,
				`tool_start from=transcript detail=a1 at=08:00:01.000 session=s agent=ag tool=t1`}},
		{"what a sub-agent's result says it used is not counted, for its own file says it",
			[]string{`{"type":"user","uuid":"r1","timestamp":"2026-11-21T08:00:01.500Z","sessionId":"s","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]},"toolUseResult":{"agentId":"ag","totalTokens":6100,"usage":{"input_tokens":0,"cache_read_input_tokens":6000,"output_tokens":100}}}`},
			[]string{`tool_end from=transcript detail=r1 at=08:00:01.500 session=s tool=t1`}},
		{"one message asked for twice is two calls",
			[]string{typedA, strings.Replace(answerA, `"uuid":"a1"`, `"uuid":"a1","requestId":"R1"`, 1), strings.Replace(answerA, `"uuid":"a1"`, `"uuid":"a1","requestId":"R2"`, 1)},
			[]string{promptA, strings.Replace(usageA, "call=m1", "call=m1 request=R1", 1), toolA, strings.Replace(usageA, "call=m1", "call=m1 request=R2", 1), toolA}},
		{"a later line with a smaller output is no news",
			[]string{typedA, answerA, strings.Replace(answerA, `"output_tokens":5`, `"output_tokens":1`, 1)}, []string{promptA, usageA, toolA, toolA}},
		{"the status of a failed request says what `unknown` does not",
			[]string{typedA, failed(`"error":"unknown","apiErrorStatus":400,`), failed(`"error":"unknown","apiErrorStatus":503,`), failed(`"error":"a_new_word","apiErrorStatus":429,`),
				failed(`"error":"unknown",`), failed(`"error":"billing_error","apiErrorStatus":400,`), failed(`"error":"max_output_tokens",`), failed(`"error":"oauth_org_not_allowed",`)},
			[]string{promptA, stop("invalid_request"), stop("server_error"), stop("rate_limit"), stop("unknown"), stop("quota"), stop("unknown"), stop("auth")}},
		{"text typed during a tool is delivered in the running turn: no prompt",
			[]string{typedA, answerA,
				`{"type":"queue-operation","operation":"enqueue","content":"and this","sessionId":"s"}`,
				`{"type":"attachment","attachment":{"type":"queued_command","prompt":"and this"},"uuid":"q","sessionId":"s"}`,
				endA},
			[]string{promptA, usageA, toolA, turnEndA}},
		{"`! cmd`: the model answers and the turn ends, but nobody prompted it",
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
		{"a compaction that failed leaves no record, and none is told",
			[]string{typedA, `{"type":"system","subtype":"informational","content":"Not enough messages to compact.","uuid":"i","sessionId":"s"}`, answerA, endA},
			[]string{promptA, usageA, toolA, turnEndA}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, told(t, "claude-transcript", c.records...))
		})
	}
}

// Repeated lines of one call are one usage, however many calls lie between, up
// to the bound that is promised.
func TestRepeatedCallsAreOneCall(t *testing.T) {
	d, err := NewDecoder("claude-transcript")
	require.NoError(t, err)
	call := func(n int) int {
		line := fmt.Appendf(nil, `{"message":{"id":"m%d","model":"x","usage":{"input_tokens":1,"output_tokens":5}},"type":"assistant","uuid":"a","sessionId":"s","requestId":"r%d"}`, n, n)
		return len(d.Decode(line))
	}
	for n := range callsKept {
		require.Equal(t, 1, call(n), n)
	}
	for n := range callsKept {
		require.Zero(t, call(n), "call %d, repeated after %d others", n, callsKept)
	}
	for n := callsKept; n < 10*callsKept; n++ {
		call(n)
	}
	kept := &d.(*claudeTranscript).calls
	require.LessOrEqual(t, len(kept.newer)+len(kept.older), 2*callsKept, "memory is bounded")
	require.Zero(t, call(10*callsKept-1))
	require.Equal(t, 1, call(0), "what lies that far back is forgotten")
}
