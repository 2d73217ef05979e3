package otlplog

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"lifeloop/telemetry/scan"
)

// The numbers of the protobuf fields that this package reads, from
// opentelemetry/proto/logs/v1, resource/v1 and common/v1. The numbers are part of
// the wire format and must not change.
const (
	requestGroup   = 1
	groupResource  = 1
	groupScope     = 2
	resourceAttr   = 1
	scopeRecord    = 2
	recordTime     = 1
	recordBody     = 5
	recordAttr     = 6
	recordObserved = 11
	pairKey        = 1
	pairValue      = 2
	valueString    = 1
	valueBool      = 2
	valueInt       = 3
	valueDouble    = 4
)

// A field is one field of a message: a number n, or the bytes val.
type field struct {
	number protowire.Number
	wire   protowire.Type
	n      uint64
	val    []byte
}

// is reports whether the field has this number and this wire type.
func (f field) is(number protowire.Number, wire protowire.Type) bool {
	return f.number == number && f.wire == wire
}

// fields calls accept with each field of the message b. It reports whether all of
// b is a message and each field was accepted. Groups, an obsolete encoding that
// OTLP never used, are rejected.
func fields(b []byte, accept func(field) bool) bool {
	for len(b) > 0 {
		var f field
		var size int
		if f.number, f.wire, size = protowire.ConsumeTag(b); size < 0 {
			return false
		}
		b = b[size:]
		switch f.wire {
		case protowire.VarintType:
			f.n, size = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.n, size = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			_, size = protowire.ConsumeFixed32(b)
		case protowire.BytesType:
			f.val, size = protowire.ConsumeBytes(b)
		default:
			return false
		}
		if size < 0 || !accept(f) {
			return false
		}
		b = b[size:]
	}
	return true
}

// isMessage reports whether the body is a protobuf message at its top level.
func isMessage(body []byte) bool {
	return fields(body, func(field) bool { return true })
}

// each calls accept with each nested message in a field with this number.
func each(b []byte, number protowire.Number, accept func(message []byte) bool) bool {
	return fields(b, func(f field) bool { return !f.is(number, protowire.BytesType) || accept(f.val) })
}

func readProto(body []byte) (records []Record, ok bool) {
	ok = each(body, requestGroup, func(group []byte) bool {
		var resource Attrs
		first := len(records)
		ok := fields(group, func(f field) (ok bool) {
			switch {
			case f.is(groupResource, protowire.BytesType):
				resource, ok = protoAttrs(f.val, resourceAttr)
				return ok
			case f.is(groupScope, protowire.BytesType):
				return each(f.val, scopeRecord, func(record []byte) bool {
					r, ok := protoRecord(record)
					records = append(records, r)
					return ok
				})
			}
			return true
		})
		for i := range records[first:] {
			records[first+i].Resource = resource
		}
		return ok
	})
	return records, ok
}

func protoRecord(record []byte) (r Record, ok bool) {
	var observed time.Time
	if r.Attrs, ok = protoAttrs(record, recordAttr); !ok {
		return r, false
	}
	ok = fields(record, func(f field) bool {
		switch {
		case f.is(recordTime, protowire.Fixed64Type):
			r.At = nano(int64(f.n))
		case f.is(recordObserved, protowire.Fixed64Type):
			observed = nano(int64(f.n))
		case f.is(recordBody, protowire.BytesType):
			v, ok := protoValue(f.val)
			r.Event = v.Word()
			return ok
		}
		return true
	})
	r.at(observed)
	return r, ok
}

// protoAttrs reads the attributes of a message, which are its fields with this
// number.
func protoAttrs(message []byte, number protowire.Number) (attrs Attrs, ok bool) {
	ok = each(message, number, func(pair []byte) bool {
		var a attr
		ok := fields(pair, func(f field) (ok bool) {
			switch {
			case f.is(pairKey, protowire.BytesType):
				if a.key = protoText(f.val, scan.MaxWord); !scan.IsWord(a.key) {
					a.key = ""
				}
			case f.is(pairValue, protowire.BytesType):
				a.val, ok = protoValue(f.val)
				return ok
			}
			return true
		})
		attrs = append(attrs, a)
		return ok
	})
	return attrs, ok
}

func protoValue(b []byte) (v Value, ok bool) {
	ok = fields(b, func(f field) bool {
		switch {
		case f.is(valueString, protowire.BytesType):
			v = Value{kind: 's', plain: f.val}
		case f.is(valueBool, protowire.VarintType):
			v = boolean(f.n != 0)
		case f.is(valueInt, protowire.VarintType):
			v = Value{kind: 'i', n: int64(f.n)}
		case f.is(valueDouble, protowire.Fixed64Type):
			v = Value{kind: 'd', d: math.Float64frombits(f.n)}
		}
		return true
	})
	return v, ok
}

func boolean(val bool) Value {
	v := Value{kind: 'b'}
	if val {
		v.n = 1
	}
	return v
}

// protoText returns b as a string if it is printable and no longer than limit
// bytes, else "".
func protoText(b []byte, limit int) string {
	if len(b) > limit || !scan.IsShown(string(b), limit) {
		return ""
	}
	return string(b)
}
