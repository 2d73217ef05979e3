package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// A Flaw is the reason why a file cannot be edited.
type Flaw struct {
	Path         string
	Line, Column int // counted from 1; a column is one character, not one byte
	Text         string
}

func (f *Flaw) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.Path, f.Line, f.Column, f.Text)
}

const byteOrderMark = "\ufeff"

// flawAt returns a flaw at a byte offset of text. The flaw's Path is empty.
func flawAt(text string, at int, format string, args ...any) *Flaw {
	at = min(at, len(text))
	before := strings.TrimPrefix(text[:at], byteOrderMark)
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return &Flaw{Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(line) + 1, Text: fmt.Sprintf(format, args...)}
}

// notUTF8 returns a flaw at the first byte that is not UTF-8, or nil.
func notUTF8(text string) error {
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") {
			return flawAt(text, i, "invalid UTF-8")
		}
	}
	return nil
}

// parse reads one JSON value. encoding/json decides what is valid, because hujson
// also accepts comments and trailing commas. Offsets in the value are offsets in
// text, and the value's method Pack returns the bytes of text.
func parse(text string) (hujson.Value, error) {
	if err := notUTF8(text); err != nil {
		return hujson.Value{}, err
	}
	data := []byte(text)
	if strings.HasPrefix(text, byteOrderMark) {
		copy(data, "   ") // replace the byte order mark by spaces, which keeps the offsets
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		at := int(syntax.Offset) - 1
		if strings.HasPrefix(syntax.Error(), "unexpected end") {
			at = len(text)
		}
		if rest := text[at:]; strings.HasPrefix(rest, "//") || strings.HasPrefix(rest, "/*") {
			return hujson.Value{}, flawAt(text, at, "comments are not allowed in JSON")
		}
		return hujson.Value{}, flawAt(text, at, "%v", syntax)
	}
	root, err := hujson.Parse(data)
	if err != nil {
		return hujson.Value{}, flawAt(text, 0, "%v", err)
	}
	root.BeforeExtra = hujson.Extra(text[:root.StartOffset])
	return root, nil
}

// A child is a member of an object or an element of an array. An element has
// no name.
type child = hujson.ObjectMember

// children lists the children of a value. The children of an object may be
// changed in place. after is the space before the closing bracket, nil for a
// value that is neither an object nor an array.
func children(v hujson.Value) (list []child, after *hujson.Extra) {
	switch c := v.Value.(type) {
	case *hujson.Object:
		return c.Members, &c.AfterExtra
	case *hujson.Array:
		for _, e := range c.Elements {
			list = append(list, child{Value: e})
		}
		return list, &c.AfterExtra
	}
	return nil, nil
}

// setChildren replaces the children of an object or an array.
func setChildren(v hujson.Value, list []child) {
	switch c := v.Value.(type) {
	case *hujson.Object:
		c.Members = list
	case *hujson.Array:
		c.Elements = nil
		for _, m := range list {
			c.Elements = append(c.Elements, m.Value)
		}
	}
}

// lead returns the white space before a child.
func lead(m *child) *hujson.Extra {
	if m.Name.Value != nil {
		return &m.Name.BeforeExtra
	}
	return &m.Value.BeforeExtra
}

// nameOf is the name of an object's member, without escapes.
func nameOf(m *child) string {
	literal, _ := m.Name.Value.(hujson.Literal)
	return literal.String()
}

// lookup returns the member of an object by its name, nil if there is none. If the
// name occurs twice, found is the second member and twice is true.
func lookup(v hujson.Value, wanted string) (found *child, twice bool) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, false
	}
	for i := range object.Members {
		m := &object.Members[i]
		if nameOf(m) != wanted {
			continue
		}
		if found != nil {
			return m, true
		}
		found = m
	}
	return found, false
}

// stringIn returns the value of a member of an object. The parameter wanted is the name of
// the member. stringIn returns false if the member is missing, occurs twice or is not a
// string.
func stringIn(v hujson.Value, wanted string) (string, bool) {
	m, twice := lookup(v, wanted)
	if m == nil || twice || kind(m.Value) != '"' {
		return "", false
	}
	return m.Value.Value.(hujson.Literal).String(), true
}

// kind is the kind of a value, 0 for no value.
func kind(v hujson.Value) hujson.Kind {
	if v.Value == nil {
		return 0
	}
	return v.Value.Kind()
}

// cut removes children, each with the comma before it or, if no child before it remains,
// with the comma after it. It is the inverse of [document.put]. hujson's Patch is not
// used, because it leaves different white space.
func cut(v hujson.Value, drop func(i int) bool) {
	list, after := children(v)
	var rest []child
	for i, m := range list {
		switch {
		case !drop(i):
			rest = append(rest, m)
		case len(rest) > 0:
			rest[len(rest)-1].Value.AfterExtra = m.Value.AfterExtra
		}
	}
	switch {
	case len(rest) > 0:
		*lead(&rest[0]) = *lead(&list[0])
	case len(list) > 0:
		*after = bytes.TrimPrefix(*after, closing(&list[0]))
	}
	setChildren(v, rest)
}

// closing returns the white space that put wrote before the closing bracket of a
// container that was empty before. It is the line end and indentation before first, the
// container's first child, without one step of indentation. The step is measured inside
// first, which is ours, because the text around first may have been edited.
func closing(first *child) []byte {
	inner, _ := children(first.Value)
	if len(inner) == 0 {
		return nil
	}
	before := *lead(first)
	step, ok := bytes.CutPrefix(*lead(&inner[0]), before)
	closing, under := bytes.CutSuffix(before, step)
	if !ok || !under || !bytes.HasPrefix(bytes.TrimPrefix(closing, []byte("\r")), []byte("\n")) {
		return nil
	}
	return closing
}

// sift removes the children for which drop returns true. If drop returns true
// for all children, sift changes nothing and returns true.
func sift(v hujson.Value, drop func(*child) bool) (all bool) {
	list, _ := children(v)
	gone := make([]bool, len(list))
	for i := range list {
		gone[i] = drop(&list[i])
	}
	if len(list) > 0 && !slices.Contains(gone, false) {
		return true
	}
	if slices.Contains(gone, true) {
		cut(v, func(i int) bool { return gone[i] })
	}
	return false
}

// An edit replaces text[from:to].
type edit struct {
	from, to int
	text     string
}

// change applies edits that do not overlap. Edits at one place keep their order.
func change(text string, edits []edit) string {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(text[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(text[at:])
	return b.String()
}

// newline is the line end that a text uses.
func newline(text string) string {
	if i := strings.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// indentation is the leading space of the line around an offset.
func indentation(text string, at int) string {
	line := strings.TrimPrefix(text[strings.LastIndexByte(text[:at], '\n')+1:at], byteOrderMark)
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}
