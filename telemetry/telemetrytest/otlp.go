package telemetrytest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry/otlplog"
)

// An otlpLog is one log record, for both encodings.
type Log struct {
	At, Observed int64
	Body         string
	Attrs        []Pair
}

// An otlpPair's value is a string, an int64, a float64 or a bool.
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

// encodeJSON writes a body as OTLP/JSON; loose writes numbers as some
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

// encodeProto writes the same body as protobuf.
func EncodeProto(resource []Pair, logs []Log) []byte {
	tag := func(number int, wire byte) []byte { return binary.AppendUvarint(nil, uint64(number)<<3|uint64(wire)) }
	chunk := func(b []byte, number int, val []byte) []byte {
		b = append(b, tag(number, otlplog.WireBytes)...)
		return append(binary.AppendUvarint(b, uint64(len(val))), val...)
	}
	value := func(v any) (b []byte) {
		switch v := v.(type) {
		case string:
			return chunk(nil, otlplog.ProtoValueString, []byte(v))
		case int64:
			return binary.AppendUvarint(tag(otlplog.ProtoValueInt, otlplog.WireVarint), uint64(v))
		case float64:
			return binary.LittleEndian.AppendUint64(tag(otlplog.ProtoValueDouble, otlplog.WireFixed64), math.Float64bits(v))
		case bool:
			b = tag(otlplog.ProtoValueBool, otlplog.WireVarint)
			if v {
				return append(b, 1)
			}
			return append(b, 0)
		}
		panic("no such value")
	}
	pairs := func(b []byte, number int, in []Pair) []byte {
		for _, p := range in {
			b = chunk(b, number, chunk(chunk(nil, otlplog.ProtoPairKey, []byte(p.Key)), otlplog.ProtoPairValue, value(p.Val)))
		}
		return b
	}
	var scope []byte
	for _, l := range logs {
		r := binary.LittleEndian.AppendUint64(tag(otlplog.ProtoRecordTime, otlplog.WireFixed64), uint64(l.At))
		r = append(append(r, tag(2, otlplog.WireVarint)...), 9)
		r = chunk(r, otlplog.ProtoRecordBody, value(l.Body))
		r = pairs(r, otlplog.ProtoRecordAttr, l.Attrs)
		r = binary.LittleEndian.AppendUint32(append(r, tag(8, otlplog.WireFixed32)...), 1)
		r = binary.LittleEndian.AppendUint64(append(r, tag(otlplog.ProtoRecordObserved, otlplog.WireFixed64)...), uint64(l.Observed))
		scope = chunk(scope, otlplog.ProtoScopeRecord, r)
	}
	group := chunk(nil, otlplog.ProtoGroupResource, pairs(nil, otlplog.ProtoResourceAttr, resource))
	group = chunk(group, otlplog.ProtoGroupScope, scope)
	return chunk(nil, otlplog.ProtoRequestGroup, chunk(group, 3, []byte("u")))
}
