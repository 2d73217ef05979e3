package telemetry

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// This file reads the body of an OTLP/HTTP request for logs, JSON or protobuf,
// into records that the decoders of the harnesses share. Metrics and traces
// repeat in sums and spans what the logs tell event by event: their bodies are
// passed over. (In protobuf the three look alike; who receives them knows by
// the address which is which, and hands over logs only.)
//
// Protobuf is walked by hand like JSON: six kinds of message, of which few
// members are wanted, are no reason for generated code and its start-up.

// An otlpRecord is one log record.
type otlpRecord struct {
	event    string // the event's name, without the harness's prefix; empty for a plain log line
	at       time.Time
	resource otlpAttrs
	attrs    otlpAttrs
}

// otlpAttrs are the attributes of a record or a resource, in order.
type otlpAttrs []otlpAttr

type otlpAttr struct {
	key string
	val otlpValue
}

// An otlpValue is a string, a number, a truth, or nothing that is read here.
// The text of a string stays where it was until it is asked for by name.
type otlpValue struct {
	kind   byte   // 's', 'i', 'd', 'b', or 0
	quoted []byte // a string of JSON, in its quotes
	plain  []byte // a string of protobuf
	n      int64
	d      float64
}

func (a otlpAttrs) get(key string) otlpValue {
	for i := range a {
		if a[i].key == key {
			return a[i].val
		}
	}
	return otlpValue{}
}

// name is the value if it can be an id or a name, else "".
func (v otlpValue) name() string {
	switch {
	case v.kind != 's':
		return ""
	case v.quoted != nil:
		return name(v.quoted)
	}
	return protoText(v.plain, maxName)
}

// word is the value if it is a word of the harness's vocabulary, else "".
func (v otlpValue) word() string {
	s := v.name()
	if !isWord(s) {
		return ""
	}
	return s
}

// is says whether the value is this word, or the truth that it names: some
// exporters write truths as strings.
func (v otlpValue) is(word string) bool {
	if v.kind == 'b' {
		return strconv.FormatBool(v.n == 1) == word
	}
	return v.word() == word
}

// count is the value if it can be a number of tokens, else 0. Some exporters
// write numbers as strings.
func (v otlpValue) count() int64 {
	switch v.kind {
	case 'i':
		if v.n < 0 || v.n > mostCounted {
			return 0
		}
		return v.n
	case 'd':
		if v.d < 0 || v.d > mostCounted || v.d != float64(int64(v.d)) {
			return 0
		}
		return int64(v.d)
	case 's':
		return count([]byte(v.word()))
	}
	return 0
}

// readOTLP reads a body. It reports whether it is one; of a body that is torn
// nothing is told.
func readOTLP(body []byte, prefix string) (records []otlpRecord, ok bool) {
	start := space(body, 0)
	switch {
	case len(body) == 0:
	// A protobuf message may begin with 0x0A, which is a blank of JSON, and have
	// the length '{'; then it ends where that says.
	case start < len(body) && body[start] == '{' && (start == 0 || !protoWhole(body)):
		records, ok = otlpJSON(body)
	default:
		records, ok = otlpProto(body)
	}
	if !ok {
		return nil, false
	}
	for i := range records {
		r := &records[i]
		if e := r.attrs.get("event.name").word(); e != "" {
			r.event = e
		}
		r.event = strings.TrimPrefix(r.event, prefix)
	}
	return records, true
}

func otlpJSON(body []byte) (records []otlpRecord, ok bool) {
	ok = true
	top := members(body, func(key, val []byte) bool {
		if string(key) != "resourceLogs" {
			return true
		}
		ok = ok && elements(val, func(group []byte) bool {
			var resource otlpAttrs
			var scopes []byte
			ok = ok && members(group, func(key, val []byte) bool {
				switch string(key) {
				case "resource":
					members(val, func(key, val []byte) bool {
						if string(key) == "attributes" {
							resource = otlpJSONAttrs(val)
						}
						return true
					})
				case "scopeLogs":
					scopes = val
				}
				return true
			})
			if scopes == nil {
				return ok
			}
			ok = ok && elements(scopes, func(scope []byte) bool {
				ok = ok && members(scope, func(key, val []byte) bool {
					if string(key) == "logRecords" {
						ok = ok && elements(val, func(record []byte) bool {
							r, whole := otlpJSONRecord(record)
							ok = ok && whole
							r.resource = resource
							records = append(records, r)
							return ok
						})
					}
					return ok
				})
				return ok
			})
			return ok
		})
		return ok
	})
	return records, ok && top
}

