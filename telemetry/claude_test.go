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
	after := func(record, parent string) string {
		return strings.Replace(record, `"uuid"`, `"parentUuid":"`+parent+`","uuid"`, 1)
	}
	turnB := func(record, at string) string {
		return strings.NewReplacer(`"promptId":"A"`, `"promptId":"B"`, "08:00:00", at, "08:00:02", at).Replace(record)
	}
	boundary := `{"type":"system","subtype":"compact_boundary","uuid":"c1","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s","compactMetadata":{"trigger":"auto","preTokens":9,"postTokens":1}}`
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
				`tool_start from=transcript detail=a1 at=08:00:01.000 session=s turn=A agent=ag tool=t1 name=Bash`,
				`tool_start from=transcript detail=a1 at=08:00:01.000 session=s turn=A agent=ag tool=t1 name=Bash`,
				`tool_end from=transcript detail=r1 at=08:00:01.500 session=s turn=A agent=ag tool=t1`}},
		{"a sub-agent without an id, and one whose prompt was not seen, is one all the same",
			[]string{strings.Replace(answerA, `"sessionId":"s"`, `"sessionId":"s","isSidechain":true`, 1), sub(strings.Replace(answerA, "m1", "m2", 1))},
			[]string{
				`usage from=transcript detail=a1 at=08:00:01.000 session=s agent=sidechain used=111 call=m1 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`,
				`tool_start from=transcript detail=a1 at=08:00:01.000 session=s agent=sidechain tool=t1 name=Bash`,
				`usage from=transcript detail=a1 at=08:00:01.000 session=s agent=ag used=111 call=m2 input=1 cache_read=10 cache_write=100 output=5 model=claude-x`,
				`tool_start from=transcript detail=a1 at=08:00:01.000 session=s agent=ag tool=t1 name=Bash`}},
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
			[]string{promptA, stop("invalid_request"), stop("server_error"), stop("rate_limit"), stop("unknown"), stop("billing"), stop("unknown"), stop("auth")}},
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
		{"the end of a failed turn may stand above its prompt, and the error that ended it below",
			[]string{after(endA, "x1"), typedA, `{"type":"attachment","uuid":"h","parentUuid":"u1","sessionId":"s"}`, failed(`"error":"server_error",`)},
			[]string{promptA, stop("server_error"), turnEndA}},
		{"an end whose error stands above it, too",
			[]string{after(endA, "x1"), failed(`"error":"server_error",`), typedA}, []string{promptA, stop("server_error"), turnEndA}},
		{"an end may follow a record that is told nowhere",
			[]string{after(endA, "h"), typedA, `{"type":"attachment","sessionId":"s","uuid":"h"}`}, []string{promptA, turnEndA}},
		{"the record that an end follows never came: the next prompt ends the turn",
			[]string{after(endA, "lost"), typedA, turnB(typedA, "08:00:03")},
			[]string{promptA, strings.Replace(turnEndA, " turn=A", "", 1), `prompt from=transcript detail=u1 at=08:00:03.000 session=s turn=B`}},
		{"the end of a turn may be written after the next prompt: it is not that one's",
			[]string{typedA, turnB(typedA, "08:00:03"), endA, turnB(endA, "08:00:04")},
			[]string{promptA, `prompt from=transcript detail=u1 at=08:00:03.000 session=s turn=B`, turnEndA,
				strings.NewReplacer("08:00:02", "08:00:04", "turn=A", "turn=B").Replace(turnEndA)}},
		{"a local command that is written after the next prompt ends nothing",
			[]string{turnB(typedA, "08:00:03"),
				`{"type":"user","uuid":"c","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s","promptId":"A","message":{"content":"<local-command-stdout>x</local-command-stdout>"}}`,
				`{"type":"system","subtype":"local_command","uuid":"l","timestamp":"2026-11-21T08:00:01.000Z","sessionId":"s"}`,
				turnB(endA, "08:00:04")},
			[]string{`prompt from=transcript detail=u1 at=08:00:03.000 session=s turn=B`, strings.NewReplacer("08:00:02", "08:00:04", "turn=A", "turn=B").Replace(turnEndA)}},
		{"print mode writes no end of a turn: the answer says how it went",
			[]string{typedA, strings.Replace(answerA, `"usage"`, `"stop_reason":"end_turn","usage"`, 1)}, []string{promptA, strings.Replace(usageA, "turn=A", "turn=A outcome=completed", 1), toolA}},
		{"a compaction that is read twice is one compaction",
			[]string{boundary, boundary, strings.Replace(boundary, "c1", "c2", 1), boundary},
			[]string{`compacted from=transcript detail=c1 at=08:00:01.000 session=s half=record trigger=auto before=9 after=1`,
				`compacted from=transcript detail=c2 at=08:00:01.000 session=s half=record trigger=auto before=9 after=1`}},
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

