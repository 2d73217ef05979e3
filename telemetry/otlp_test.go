package telemetry

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRecordedOTLP decodes the bodies of whole sessions, in the order in which
// they came. Print mode was recorded in both formats.
func TestRecordedOTLP(t *testing.T) {
	for _, c := range []struct{ decoder, name, pattern string }{
		{"claude-otlp", "session", "claude/otlp/*.json"},
		{"claude-otlp", "print.json", "claude/otlp-print/*.json"},
		{"claude-otlp", "print.protobuf", "claude/otlp-print/*.pb"},
		{"codex-otlp", "exec-tool-turn", "codex/otlp/logs.exec-*.json"},
		{"codex-otlp", "tui-turn-and-title", "codex/otlp/logs.tui-*.json"},
	} {
		t.Run(c.decoder+"/"+c.name, func(t *testing.T) {
			d, err := NewDecoder(c.decoder)
			require.NoError(t, err)
			var b strings.Builder
			for _, file := range recordings(t, c.pattern) {
				body, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, s := range d.Decode(body) {
					fmt.Fprintf(&b, "%s %s\n", strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), line(s))
				}
			}
			b.WriteString(unknownLines(d.Unknown()))
			golden(t, filepath.Join(c.decoder, c.name), b.String())
		})
	}
}

// otlpNames are the attributes whose strings are ids and words. Every other
// string of a body is taken to be text.
var otlpNames = map[string]bool{
	"event.name": true, "session.id": true, "prompt.id": true, "conversation.id": true, "request_id": true, "model": true,
	"query_source": true, "trigger": true, "success": true, "decision": true, "tool_use_id": true, "call_id": true,
	"hook_name": true, "event.kind": true, "service.version": true, "command_name": true, "tool_name": true,
	// Numbers that are written as strings.
	"pre_tokens": true, "post_tokens": true, "status_code": true, "event.sequence": true, "http.response.status_code": true,
	"input_token_count": true, "output_token_count": true, "cached_token_count": true, "cache_write_token_count": true,
	"reasoning_token_count": true, "tool_token_count": true,
}

func muffleOTLP(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		if k, ok := v["key"].(string); ok {
			key = k
		}
		for member, val := range v {
			if member == "body" {
				key = member
			}
			if s, ok := val.(string); ok && member == "stringValue" && !otlpNames[key] && !strings.HasPrefix(s, "claude_code.") {
				v[member] = canary
				continue
			}
			v[member] = muffleOTLP(val, key)
		}
	case []any:
		for i := range v {
			v[i] = muffleOTLP(v[i], "")
		}
	}
	return v
}

func TestOTLPTextTellsNothing(t *testing.T) {
	replaced := 0
	for _, c := range []struct{ decoder, pattern string }{
		{"claude-otlp", "claude/otlp/*.json"}, {"claude-otlp", "claude/otlp-print/*.json"}, {"codex-otlp", "codex/otlp/*.json"},
	} {
		d, err := NewDecoder(c.decoder)
		require.NoError(t, err)
		quiet, err := NewDecoder(c.decoder)
		require.NoError(t, err)
		for _, file := range recordings(t, c.pattern) {
			body, err := os.ReadFile(file)
			require.NoError(t, err)
			in := json.NewDecoder(bytes.NewReader(body))
			in.UseNumber()
			var v any
			require.NoError(t, in.Decode(&v))
			m, err := json.Marshal(muffleOTLP(v, ""))
			require.NoError(t, err)
			replaced += bytes.Count(m, []byte("CANARY"))
			got := quiet.Decode(m)
			require.Equal(t, d.Decode(body), got, file)
			require.NotContains(t, fmt.Sprint(lines(got)), "CANARY")
		}
	}
	require.Greater(t, replaced, 1000, "the recordings have text to replace")
}

// An otlpLog is one log record, for both encodings.
type otlpLog struct {
	at, observed int64
	body         string
	attrs        []otlpPair
}

// An otlpPair's value is a string, an int64, a float64 or a bool.
type otlpPair struct {
	key string
	val any
}

