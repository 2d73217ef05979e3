package telemetrytest

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// A Log is one log record, for both encodings.
type Log struct {
	At, Observed int64
	Body         string
	Attrs        []Pair
}

// A Pair's value is a string, an int64, a float64 or a bool.
type Pair struct {
	Key string
	Val any
}

// Pairs makes a list of keys and values in turn.
func Pairs(keysAndValues ...any) []Pair {
	var out []Pair
	for i := 0; i < len(keysAndValues); i += 2 {
		out = append(out, Pair{keysAndValues[i].(string), keysAndValues[i+1]})
	}
	return out
}

// EncodeJSON writes a body as OTLP/JSON; loose writes numbers as some
// exporters do, and in an order of their own.
func EncodeJSON(t require.TestingT, resource []Pair, logs []Log, loose bool) []byte {
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
	pairs := func(in []Pair) []any {
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

// EncodeProto writes the same body as protobuf.
func EncodeProto(resource []Pair, logs []Log) []byte {
	var scope []byte
	for _, l := range logs {
		r := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), uint64(l.At))
		r = protowire.AppendVarint(protowire.AppendTag(r, 2, protowire.VarintType), 9) // severity
		r = appendMessage(r, 5, encodeValue(l.Body))
		r = appendPairs(r, 6, l.Attrs)
		r = protowire.AppendFixed32(protowire.AppendTag(r, 8, protowire.Fixed32Type), 1) // flags
		r = protowire.AppendFixed64(protowire.AppendTag(r, 11, protowire.Fixed64Type), uint64(l.Observed))
		scope = appendMessage(scope, 2, r)
	}
	group := appendMessage(nil, 1, appendPairs(nil, 1, resource))
	group = appendMessage(group, 2, scope)
	return appendMessage(nil, 1, appendMessage(group, 3, []byte("u")))
}

func appendMessage(b []byte, number protowire.Number, val []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), val)
}

func appendPairs(b []byte, number protowire.Number, pairs []Pair) []byte {
	for _, p := range pairs {
		b = appendMessage(b, number, appendMessage(appendMessage(nil, 1, []byte(p.Key)), 2, encodeValue(p.Val)))
	}
	return b
}

func encodeValue(v any) []byte {
	switch v := v.(type) {
	case string:
		return appendMessage(nil, 1, []byte(v))
	case int64:
		return protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(v))
	case float64:
		return protowire.AppendFixed64(protowire.AppendTag(nil, 4, protowire.Fixed64Type), math.Float64bits(v))
	case bool:
		return protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), protowire.EncodeBool(v))
	}
	panic("no such value")
}
