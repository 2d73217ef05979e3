package scan

import "time"

// A Field is one member to read: its key, and where its value goes. A value of
// the wrong type sets the destination to its zero value.
//
// Fields stay on the caller's stack: Object calls no method of an interface, so
// neither the list nor a destination escapes to the heap, and only the returned
// strings are allocated.
type Field struct {
	key  string
	form form
	to   any // a func([]byte) for formFunc, a []Field for formIn, otherwise a pointer
}

type form uint8

const (
	formRaw form = iota
	formName
	formWord
	formPath
	formCount
	formTrue
	formHas
	formTime
	formMilli
	formSeconds
	formFunc
	formIn
)

// Raw stores the unparsed bytes of a value. They are not copied from the record.
func Raw(key string, to *[]byte) Field { return Field{key: key, form: formRaw, to: to} }

// Name reads an id or a name, as NameOf does.
func Name(key string, to *string) Field { return Field{key: key, form: formName, to: to} }

// Word reads a word of the harness's vocabulary, as WordOf does.
func Word(key string, to *string) Field { return Field{key: key, form: formWord, to: to} }

// Path reads the path of a file, as PathOf does.
func Path(key string, to *string) Field { return Field{key: key, form: formPath, to: to} }

// Count reads a number of tokens, as CountOf does.
func Count(key string, to *int64) Field { return Field{key: key, form: formCount, to: to} }

// True sets the destination to true if the value is true, and otherwise to false.
func True(key string, to *bool) Field { return Field{key: key, form: formTrue, to: to} }

// Has sets the destination to true if there is such a member.
func Has(key string, to *bool) Field { return Field{key: key, form: formHas, to: to} }

// Time reads an RFC 3339 time, as TimeOf does.
func Time(key string, to *time.Time) Field { return Field{key: key, form: formTime, to: to} }

// Milli reads milliseconds since 1970, as MilliOf does.
func Milli(key string, to *time.Time) Field { return Field{key: key, form: formMilli, to: to} }

// Seconds reads seconds since 1970, as SecondsOf does.
func Seconds(key string, to *time.Time) Field { return Field{key: key, form: formSeconds, to: to} }

// Func calls f with the value.
func Func(key string, f func(val []byte)) Field { return Field{key: key, form: formFunc, to: f} }

// In reads members of a nested object.
func In(key string, fields ...Field) Field { return Field{key: key, form: formIn, to: fields} }

// Object reads the fields of the object b and steps over its other members. It
// reports whether b is one complete object. If it is not, the members before the
// error have been read. If several members have the same key, the last one
// counts.
func Object(b []byte, fields ...Field) bool {
	next := 0
	return Members(b, func(key, val []byte) bool {
		next = read(fields, next, key, val)
		return true
	})
}

// Read does the same as Object for members that Gather returned.
func Read(members []Member, fields ...Field) {
	next := 0
	for _, m := range members {
		next = read(fields, next, m.Key, m.Val)
	}
}

// read sets the field of this key and returns the index after it. The search for
// the next key begins there, since a harness always writes its members in the same
// order.
func read(fields []Field, next int, key, val []byte) int {
	for n := range fields {
		i := next + n
		if i >= len(fields) {
			i -= len(fields)
		}
		if fields[i].key == string(key) {
			fields[i].set(val)
			return i + 1
		}
	}
	return next
}

func (f *Field) set(val []byte) {
	switch f.form {
	case formRaw:
		*f.to.(*[]byte) = val
	case formName:
		*f.to.(*string) = NameOf(val)
	case formWord:
		*f.to.(*string) = WordOf(val)
	case formPath:
		*f.to.(*string) = PathOf(val)
	case formCount:
		*f.to.(*int64) = CountOf(val)
	case formTrue:
		*f.to.(*bool) = IsTrue(val)
	case formHas:
		*f.to.(*bool) = true
	case formTime:
		*f.to.(*time.Time) = TimeOf(val)
	case formMilli:
		*f.to.(*time.Time) = MilliOf(val)
	case formSeconds:
		*f.to.(*time.Time) = SecondsOf(val)
	case formFunc:
		f.to.(func([]byte))(val)
	case formIn:
		Object(val, f.to.([]Field)...)
	}
}