// encodeJSON writes a body as OTLP/JSON; loose writes numbers as some
// exporters do, and in an order of their own.
func encodeJSON(t require.TestingT, resource []otlpPair, logs []otlpLog, loose bool) []byte {
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
	pairs := func(in []otlpPair) []any {
		out := []any{}
		for _, p := range in {
			out = append(out, map[string]any{"key": p.key, "value": value(p.val)})
		}
		return out
	}
	records := []any{}
	for _, l := range logs {
		records = append(records, map[string]any{"timeUnixNano": number(l.at), "observedTimeUnixNano": number(l.observed),
			"body": value(l.body), "attributes": pairs(l.attrs), "severityText": "INFO", "traceId": "00ff", "flags": 1})
	}
	out, err := json.Marshal(map[string]any{"resourceLogs": []any{map[string]any{
		"resource": map[string]any{"attributes": pairs(resource), "droppedAttributesCount": 0}, "schemaUrl": "u",
		"scopeLogs": []any{map[string]any{"scope": map[string]any{"name": "n"}, "logRecords": records}}}}})
	require.NoError(t, err)
	return out
}

// encodeProto writes the same body as protobuf.
func encodeProto(resource []otlpPair, logs []otlpLog) []byte {
	tag := func(number int, wire byte) []byte { return binary.AppendUvarint(nil, uint64(number)<<3|uint64(wire)) }
	chunk := func(b []byte, number int, val []byte) []byte {
		b = append(b, tag(number, wireBytes)...)
		return append(binary.AppendUvarint(b, uint64(len(val))), val...)
	}
	value := func(v any) (b []byte) {
		switch v := v.(type) {
		case string:
			return chunk(nil, protoValueString, []byte(v))
		case int64:
			return binary.AppendUvarint(tag(protoValueInt, wireVarint), uint64(v))
		case float64:
			return binary.LittleEndian.AppendUint64(tag(protoValueDouble, wireFixed64), math.Float64bits(v))
		case bool:
			b = tag(protoValueBool, wireVarint)
			if v {
				return append(b, 1)
			}
			return append(b, 0)
		}
		panic("no such value")
	}
	pairs := func(b []byte, number int, in []otlpPair) []byte {
		for _, p := range in {
			b = chunk(b, number, chunk(chunk(nil, protoPairKey, []byte(p.key)), protoPairValue, value(p.val)))
		}
		return b
	}
	var scope []byte
	for _, l := range logs {
		r := binary.LittleEndian.AppendUint64(tag(protoRecordTime, wireFixed64), uint64(l.at))
		r = append(append(r, tag(2, wireVarint)...), 9)
		r = chunk(r, protoRecordBody, value(l.body))
		r = pairs(r, protoRecordAttr, l.attrs)
		r = binary.LittleEndian.AppendUint32(append(r, tag(8, wireFixed32)...), 1)
		r = binary.LittleEndian.AppendUint64(append(r, tag(protoRecordObserved, wireFixed64)...), uint64(l.observed))
		scope = chunk(scope, protoScopeRecord, r)
	}
	group := chunk(nil, protoGroupResource, pairs(nil, protoResourceAttr, resource))
	group = chunk(group, protoGroupScope, scope)
	return chunk(nil, protoRequestGroup, chunk(group, 3, []byte("u")))
}

var otlpWords = []string{
	"user_prompt", "api_request", "api_error", "compaction", "tool_decision", "tool_result", "assistant_response", "hook_execution_start", "a_new_one",
	"conversation_starts", "sse_event", "startup_phase",
}

