package telemetrytest

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Log is one log record, which tests encode as protobuf or as JSON.
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

// Pairs returns the pairs of a list in which keys and values alternate.
func Pairs(keysAndValues ...any) []Pair {
	var out []Pair
	for i := 0; i < len(keysAndValues); i += 2 {
		out = append(out, Pair{keysAndValues[i].(string), keysAndValues[i+1]})
	}
	return out
}

// EncodeProto returns the body of an OTLP request that sends logs, encoded as protobuf.
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
	panic("telemetrytest: the value of a Pair is not a string, int64, float64 or bool")
}
