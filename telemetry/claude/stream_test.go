package claude

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry/telemetrytest"
)

const (
	streamBegun   = `{"type":"system","subtype":"init","cwd":"/w","session_id":"s","model":"m[1m]","claude_code_version":"2.1.197","tools":["Bash"]}`
	streamLive    = `session_live from=stream detail=init session=s model=m[1m] window=1000000 by=suffix dir=/w version=2.1.197`
	streamSaid    = `{"type":"assistant","message":{"id":"m1","model":"m","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"s","uuid":"a1"}`
	streamAsked   = `prompt from=stream detail=a1 session=s`
	streamAsked0  = `prompt from=stream detail=l1 session=s`
	streamFigures = `usage from=stream detail=a1 session=s used=7 model=m[1m]`
)

func streamResult(members string) string {
	return `{"type":"result","session_id":"s","uuid":"r1",` + members + `,"result":"text"}`
}

func streamLimits(members string) string {
	return `{"type":"rate_limit_event","rate_limit_info":{` + members + `},"session_id":"s","uuid":"l1"}`
}

var streamStories = []telemetrytest.Story{
	{"the one object of --output-format json", []string{
		streamResult(`"subtype":"success","is_error":false,"num_turns":1,"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":9},"modelUsage":{"m[1m]":{"inputTokens":3,"outputTokens":9,"cacheReadInputTokens":4,"cacheCreationInputTokens":0,"contextWindow":1000000}}`),
	}, []string{
		`prompt from=stream detail=r1 session=s`,
		`usage from=stream detail=r1 session=s used=7 call=r1 input=3 cache_read=4 output=9 model=m[1m] window=1000000 by=reported`,
		`turn_end from=stream detail=result:success session=s outcome=completed`,
	}},
	{"the one object has the cost of several calls and not the context", []string{
		streamResult(`"subtype":"success","is_error":false,"num_turns":3,"usage":{"input_tokens":3,"output_tokens":9},"modelUsage":{}`),
	}, []string{
		`prompt from=stream detail=r1 session=s`,
		`usage from=stream detail=r1 session=s used=0 call=r1 input=3 output=9`,
		`turn_end from=stream detail=result:success session=s outcome=completed`,
	}},
	{"the one object of a failure that has the subtype of a success", []string{
		streamResult(`"subtype":"success","is_error":true,"api_error_status":401,"num_turns":1,"usage":{"input_tokens":0,"output_tokens":0},"modelUsage":{}`),
	}, []string{
		`prompt from=stream detail=r1 session=s`,
		`turn_end from=stream detail=result:success session=s outcome=failed error=auth`,
	}},
	{"too many turns is a failure, with the cause of a message", []string{
		streamBegun, streamSaid, streamResult(`"subtype":"error_max_turns","is_error":false,"num_turns":3`),
	}, []string{streamLive, streamAsked, streamFigures, `turn_end from=stream detail=result:error_max_turns session=s outcome=failed error=unknown`}},
	{"the mark of an interrupt", []string{
		streamBegun, streamSaid,
		`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]},"session_id":"s","uuid":"u"}`,
		streamResult(`"subtype":"error_during_execution","is_error":true,"num_turns":1`),
	}, []string{streamLive, streamAsked, streamFigures, `turn_end from=stream detail=result:error_during_execution session=s outcome=interrupted`}},
	{"a sub-agent's messages are its own: no prompt, no figures of the session", []string{
		streamBegun,
		strings.Replace(streamSaid, `"parent_tool_use_id":null`, `"parent_tool_use_id":"toolu_9"`, 1),
		strings.Replace(strings.Replace(streamSaid, `{"type":"text","text":"hi"}`, `{"type":"tool_use","id":"t2","name":"Bash","input":{}}`, 1), `"parent_tool_use_id":null`, `"parent_tool_use_id":"toolu_9"`, 1),
		streamSaid,
	}, []string{streamLive,
		`alive from=stream detail=a1 session=s agent=toolu_9`,
		`tool_start from=stream detail=a1 session=s agent=toolu_9 tool=t2 name=Bash`,
		streamAsked, streamFigures}},
	{"each message gives its figures once, and a retry says that the model was asked", []string{
		streamBegun,
		`{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":30000,"error_status":429,"error":"rate_limit","session_id":"s","uuid":"y1"}`,
		`{"type":"system","subtype":"api_retry","attempt":2,"retry_delay_ms":500,"error_status":500,"error":"a_new_word","session_id":"s","uuid":"y2"}`,
		`{"type":"system","subtype":"api_retry","attempt":3,"retry_delay_ms":500,"error_status":null,"error":"unknown","session_id":"s","uuid":"y3"}`,
		streamSaid, streamSaid,
	}, []string{streamLive,
		`prompt from=stream detail=y1 session=s`,
		`limit_wait from=stream detail=api_retry session=s error=rate_limit`,
		`limit_wait from=stream detail=api_retry session=s error=server_error`,
		`limit_wait from=stream detail=api_retry session=s error=network`,
		streamFigures, `alive from=stream detail=a1 session=s`}},
	{"a limit that is reached says when it is lifted, and the turn that it fails", []string{
		streamBegun, streamLimits(`"status":"allowed"`), streamLimits(`"status":"rejected","resetsAt":1795299999,"rateLimitType":"five_hour","isUsingOverage":false`),
		`{"type":"assistant","message":{"id":"x","model":"<synthetic>","content":[]},"session_id":"s","error":"rate_limit"}`,
		streamResult(`"subtype":"success","is_error":true,"num_turns":1,"api_error_status":429`),
	}, []string{streamLive, streamAsked0, `fault from=stream detail=rate_limit_event:five_hour session=s error=rate_limit until=22:26:39.000`,
		`turn_end from=stream detail=result:success session=s outcome=failed error=rate_limit until=22:26:39.000`}},
	{"beyond a limit that is paid for, and once it is lifted, nothing waits", []string{
		streamBegun, streamLimits(`"status":"rejected","resetsAt":1795299999,"isUsingOverage":true`),
		streamLimits(`"status":"rejected","resetsAt":1795299999`), streamLimits(`"status":"allowed_warning","resetsAt":1795299999`),
		`{"type":"assistant","message":{"id":"x","model":"<synthetic>","content":[]},"session_id":"s","error":"rate_limit"}`,
		streamResult(`"subtype":"success","is_error":true,"num_turns":1,"api_error_status":429`),
	}, []string{streamLive, streamAsked0, `fault from=stream detail=rate_limit_event session=s error=rate_limit until=22:26:39.000`,
		`turn_end from=stream detail=result:success session=s outcome=failed error=rate_limit`}},
	{"a session that changes without a hook to say why", []string{streamBegun, strings.Replace(streamBegun, `"s"`, `"s2"`, 1), strings.Replace(streamBegun, `"s"`, `"s2"`, 1)},
		[]string{streamLive, strings.Replace(streamLive, "session=s ", "session=s2 cause=unknown ", 1)}},
	{"what the process cost before is not counted again", []string{
		streamBegun, streamSaid, streamResult(`"subtype":"success","is_error":false,"num_turns":1,"usage":{"input_tokens":3,"output_tokens":9},"modelUsage":{"m[1m]":{"inputTokens":3,"outputTokens":9},"small":{"inputTokens":5,"outputTokens":1}}`),
		streamResult(`"subtype":"success","is_error":false,"num_turns":0,"usage":{"input_tokens":0,"output_tokens":0},"modelUsage":{"m[1m]":{"inputTokens":3,"outputTokens":9},"small":{"inputTokens":5,"outputTokens":1}}`),
	}, []string{streamLive, streamAsked, streamFigures,
		`usage from=stream detail=r1 session=s used=7 call=r1 input=3 output=9 model=m[1m]`,
		`usage from=stream detail=r1 session=s side=unknown used=0 call=r1 request=beside input=5 output=1`,
		`turn_end from=stream detail=result:success session=s outcome=completed`,
		`idle from=stream detail=result:success session=s`}},
}

// Output that print mode may write but that no recording contains.
func TestStreamOddities(t *testing.T) {
	telemetrytest.RunStories(t, Stream, streamStories)
	d := Stream()
	for _, r := range []string{`{"type":"weather"}`, `{"type":"rate_limit_event"}`, `{"type":"system","subtype":"new"}`, `{"type":"system","subtype":"status","status":"thinking"}`, `[]`, `{"type":"control_response"}`} {
		require.Empty(t, d.Decode([]byte(r)), r)
	}
	require.Equal(t, map[string]int{"weather": 1, "system/new": 1, "status/thinking": 1, "malformed": 1}, d.Unknown())
}
