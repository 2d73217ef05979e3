// Package document decodes a tree of values from YAML or JSON strictly into Go
// structs: an unknown key, a value of the wrong type or a number out of range
// is an [Error] that names the path and the position.
//
// It converts no value to another type. It supports no anchors, aliases or tags:
// Decode returns an error for them, except for those inside a field of type [Value].
// The package parses JSON itself; package yaml below it parses YAML into the same tree.
//
//	doc, err := document.ParseJSON(data)
//	var plan struct { Retries int `yaml:"retries"` }
//	err = document.Decode(doc, &plan, "", nil)
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Kind is the type of a [Value].
type Kind int

const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Mapping
	Unsupported // an anchor, an alias or a tag of YAML
)

// A Value is one value of a document.
type Value struct {
	Kind    Kind
	Text    string // the content of a String; the JSON text of a Bool or Number, but .inf and .nan as in YAML
	Line    int    // from 1; 0 when unknown
	Column  int    // from 1
	Items   []Value
	Members []Member // the members of a mapping, in the order of the document; names are unique
}

// A Member is one key of a mapping with its value. Line and column are the key's.
type Member struct {
	Name         string
	Line, Column int
	Value        Value
}

// Member returns the member of a mapping with this name.
func (v Value) Member(name string) (Value, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return Value{}, false
	}
	return v.Members[i].Value, true
}

// Near returns the value at path, or the nearest enclosing value if there is none.
func (v Value) Near(path string) Value {
	for _, m := range v.Members {
		rest, ok := strings.CutPrefix(path, m.Name)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return m.Value.Near(strings.TrimPrefix(rest, "."))
		}
	}
	if index, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]"); ok {
		if i, err := strconv.Atoi(index); err == nil && i < len(v.Items) {
			return v.Items[i].Near(strings.TrimPrefix(rest, "."))
		}
	}
	return v
}

// JSON returns v as JSON text.
func (v Value) JSON() json.RawMessage { return v.appendJSON(nil) }

func (v Value) appendJSON(out []byte) []byte {
	switch v.Kind {
	case List:
		out = append(out, '[')
		for i, item := range v.Items {
			if i > 0 {
				out = append(out, ',')
			}
			out = item.appendJSON(out)
		}
		return append(out, ']')
	case Mapping:
		out = append(out, '{')
		for i, m := range v.Members {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(Value{Kind: String, Text: m.Name}.appendJSON(out), ':')
			out = m.Value.appendJSON(out)
		}
		return append(out, '}')
	case Bool, Number:
		if json.Valid([]byte(v.Text)) {
			return append(out, v.Text...)
		}
		fallthrough // .inf and .nan become strings, because JSON has no such numbers
	case String:
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v.Text) // encoding a string cannot fail
		return append(out, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
	}
	return append(out, "null"...)
}

// describe returns a description of v for an error message.
func (v Value) describe() string {
	switch v.Kind {
	case Null:
		return "nothing"
	case String:
		if text := []rune(v.Text); len(text) > 40 {
			return strconv.Quote(string(text[:39])) + "…"
		}
		return strconv.Quote(v.Text)
	case Bool, Number:
		return v.Text
	case List:
		return "a list"
	case Mapping:
		return "a mapping"
	}
	return "something else"
}

// An Error is the first fault of a document.
type Error struct {
	Path         string // the path of the value, such as retry.on[0]; empty if unknown, or if What names it
	Line, Column int    // 0 when unknown
	What         string
}

// Error returns the text with the path, or with the line if there is no path.
func (e *Error) Error() string {
	if e.Path == "" && e.Line > 0 {
		return fmt.Sprintf("line %d: %s", e.Line, e.What)
	}
	return e.text()
}

func (e *Error) text() string {
	if e.Path == "" {
		return e.What
	}
	return e.Path + ": " + e.What
}

// In returns FILE:LINE:COLUMN and then the error's text. If the position is unknown, it
// returns FILE and then the text.
func (e *Error) In(file string) string {
	if e.Line > 0 {
		file = fmt.Sprintf("%s:%d:%d", file, e.Line, e.Column)
	}
	return file + ": " + e.text()
}

// Errorf returns an [Error] about v, the value at path.
func (v Value) Errorf(path, format string, args ...any) *Error {
	return &Error{Path: path, Line: v.Line, Column: v.Column, What: fmt.Sprintf(format, args...)}
}

// Join appends the key name to path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