func drawLog(r *rapid.T) otlpLog {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(r, name) }
	text := rapid.SampledFrom([]string{"s1", "s2", "p1", "true", "accept", "approved", "response.completed", "auto", "12", "repl_main_thread", "compact",
		"agent:builtin:x", "SessionStart:clear", "text with \"quotes\", a\nline and ünïcode ✳", "", "\x00", strings.Repeat("long ", 100)})
	l := otlpLog{
		at:       rapid.SampledFrom([]int64{0, 1795247131309000000, 1}).Draw(r, "at"),
		observed: rapid.Int64Range(0, 1<<62).Draw(r, "observed"),
		body:     pick("body", "", "claude_code.user_prompt", "codex.tool_result", "a plain log line"),
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"event.name", "session.id", "prompt.id", "conversation.id", "event.sequence", "model",
		"request_id", "query_source", "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "status_code", "success", "trigger",
		"pre_tokens", "post_tokens", "decision", "tool_use_id", "call_id", "hook_name", "command_name", "event.kind", "input_token_count",
		"tool_token_count", "prompt", "a key that is text"}), 0, 14).Draw(r, "keys") {
		p := otlpPair{key: key}
		switch {
		case key == "event.name":
			p.val = pick("prefix", "", "codex.", "claude_code.") + rapid.SampledFrom(otlpWords).Draw(r, "event")
		case key == "session.id", key == "conversation.id":
			p.val = pick("session", "s1", "s2")
		default:
			switch rapid.IntRange(0, 3).Draw(r, "kind") {
			case 0:
				p.val = text.Draw(r, "text")
			case 1:
				p.val = rapid.SampledFrom([]int64{0, 1, 7, 500, -1, math.MaxInt64, math.MinInt64}).Draw(r, "int")
			case 2:
				p.val = rapid.SampledFrom([]float64{0, 12, 0.5, -3, 1e300}).Draw(r, "double")
			case 3:
				p.val = rapid.Bool().Draw(r, "bool")
			}
		}
		l.attrs = append(l.attrs, p)
	}
	return l
}

// The same telemetry tells the same, however it is encoded.
func TestOTLPEncodingsTellTheSame(t *testing.T) {
	var told int
	rapid.Check(t, func(r *rapid.T) {
		var decoders [2][3]Decoder
		for i, name := range []string{"claude-otlp", "codex-otlp"} {
			for j := range decoders[i] {
				d, err := NewDecoder(name)
				require.NoError(r, err)
				decoders[i][j] = d
			}
		}
		for range rapid.IntRange(1, 3).Draw(r, "bodies") {
			resource := []otlpPair{{"service.name", "x"}, {"service.version", "1.2.3"}}
			logs := rapid.SliceOfN(rapid.Custom(drawLog), 0, 5).Draw(r, "logs")
			plain, loose, proto := encodeJSON(r, resource, logs, false), encodeJSON(r, resource, logs, true), encodeProto(resource, logs)
			for i := range decoders {
				want := lines(decoders[i][0].Decode(plain))
				told += len(want)
				require.Equal(r, want, lines(decoders[i][1].Decode(loose)))
				require.Equal(r, want, lines(decoders[i][2].Decode(proto)))
				require.Equal(r, decoders[i][0].Unknown(), decoders[i][2].Unknown())
				require.Zero(r, decoders[i][0].Unknown()[malformed])
			}
		}
	})
	require.Positive(t, told, "something was told")
}

// A body that is torn tells nothing and is counted.
func TestTornOTLP(t *testing.T) {
	logs := []otlpLog{{at: 1795247131309000000, body: "claude_code.user_prompt", attrs: []otlpPair{{"session.id", "s"}, {"prompt.id", "p"}}}}
	for name, body := range map[string][]byte{"json": encodeJSON(t, nil, logs, false), "protobuf": encodeProto(nil, logs)} {
		d, err := NewDecoder("claude-otlp")
		require.NoError(t, err)
		require.Len(t, d.Decode(body), 1, name)
		torn := 0
		for n := range len(body) {
			d, err := NewDecoder("claude-otlp")
			require.NoError(t, err)
			if got := d.Decode(body[:n]); len(got) > 0 {
				t.Fatalf("%s: the first %d of %d bytes tell %v", name, n, len(body), lines(got))
			}
			torn += d.Unknown()[malformed]
		}
		require.Equal(t, len(body), torn, name)
	}
	d, err := NewDecoder("codex-otlp")
	require.NoError(t, err)
	for _, body := range []string{"", "[]", "x", `{"resourceLogs":7}`, "\x0b\x0c", "\x08", "\x0a\x7fx"} {
		require.Empty(t, d.Decode([]byte(body)), body)
	}
	require.Equal(t, map[string]int{malformed: 7}, d.Unknown())
	// Metrics and traces are known and say nothing; so does an empty request.
	for _, body := range []string{`{}`, `{"resourceMetrics":[{"scopeMetrics":[]}]}`, `{"resourceSpans":[]}`, "\x0a\x00", "\n {}", `{"resourceLogs":[{}]}`} {
		require.Empty(t, d.Decode([]byte(body)), body)
	}
	require.Equal(t, map[string]int{malformed: 7}, d.Unknown())
	// 0x0A is a blank of JSON and the first byte of protobuf; the next one may be
	// a brace or a length.
	brace := encodeProto([]otlpPair{{"k", strings.Repeat("x", 123-16)}}, nil)
	require.Equal(t, "\n{", string(brace[:2]))
	require.Empty(t, d.Decode(brace))
	require.Equal(t, map[string]int{malformed: 7}, d.Unknown())
}

