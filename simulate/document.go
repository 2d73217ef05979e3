package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lifeloop/internal/nearest"
)

// This file reads JSON strictly: each value keeps its place in the file, and
// what is wrong is said in one sentence that names that place, what was
// expected, what was found and, for a word, the nearest one that is known.

// A node is one JSON value with the path to it.
type node struct {
	path    string
	raw     json.RawMessage
	token   json.Token // of a scalar
	kind    kind
	members []member // of an object, in the file's order
	items   []node   // of a list
}

type member struct {
	name string
	node
}

type kind int

const (
	scalar kind = iota
	object
	list
)

// deepest is far more than any world nests.
const deepest = 64

// parseNode reads one JSON value and nothing after it.
func parseNode(data []byte) (node, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	n, err := readNode(dec, data, "", 0)
	if err != nil {
		return n, syntax(data, dec.InputOffset(), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return n, errors.New("something follows the world; a file holds one")
	}
	return n, nil
}

// syntax says where the text stops being JSON.
func syntax(data []byte, at int64, err error) error {
	var s *json.SyntaxError
	var own *wrong
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &s):
		at = s.Offset
	}
	line := 1 + bytes.Count(data[:min(max(at, 0), int64(len(data)))], []byte{'\n'})
	return fmt.Errorf("line %d: not JSON: %w", line, err)
}

func readNode(dec *json.Decoder, data []byte, path string, depth int) (node, error) {
	before := dec.InputOffset()
	token, err := dec.Token()
	if err != nil {
		return node{}, err
	}
	n := node{path: path, token: token}
	open, nested := token.(json.Delim)
	if !nested {
		n.raw = value(data[before:dec.InputOffset()])
		return n, nil
	}
	if depth == deepest {
		return n, &wrong{path, "nested too deep"}
	}
	if open == '[' {
		n.kind = list
	} else {
		n.kind = object
	}
	for dec.More() {
		if n.kind == list {
			item, err := readNode(dec, data, fmt.Sprintf("%s[%d]", path, len(n.items)), depth+1)
			if err != nil {
				return n, err
			}
			n.items = append(n.items, item)
			continue
		}
		token, err := dec.Token()
		if err != nil {
			return n, err
		}
		name, _ := token.(string) // the decoder takes nothing else in this place
		m, err := readNode(dec, data, join(path, name), depth+1)
		if err != nil {
			return n, err
		}
		n.members = append(n.members, member{name, m})
	}
	if _, err := dec.Token(); err != nil { // the bracket that closes it
		return n, err
	}
	n.raw = value(data[before:dec.InputOffset()])
	return n, nil
}

// value is the text of a value without what stands before it.
func value(text []byte) json.RawMessage {
	return bytes.TrimLeft(text, " \t\r\n,:")
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// wrong is the first thing that is wrong with a world.
type wrong struct{ path, what string }

func (w *wrong) Error() string {
	if w.path == "" {
		return w.what
	}
	return w.path + ": " + w.what
}

// A reader takes a document apart. Its first complaint stands; what it reads
// after that is nothing.
type reader struct{ err error }

func (r *reader) fail(path, format string, args ...any) {
	if r.err == nil {
		r.err = &wrong{path, fmt.Sprintf(format, args...)}
	}
}

func (r *reader) expected(n node, what string) {
	r.fail(n.path, "expected %s, found %s", what, n.found())
}

// found says what stands there.
func (n node) found() string {
	switch n.kind {
	case object:
		if len(n.members) == 0 {
			return "an empty object"
		}
		return "an object"
	case list:
		return "a list"
	}
	if n.token == nil {
		return "null"
	}
	text := string(n.raw)
	if len(text) > 40 {
		text = strings.ToValidUTF8(text[:37], "") + "…"
	}
	return text
}

// object gives the members of an object by their names. Only known ones may
// be there, and each once.
func (r *reader) object(n node, known ...string) map[string]node {
	if n.kind != object {
		r.expected(n, "an object")
		return nil
	}
	out := map[string]node{}
	for _, m := range n.members {
		if !slices.Contains(known, m.name) {
			r.fail(n.path, "unknown member %q; the nearest known is %q", m.name, nearest.Word(m.name, known))
		}
		if _, twice := out[m.name]; twice {
			r.fail(m.path, "given twice")
		}
		out[m.name] = m.node
	}
	return out
}

// names gives the members of an object whose names are the user's own, in the
// file's order.
func (r *reader) names(n node) []member {
	if n.kind != object {
		r.expected(n, "an object")
		return nil
	}
	seen := map[string]bool{}
	for _, m := range n.members {
		if seen[m.name] {
			r.fail(m.path, "given twice")
		}
		seen[m.name] = true
	}
	return n.members
}

func (r *reader) list(n node) []node {
	if n.kind != list {
		r.expected(n, "a list")
	}
	return n.items
}

func (r *reader) text(n node) string {
	s, ok := n.token.(string)
	if !ok || n.kind != scalar {
		r.expected(n, "a string")
	}
	return s
}

// name is a text that must not be empty.
func (r *reader) name(n node) string {
	s := r.text(n)
	if s == "" {
		r.fail(n.path, "expected a name, found an empty string")
	}
	return s
}

// word is one of a closed set.
func (r *reader) word(n node, known ...string) string {
	s, ok := n.token.(string)
	if !ok || n.kind != scalar {
		r.expected(n, "one of "+strings.Join(known, ", "))
		return ""
	}
	if !slices.Contains(known, s) {
		r.fail(n.path, "expected one of %s, found %q; the nearest is %q", strings.Join(known, ", "), s, nearest.Word(s, known))
	}
	return s
}

func (r *reader) flag(n node) bool {
	b, ok := n.token.(bool)
	if !ok || n.kind != scalar {
		r.expected(n, "true or false")
	}
	return b
}

// yes is a member that is there to say so.
func (r *reader) yes(n node) {
	if !r.flag(n) {
		r.expected(n, "true")
	}
}

// most bounds every number, so that sums of them stay numbers.
const most = math.MaxInt32

// count is a whole number from 0 on.
func (r *reader) count(n node, limit int64) int64 {
	number, ok := n.token.(json.Number)
	i, err := strconv.ParseInt(number.String(), 10, 64)
	if !ok || n.kind != scalar || err != nil || i < 0 || i > limit {
		what := "a whole number, 0 or more"
		if limit <= 255 {
			what = fmt.Sprintf("a whole number from 0 to %d", limit)
		}
		r.expected(n, what)
		return 0
	}
	return i
}

// longest bounds every time that is given: ten years.
const longest = 10 * 365 * 24 * time.Hour

func (r *reader) ms(n node) time.Duration {
	return time.Duration(r.count(n, longest.Milliseconds())) * time.Millisecond
}
