package claude

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/otlplog"
	"lifeloop/telemetry/telemetrytest"
)

// Exported events that Claude Code may send but that no recording contains.
func TestOTLPOddities(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).UnixNano()
	sequence := int64(0)
	event := func(session, name string, attrs ...any) []byte {
		l := telemetrytest.Log{At: at, Body: "claude_code." + name, Attrs: telemetrytest.Pairs("session.id", session, "event.name", name, "event.sequence", sequence, "prompt.id", "p")}
		l.Attrs = append(l.Attrs, telemetrytest.Pairs(attrs...)...)
		sequence++
		return telemetrytest.EncodeProto(telemetrytest.Pairs("service.version", "2.1.197"), []telemetrytest.Log{l})
	}
	call := func(session, source, request string) []byte {
		return event(session, "api_request", "query_source", source, "request_id", request, "model", "m", "input_tokens", int64(3), "output_tokens", int64(2))
	}
	const live = `session_live from=otlp detail=user_prompt at=08:00:00.000 session=s version=2.1.197`
	const prompt = `prompt from=otlp detail=user_prompt at=08:00:00.000 session=s turn=p`
	usage := func(role, request string) string {
		return `usage from=otlp detail=api_request at=08:00:00.000 session=s turn=p ` + role + `used=3 request=` + request + ` input=3 output=2 model=m`
	}
	for _, c := range []struct {
		name   string
		bodies [][]byte
		want   []string
	}{
		{"calls beside the main chain, and a sub-agent's", [][]byte{
			event("s", "user_prompt"), call("s", "generate_session_title", "r1"), call("s", "repl_main_thread", "r2"), call("s", "agent:builtin:Explore", "r3"),
			call("s", "compact", "r4"), call("s", "something_new", "r5"), call("s", "sdk", "r6"), call("s", "repl_main_thread", "r2"),
		}, []string{live, usage("side=title ", "r1"), prompt, usage("", "r2"), usage("agent=agent:builtin:Explore ", "r3"),
			usage("side=compaction ", "r4"), usage("side=something_new ", "r5"), usage("", "r6")}},
		{"a command is a prompt once the main chain's model is asked", [][]byte{
			event("s", "user_prompt", "command_name", "init", "command_source", "builtin"), call("s", "generate_session_title", "r1"), call("s", "repl_main_thread", "r2"), call("s", "repl_main_thread", "r3"),
		}, []string{live, usage("side=title ", "r1"), `prompt from=otlp detail=user_prompt at=08:00:00.000 session=s turn=p`, usage("", "r2"), usage("", "r3")}},
		{"a prompt that was interrupted before the model's first word is reported with the next one; a command is not", [][]byte{
			event("s", "user_prompt"), event("s", "user_prompt", "command_name", "clear"), event("s", "user_prompt"), call("s", "compact", "r1"), call("s", "repl_main_thread", "r2"),
		}, []string{live, prompt, usage("side=compaction ", "r1"), prompt, usage("", "r2")}},
		{"/compact is none, and may fail", [][]byte{
			event("s", "user_prompt", "command_name", "compact", "command_source", "builtin"), call("s", "compact", "r1"),
			event("s", "compaction", "trigger", "manual", "success", "false"), event("s", "compaction", "trigger", "manual", "success", true, "pre_tokens", "9"),
		}, []string{live, usage("side=compaction ", "r1"),
			`fault from=otlp detail=compaction at=08:00:00.000 session=s turn=p error=unknown`,
			`compacted from=otlp detail=compaction at=08:00:00.000 session=s turn=p half=telemetry trigger=manual before=9`}},
		{"errors of the main chain are reported, those of a title are not", [][]byte{
			event("s", "user_prompt"), event("s", "api_error", "status_code", "429", "query_source", "repl_main_thread"),
			event("s", "api_error", "status_code", int64(500), "query_source", "generate_session_title"), event("s", "api_error", "query_source", "sdk"),
		}, []string{live, prompt, `fault from=otlp detail=api_error at=08:00:00.000 session=s turn=p error=rate_limit`,
			`fault from=otlp detail=api_error at=08:00:00.000 session=s turn=p error=network`}},
		{"tools", [][]byte{
			event("s", "user_prompt"), event("s", "tool_decision", "decision", "accept", "tool_use_id", "t1"), event("s", "tool_decision", "decision", "reject", "tool_use_id", "t2"),
			event("s", "tool_result", "tool_use_id", "t1"), event("s", "tool_result"),
		}, []string{live, prompt, `tool_start from=otlp detail=tool_decision at=08:00:00.000 session=s turn=p tool=t1`,
			`tool_end from=otlp detail=tool_result at=08:00:00.000 session=s turn=p tool=t1`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := OTLP()
			var got []string
			for _, b := range c.bodies {
				got = append(got, telemetrytest.Lines(d.Decode(b))...)
			}
			require.Equal(t, c.want, got)
		})
	}

	// Another session of the same process continues the sequence numbers. Another
	// process starts its own sequence, and its events are not part of this
	// session.
	d := OTLP()
	sequence = 0
	require.Len(t, d.Decode(event("s", "user_prompt")), 1)
	require.Equal(t, []string{`session_live from=otlp detail=SessionStart:clear at=08:00:00.000 session=s2 cause=clear version=2.1.197`},
		telemetrytest.Lines(d.Decode(event("s2", "hook_execution_start", "hook_name", "SessionStart:clear"))))
	sequence = 0
	require.Equal(t, []string{`prompt from=otlp detail=user_prompt at=08:00:00.000 session=s turn=p`}, telemetrytest.Lines(d.Decode(event("inner", "user_prompt"))), "the one before was never answered")
	sequence = 2
	require.Equal(t, []string{`session_live from=otlp detail=hook_registered at=08:00:00.000 session=s3 cause=unknown version=2.1.197`}, telemetrytest.Lines(d.Decode(event("s3", "hook_registered"))))
	require.Empty(t, d.Decode(event("s3", "a_new_one")))
	require.Equal(t, map[string]int{"a_new_one": 1}, d.Unknown())
}

// However often a process clears its session, the number of remembered sessions is limited.
func TestOTLPRemembersFewSessions(t *testing.T) {
	d := &otlp{}
	for i := range 3 * maxOthers {
		d.next = 0 // expect the number 0, which the record below has
		require.Len(t, d.live(&otlplog.Record{}, telemetry.Signal{Session: strconv.Itoa(i)}), 1)
	}
	require.Len(t, d.others, maxOthers)
}
