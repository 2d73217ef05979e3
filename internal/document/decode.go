package document

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"lifeloop/internal/nearest"
)

// Every whole number and every duration is limited, so that the sum of a few does not
// overflow.
const (
	maxCount    = math.MaxInt32
	maxDuration = 10 * 365 * 24 * time.Hour
)

// A LimitError means that a value is more than its limit.
type LimitError struct{ Value, Limit string }

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s is more than the limit, %s", e.Value, e.Limit)
}

// TooLong returns the error for a duration that is more than the limit.
func TooLong(text string) error {
	return &LimitError{text, fmt.Sprintf("%.0fh (10 years)", maxDuration.Hours())}
}

// ParseDuration is [time.ParseDuration], but a duration of more than 10 years is a
// [*LimitError].
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d > maxDuration || err != nil && !strings.HasPrefix(text, "-") && isDurationSyntax(text) {
		return 0, TooLong(text)
	}
	return d, err
}

// isDurationSyntax reports whether a text is a duration with a unit, of any length.
func isDurationSyntax(text string) bool {
	zeros := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '0'
		}
		return r
	}, text)
	_, err := time.ParseDuration(zeros)
	// time.ParseDuration accepts 0 without a unit; zeros is 0 if text is a single digit.
	return err == nil && !strings.HasSuffix(zeros, "0")
}

// A Defaulter is an entry of a list. SetDefaults is called before the entry is read, for
// defaults that are not zero values.
type Defaulter interface{ SetDefaults() }

// A Worded list may also be written as a single word. SetWord reports whether it
// accepts the word.
type Worded interface{ SetWord(word string) bool }

// Decode reads v into the struct that into points to. A field keeps its value if v has
// no member for it. A list replaces the old list; the keys of a map are added to the old
// map. The yaml tag of a field is its key; the tag's option "ms" marks a duration in
// whole milliseconds. The fields of an embedded struct are keys of the outer struct.
// A field of type [Value] takes any value.
//
// path is the path of v for errors. note, if not nil, is called with the path of each
// list, of each entry of a list, and of each scalar, before it is read. It is not called
// for a field of type [Value].
func Decode(v Value, into any, path string, note func(path string, v Value)) error {
	if note == nil {
		note = func(string, Value) {}
	}
	return decoder(note).decode(v, reflect.ValueOf(into).Elem(), path, false)
}

// A decoder is the argument note of [Decode]. Its methods decode values.
type decoder func(path string, v Value)

func isDuration(to reflect.Value) bool { return to.Type() == reflect.TypeFor[time.Duration]() }

func (d decoder) decode(v Value, to reflect.Value, path string, ms bool) error {
	if v.Kind == Unsupported {
		return v.Errorf(path, "anchors, aliases and tags are not supported; write the value itself")
	}
	if to.Type() == reflect.TypeFor[Value]() {
		to.Set(reflect.ValueOf(v))
		return nil
	}
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return d.decode(v, to.Elem(), path, ms)
	case reflect.Struct:
		return d.structure(v, to, path)
	case reflect.Map:
		return d.dict(v, to, path)
	}
	d(path, v)
	if to.Kind() == reflect.Slice {
		if list, ok := to.Addr().Interface().(Worded); ok && v.Kind == String && list.SetWord(v.Text) {
			return nil
		}
		return d.list(v, to, path)
	}
	return scalar(v, to, path, ms)
}

func (d decoder) structure(v Value, to reflect.Value, path string) error {
	if v.Kind != Mapping {
		return v.expected(path, "a mapping")
	}
	fields := Fields(to.Type())
	for _, m := range v.Members {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Key == m.Name })
		if i < 0 {
			var known []string
			for _, f := range fields {
				known = append(known, f.Key)
			}
			in := ""
			if path != "" {
				in = " in " + path
			}
			return &Error{Line: m.Line, Column: m.Column, What: fmt.Sprintf("unknown key %q%s%s", m.Name, in, nearest.Hint(m.Name, known))}
		}
		f := fields[i]
		if err := d.decode(m.Value, to.FieldByIndex(f.Index), Join(path, m.Name), f.MS); err != nil {
			return err
		}
	}
	return nil
}

