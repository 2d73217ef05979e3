// Package otlplog reads the body of an OTLP/HTTP request for logs, JSON or
// protobuf, into records. It skips the bodies of metrics and traces, which repeat
// as sums and spans what the logs report event by event. In protobuf the three
// look alike: the receiver knows them by the address, and passes on logs only.
//
//	records, ok := otlplog.Read(body, "codex.")
//	id := records[0].Attrs.Get("conversation.id").Name()
package otlplog

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"lifeloop/telemetry/scan"
)

// An otlpRecord is one log record.
type Record struct {
	Event    string // the event's name, without the harness's prefix; empty for a plain log line
	At       time.Time
	Resource Attrs
	Attrs    Attrs
}

// otlpAttrs are the attributes of a record or a resource, in order.
type Attrs []Attr

type Attr struct {
	key string
	val Value
}

// An otlpValue is a string, a number, a truth, or nothing that is read here.
// The text of a string stays where it was until it is asked for by name.
type Value struct {
	Kind   byte   // 's', 'i', 'd', 'b', or 0
	quoted []byte // a string of JSON, in its quotes
	plain  []byte // a string of protobuf
	n      int64
	d      float64
}

func (a Attrs) Get(key string) Value {
	for i := range a {
		if a[i].key == key {
			return a[i].val
		}
	}
	return Value{}
}

// name is the value if it can be an id or a name, else "".
func (v Value) Name() string {
	switch {
	case v.Kind != 's':
		return ""
	case v.quoted != nil:
		return scan.NameOf(v.quoted)
	}
	return protoText(v.plain, scan.MaxName)
}

// word is the value if it is a word of the harness's vocabulary, else "".
func (v Value) Word() string {
	s := v.Name()
	if !scan.IsWord(s) {
		return ""
	}
	return s
}

// is says whether the value is this word, or the truth that it names: some
// exporters write truths as strings.
func (v Value) Is(word string) bool {
	if v.Kind == 'b' {
		return strconv.FormatBool(v.n == 1) == word
	}
	return v.Word() == word
}

// count is the value if it can be a number of tokens, else 0. Some exporters
// write numbers as strings.
func (v Value) Count() int64 {
	switch v.Kind {
	case 'i':
		if v.n < 0 || v.n > scan.MostCounted {
			return 0
		}
		return v.n
	case 'd':
		if v.d < 0 || v.d > scan.MostCounted || v.d != float64(int64(v.d)) {
			return 0
		}
		return int64(v.d)
	case 's':
		return scan.CountOf([]byte(v.Word()))
	}
	return 0
}

// readOTLP reads a body. It reports whether it is one; of a body that is torn
// nothing is told.
func Read(body []byte, prefix string) (records []Record, ok bool) {
	start := scan.Space(body, 0)
	switch {
	case len(body) == 0:
	// A protobuf message may begin with 0x0A, which is a blank of JSON, and have
	// the length '{'; then it ends where that says.
	case start < len(body) && body[start] == '{' && (start == 0 || !protoWhole(body)):
		records, ok = json(body)
	default:
		records, ok = proto(body)
	}
	if !ok {
		return nil, false
	}
	for i := range records {
		r := &records[i]
		if e := r.Attrs.Get("event.name").Word(); e != "" {
			r.Event = e
		}
		r.Event = strings.TrimPrefix(r.Event, prefix)
	}
	return records, true
}

