package lifeloop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Parsing is stricter than encoding/json in the following ways. Member names
// match exactly and occur once in an object. A required member must be present,
// even when its value is null. Text that JSON cannot carry unchanged (broken UTF-8,
// half a surrogate pair) is refused, not repaired.
//
// Unknown members are ignored, as in encoding/json, and [Unknown] lists them. In an
// optional member, null means the same as no member.
//
// The Go types describe the documents: `omitempty` or `wire:"optional"` marks an
// optional member, and a pointer marks a nullable member. Other wire tags say what
// a string or a number must be. A member with the tag "own" is checked only by the
// struct's check method.

// A document is one of the JSON documents of the contract, or an [EventRecord].
type document interface {
	CallbackRequest | CallbackResponse | DispatchEnvelope | PayloadEnvelope |
		Receipt | Manifest | FrameContext | Degradation | EventRecord
}

// Parse reads one document and validates it. The error, when there is one, is
// a [*ValidationError] that lists every problem found.
func Parse[T document](data []byte) (T, error) {
	var doc T
	l, filled := read(data, &doc)
	if filled {
		l.merge(rules(doc))
	}
	if err := l.err(); err != nil {
		var zero T
		return zero, err
	}
	return doc, nil
}

// ParseCallbackResponse reads a client's answer (DECISIONS L11, L13).
// [CallbackResponse.Validate] checks that it has the version of its request.
func ParseCallbackResponse(data []byte) (CallbackResponse, error) {
	return Parse[CallbackResponse](data)
}

// Kinds lists the kinds of documents that [Echo] accepts.
func Kinds() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// Echo reads a document of the named kind and writes it again, without the
// members that the contract does not know. A document is valid if and only if
// Echo accepts it.
func Echo(kind string, data []byte) ([]byte, error) {
	for _, k := range kinds {
		if k.name == kind {
			return k.echo(data)
		}
	}
	return nil, fmt.Errorf("unknown kind of document: %s; use one of %s", show(kind), strings.Join(Kinds(), ", "))
}

// Unknown lists unknown members of a document of the named kind, at most a hundred.
// The contract does not have these members, and Parse ignores them, so only Unknown
// finds a misspelt name of an optional member. Opaque members, such as metadata, are
// not searched. The parameter read names top-level members that the caller uses in
// addition to those of the contract. Unknown does not list the members in read.
func Unknown(kind string, data []byte, read ...string) []Problem {
	for _, k := range kinds {
		if k.name == kind {
			return slices.DeleteFunc(k.unknown(data), func(p Problem) bool {
				return slices.ContainsFunc(read, func(name string) bool { return p == unknownMember("", name) })
			})
		}
	}
	return nil
}

var kinds = []struct {
	name    string
	echo    func([]byte) ([]byte, error)
	unknown func([]byte) []Problem
}{
	{"callback_request", echo[CallbackRequest], unknown[CallbackRequest]},
	{"callback_response", echo[CallbackResponse], unknown[CallbackResponse]},
	{"dispatch_envelope", echo[DispatchEnvelope], unknown[DispatchEnvelope]},
	{"payload_envelope", echo[PayloadEnvelope], unknown[PayloadEnvelope]},
	{"lifecycle_receipt", echo[Receipt], unknown[Receipt]},
	{"adapter_manifest", echo[Manifest], unknown[Manifest]},
	{"frame_context", echo[FrameContext], unknown[FrameContext]},
	{"degradation", echo[Degradation], unknown[Degradation]},
}

func unknown[T document](data []byte) []Problem {
	var doc T
	l, _ := read(data, &doc)
	return l.ignored
}

func echo[T document](data []byte) ([]byte, error) {
	doc, err := Parse[T](data)
	if err != nil {
		return nil, err
	}
	if e, ok := any(doc).(interface{ Encode() ([]byte, error) }); ok {
		return e.Encode()
	}
	return marshal(doc)
}

// read fills doc, a pointer to a struct, from data, and reports whether it did. If
// data is not one unambiguous JSON object, doc stays unchanged.
func read(data []byte, doc any) (l list, filled bool) {
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		at := ""
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = " at byte " + strconv.FormatInt(syntax.Offset, 10)
		}
		l.add("", "expected one JSON object: the text is not JSON%s", at)
		return l, false
	}
	if !utf8.Valid(data) || halfSurrogate(data) {
		l.add("", "expected text that is valid Unicode throughout")
		return l, false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	tree := l.tree(dec, "", 0)
	members, isObject := tree.(map[string]any)
	switch {
	case len(l.problems) > 0:
		return l, false
	case !isObject:
		l.add("", "expected an object, got %s", kindOf(tree))
		return l, false
	}
	l.fillStruct(reflect.ValueOf(doc).Elem(), members, "")
	return l, true
}

// maxDepth limits the nesting of a document. The contract's documents need six
// levels; a client's metadata may need some more.
const maxDepth = 64

