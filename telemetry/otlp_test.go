package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/telemetry"
	"lifeloop/telemetry/scan"
	"lifeloop/telemetry/telemetrytest"
)

var otlpWords = []string{
	"user_prompt", "api_request", "api_error", "compaction", "tool_decision", "tool_result", "assistant_response", "hook_execution_start", "a_new_one",
	"conversation_starts", "sse_event", "startup_phase",
}

func drawLog(r *rapid.T) telemetrytest.Log {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(r, name) }
	text := rapid.SampledFrom([]string{"s1", "s2", "p1", "true", "accept", "approved", "response.completed", "auto", "12", "repl_main_thread", "compact",
		"agent:builtin:x", "SessionStart:clear", "text with \"quotes\", a\nline and ünïcode ✳", "", "\x00", strings.Repeat("long ", 100)})
	l := telemetrytest.Log{
		At:       rapid.SampledFrom([]int64{0, 1795247131309000000, 1}).Draw(r, "at"),
		Observed: rapid.Int64Range(0, 1<<62).Draw(r, "observed"),
		Body:     pick("body", "", "claude_code.user_prompt", "codex.tool_result", "a plain log line"),
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"event.name", "session.id", "prompt.id", "conversation.id", "event.sequence", "model",
		"request_id", "query_source", "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "status_code", "success", "trigger",
		"pre_tokens", "post_tokens", "decision", "tool_use_id", "call_id", "hook_name", "command_name", "event.kind", "input_token_count",
		"tool_token_count", "prompt", "a key that is text"}), 0, 14).Draw(r, "keys") {
		p := telemetrytest.Pair{Key: key}
		switch {
		case key == "event.name":
			p.Val = pick("prefix", "", "codex.", "claude_code.") + rapid.SampledFrom(otlpWords).Draw(r, "event")
		case key == "session.id", key == "conversation.id":
			p.Val = pick("session", "s1", "s2")
		default:
			switch rapid.IntRange(0, 3).Draw(r, "kind") {
			case 0:
				p.Val = text.Draw(r, "text")
			case 1:
				p.Val = rapid.SampledFrom([]int64{0, 1, 7, 500, -1, math.MaxInt64, math.MinInt64}).Draw(r, "int")
			case 2:
				p.Val = rapid.SampledFrom([]float64{0, 12, 0.5, -3, 1e300}).Draw(r, "double")
			case 3:
				p.Val = rapid.Bool().Draw(r, "bool")
			}
		}
		l.Attrs = append(l.Attrs, p)
	}
	return l
}

// Both encodings of the same telemetry give the same signals.
func TestOTLPEncodingsAgree(t *testing.T) {
	var signals int
	rapid.Check(t, func(r *rapid.T) {
		var decoders [2][3]telemetry.Decoder
		for i, name := range []string{"claude-otlp", "codex-otlp"} {
			for j := range decoders[i] {
				d := newDecoder(r, name)
				decoders[i][j] = d
			}
		}
		for range rapid.IntRange(1, 3).Draw(r, "bodies") {
			resource := telemetrytest.Pairs("service.name", "x", "service.version", "1.2.3")
			logs := rapid.SliceOfN(rapid.Custom(drawLog), 0, 5).Draw(r, "logs")
			plain, loose, proto := encodeJSON(r, resource, logs, false), encodeJSON(r, resource, logs, true), telemetrytest.EncodeProto(resource, logs)
			for i := range decoders {
				want := telemetrytest.Lines(decoders[i][0].Decode(plain))
				signals += len(want)
				require.Equal(r, want, telemetrytest.Lines(decoders[i][1].Decode(loose)))
				require.Equal(r, want, telemetrytest.Lines(decoders[i][2].Decode(proto)))
				require.Equal(r, decoders[i][0].Unknown(), decoders[i][2].Unknown())
				require.Zero(r, decoders[i][0].Unknown()[telemetry.Malformed])
			}
		}
	})
	require.Positive(t, signals, "no signal at all")
}

// An incomplete body gives no signal and is counted.
func TestTornOTLP(t *testing.T) {
	logs := []telemetrytest.Log{{At: 1795247131309000000, Body: "claude_code.user_prompt", Attrs: telemetrytest.Pairs("session.id", "s", "prompt.id", "p")}}
	for name, body := range map[string][]byte{"json": encodeJSON(t, nil, logs, false), "protobuf": telemetrytest.EncodeProto(nil, logs)} {
		d := newDecoder(t, "claude-otlp")
		require.Len(t, d.Decode(body), 1, name)
		torn := 0
		for n := range len(body) {
			d := newDecoder(t, "claude-otlp")
			if got := d.Decode(body[:n]); len(got) > 0 {
				t.Fatalf("%s: the first %d of %d bytes give %v", name, n, len(body), telemetrytest.Lines(got))
			}
			torn += d.Unknown()[telemetry.Malformed]
		}
		require.Equal(t, len(body), torn, name)
	}
	d := newDecoder(t, "codex-otlp")
	for _, body := range []string{"", "[]", "x", `{"resourceLogs":7}`, "\x0b\x0c", "\x08", "\x0a\x7fx"} {
		require.Empty(t, d.Decode([]byte(body)), body)
	}
	require.Equal(t, map[string]int{telemetry.Malformed: 7}, d.Unknown())
	// Metrics and traces are known and give no signal; nor does an empty
	// request.
	for _, body := range []string{`{}`, `{"resourceMetrics":[{"scopeMetrics":[]}]}`, `{"resourceSpans":[]}`, "\x0a\x00", "\n {}", `{"resourceLogs":[{}]}`} {
		require.Empty(t, d.Decode([]byte(body)), body)
	}
	require.Equal(t, map[string]int{telemetry.Malformed: 7}, d.Unknown())
	// A protobuf body may begin with 0x0A, which is white space in JSON. Its next byte
	// is then a length, here 123, which is also the character '{'.
	brace := telemetrytest.EncodeProto(telemetrytest.Pairs("k", strings.Repeat("x", 123-16)), nil)
	require.Equal(t, "\n{", string(brace[:2]))
	require.Empty(t, d.Decode(brace))
	require.Equal(t, map[string]int{telemetry.Malformed: 7}, d.Unknown())
}

