package otlplog

import (
	"bytes"
	"strconv"
	"time"

	"lifeloop/telemetry/scan"
)

func readJSON(body []byte) (records []Record, ok bool) {
	groups := true
	ok = scan.Object(body, scan.Func("resourceLogs", func(list []byte) {
		groups = every(list, func(group []byte) bool {
			var resource Attrs
			var scopes []byte
			ok := scan.Object(group,
				scan.In("resource", scan.Func("attributes", func(val []byte) { resource = jsonAttrs(val) })), scan.Raw("scopeLogs", &scopes))
			return ok && (scopes == nil || every(scopes, func(scope []byte) bool {
				logs := true
				ok := scan.Object(scope, scan.Func("logRecords", func(list []byte) {
					logs = every(list, func(record []byte) bool {
						r, ok := jsonRecord(record)
						r.Resource = resource
						records = append(records, r)
						return ok
					})
				}))
				return ok && logs
			}))
		})
	}))
	return records, ok && groups
}

// every reports whether list is an array and f accepts each of its elements.
func every(list []byte, f func(val []byte) bool) bool {
	ok := true
	return scan.Elements(list, func(val []byte) bool {
		ok = f(val)
		return ok
	}) && ok
}

func jsonRecord(record []byte) (r Record, ok bool) {
	var observed time.Time
	ok = scan.Object(record,
		scan.Func("timeUnixNano", func(val []byte) { r.At = nano(jsonInt(val)) }),
		scan.Func("observedTimeUnixNano", func(val []byte) { observed = nano(jsonInt(val)) }),
		scan.Func("attributes", func(val []byte) { r.Attrs = jsonAttrs(val) }),
		scan.Func("body", func(val []byte) { r.Event = jsonValue(val).Word() }))
	r.at(observed)
	return r, ok
}

func jsonAttrs(val []byte) (attrs Attrs) {
	scan.Elements(val, func(pair []byte) bool {
		var a attr
		scan.Object(pair, scan.Word("key", &a.key), scan.Func("value", func(val []byte) { a.val = jsonValue(val) }))
		attrs = append(attrs, a)
		return true
	})
	return attrs
}

func jsonValue(val []byte) (v Value) {
	scan.Object(val,
		scan.Func("stringValue", func(val []byte) { v = Value{kind: 's', quoted: val} }),
		scan.Func("intValue", func(val []byte) { v = Value{kind: 'i', n: jsonInt(val)} }),
		scan.Func("doubleValue", func(val []byte) {
			if d, err := strconv.ParseFloat(string(bytes.Trim(val, `"`)), 64); err == nil {
				v = Value{kind: 'd', d: d}
			}
		}),
		scan.Func("boolValue", func(val []byte) { v = boolean(scan.IsTrue(val)) }))
	return v
}

// jsonInt reads a 64-bit integer. Protobuf's JSON writes it as a string, and some
// exporters write it as a number. jsonInt returns -1 if val is not a 64-bit integer.
func jsonInt(val []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.Trim(val, `"`)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