// What Claude Code exports and no recording shows.
func TestClaudeOTLPOddities(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).UnixNano()
	sequence := int64(0)
	event := func(session, name string, attrs ...any) []byte {
		l := otlpLog{at: at, body: "claude_code." + name, attrs: []otlpPair{{"session.id", session}, {"event.name", name}, {"event.sequence", sequence}, {"prompt.id", "p"}}}
		for i := 0; i < len(attrs); i += 2 {
			l.attrs = append(l.attrs, otlpPair{attrs[i].(string), attrs[i+1]})
		}
		sequence++
		return encodeProto([]otlpPair{{"service.version", "2.1.197"}}, []otlpLog{l})
	}
	call := func(session, source, request string) []byte {
		return event(session, "api_request", "query_source", source, "request_id", request, "model", "m", "input_tokens", int64(3), "output_tokens", int64(2))
	}
	const live = `session_live from=otlp detail=user_prompt at=08:00:00.000 session=s version=2.1.197`
	const prompt = `prompt from=otlp detail=user_prompt at=08:00:00.000 session=s turn=p`
	usage := func(who, request string) string {
		return `usage from=otlp detail=api_request at=08:00:00.000 session=s turn=p ` + who + `used=3 request=` + request + ` input=3 output=2 model=m`
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
		{"a prompt that was cut off before the model's first word is told with the next one; a command is not", [][]byte{
			event("s", "user_prompt"), event("s", "user_prompt", "command_name", "clear"), event("s", "user_prompt"), call("s", "compact", "r1"), call("s", "repl_main_thread", "r2"),
		}, []string{live, prompt, usage("side=compaction ", "r1"), prompt, usage("", "r2")}},
		{"/compact is none, and may fail", [][]byte{
			event("s", "user_prompt", "command_name", "compact", "command_source", "builtin"), call("s", "compact", "r1"),
			event("s", "compaction", "trigger", "manual", "success", "false"), event("s", "compaction", "trigger", "manual", "success", true, "pre_tokens", "9"),
		}, []string{live, usage("side=compaction ", "r1"),
			`fault from=otlp detail=compaction at=08:00:00.000 session=s turn=p error=unknown`,
			`compacted from=otlp detail=compaction at=08:00:00.000 session=s turn=p half=telemetry trigger=manual before=9`}},
		{"errors of the main chain are told, those of a title are not", [][]byte{
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
			d, err := NewDecoder("claude-otlp")
			require.NoError(t, err)
			var got []string
			for _, b := range c.bodies {
				got = append(got, lines(d.Decode(b))...)
			}
			require.Equal(t, c.want, got)
		})
	}

	// Another session of the same process goes on with its sequence. A process
	// of its own begins its own, and is none of this session.
	d, err := NewDecoder("claude-otlp")
	require.NoError(t, err)
	sequence = 0
	require.Len(t, d.Decode(event("s", "user_prompt")), 1)
	require.Equal(t, []string{`session_live from=otlp detail=SessionStart:clear at=08:00:00.000 session=s2 cause=clear version=2.1.197`},
		lines(d.Decode(event("s2", "hook_execution_start", "hook_name", "SessionStart:clear"))))
	sequence = 0
	require.Equal(t, []string{`prompt from=otlp detail=user_prompt at=08:00:00.000 session=s turn=p`}, lines(d.Decode(event("inner", "user_prompt"))), "the one before was never answered")
	sequence = 2
	require.Equal(t, []string{`session_live from=otlp detail=hook_registered at=08:00:00.000 session=s3 cause=unknown version=2.1.197`}, lines(d.Decode(event("s3", "hook_registered"))))
	require.Empty(t, d.Decode(event("s3", "a_new_one")))
	require.Equal(t, map[string]int{"a_new_one": 1}, d.Unknown())
}

