package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Flaw is what keeps a file from being edited.
type Flaw struct {
	Path         string
	Line, Column int // from 1, in characters
	Text         string
}

func (f *Flaw) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.Path, f.Line, f.Column, f.Text)
}

const byteOrderMark = "\ufeff"

// flawAt places a flaw in a text.
func flawAt(text string, at int, format string, args ...any) *Flaw {
	at = min(at, len(text))
	before := strings.TrimPrefix(text[:at], byteOrderMark)
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return &Flaw{Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(line) + 1, Text: fmt.Sprintf(format, args...)}
}

// A node is a JSON value and where it stands in its text.
type node struct {
	kind       byte // the first byte: { [ " t f n - or a digit
	start, end int
	keys       []key // of an object, beside children
	children   []*node
}

type key struct {
	start int
	name  string
}

// begin and finish are the span of a child, with its key.
func (n *node) begin(i int) int {
	if n.kind == '{' {
		return n.keys[i].start
	}
	return n.children[i].start
}

func (n *node) finish(i int) int { return n.children[i].end }

// find returns the place of the only member of this name, -1 when there is none.
func (n *node) find(name string) (at int, twice bool) {
	at = -1
	if n.kind != '{' {
		return at, false
	}
	for i, k := range n.keys {
		if k.name != name {
			continue
		}
		if at >= 0 {
			return i, true
		}
		at = i
	}
	return at, false
}

// deepest bounds the nesting; settings have a handful of levels, and readers
// of JSON have bounds of their own.
const deepest = 1000

// parse reads one JSON text, strictly: no comments, no trailing commas.
func parse(text string) (*node, *Flaw) {
	p := parser{text: text}
	if !utf8.ValidString(text) {
		for i, r := range text {
			if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") {
				return nil, flawAt(text, i, "this is not UTF-8")
			}
		}
	}
	p.at = len(text) - len(strings.TrimPrefix(text, byteOrderMark))
	p.space()
	if p.at == len(text) {
		return nil, p.flaw("the file is empty, where a JSON object belongs")
	}
	n, flaw := p.value(0)
	if flaw != nil {
		return nil, flaw
	}
	if p.space(); p.at < len(text) {
		return nil, p.flaw("something follows the end of the JSON value")
	}
	return n, nil
}

type parser struct {
	text string
	at   int
}

func (p *parser) flaw(format string, args ...any) *Flaw { return flawAt(p.text, p.at, format, args...) }

func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) value(depth int) (*node, *Flaw) {
	n := &node{kind: p.peek(), start: p.at}
	var flaw *Flaw
	switch c := n.kind; {
	case depth > deepest:
		return nil, p.flaw("nested more than %d levels deep", deepest)
	case c == '{' || c == '[':
		flaw = p.container(n, depth)
	case c == '"':
		_, flaw = p.str()
	case c == '-' || '0' <= c && c <= '9':
		flaw = p.number()
	case p.at == len(p.text):
		return nil, p.flaw("the file ends where a value belongs")
	default:
		for _, word := range []string{"true", "false", "null"} {
			if strings.HasPrefix(p.text[p.at:], word) {
				p.at += len(word)
				n.end = p.at
				return n, nil
			}
		}
		return nil, p.flaw("%s where a JSON value belongs", p.here())
	}
	n.end = p.at
	return n, flaw
}

// here is the character at this place, for people.
func (p *parser) here() string {
	rest := p.text[p.at:]
	switch {
	case rest == "":
		return "the end of the file"
	case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "/*"):
		return "a comment, which JSON does not have,"
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return fmt.Sprintf("%q", r)
}

func (p *parser) container(n *node, depth int) *Flaw {
	closing := byte('}')
	if n.kind == '[' {
		closing = ']'
	}
	p.at++
	if p.space(); p.peek() == closing {
		p.at++
		return nil
	}
	for {
		if n.kind == '{' {
			if p.peek() != '"' {
				return p.flaw("%s where the name of a member belongs", p.here())
			}
			k := key{start: p.at}
			var flaw *Flaw
			if k.name, flaw = p.str(); flaw != nil {
				return flaw
			}
			if p.space(); p.peek() != ':' {
				return p.flaw("%s where a colon belongs", p.here())
			}
			p.at++
			p.space()
			n.keys = append(n.keys, k)
		}
		child, flaw := p.value(depth + 1)
		if flaw != nil {
			return flaw
		}
		n.children = append(n.children, child)
		p.space()
		switch p.peek() {
		case closing:
			p.at++
			return nil
		case ',':
			p.at++
			p.space()
			if p.peek() == closing {
				return p.flaw("a comma before the closing %q", closing)
			}
		default:
			return p.flaw("%s where a comma or %q belongs", p.here(), closing)
		}
	}
}

func (p *parser) str() (string, *Flaw) {
	start := p.at
	for p.at++; ; p.at++ {
		switch c := p.peek(); {
		case p.at == len(p.text):
			p.at = start
			return "", p.flaw("this string has no end")
		case c < 0x20:
			return "", p.flaw("a control character in a string")
		case c == '\\':
			p.at++
			if p.peek() == 'u' {
				if hex := p.text[p.at+1 : min(p.at+5, len(p.text))]; len(hex) < 4 || strings.Trim(hex, "0123456789abcdefABCDEF") != "" {
					return "", p.flaw("\\u without four hexadecimal digits")
				}
			} else if p.at == len(p.text) || strings.IndexByte(`"\/bfnrt`, p.text[p.at]) < 0 {
				return "", p.flaw("an escape that JSON does not know")
			}
		case c == '"':
			p.at++
			var s string
			if err := json.Unmarshal([]byte(p.text[start:p.at]), &s); err != nil {
				p.at = start
				return "", p.flaw("this string cannot be read: %v", err)
			}
			return s, nil
		}
	}
}

func (p *parser) digits() bool {
	from := p.at
	for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
		p.at++
	}
	return p.at > from
}

func (p *parser) number() *Flaw {
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else if !p.digits() {
		return p.flaw("a number without digits")
	}
	if p.peek() == '.' {
		p.at++
		if !p.digits() {
			return p.flaw("a number without digits behind its point")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		if !p.digits() {
			return p.flaw("a number without digits in its exponent")
		}
	}
	return nil
}

// encode is compact JSON without HTML escaping.
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // strings and numbers always encode
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// pretty spreads compact JSON over lines, the later ones behind indent.
func pretty(compact, indent, unit, newline string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(compact), indent, unit); err != nil {
		return compact
	}
	return strings.ReplaceAll(b.String(), "\n", newline)
}

// An edit replaces text[from:to].
type edit struct {
	from, to int
	text     string
}

// change makes edits that do not overlap; those at one place keep their order.
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

// indentation is that of the line in which a place lies.
func indentation(text string, at int) string {
	line := strings.TrimPrefix(text[strings.LastIndexByte(text[:at], '\n')+1:at], byteOrderMark)
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}
