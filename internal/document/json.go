package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// maxDepth limits how deep lists and mappings may nest.
const maxDepth = 100

// ParseJSON parses data, which must be exactly one JSON value.
func ParseJSON(data []byte) (Value, error) {
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	v, err := r.value("", 0)
	if err == nil {
		if _, end := r.dec.Token(); end != io.EOF {
			v, err = r.here(), r.here().Errorf("", "more text after the first JSON value")
		}
	}
	return v, err
}

// A jsonReader reads the tokens of a JSON text and counts its lines.
type jsonReader struct {
	data             []byte
	dec              *json.Decoder
	offset           int // the offset up to which lines were counted
	line, lineOffset int
}

// here returns an empty value with the position of the next token.
func (r *jsonReader) here() Value {
	at := int(r.dec.InputOffset())
	for at < len(r.data)-1 && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[at]) >= 0 {
		at++
	}
	for ; r.offset < at; r.offset++ {
		if r.data[r.offset] == '\n' {
			r.line, r.lineOffset = r.line+1, r.offset+1
		}
	}
	return Value{Line: r.line, Column: at - r.lineOffset + 1}
}

func (r *jsonReader) token(v Value) (json.Token, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, v.Errorf("", "not JSON: %v", err)
	}
	return token, nil
}

func (r *jsonReader) value(path string, depth int) (Value, error) {
	v := r.here()
	token, err := r.token(v)
	if err != nil {
		return v, err
	}
	switch t := token.(type) {
	case nil:
	case bool:
		v.Kind, v.Text = Bool, fmt.Sprint(t)
	case json.Number:
		v.Kind, v.Text = Number, t.String()
	case string:
		v.Kind, v.Text = String, t
	case json.Delim:
		if depth == maxDepth {
			return v, v.Errorf(path, "brackets nest deeper than %d", maxDepth)
		}
		v.Kind = Mapping
		if t == '[' {
			v.Kind = List
		}
		for r.dec.More() {
			if err := r.element(&v, path, depth); err != nil {
				return v, err
			}
		}
		_, err = r.token(v) // the closing bracket
	}
	return v, err
}

// element reads the next item of a list or member of a mapping into v.
func (r *jsonReader) element(v *Value, path string, depth int) error {
	if v.Kind == List {
		item, err := r.value(fmt.Sprintf("%s[%d]", path, len(v.Items)), depth+1)
		v.Items = append(v.Items, item)
		return err
	}
	at := r.here()
	token, err := r.token(at)
	if err != nil {
		return err
	}
	name, _ := token.(string) // always a string, because json.Decoder accepts nothing else as a key
	if slices.ContainsFunc(v.Members, func(m Member) bool { return m.Name == name }) {
		return at.Errorf(Join(path, name), "given twice")
	}
	val, err := r.value(Join(path, name), depth+1)
	v.Members = append(v.Members, Member{name, at.Line, at.Column, val})
	return err
}
