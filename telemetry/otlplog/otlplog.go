// Package otlplog reads the body of an OTLP/HTTP request for logs, JSON or
// protobuf, into records. It gives no records for a JSON body of metrics or traces,
// because the logs report the same events one by one. In protobuf, bodies of logs,
// metrics and traces have the same form. The caller must therefore distinguish the
// requests by their URL path, and call Read only for logs.
//
//	signals, ok := otlplog.Read(body, "codex.", func(r *otlplog.Record) []telemetry.Signal {
//		id := r.Attrs.Get("conversation.id").Name()
//		…
//	})
package otlplog

import (
	"strconv"
	"strings"
	"time"

	"lifeloop/telemetry/scan"
)

// A Record is one log record.
type Record struct {
	Event    string // the event's name, without the harness's prefix; empty for a plain log line
	At       time.Time
	Resource Attrs
	Attrs    Attrs
}

// Attrs are the attributes of a record or a resource, in order.
type Attrs []attr

type attr struct {
	key string
	val Value
}

// A Value is a string, a number, a boolean, or none of these. A string is not
// copied from the request's body until Name or Word reads it.
type Value struct {
	kind   byte   // 's' for a string, 'i' an integer, 'd' a float64, 'b' a boolean; 0 without a value
	quoted []byte // a JSON string, with its quotes
	plain  []byte // a protobuf string
	n      int64
	d      float64
}

// Get returns the value of a key, or the zero Value if there is no such key.
func (a Attrs) Get(key string) Value {
	for i := range a {
		if a[i].key == key {
			return a[i].val
		}
	}
	return Value{}
}

// IsSet reports whether there is a value.
func (v Value) IsSet() bool { return v.kind != 0 }

// Name returns the value if it can be an id or a name, else "".
func (v Value) Name() string {
	switch {
	case v.kind != 's':
		return ""
	case v.quoted != nil:
		return scan.NameOf(v.quoted)
	}
	return protoText(v.plain, scan.MaxName)
}

// Word returns the value if it is a word of the harness's vocabulary, else "".
func (v Value) Word() string {
	s := v.Name()
	if !scan.IsWord(s) {
		return ""
	}
	return s
}

// Is reports whether the value is this word. The boolean true equals the word "true",
// because some exporters write booleans as strings.
func (v Value) Is(word string) bool {
	if v.kind == 'b' {
		return strconv.FormatBool(v.n == 1) == word
	}
	return v.Word() == word
}

// Count returns the value if it can be a number of tokens, else 0. Some
// exporters write numbers as strings.
func (v Value) Count() int64 {
	switch v.kind {
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

// Read calls event with each log record of a request's body and returns the
// signals. It removes prefix from the names of the events. ok reports whether the body
// is a complete request. If the body is incomplete, Read does not call event.
func Read[S any](body []byte, prefix string, event func(*Record) []S) (signals []S, ok bool) {
	var records []Record
	start := scan.Space(body, 0)
	switch {
	case len(body) == 0:
	// A protobuf message may begin with 0x0A, which is white space in JSON, and its
	// next byte may be a length that reads as '{'. Such a body is tested as a
	// protobuf message first.
	case start < len(body) && body[start] == '{' && (start == 0 || !isMessage(body)):
		records, ok = readJSON(body)
	default:
		records, ok = readProto(body)
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
		signals = append(signals, event(r)...)
	}
	return signals, true
}

// nano returns the time of n nanoseconds since 1970, or the zero time.
func nano(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return scan.InRange(time.Unix(0, n).UTC())
}

// at sets the time of the record to observed, unless the record has a time of its own.
func (r *Record) at(observed time.Time) {
	if r.At.IsZero() {
		r.At = observed
	}
}