func otlpJSONRecord(record []byte) (r otlpRecord, ok bool) {
	var observed time.Time
	ok = members(record, func(key, val []byte) bool {
		switch string(key) {
		case "timeUnixNano":
			r.at = stampNano(otlpJSONInt(val))
		case "observedTimeUnixNano":
			observed = stampNano(otlpJSONInt(val))
		case "attributes":
			r.attrs = otlpJSONAttrs(val)
		case "body":
			r.event = otlpJSONValue(val).word()
		}
		return true
	})
	if r.at.IsZero() {
		r.at = observed
	}
	return r, ok
}

func otlpJSONAttrs(val []byte) (attrs otlpAttrs) {
	elements(val, func(pair []byte) bool {
		var a otlpAttr
		members(pair, func(key, val []byte) bool {
			switch string(key) {
			case "key":
				a.key = word(val)
			case "value":
				a.val = otlpJSONValue(val)
			}
			return true
		})
		attrs = append(attrs, a)
		return true
	})
	return attrs
}

func otlpJSONValue(val []byte) (v otlpValue) {
	members(val, func(key, val []byte) bool {
		switch string(key) {
		case "stringValue":
			v = otlpValue{kind: 's', quoted: val}
		case "intValue":
			v = otlpValue{kind: 'i', n: otlpJSONInt(val)}
		case "doubleValue":
			d, err := strconv.ParseFloat(string(bytes.Trim(val, `"`)), 64)
			if err == nil {
				v = otlpValue{kind: 'd', d: d}
			}
		case "boolValue":
			v = otlpValue{kind: 'b'}
			if isTrue(val) {
				v.n = 1
			}
		}
		return true
	})
	return v
}

// otlpJSONInt reads a 64-bit number, which protobuf's JSON writes as a string
// and some exporters as a number; -1 when it is none.
func otlpJSONInt(val []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.Trim(val, `"`)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// stampNano returns the time of n nanoseconds since 1970, or the zero time.
func stampNano(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return inRange(time.Unix(0, n).UTC())
}

// The members that are read of each protobuf message, by their numbers in
// opentelemetry/proto/logs/v1, resource/v1 and common/v1. A wire constant.
const (
	protoRequestGroup   = 1
	protoGroupResource  = 1
	protoGroupScope     = 2
	protoResourceAttr   = 1
	protoScopeRecord    = 2
	protoRecordTime     = 1
	protoRecordBody     = 5
	protoRecordAttr     = 6
	protoRecordObserved = 11
	protoPairKey        = 1
	protoPairValue      = 2
	protoValueString    = 1
	protoValueBool      = 2
	protoValueInt       = 3
	protoValueDouble    = 4
)

// The wire types that a message of today has.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// fields calls f with each member of the protobuf message b: its number, its
// wire type, and its number n or its bytes val. It reports whether b is a
// message to its end, as far as it was walked.
func fields(b []byte, f func(number int, wire byte, n uint64, val []byte) bool) bool {
	for len(b) > 0 {
		tag, size := varint(b)
		if size == 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
			return false
		}
		b = b[size:]
		wire := byte(tag & 7)
		var n uint64
		var val []byte
		switch wire {
		case wireVarint:
			n, size = varint(b)
		case wireFixed64:
			size = 8
		case wireFixed32:
			size = 4
		case wireBytes:
			n, size = varint(b)
			if size == 0 || n > uint64(len(b)-size) {
				return false
			}
			val = b[size : size+int(n)]
			size += int(n)
		default:
			return false // groups went out of use before OTLP came
		}
		if size == 0 || size > len(b) {
			return false
		}
		if wire == wireFixed64 || wire == wireFixed32 {
			for i := size - 1; i >= 0; i-- {
				n = n<<8 | uint64(b[i])
			}
		}
		if !f(int(tag>>3), wire, n, val) {
			return true
		}
		b = b[size:]
	}
	return true
}