func json(body []byte) (records []Record, ok bool) {
	ok = true
	top := scan.Members(body, func(key, val []byte) bool {
		if string(key) != "resourceLogs" {
			return true
		}
		ok = ok && scan.Elements(val, func(group []byte) bool {
			var resource Attrs
			var scopes []byte
			ok = ok && scan.Object(group,
				scan.In("resource", scan.Func("attributes", func(val []byte) { resource = jsonAttrs(val) })), scan.Raw("scopeLogs", &scopes))
			if scopes == nil {
				return ok
			}
			ok = ok && scan.Elements(scopes, func(scope []byte) bool {
				ok = ok && scan.Members(scope, func(key, val []byte) bool {
					if string(key) == "logRecords" {
						ok = ok && scan.Elements(val, func(record []byte) bool {
							r, whole := jsonRecord(record)
							ok = ok && whole
							r.Resource = resource
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

func jsonRecord(record []byte) (r Record, ok bool) {
	var observed time.Time
	ok = scan.Object(record,
		scan.Func("timeUnixNano", func(val []byte) { r.At = stampNano(jsonInt(val)) }),
		scan.Func("observedTimeUnixNano", func(val []byte) { observed = stampNano(jsonInt(val)) }),
		scan.Func("attributes", func(val []byte) { r.Attrs = jsonAttrs(val) }),
		scan.Func("body", func(val []byte) { r.Event = jsonValue(val).Word() }))
	if r.At.IsZero() {
		r.At = observed
	}
	return r, ok
}

func jsonAttrs(val []byte) (attrs Attrs) {
	scan.Elements(val, func(pair []byte) bool {
		var a Attr
		scan.Object(pair, scan.Word("key", &a.key), scan.Func("value", func(val []byte) { a.val = jsonValue(val) }))
		attrs = append(attrs, a)
		return true
	})
	return attrs
}

func jsonValue(val []byte) (v Value) {
	scan.Object(val,
		scan.Func("stringValue", func(val []byte) { v = Value{Kind: 's', quoted: val} }),
		scan.Func("intValue", func(val []byte) { v = Value{Kind: 'i', n: jsonInt(val)} }),
		scan.Func("doubleValue", func(val []byte) {
			d, err := strconv.ParseFloat(string(bytes.Trim(val, `"`)), 64)
			if err == nil {
				v = Value{Kind: 'd', d: d}
			}
		}),
		scan.Func("boolValue", func(val []byte) {
			v = Value{Kind: 'b'}
			if scan.IsTrue(val) {
				v.n = 1
			}
		}))
	return v
}

// otlpJSONInt reads a 64-bit number, which protobuf's JSON writes as a string
// and some exporters as a number; -1 when it is none.
func jsonInt(val []byte) int64 {
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
	return scan.InRange(time.Unix(0, n).UTC())
}

// The members that are read of each protobuf message, by their numbers in
// opentelemetry/proto/logs/v1, resource/v1 and common/v1. A wire constant.
const (
	ProtoRequestGroup   = 1
	ProtoGroupResource  = 1
	ProtoGroupScope     = 2
	ProtoResourceAttr   = 1
	ProtoScopeRecord    = 2
	ProtoRecordTime     = 1
	ProtoRecordBody     = 5
	ProtoRecordAttr     = 6
	ProtoRecordObserved = 11
	ProtoPairKey        = 1
	ProtoPairValue      = 2
	ProtoValueString    = 1
	ProtoValueBool      = 2
	ProtoValueInt       = 3
	ProtoValueDouble    = 4
)

// The wire types that a message of today has.
const (
	WireVarint  = 0
	WireFixed64 = 1
	WireBytes   = 2
	WireFixed32 = 5
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
		case WireVarint:
			n, size = varint(b)
		case WireFixed64:
			size = 8
		case WireFixed32:
			size = 4
		case WireBytes:
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
		if wire == WireFixed64 || wire == WireFixed32 {
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
	if len(b) > limit || !scan.IsShown(string(b), limit) {
		return ""
	}
	return string(b)
}

// protoWhole says whether the body is a protobuf message at its top level.
func protoWhole(body []byte) bool {
	return fields(body, func(int, byte, uint64, []byte) bool { return true })
}

func proto(body []byte) (records []Record, ok bool) {
	ok = true
	top := fields(body, func(number int, wire byte, _ uint64, group []byte) bool {
		if number != ProtoRequestGroup || wire != WireBytes {
			return true
		}
		var resource Attrs
		first := len(records)
		ok = ok && fields(group, func(number int, wire byte, _ uint64, val []byte) bool {
			switch {
			case wire != WireBytes:
			case number == ProtoGroupResource:
				resource, ok = protoAttrs(val, ProtoResourceAttr)
			case number == ProtoGroupScope:
				ok = ok && fields(val, func(number int, wire byte, _ uint64, val []byte) bool {
					if number != ProtoScopeRecord || wire != WireBytes {
						return true
					}
					var r Record
					r, ok = protoRecord(val)
					records = append(records, r)
					return ok
				})
			}
			return ok
		})
		for i := range records[first:] {
			records[first+i].Resource = resource
		}
		return ok
	})
	return records, ok && top
}

func protoRecord(record []byte) (r Record, ok bool) {
	var observed time.Time
	r.Attrs, ok = protoAttrs(record, ProtoRecordAttr)
	ok = ok && fields(record, func(number int, wire byte, n uint64, val []byte) bool {
		switch {
		case number == ProtoRecordTime && wire == WireFixed64:
			r.At = stampNano(int64(n))
		case number == ProtoRecordObserved && wire == WireFixed64:
			observed = stampNano(int64(n))
		case number == ProtoRecordBody && wire == WireBytes:
			var v Value
			v, ok = protoValue(val)
			r.Event = v.Word()
		}
		return ok
	})
	if r.At.IsZero() {
		r.At = observed
	}
	return r, ok
}

// otlpProtoAttrs reads the attributes of a message, its members of this number.
func protoAttrs(message []byte, member int) (attrs Attrs, ok bool) {
	ok = true
	top := fields(message, func(number int, wire byte, _ uint64, pair []byte) bool {
		if number != member || wire != WireBytes {
			return true
		}
		var a Attr
		ok = ok && fields(pair, func(number int, wire byte, _ uint64, val []byte) bool {
			switch {
			case wire != WireBytes:
			case number == ProtoPairKey:
				if a.key = protoText(val, scan.MaxWord); !scan.IsWord(a.key) {
					a.key = ""
				}
			case number == ProtoPairValue:
				a.val, ok = protoValue(val)
			}
			return ok
		})
		attrs = append(attrs, a)
		return ok
	})
	return attrs, ok && top
}

func protoValue(b []byte) (v Value, ok bool) {
	ok = fields(b, func(number int, wire byte, n uint64, val []byte) bool {
		switch {
		case number == ProtoValueString && wire == WireBytes:
			v = Value{Kind: 's', plain: val}
		case number == ProtoValueBool && wire == WireVarint:
			v = Value{Kind: 'b'}
			if n != 0 {
				v.n = 1
			}
		case number == ProtoValueInt && wire == WireVarint:
			v = Value{Kind: 'i', n: int64(n)}
		case number == ProtoValueDouble && wire == WireFixed64:
			v = Value{Kind: 'd', d: math.Float64frombits(n)}
		}
		return true
	})
	return v, ok
}