func (d decoder) list(v Value, to reflect.Value, path string) error {
	if v.Kind != List {
		return v.expected(path, "a list")
	}
	out := reflect.MakeSlice(to.Type(), len(v.Items), len(v.Items))
	for i, item := range v.Items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if e, ok := out.Index(i).Addr().Interface().(Defaulter); ok {
			e.SetDefaults()
		}
		d(at, item)
		if err := d.decode(item, out.Index(i), at, false); err != nil {
			return err
		}
	}
	to.Set(out)
	return nil
}

func (d decoder) dict(v Value, to reflect.Value, path string) error {
	if v.Kind != Mapping {
		return v.expected(path, "a mapping")
	}
	out := reflect.MakeMap(to.Type()) // make a new map, because the caller may have copied the struct, and both copies share the old one
	for _, k := range to.MapKeys() {
		out.SetMapIndex(k, to.MapIndex(k))
	}
	for _, m := range v.Members {
		e := reflect.New(to.Type().Elem()).Elem()
		if err := d.decode(m.Value, e, Join(path, m.Name), false); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(m.Name), e)
	}
	to.Set(out)
	return nil
}

func scalar(v Value, to reflect.Value, path string, ms bool) error {
	want, kind := expected(to, ms), Number
	switch {
	case to.Kind() == reflect.String, isDuration(to) && !ms && v.Text != "0":
		kind = String
	case to.Kind() == reflect.Bool:
		kind = Bool
	}
	text := v.Text
	_, err := strconv.ParseInt(text, 10, 64)
	switch {
	case v.Kind != kind, ms && errors.Is(err, strconv.ErrSyntax):
		return v.expected(path, want)
	case ms:
		text += "ms"
	}
	err = SetText(to, text, ms)
	if _, over := errors.AsType[*LimitError](err); over {
		return v.Errorf(path, "%v", err)
	}
	if err != nil {
		return v.expected(path, want)
	}
	return nil
}

func (v Value) expected(path, want string) error {
	hint := ""
	if v.Kind == Number && want == "a string" {
		hint = "; put it in quotes"
	}
	return v.Errorf(path, "expected %s, found %s%s", want, v.describe(), hint)
}

// SetText sets a scalar from text, such as the value of a variable or a flag. A duration
// other than 0 needs a unit, as in 250ms. If ms is set, the duration must also be a whole
// number of milliseconds, as Decode requires for the option "ms". For a value that is
// more than its limit, the error is a [*LimitError].
func SetText(to reflect.Value, text string, ms bool) error {
	wrong := fmt.Errorf("expected %s, found %q", expected(to, false), text)
	switch {
	case isDuration(to):
		d, err := ParseDuration(text)
		if _, over := errors.AsType[*LimitError](err); over {
			return err
		}
		if err != nil || d < 0 {
			return wrong
		}
		if ms && d%time.Millisecond != 0 {
			return fmt.Errorf("expected a whole number of milliseconds, such as 250ms, found %q", text)
		}
		to.SetInt(int64(d))
	case to.Kind() == reflect.String:
		to.SetString(text)
	case to.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return wrong
		}
		to.SetBool(text == "true")
	case to.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return wrong
		}
		to.SetFloat(f)
	default:
		i, err := strconv.Atoi(text) // if the number does not fit into an int, i is the nearest int
		switch {
		case errors.Is(err, strconv.ErrSyntax), i < 0:
			return wrong
		case i > maxCount:
			return &LimitError{text, strconv.Itoa(maxCount)}
		}
		to.SetInt(int64(i))
	}
	return nil
}

// expected describes in words which values a scalar accepts.
func expected(to reflect.Value, ms bool) string {
	switch {
	case isDuration(to) && ms:
		return "a whole number of milliseconds without a unit, such as 5000"
	case isDuration(to):
		return "a duration such as 5s"
	}
	switch to.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number, 0 or more"
	case reflect.Float64:
		return "a number"
	}
	return "a string"
}

// A Field is one key of a struct.
type Field struct {
	Index []int // as in [reflect.StructField]
	Key   string
	MS    bool // a duration in whole milliseconds
}

// Fields lists the keys of the struct t in the order of its fields.
func Fields(t reflect.Type) []Field {
	var out []Field
	for _, f := range reflect.VisibleFields(t) {
		key, opt, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key != "" && key != "-" {
			out = append(out, Field{Index: f.Index, Key: key, MS: opt == "ms"})
		}
	}
	return out
}