// What print mode writes and no recording shows.
func TestClaudeStreamOddities(t *testing.T) {
	const (
		begun   = `{"type":"system","subtype":"init","cwd":"/w","session_id":"s","model":"m[1m]","claude_code_version":"2.1.197","tools":["Bash"]}`
		live    = `session_live from=stream detail=init session=s model=m[1m] window=1000000 by=suffix dir=/w version=2.1.197`
		said    = `{"type":"assistant","message":{"id":"m1","model":"m","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"s","uuid":"a1"}`
		asked   = `prompt from=stream detail=a1 session=s`
		asked0  = `prompt from=stream detail=l1 session=s`
		figures = `usage from=stream detail=a1 session=s used=7 model=m[1m]`
	)
	result := func(members string) string {
		return `{"type":"result","session_id":"s","uuid":"r1",` + members + `,"result":"text"}`
	}
	limits := func(members string) string {
		return `{"type":"rate_limit_event","rate_limit_info":{` + members + `},"session_id":"s","uuid":"l1"}`
	}
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"the one object of --output-format json", []string{
			result(`"subtype":"success","is_error":false,"num_turns":1,"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":9},"modelUsage":{"m[1m]":{"inputTokens":3,"outputTokens":9,"cacheReadInputTokens":4,"cacheCreationInputTokens":0,"contextWindow":1000000}}`),
		}, []string{
			`prompt from=stream detail=r1 session=s`,
			`usage from=stream detail=r1 session=s used=7 call=r1 input=3 cache_read=4 output=9 model=m[1m] window=1000000 by=reported`,
			`turn_end from=stream detail=result:success session=s outcome=completed`,
		}},
		{"of several calls, the one object tells what they cost and not how full the context is", []string{
			result(`"subtype":"success","is_error":false,"num_turns":3,"usage":{"input_tokens":3,"output_tokens":9},"modelUsage":{}`),
		}, []string{
			`prompt from=stream detail=r1 session=s`,
			`usage from=stream detail=r1 session=s used=0 call=r1 input=3 output=9`,
			`turn_end from=stream detail=result:success session=s outcome=completed`,
		}},
		{"the one object of a failure that has the subtype of a success", []string{
			result(`"subtype":"success","is_error":true,"api_error_status":401,"num_turns":1,"usage":{"input_tokens":0,"output_tokens":0},"modelUsage":{}`),
		}, []string{
			`prompt from=stream detail=r1 session=s`,
			`turn_end from=stream detail=result:success session=s outcome=failed error=auth`,
		}},
		{"too many turns is a failure, and the word of a message is better than none", []string{
			begun, said, result(`"subtype":"error_max_turns","is_error":false,"num_turns":3`),
		}, []string{live, asked, figures, `turn_end from=stream detail=result:error_max_turns session=s outcome=failed error=unknown`}},
		{"an interrupt is told by its mark", []string{
			begun, said,
			`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]},"session_id":"s","uuid":"u"}`,
			result(`"subtype":"error_during_execution","is_error":true,"num_turns":1`),
		}, []string{live, asked, figures, `turn_end from=stream detail=result:error_during_execution session=s outcome=interrupted`}},
		{"a sub-agent's messages are its own: no prompt, no figures of the session", []string{
			begun,
			strings.Replace(said, `"parent_tool_use_id":null`, `"parent_tool_use_id":"toolu_9"`, 1),
			strings.Replace(strings.Replace(said, `{"type":"text","text":"hi"}`, `{"type":"tool_use","id":"t2","name":"Bash","input":{}}`, 1), `"parent_tool_use_id":null`, `"parent_tool_use_id":"toolu_9"`, 1),
			said,
		}, []string{live,
			`alive from=stream detail=a1 session=s agent=toolu_9`,
			`tool_start from=stream detail=a1 session=s agent=toolu_9 tool=t2 name=Bash`,
			asked, figures}},
		{"each message gives its figures once, and a retry says that the model was asked", []string{
			begun,
			`{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":30000,"error_status":429,"error":"rate_limit","session_id":"s","uuid":"y1"}`,
			`{"type":"system","subtype":"api_retry","attempt":2,"retry_delay_ms":500,"error_status":500,"error":"a_new_word","session_id":"s","uuid":"y2"}`,
			`{"type":"system","subtype":"api_retry","attempt":3,"retry_delay_ms":500,"error_status":null,"error":"unknown","session_id":"s","uuid":"y3"}`,
			said, said,
		}, []string{live,
			`prompt from=stream detail=y1 session=s`,
			`limit_wait from=stream detail=api_retry session=s error=rate_limit`,
			`limit_wait from=stream detail=api_retry session=s error=server_error`,
			`limit_wait from=stream detail=api_retry session=s error=network`,
			figures, `alive from=stream detail=a1 session=s`}},
		{"a limit that is reached says when it is lifted, and the turn that it fails", []string{
			begun, limits(`"status":"allowed"`), limits(`"status":"rejected","resetsAt":1795299999,"rateLimitType":"five_hour","isUsingOverage":false`),
			`{"type":"assistant","message":{"id":"x","model":"<synthetic>","content":[]},"session_id":"s","error":"rate_limit"}`,
			result(`"subtype":"success","is_error":true,"num_turns":1,"api_error_status":429`),
		}, []string{live, asked0, `fault from=stream detail=rate_limit_event:five_hour session=s error=rate_limit until=22:26:39.000`,
			`turn_end from=stream detail=result:success session=s outcome=failed error=rate_limit until=22:26:39.000`}},
		{"beyond a limit that is paid for, and once it is lifted, nothing waits", []string{
			begun, limits(`"status":"rejected","resetsAt":1795299999,"isUsingOverage":true`),
			limits(`"status":"rejected","resetsAt":1795299999`), limits(`"status":"allowed_warning","resetsAt":1795299999`),
			`{"type":"assistant","message":{"id":"x","model":"<synthetic>","content":[]},"session_id":"s","error":"rate_limit"}`,
			result(`"subtype":"success","is_error":true,"num_turns":1,"api_error_status":429`),
		}, []string{live, asked0, `fault from=stream detail=rate_limit_event session=s error=rate_limit until=22:26:39.000`,
			`turn_end from=stream detail=result:success session=s outcome=failed error=rate_limit`}},
		{"a session that changes without a hook to say why", []string{begun, strings.Replace(begun, `"s"`, `"s2"`, 1), strings.Replace(begun, `"s"`, `"s2"`, 1)},
			[]string{live, strings.Replace(live, "session=s ", "session=s2 cause=unknown ", 1)}},
		{"what the process cost before is not counted again", []string{
			begun, said, result(`"subtype":"success","is_error":false,"num_turns":1,"usage":{"input_tokens":3,"output_tokens":9},"modelUsage":{"m[1m]":{"inputTokens":3,"outputTokens":9},"small":{"inputTokens":5,"outputTokens":1}}`),
			result(`"subtype":"success","is_error":false,"num_turns":0,"usage":{"input_tokens":0,"output_tokens":0},"modelUsage":{"m[1m]":{"inputTokens":3,"outputTokens":9},"small":{"inputTokens":5,"outputTokens":1}}`),
		}, []string{live, asked, figures,
			`usage from=stream detail=r1 session=s used=7 call=r1 input=3 output=9 model=m[1m]`,
			`usage from=stream detail=r1 session=s side=unknown used=0 call=r1 request=beside input=5 output=1`,
			`turn_end from=stream detail=result:success session=s outcome=completed`,
			`idle from=stream detail=result:success session=s`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, told(t, "claude-stream", c.records...))
		})
	}
	d, err := NewDecoder("claude-stream")
	require.NoError(t, err)
	for _, r := range []string{`{"type":"weather"}`, `{"type":"rate_limit_event"}`, `{"type":"system","subtype":"new"}`, `{"type":"system","subtype":"status","status":"thinking"}`, `[]`, `{"type":"control_response"}`} {
		require.Empty(t, d.Decode([]byte(r)), r)
	}
	require.Equal(t, map[string]int{"weather": 1, "system/new": 1, "status/thinking": 1, "malformed": 1}, d.Unknown())
}

