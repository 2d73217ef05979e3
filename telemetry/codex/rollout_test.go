package codex

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

// Codex numbers its records without gaps, so a gap means that records are
// missing.
func TestOrdinals(t *testing.T) {
	for _, c := range []struct {
		name     string
		ordinals []any
		want     []string
	}{
		{"dense", []any{0, 1, 2, 3}, nil},
		{"from the middle of a resumed file", []any{40, 41, 42}, nil},
		{"one lost", []any{0, 1, 3, 4}, []string{"2-2"}},
		{"several lost, twice", []any{5, 9, 10, 12}, []string{"6-8", "11-11"}},
		{"repeated", []any{0, 1, 2, 1, 2, 3}, nil},
		{"a record without a number says nothing of the next", []any{0, nil, 7, 8}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Rollout()
			var got []string
			for _, n := range c.ordinals {
				record := `{"timestamp":"2026-01-02T03:04:05.000Z","type":"turn_context","payload":{}}`
				if n != nil {
					record = fmt.Sprintf(`{"timestamp":"2026-01-02T03:04:05.000Z","ordinal":%d,"type":"turn_context","payload":{}}`, n)
				}
				for _, s := range d.Decode([]byte(record)) {
					require.Equal(t, telemetry.Gap, s.Kind)
					got = append(got, fmt.Sprintf("%d-%d", s.Missing[0], s.Missing[1]))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// The ordinals of a file that replaces another one need not continue those of the other:
// its first ordinal may be any number.
func TestOrdinalsOfAReplacedFile(t *testing.T) {
	meta := func(n int, id string) string {
		return fmt.Sprintf(`{"ordinal":%d,"type":"session_meta","payload":{"id":%q}}`, n, id)
	}
	rest := func(n int) string { return fmt.Sprintf(`{"ordinal":%d,"type":"world_state","payload":{}}`, n) }
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"by a longer one", []string{meta(0, "a"), rest(1), meta(7, "b"), rest(8)}, nil},
		{"by a shorter one", []string{meta(24, "a"), rest(25), meta(0, "b"), rest(1), rest(3)}, []string{"2-2"}},
		{"by itself", []string{meta(0, "a"), rest(1), rest(2), meta(0, "a"), rest(1), rest(2), rest(3)}, nil},
		{"cut behind its second line", []string{meta(24, "a"), rest(25), rest(27)}, []string{"26-26"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Rollout()
			var got []string
			for _, record := range c.records {
				for _, s := range d.Decode([]byte(record)) {
					if s.Kind == telemetry.Gap {
						got = append(got, fmt.Sprintf("%d-%d", s.Missing[0], s.Missing[1]))
					}
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// A repeated record is not reported again. A record with the same ordinal but another
// time belongs to a rewritten history, so it is reported.
func TestRewrittenHistory(t *testing.T) {
	meta := `{"timestamp":"2026-01-02T03:04:05.000Z","ordinal":0,"type":"session_meta","payload":{"id":"a"}}`
	compacted := `{"timestamp":"2026-01-02T03:04:06.000Z","ordinal":1,"type":"compacted","payload":{}}`
	younger := strings.Replace(compacted, "04:06", "05:06", 1)
	got := telemetrytest.Decoded(t, Rollout, meta, compacted, meta, compacted, meta, younger)
	require.Equal(t, []string{
		`session_live from=rollout detail="ordinal 0" at=03:04:05.000 session=a cause=startup`,
		`compacted from=rollout detail="ordinal 1" at=03:04:06.000 session=a half=record trigger=unknown`,
		`compacted from=rollout detail="ordinal 1" at=03:05:06.000 session=a half=record trigger=unknown`}, got)
}

// The purpose of a model call is shown by a later record. If an unknown record comes
// first, the decoder waits for the next one.
func TestUnknownRecordBeforeACompaction(t *testing.T) {
	call := `{"timestamp":"2026-01-02T03:04:05.000Z","type":"token_usage_record","payload":{"thread_id":"a","turn_id":"t","response_id":"r","usage":{"input_tokens":9,"output_tokens":1,"total_tokens":10}}}`
	for _, unknown := range []string{`{"type":"of_a_later_version","payload":{}}`, `{"type":"event_msg","payload":{"type":"of_a_later_version"}}`, `{`} {
		got := telemetrytest.Decoded(t, Rollout, call, unknown, `{"timestamp":"2026-01-02T03:04:06.000Z","type":"compacted","payload":{"compaction_response_id":"r"}}`)
		require.Equal(t, []string{
			`usage from=rollout at=03:04:05.000 session=a turn=t side=compaction used=10 call=r request=t input=9 output=1`,
			`compacted from=rollout at=03:04:06.000 session=a turn=t half=record trigger=unknown`}, got, unknown)
	}
}

// Records of versions that write no record for each call, and of newer versions
// that do.
const (
	meta    = `{"timestamp":"2026-01-02T03:04:00.000Z","type":"session_meta","payload":{"id":"s","cwd":"/p","cli_version":"0.98.0","source":"cli"}}`
	fork    = `{"timestamp":"2026-01-02T03:04:00.000Z","type":"session_meta","payload":{"id":"s","forked_from_id":"o","source":"cli"}}`
	answer  = `{"timestamp":"2026-01-02T03:04:04.000Z","type":"event_msg","payload":{"type":"agent_message","message":"hello"}}`
	tool    = `{"timestamp":"2026-01-02T03:04:04.000Z","type":"response_item","payload":{"type":"function_call","call_id":"c"}}`
	rewrote = `{"timestamp":"2026-01-02T03:04:30.000Z","type":"compacted","payload":{"message":"sum"}}`
)

// count returns a token_count record at a second of a minute, with the totals
// and then the last call.
func count(second, input, cached, output, lastInput, lastCached, lastOutput int) string {
	tokens := func(i, c, o int) string {
		return fmt.Sprintf(`{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d,"reasoning_output_tokens":0,"total_tokens":%d}`, i, c, o, i+o)
	}
	return fmt.Sprintf(`{"timestamp":"2026-01-02T03:04:%02d.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":%s,"last_token_usage":%s,"model_context_window":1000},"rate_limits":null}}`,
		second, tokens(input, cached, output), tokens(lastInput, lastCached, lastOutput))
}

func TestUsages(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []string
		want    []string // separated by slashes: side, id, used, input, cache read, output
	}{
		{"each step of the total is a call", []string{meta, answer, count(5, 100, 40, 10, 100, 40, 10), tool, count(6, 300, 140, 30, 200, 100, 20)},
			[]string{"/total 110/110/60/40/10", "/total 330/220/100/100/20"}},
		{"a repeated total is not a call", []string{meta, answer, count(5, 100, 0, 10, 100, 0, 10), count(5, 100, 0, 10, 100, 0, 10), count(6, 100, 0, 10, 100, 0, 10)},
			[]string{"/total 110/110/100/0/10"}},
		{"a file that is read from its middle begins with a total that is not ours", []string{answer, count(5, 900, 0, 90, 100, 0, 10), answer, count(6, 1000, 0, 100, 100, 0, 10)},
			[]string{"//110/0/0/0", "/total 1100/110/100/0/10"}},
		{"so does one that is read behind its first call", []string{answer, count(5, 100, 0, 10, 100, 0, 10), answer, count(6, 150, 0, 20, 50, 0, 10)},
			[]string{"//110/0/0/0", "/total 170/60/50/0/10"}},
		{"so does a fork into which its origin was copied", []string{fork, count(0, 100, 0, 10, 100, 0, 10), count(0, 300, 0, 30, 200, 0, 20), answer, count(9, 700, 0, 70, 400, 0, 40)},
			[]string{"//110/0/0/0", "//220/0/0/0", "/total 770/440/400/0/40"}},
		{"a total that falls begins a new count", []string{meta, answer, count(5, 900, 0, 90, 900, 0, 90), answer, count(6, 100, 0, 10, 100, 0, 10), answer, count(7, 200, 0, 20, 100, 0, 10)},
			[]string{"/total 990/990/900/0/90", "/total 110/110/100/0/10", "/total 220/110/100/0/10"}},
		{"the call of a compaction is beside the main chain, and the estimate is not a call",
			[]string{meta, answer, count(5, 100, 0, 10, 100, 0, 10), count(29, 130, 0, 15, 30, 0, 5), rewrote, count(30, 130, 0, 15, 0, 0, 0), answer, count(40, 150, 0, 20, 20, 0, 5)},
			[]string{"/total 110/110/100/0/10", "compaction/total 145/35/30/0/5", "/total 170/25/20/0/5"}},
		{"a record counts, and not the total as well", []string{`{"ordinal":0,"type":"session_meta","payload":{"id":"s"}}`, answer,
			`{"ordinal":1,"type":"token_usage_record","payload":{"thread_id":"s","session_id":"s","turn_id":"t","response_id":"r","usage":{"input_tokens":100,"cached_input_tokens":30,"cache_write_input_tokens":20,"output_tokens":10,"total_tokens":110}}}`,
			count(5, 100, 30, 10, 100, 30, 10)},
			[]string{"/r/110/50/30/10", "//110/0/0/0"}}, // only the window's size is new
		{"a call without an id has its number", []string{answer,
			`{"ordinal":7,"type":"token_usage_record","payload":{"thread_id":"s","turn_id":"t","response_id":"","usage":{"input_tokens":100,"output_tokens":10}}}`},
			[]string{"/ordinal 7/110/100/0/10"}},
		{"a call without tokens is not a call", []string{answer,
			`{"ordinal":7,"type":"token_usage_record","payload":{"thread_id":"s","turn_id":"t","response_id":"r","usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}}`}, nil},
		{"the call that a compaction does not name was an answer", []string{
			`{"ordinal":7,"type":"token_usage_record","payload":{"thread_id":"s","turn_id":"t","response_id":"r","usage":{"input_tokens":100,"output_tokens":10,"total_tokens":110}}}`,
			`{"ordinal":8,"type":"compacted","payload":{"compaction_response_id":"q"}}`},
			[]string{"/r/110/100/0/10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Rollout()
			var got []string
			for _, record := range c.records {
				for _, s := range d.Decode([]byte(record)) {
					if u := s.Usage; u != nil && !u.Estimate {
						got = append(got, fmt.Sprintf("%s/%s/%d/%d/%d/%d", s.Side, u.ID, u.Used, u.Input, u.CacheRead, u.Output))
					}
				}
			}
			require.Equal(t, c.want, got)
			require.Empty(t, d.Unknown())
		})
	}
}

// A file's first line names its thread. In a file that is read from its middle,
// the first record of a model call names the thread.
func TestThreads(t *testing.T) {
	usage := `{"ordinal":9,"type":"token_usage_record","payload":{"thread_id":"child","session_id":"root","turn_id":"t","response_id":"r","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}`
	tool := `{"type":"response_item","payload":{"type":"function_call","call_id":"c"}}`
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"a sub-agent's", []string{`{"ordinal":0,"type":"session_meta","payload":{"id":"child","session_id":"root","source":{"subagent":{"thread_spawn":{"parent_thread_id":"root","depth":1}}}}}`, tool, usage},
			[]string{"session_live root child", "tool_start root child", "usage root child"}},
		{"a sub-agent's, of a version that names its parent only", []string{`{"type":"session_meta","payload":{"id":"child","parent_thread_id":"root","thread_source":"subagent"}}`},
			[]string{"session_live root child"}},
		{"a sub-agent's, read from its middle", []string{tool, usage}, []string{"tool_start  ", "usage root child"}},
		{"one that a person began", []string{`{"ordinal":0,"type":"session_meta","payload":{"id":"a","session_id":"a","source":"cli","thread_source":"user"}}`, tool},
			[]string{"session_live a ", "tool_start a "}},
		{"one into which another was copied", []string{fork, `{"type":"session_meta","payload":{"id":"o"}}`, tool}, []string{"session_live s ", "tool_start s "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Rollout()
			var got []string
			for _, record := range c.records {
				for _, s := range d.Decode([]byte(record)) {
					got = append(got, fmt.Sprintf("%s %s %s", s.Kind, s.Session, s.Agent))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestLimits(t *testing.T) {
	end := `{"timestamp":"2026-01-02T03:04:06.000Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"t","error":{"message":"try again at noon","codex_error_info":"usage_limit_exceeded"}}}`
	limits := func(limits string) string {
		return `{"timestamp":"2026-01-02T03:04:05.000Z","type":"event_msg","payload":{"type":"token_count","info":null,"rate_limits":` + limits + `}}`
	}
	const at, fault, ended = "at=03:04:05.000", "fault from=rollout ", "turn_end from=rollout at=03:04:06.000 turn=t outcome=failed error=quota"
	for _, c := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"one window is used up", []string{limits(`{"primary":{"used_percent":100.0,"window_minutes":300,"resets_at":1767330000},"secondary":{"used_percent":40,"resets_at":1767900000}}`), end},
			[]string{fault + at + " error=quota until=05:00:00.000", ended + " until=05:00:00.000"}},
		{"both are, and the later one holds", []string{limits(`{"primary":{"used_percent":100,"resets_at":1767330000},"secondary":{"used_percent":100,"resets_at":1767333600}}`), end},
			[]string{fault + at + " error=quota until=06:00:00.000", ended + " until=06:00:00.000"}},
		{"reported twice", []string{limits(`{"primary":{"used_percent":100,"resets_at":1767330000}}`), limits(`{"primary":{"used_percent":100,"resets_at":1767330000}}`)},
			[]string{fault + at + " error=quota until=05:00:00.000"}},
		{"an older version counts seconds", []string{limits(`{"primary":{"used_percent":100,"resets_in_seconds":60}}`)},
			[]string{fault + at + " error=quota until=03:05:05.000"}},
		{"reached without a window", []string{limits(`{"primary":null,"secondary":null,"rate_limit_reached_type":"workspace_owner_credits_depleted"}`), end},
			[]string{fault + at + " error=quota", ended}},
		{"nearly used up", []string{limits(`{"primary":{"used_percent":99.9,"resets_at":1767330000}}`), end}, []string{ended}},
		{"no limit", []string{limits(`null`), limits(`{"primary":null}`), end}, []string{ended}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, telemetrytest.Decoded(t, Rollout, c.records...))
		})
	}
}

// The rollout writes error codes with underscores. The app-server writes the same codes
// in camel case.
func TestErrorsInCamelCase(t *testing.T) {
	for info, want := range map[string]telemetry.ErrorKind{
		`{"httpConnectionFailed":{"httpStatusCode":401}}`:           telemetry.ErrAuth,
		`{"responseStreamConnectionFailed":{"httpStatusCode":503}}`: telemetry.ErrServer,
		`{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`:  telemetry.ErrRateLimit,
		`"serverOverloaded"`:      telemetry.ErrServer,
		`"usageLimitExceeded"`:    telemetry.ErrQuota,
		`"rateLimitExceeded"`:     telemetry.ErrRateLimit,
		`"contextWindowExceeded"`: telemetry.ErrContextFull,
		`"badRequest"`:            telemetry.ErrInvalidRequest,
		`"modelNotFound"`:         telemetry.ErrInvalidRequest,
		`"other"`:                 telemetry.ErrUnknown,
	} {
		if got := errorKind([]byte(`{"message":"429 Too Many Requests","codexErrorInfo":` + info + `}`)); got != want {
			t.Errorf("%s is %s, want %s", info, got, want)
		}
	}
}

// codex returns a line of a rollout.
func codex(ordinal int, kind, payload string) string {
	return fmt.Sprintf(`{"timestamp":"2026-11-21T08:00:00.000Z","ordinal":%d,"type":"%s","payload":%s}`, ordinal, kind, payload)
}

const (
	rolloutStarted  = `{"type":"task_started","turn_id":"T","model_context_window":1000}`
	rolloutTyped    = `{"type":"item_completed","thread_id":"S","turn_id":"T","item":{"type":"UserMessage","id":"i"}}`
	rolloutAnswered = `{"type":"item_completed","thread_id":"S","turn_id":"T","item":{"type":"AgentMessage","id":"j"}}`
	rolloutUsage    = `{"thread_id":"S","turn_id":"T","response_id":"R","usage":{"input_tokens":90,"output_tokens":10,"total_tokens":100},"thread_token_usage":{"total_tokens":9999}}`
	rolloutCounted  = `{"type":"token_count","info":{"total_token_usage":{"total_tokens":9999},"last_token_usage":{"input_tokens":90,"output_tokens":10,"total_tokens":100},"model_context_window":1000}}`
	rolloutEstimate = `{"type":"token_count","info":{"last_token_usage":{"input_tokens":0,"output_tokens":0,"total_tokens":40},"model_context_window":1000}}`
)

func rolloutFrom(ordinal int, rest string) string {
	kind, rest, _ := strings.Cut(rest, " ")
	return fmt.Sprintf(`%s from=rollout detail="ordinal %d" at=08:00:00.000 %s`, kind, ordinal, rest)
}

var rolloutStories = []telemetrytest.Story{
	{"steering: one prompt per turn", []string{
		codex(1, "event_msg", rolloutStarted), codex(2, "event_msg", rolloutTyped), codex(3, "event_msg", rolloutTyped),
	}, []string{
		rolloutFrom(1, `working turn=T window=1000 by=reported`),
		rolloutFrom(2, `prompt session=S turn=T`),
	}},
	{"usage after an answer is reported at once and not repeated", []string{
		codex(1, "event_msg", rolloutAnswered), codex(2, "token_usage_record", rolloutUsage), codex(3, "event_msg", rolloutCounted),
	}, []string{
		rolloutFrom(2, `usage session=S turn=T used=100 call=R request=T input=90 output=10`),
		rolloutFrom(3, `usage session=S turn=T used=100 window=1000 by=reported`), // only the context window has changed; there was no call
	}},
	{"a usage without an answer waits until the next record shows that it was not a compaction", []string{
		codex(1, "event_msg", rolloutStarted), codex(2, "token_usage_record", rolloutUsage), codex(3, "event_msg", rolloutCounted),
		codex(4, "response_item", `{"type":"function_call_output","call_id":"c","output":"x"}`),
	}, []string{
		rolloutFrom(1, `working turn=T window=1000 by=reported`),
		rolloutFrom(2, `usage session=S turn=T used=100 call=R request=T input=90 output=10 window=1000 by=reported`),
		rolloutFrom(4, `tool_end session=S turn=T tool=c`),
	}},
	{"a compaction's own usage is beside the main chain; the estimate after it is of it", []string{
		codex(1, "event_msg", rolloutStarted), codex(2, "token_usage_record", rolloutUsage), codex(3, "event_msg", rolloutCounted),
		codex(4, "compacted", `{"message":"summary","compaction_response_id":"R"}`), codex(5, "event_msg", rolloutEstimate),
		codex(6, "event_msg", rolloutEstimate),
	}, []string{
		rolloutFrom(1, `working turn=T window=1000 by=reported`),
		rolloutFrom(2, `usage session=S turn=T side=compaction used=100 call=R request=T input=90 output=10 window=1000 by=reported`),
		rolloutFrom(4, `compacted session=S turn=T half=record trigger=unknown`),
		rolloutFrom(5, `usage session=S turn=T used=40 estimate window=1000 by=reported`),
	}},
	{"info null, thread settings and world state give no signal", []string{
		codex(1, "event_msg", `{"type":"token_count","info":null}`),
		codex(2, "event_msg", `{"type":"thread_settings_applied","thread_id":"S","thread_settings":{"model":"gpt-x"}}`),
		codex(3, "world_state", `{"full":true}`),
	}, []string{}},
	{"a rollout read from its middle learns its session from the thread settings", []string{
		codex(14, "event_msg", `{"type":"thread_settings_applied","thread_id":"S","thread_settings":{"model":"gpt-x"}}`),
		codex(15, "event_msg", rolloutStarted),
	}, []string{rolloutFrom(15, `working session=S turn=T window=1000 by=reported`)}},
	{"a fork", []string{
		codex(30, "session_meta", `{"id":"S2","session_id":"S2","forked_from_id":"S","forked_from_ordinal_exclusive":30}`),
	}, []string{rolloutFrom(30, `session_live session=S2 cause=fork`)}},
	{"a custom tool", []string{
		codex(1, "response_item", `{"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"secret"}`),
		codex(2, "response_item", `{"type":"custom_tool_call_output","call_id":"c","output":"secret"}`),
		codex(3, "response_item", `{"type":"reasoning","summary":[]}`),
	}, []string{rolloutFrom(1, `tool_start tool=c name=apply_patch`), rolloutFrom(2, `tool_end tool=c`)}},
	{"a command that failed, as its item says, and one that did not", []string{
		codex(1, "response_item", `{"type":"function_call","call_id":"c","name":"exec_command","arguments":"{}"}`),
		codex(2, "event_msg", `{"type":"item_completed","item":{"type":"CommandExecution","id":"c","command":["x"],"status":"failed","aggregated_output":"secret"}}`),
		codex(3, "response_item", `{"type":"function_call_output","call_id":"c","output":"secret"}`),
		codex(4, "event_msg", `{"type":"item_completed","item":{"type":"CommandExecution","id":"d","status":"completed","aggregated_output":"secret"}}`),
		codex(5, "response_item", `{"type":"function_call_output","call_id":"d","output":"secret"}`),
		codex(6, "event_msg", `{"type":"item_completed","item":{"type":"FileChange","id":"e","changes":{},"status":"declined"}}`),
		codex(7, "response_item", `{"type":"custom_tool_call_output","call_id":"e","output":"secret"}`),
	}, []string{rolloutFrom(1, `tool_start tool=c name=exec_command`), rolloutFrom(3, `tool_end tool=c tool_error=EXECUTION_ERROR`),
		rolloutFrom(5, `tool_end tool=d`), rolloutFrom(7, `tool_end tool=e tool_error=EXECUTION_ERROR`)}},
}

func TestRolloutStories(t *testing.T) {
	telemetrytest.RunStories(t, Rollout, rolloutStories)
}

func TestErrors(t *testing.T) {
	for info, want := range map[string]telemetry.ErrorKind{
		`"context_window_exceeded"`: telemetry.ErrContextFull,
		`"usage_limit_exceeded"`:    telemetry.ErrQuota,
		`"session_budget_exceeded"`: telemetry.ErrBilling,
		`"internal_server_error"`:   telemetry.ErrServer,
		`"server_overloaded"`:       telemetry.ErrServer,
		`"unauthorized"`:            telemetry.ErrAuth,
		`"bad_request"`:             telemetry.ErrInvalidRequest,
		`"other"`:                   telemetry.ErrUnknown,
		`"something new"`:           telemetry.ErrUnknown,
		`null`:                      telemetry.ErrUnknown,
		`{}`:                        telemetry.ErrUnknown,
		`{"response_too_many_failed_attempts":{"http_status_code":429}}`: telemetry.ErrRateLimit,
		`{"http_connection_failed":{"http_status_code":401}}`:            telemetry.ErrAuth,
		`{"http_connection_failed":{"http_status_code":402}}`:            telemetry.ErrBilling,
		`{"http_connection_failed":{"http_status_code":418}}`:            telemetry.ErrInvalidRequest,
		`{"http_connection_failed":{"http_status_code":null}}`:           telemetry.ErrNetwork,
		`{"response_stream_disconnected":{"http_status_code":null}}`:     telemetry.ErrNetwork,
		`{"response_stream_connection_failed":{"http_status_code":503}}`: telemetry.ErrServer,
		`{"response_stream_connection_failed":{"http_status_code":200}}`: telemetry.ErrUnknown,
	} {
		got := telemetrytest.Decoded(t, Rollout, codex(1, "event_msg", `{"type":"task_complete","turn_id":"T","error":{"message":"words","codex_error_info":`+info+`}}`))
		require.Equal(t, []string{`turn_end from=rollout detail="ordinal 1" at=08:00:00.000 turn=T outcome=failed error=` + string(want)}, got, info)
	}
}

func TestUnknownRolloutRecordsAreCounted(t *testing.T) {
	d := Rollout()
	for _, r := range []string{
		codex(1, "event_msg", `{"type":"goal_reached"}`), codex(2, "event_msg", `{}`), codex(3, "inter_agent", `{}`),
		codex(4, "token_usage_record", `{"usage":{"total_tokens":-5}}`), codex(5, "token_usage_record", `{"usage":{"total_tokens":1e99}}`),
		codex(6, "response_item", `{"type":"function_call","name":"nameless"}`), `{"ordinal":7}`, `{"type":"event_msg","payload":{`,
	} {
		require.Empty(t, d.Decode([]byte(r)), r)
	}
	require.Equal(t, map[string]int{"event_msg/goal_reached": 1, "event_msg/": 1, "inter_agent": 1, "malformed": 2}, d.Unknown())
}
