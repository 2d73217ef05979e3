package codex

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry/telemetrytest"
)

func TestOTLPOddities(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).UnixNano()
	event := func(name string, attrs ...any) []byte {
		l := telemetrytest.Log{Observed: at, Attrs: telemetrytest.Pairs("conversation.id", "s", "event.name", "codex."+name)}
		l.Attrs = append(l.Attrs, telemetrytest.Pairs(attrs...)...)
		return telemetrytest.EncodeProto(telemetrytest.Pairs("service.version", "0.169.0"), []telemetrytest.Log{l})
	}
	var got []string
	d := OTLP()
	for _, b := range [][]byte{
		event("conversation_starts", "model", "m"), event("conversation_starts"), // the second thread may be that of a title or a new session; the events do not show which
		event("api_request", "http.response.status_code", "429"), event("api_request", "http.response.status_code", int64(200)), event("api_request"),
		event("sse_event", "event.kind", "response.completed"),
		event("sse_event", "event.kind", "response.completed", "model", "m", "input_token_count", int64(100), "cached_token_count", "60", "cache_write_token_count", "10", "output_token_count", "9", "reasoning_token_count", "4", "tool_token_count", "109"),
		event("sse_event", "event.kind", "response.created", "tool_token_count", "109"),
		event("tool_decision", "decision", "approved", "call_id", "c"), event("tool_decision", "decision", "denied", "call_id", "c"), event("tool_result"),
		event("a_new_one"),
	} {
		got = append(got, telemetrytest.Lines(d.Decode(b))...)
	}
	require.Equal(t, []string{
		`session_live from=otlp detail=conversation_starts at=08:00:00.000 session=s model=m version=0.169.0`,
		`fault from=otlp detail=api_request at=08:00:00.000 session=s error=rate_limit`,
		`usage from=otlp detail=sse_event at=08:00:00.000 session=s used=109 input=30 cache_read=60 cache_write=10 output=9 reasoning=4 model=m`,
		`tool_start from=otlp detail=tool_decision at=08:00:00.000 session=s tool=c`,
	}, got)
	require.Equal(t, map[string]int{"a_new_one": 1}, d.Unknown())
}