// The title's mark is told when it changes what it says, and its text never.
func TestClaudeTitles(t *testing.T) {
	resting, turning := `alive from=terminal detail="osc 0 resting"`, `working from=terminal detail="osc 0 turning"`
	require.Equal(t, []string{resting, turning, resting, turning},
		told(t, "claude-osc", "✳ Claude Code", "⠂ Claude Code", "⠐ Claude Code", "⠂ A title", "✳ A title", "✳ Another", "⠐ Another", ""))
	d, err := NewDecoder("claude-osc")
	require.NoError(t, err)
	for _, title := range []string{"vim", "✳", "⠂", "✳Claude", "⠋ Claude Code", "\x00", strings.Repeat("✳", 4096)} {
		require.Empty(t, d.Decode([]byte(title)), title)
	}
	require.Equal(t, map[string]int{"title": 7}, d.Unknown())
}

// A registry file says which process wrote it, as far as it says so.
func TestRegistryNamesItsProcess(t *testing.T) {
	for record, want := range map[string]string{
		`{"sessionId":"s","status":"idle","pid":7,"procStart":"89791"}`:                 `idle from=registry detail=idle session=s process=7/89791`,
		`{"sessionId":"s","status":"idle","pid":7}`:                                     `idle from=registry detail=idle session=s process=7/0`,
		`{"sessionId":"s","status":"idle","procStart":"89791"}`:                         `idle from=registry detail=idle session=s`,
		`{"sessionId":"s","status":"idle","pid":-7,"procStart":"x y"}`:                  `idle from=registry detail=idle session=s`,
		`{"sessionId":"s","kind":"x","entrypoint":"sdk-cli","pid":7,"version":"3.0.0"}`: `alive from=registry session=s version=3.0.0 process=7/0`,
	} {
		require.Equal(t, []string{want}, told(t, "claude-registry", record))
	}
}