func FuzzOTLP(f *testing.F) {
	for _, pattern := range []string{"claude/testdata/otlp/0[0-2]*-logs.json", "claude/testdata/otlp-print/*", "codex/testdata/otlp/*before*.json"} {
		files, err := filepath.Glob(filepath.FromSlash(pattern))
		require.NoError(f, err)
		require.NotEmpty(f, files)
		for _, file := range files {
			body, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(body, "hello")
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		marked := "⟦ " + strings.ToValidUTF8(text, "") + "⟧"
		logs := []telemetrytest.Log{
			{At: 1, Body: marked, Attrs: telemetrytest.Pairs("session.id", "s", "conversation.id", "s", "event.name", "api_request", "query_source", marked, "request_id", "r", "input_tokens", marked, "prompt", marked)},
			{At: 1, Body: "claude_code.user_prompt", Attrs: telemetrytest.Pairs("session.id", "s", "prompt", marked, "command_name", marked, marked, marked)},
			{At: 1, Attrs: telemetrytest.Pairs("session.id", "s", "conversation.id", "s", "event.name", marked)},
			{At: 1, Attrs: telemetrytest.Pairs("session.id", "s", "conversation.id", "s", "event.name", "tool_result", "tool_use_id", "t", "call_id", "t", "output", marked)},
		}
		for _, name := range []string{"claude-otlp", "codex-otlp"} {
			d := newDecoder(t, name)
			again := newDecoder(t, name)
			first := d.Decode(body)
			require.Equal(t, telemetrytest.Lines(first), telemetrytest.Lines(again.Decode(body)), "the same bytes give the same signals")
			for _, s := range append(first, d.Decode(body)...) {
				telemetrytest.CheckSignal(t, s)
			}
			for _, b := range [][]byte{encodeJSON(t, nil, logs, false), telemetrytest.EncodeProto(nil, logs)} {
				for _, s := range d.Decode(b) {
					telemetrytest.CheckSignal(t, s)
					if !bytes.ContainsRune(body, '⟦') && strings.Contains(telemetrytest.Line(s), "⟦") {
						t.Fatalf("a signal contains text of the session: %s", telemetrytest.Line(s))
					}
				}
			}
			for kind := range d.Unknown() {
				if !scan.IsWord(kind) {
					t.Fatalf("the name of an unknown type is not a single word: %q", kind)
				}
			}
		}
	})
}

// encodeJSON writes the body of telemetrytest.EncodeProto as OTLP/JSON; loose writes numbers and
// the order of members as some exporters do.
func encodeJSON(t require.TestingT, resource []telemetrytest.Pair, logs []telemetrytest.Log, loose bool) []byte {
	number := func(n int64) any {
		if loose {
			return n
		}
		return fmt.Sprint(n)
	}
	value := func(v any) map[string]any {
		switch v := v.(type) {
		case string:
			return map[string]any{"stringValue": v}
		case int64:
			return map[string]any{"intValue": number(v)}
		case float64:
			return map[string]any{"doubleValue": v}
		default:
			return map[string]any{"boolValue": v}
		}
	}
	pairs := func(in []telemetrytest.Pair) []any {
		out := []any{}
		for _, p := range in {
			out = append(out, map[string]any{"key": p.Key, "value": value(p.Val)})
		}
		return out
	}
	records := []any{}
	for _, l := range logs {
		records = append(records, map[string]any{"timeUnixNano": number(l.At), "observedTimeUnixNano": number(l.Observed),
			"body": value(l.Body), "attributes": pairs(l.Attrs), "severityText": "INFO", "traceId": "00ff", "flags": 1})
	}
	out, err := json.Marshal(map[string]any{"resourceLogs": []any{map[string]any{
		"resource": map[string]any{"attributes": pairs(resource), "droppedAttributesCount": 0}, "schemaUrl": "u",
		"scopeLogs": []any{map[string]any{"scope": map[string]any{"name": "n"}, "logRecords": records}}}}})
	require.NoError(t, err)
	return out
}