func TestCodexOTLPOddities(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC).UnixNano()
	event := func(name string, attrs ...any) []byte {
		l := otlpLog{observed: at, attrs: []otlpPair{{"conversation.id", "s"}, {"event.name", "codex." + name}}}
		for i := 0; i < len(attrs); i += 2 {
			l.attrs = append(l.attrs, otlpPair{attrs[i].(string), attrs[i+1]})
		}
		return encodeProto([]otlpPair{{"service.version", "0.169.0"}}, []otlpLog{l})
	}
	var got []string
	d, err := NewDecoder("codex-otlp")
	require.NoError(t, err)
	for _, b := range [][]byte{
		event("conversation_starts", "model", "m"), event("conversation_starts"), // the second one is a title's, or a new thread: nothing says which
		event("api_request", "http.response.status_code", "429"), event("api_request", "http.response.status_code", int64(200)), event("api_request"),
		event("sse_event", "event.kind", "response.completed"),
		event("sse_event", "event.kind", "response.completed", "model", "m", "input_token_count", int64(100), "cached_token_count", "60", "cache_write_token_count", "10", "output_token_count", "9", "reasoning_token_count", "4", "tool_token_count", "109"),
		event("sse_event", "event.kind", "response.created", "tool_token_count", "109"),
		event("tool_decision", "decision", "approved", "call_id", "c"), event("tool_decision", "decision", "denied", "call_id", "c"), event("tool_result"),
		event("a_new_one"),
	} {
		got = append(got, lines(d.Decode(b))...)
	}
	require.Equal(t, []string{
		`session_live from=otlp detail=conversation_starts at=08:00:00.000 session=s model=m version=0.169.0`,
		`fault from=otlp detail=api_request at=08:00:00.000 session=s error=rate_limit`,
		`usage from=otlp detail=sse_event at=08:00:00.000 session=s used=109 input=30 cache_read=60 cache_write=10 output=9 reasoning=4 model=m`,
		`tool_start from=otlp detail=tool_decision at=08:00:00.000 session=s tool=c`,
	}, got)
	require.Equal(t, map[string]int{"a_new_one": 1}, d.Unknown())
}

func FuzzOTLP(f *testing.F) {
	for _, pattern := range []string{"claude/otlp/0[0-2]*-logs.json", "claude/otlp-print/*", "codex/otlp/*before*.json"} {
		files, err := filepath.Glob(filepath.Join("testdata", filepath.FromSlash(pattern)))
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
		logs := []otlpLog{
			{at: 1, body: marked, attrs: []otlpPair{{"session.id", "s"}, {"conversation.id", "s"}, {"event.name", "api_request"}, {"query_source", marked}, {"request_id", "r"}, {"input_tokens", marked}, {"prompt", marked}}},
			{at: 1, body: "claude_code.user_prompt", attrs: []otlpPair{{"session.id", "s"}, {"prompt", marked}, {"command_name", marked}, {marked, marked}}},
			{at: 1, attrs: []otlpPair{{"session.id", "s"}, {"conversation.id", "s"}, {"event.name", marked}}},
			{at: 1, attrs: []otlpPair{{"session.id", "s"}, {"conversation.id", "s"}, {"event.name", "tool_result"}, {"tool_use_id", "t"}, {"call_id", "t"}, {"output", marked}}},
		}
		for _, name := range []string{"claude-otlp", "codex-otlp"} {
			d, err := NewDecoder(name)
			require.NoError(t, err)
			again, err := NewDecoder(name)
			require.NoError(t, err)
			first := d.Decode(body)
			require.Equal(t, lines(first), lines(again.Decode(body)), "the same bytes tell the same")
			for _, s := range append(first, d.Decode(body)...) {
				checkSignal(t, s)
			}
			for _, b := range [][]byte{encodeJSON(t, nil, logs, false), encodeProto(nil, logs)} {
				for _, s := range d.Decode(b) {
					checkSignal(t, s)
					if !bytes.ContainsRune(body, '⟦') && strings.Contains(line(s), "⟦") {
						t.Fatalf("text of the session in a signal: %s", line(s))
					}
				}
			}
			for kind := range d.Unknown() {
				if !isWord(kind) {
					t.Fatalf("text in the count of unknown types: %q", kind)
				}
			}
		}
	})
}