// tree reads the next value: nil, bool, string, json.Number, []any or
// map[string]any. The text is known to be valid JSON.
func (l *list) tree(dec *json.Decoder, at path, depth int) any {
	token, err := dec.Token()
	if err != nil {
		l.add(at, "expected a JSON value")
		return nil
	}
	delim, nested := token.(json.Delim)
	if !nested {
		return token
	}
	if depth == maxDepth {
		l.add("", "expected at most %d levels of nesting", maxDepth)
	}
	var value any
	if delim == '[' {
		items := []any{}
		for dec.More() && !l.tooDeep() {
			items = append(items, l.tree(dec, at.index(len(items)), depth+1))
		}
		value = items
	} else {
		members := map[string]any{}
		for dec.More() && !l.tooDeep() {
			token, _ := dec.Token()
			name, _ := token.(string)
			if _, twice := members[name]; twice {
				l.add(at.member(name), "expected each member once")
			}
			members[name] = l.tree(dec, at.member(name), depth+1)
		}
		value = members
	}
	if !l.tooDeep() {
		_, _ = dec.Token() // the closing bracket
	}
	return value
}

func (l *list) tooDeep() bool { return len(l.paths) > 0 && l.paths[len(l.paths)-1] == "" }

// halfSurrogate reports whether valid JSON text contains an escape for only one
// half of a surrogate pair. In valid JSON, backslashes occur only in strings.
func halfSurrogate(data []byte) bool {
	unit := func(i int) uint64 {
		if i+6 > len(data) || data[i] != '\\' || data[i+1] != 'u' {
			return 0
		}
		u, _ := strconv.ParseUint(string(data[i+2:i+6]), 16, 16)
		return u
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		switch u := unit(i); {
		case u>>10 == 0xD800>>10 && unit(i+6)>>10 == 0xDC00>>10:
			i += 11
		case u>>11 == 0xD800>>11:
			return true
		default:
			i++
		}
	}
	return false
}

// fill sets v from a value of the tree, and adds a problem for a value that
// does not fit.
func (l *list) fill(v reflect.Value, from any, at path) {
	t := v.Type()
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[Opaque]():
		if s, ok := from.(string); ok {
			v.Set(reflect.ValueOf(NewOpaque(s)))
			return
		}
	case kind == reflect.Pointer:
		if from == nil {
			return
		}
		value := reflect.New(t.Elem())
		l.fill(value.Elem(), from, at)
		// If the value does not fit, the pointer v stays nil, so that the rules do not
		// check a zero value.
		if !slices.Contains(l.paths, at) {
			v.Set(value)
		}
		return
	case kind == reflect.Struct:
		if members, ok := from.(map[string]any); ok {
			l.fillStruct(v, members, at)
			return
		}
	case kind == reflect.Map:
		if members, ok := from.(map[string]any); ok {
			l.fillMap(v, members, at)
			return
		}
	case kind == reflect.Slice:
		if items, ok := from.([]any); ok {
			v.Set(reflect.MakeSlice(t, len(items), len(items)))
			for i, item := range items {
				l.fill(v.Index(i), item, at.index(i))
			}
			return
		}
	case kind == reflect.String:
		if s, ok := from.(string); ok {
			v.SetString(s)
			return
		}
	case kind == reflect.Bool:
		if b, ok := from.(bool); ok {
			v.SetBool(b)
			return
		}
	case kind == reflect.Int || kind == reflect.Int64:
		if n, ok := integer(from); ok {
			v.SetInt(n)
			return
		}
	}
	l.add(at, "expected %s, got %s", expected(t), kindOf(from))
}

func (l *list) fillStruct(v reflect.Value, members map[string]any, at path) {
	t := v.Type()
	known := make(map[string]bool, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		known[name] = true
		optional := options == "omitempty" || f.Tag.Get("wire") == "optional"
		value, there := members[name]
		switch {
		case !there && !optional:
			l.add(at.member(name), "missing: expected %s", expected(f.Type))
		case !there || value == nil && optional:
		case value == "" && optional && f.Tag.Get("wire") == "version":
			l.add(at.member(name), "expected a non-empty string")
		default:
			l.fill(v.Field(i), value, at.member(name))
		}
	}
	if len(members) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !known[name] {
			l.ignore(at, name)
		}
	}
}

func (l *list) fillMap(v reflect.Value, members map[string]any, at path) {
	t := v.Type()
	v.Set(reflect.MakeMapWithSize(t, len(members)))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		elem := reflect.New(t.Elem()).Elem()
		if t.Elem().Kind() != reflect.Interface {
			l.fill(elem, members[name], at.member(name))
		} else if members[name] != nil {
			elem.Set(reflect.ValueOf(members[name]))
		}
		v.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), elem)
	}
}

// integer accepts 12 and 12.0, which are the same number in JSON.
func integer(from any) (int64, bool) {
	number, ok := from.(json.Number)
	if !ok {
		return 0, false
	}
	if n, err := number.Int64(); err == nil {
		return n, true
	}
	f, err := number.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

func expected(t reflect.Type) string {
	if t == reflect.TypeFor[Opaque]() {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem()) + " or null"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "an array"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "an integer"
	default:
		return "a string"
	}
}

func kindOf(from any) string {
	switch v := from.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}