// varint reads a number of at most ten bytes; size is 0 when there is none.
func varint(b []byte) (n uint64, size int) {
	for i := range min(len(b), 10) {
		if i == 9 && b[i] > 1 {
			return 0, 0
		}
		n |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

// protoText is a string if it can be shown and is no longer than limit bytes,
// else "".
func protoText(b []byte, limit int) string {
	if len(b) > limit || !isShown(string(b), limit) {
		return ""
	}
	return string(b)
}

// protoWhole says whether the body is a protobuf message at its top level.
func protoWhole(body []byte) bool {
	return fields(body, func(int, byte, uint64, []byte) bool { return true })
}

func otlpProto(body []byte) (records []otlpRecord, ok bool) {
	ok = true
	top := fields(body, func(number int, wire byte, _ uint64, group []byte) bool {
		if number != protoRequestGroup || wire != wireBytes {
			return true
		}
		var resource otlpAttrs
		first := len(records)
		ok = ok && fields(group, func(number int, wire byte, _ uint64, val []byte) bool {
			switch {
			case wire != wireBytes:
			case number == protoGroupResource:
				resource, ok = otlpProtoAttrs(val, protoResourceAttr)
			case number == protoGroupScope:
				ok = ok && fields(val, func(number int, wire byte, _ uint64, val []byte) bool {
					if number != protoScopeRecord || wire != wireBytes {
						return true
					}
					var r otlpRecord
					r, ok = otlpProtoRecord(val)
					records = append(records, r)
					return ok
				})
			}
			return ok
		})
		for i := range records[first:] {
			records[first+i].resource = resource
		}
		return ok
	})
	return records, ok && top
}

func otlpProtoRecord(record []byte) (r otlpRecord, ok bool) {
	var observed time.Time
	r.attrs, ok = otlpProtoAttrs(record, protoRecordAttr)
	ok = ok && fields(record, func(number int, wire byte, n uint64, val []byte) bool {
		switch {
		case number == protoRecordTime && wire == wireFixed64:
			r.at = stampNano(int64(n))
		case number == protoRecordObserved && wire == wireFixed64:
			observed = stampNano(int64(n))
		case number == protoRecordBody && wire == wireBytes:
			var v otlpValue
			v, ok = otlpProtoValue(val)
			r.event = v.word()
		}
		return ok
	})
	if r.at.IsZero() {
		r.at = observed
	}
	return r, ok
}

// otlpProtoAttrs reads the attributes of a message, its members of this number.
func otlpProtoAttrs(message []byte, member int) (attrs otlpAttrs, ok bool) {
	ok = true
	top := fields(message, func(number int, wire byte, _ uint64, pair []byte) bool {
		if number != member || wire != wireBytes {
			return true
		}
		var a otlpAttr
		ok = ok && fields(pair, func(number int, wire byte, _ uint64, val []byte) bool {
			switch {
			case wire != wireBytes:
			case number == protoPairKey:
				if a.key = protoText(val, maxWord); !isWord(a.key) {
					a.key = ""
				}
			case number == protoPairValue:
				a.val, ok = otlpProtoValue(val)
			}
			return ok
		})
		attrs = append(attrs, a)
		return ok
	})
	return attrs, ok && top
}

func otlpProtoValue(b []byte) (v otlpValue, ok bool) {
	ok = fields(b, func(number int, wire byte, n uint64, val []byte) bool {
		switch {
		case number == protoValueString && wire == wireBytes:
			v = otlpValue{kind: 's', plain: val}
		case number == protoValueBool && wire == wireVarint:
			v = otlpValue{kind: 'b'}
			if n != 0 {
				v.n = 1
			}
		case number == protoValueInt && wire == wireVarint:
			v = otlpValue{kind: 'i', n: int64(n)}
		case number == protoValueDouble && wire == wireFixed64:
			v = otlpValue{kind: 'd', d: math.Float64frombits(n)}
		}
		return true
	})
	return v, ok
}
