package canon

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth limits the recursion to the same depth as encoding/json.
const maxDepth = 10000

// appendGeneral appends the canonical form of any JSON text. It first reads the
// whole text into a tree: sorting members in the output would move the innermost
// members once for each enclosing object.
func appendGeneral(dst, src []byte) ([]byte, error) {
	g := general{src: src}
	root, err := g.value()
	if g.space(); err == nil && g.at < len(src) {
		err = errors.New("unexpected data after the value")
	}
	if err != nil {
		return dst, fmt.Errorf("canonical json: at byte %d: %w", g.at, err)
	}
	return root.append(dst), nil
}

// A node is one value. The tree is at most maxDepth deep.
type node struct {
	kind     byte   // '{', '[', '"', or 0 for a number or a literal
	name     string // the member's name, if the value is in an object
	text     string // a string's decoded text; the canonical form of a number or a literal
	children []node // in canonical order
}

func (n node) append(dst []byte) []byte {
	switch n.kind {
	case '"':
		return appendString(dst, n.text)
	case 0:
		return append(dst, n.text...)
	}
	dst = append(dst, n.kind)
	for i, child := range n.children {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.kind == '{' {
			dst = append(appendString(dst, child.name), ':')
		}
		dst = child.append(dst)
	}
	return append(dst, n.kind+'}'-'{') // works for '[' and ']' too, because their distance is the same
}

// appendString writes s with the necessary escapes only, in their shortest form.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			dst = append(dst, '\\', "btn?fr"[c-'\b'])
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		}
	}
	return append(dst, '"')
}

// appendNumber writes a finite number as ECMAScript prints it: with the fewest
// digits that identify it, and with an exponent only if its absolute value is below
// 1e-6 or at least 1e21. Negative zero is written as 0.
func appendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0')
	}
	if size := math.Abs(f); 1e-6 <= size && size < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two digits of the exponent, ECMAScript as few as possible.
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' {
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst
}

// compareNames orders members by their UTF-16 code units.
func compareNames(a, b string) int {
	for a != "" && b != "" {
		r, rLen := utf8.DecodeRuneInString(a)
		q, qLen := utf8.DecodeRuneInString(b)
		if r != q {
			return cmp.Compare(utf16Place(r), utf16Place(q))
		}
		a, b = a[rLen:], b[qLen:]
	}
	return cmp.Compare(len(a), len(b))
}

// utf16Place orders code points by their UTF-16 code units. A code point with two
// units begins with a surrogate, U+D800 to U+DBFF, so it sorts before the
// single-unit code points from U+E000 on.
func utf16Place(r rune) rune {
	if 0xe000 <= r && r <= 0xffff {
		return r + utf8.MaxRune
	}
	return r
}

// A general reads a JSON text. After an error, at is the place of the error.
type general struct {
	src   []byte
	at    int
	depth int
}

func (g *general) space() {
	for g.at < len(g.src) && strings.IndexByte(" \t\r\n", g.src[g.at]) >= 0 {
		g.at++
	}
}

// byte returns the next byte, or 0 at the end of the text. Its callers need not
// distinguish the end from a NUL, because a NUL in the text is an error anywhere.
func (g *general) byte() byte {
	if g.at >= len(g.src) {
		return 0
	}
	return g.src[g.at]
}

// peek returns the first byte after white space.
func (g *general) peek() byte {
	g.space()
	return g.byte()
}

func (g *general) value() (node, error) {
	switch c := g.peek(); c {
	case '{', '[':
		if g.depth++; g.depth > maxDepth {
			return node{}, fmt.Errorf("nested deeper than %d", maxDepth)
		}
		defer func() { g.depth-- }()
		return g.nested(c, c+'}'-'{')
	case '"':
		s, err := g.text()
		return node{kind: '"', text: s}, err
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(g.src[g.at:], []byte(word)) {
			g.at += len(word)
			return node{text: word}, nil
		}
	}
	return g.number()
}

// nested reads an object or an array.
func (g *general) nested(open, closing byte) (node, error) {
	n := node{kind: open}
	g.at++
	for g.peek() != closing {
		if len(n.children) > 0 {
			if g.peek() != ',' {
				return n, fmt.Errorf("want a comma or %q", closing)
			}
			g.at++
		}
		name, err := "", error(nil)
		if open == '{' {
			if name, err = g.name(); err != nil {
				return n, err
			}
		}
		child, err := g.value()
		if err != nil {
			return n, err
		}
		child.name = name
		if n.children == nil {
			n.children = make([]node, 0, 4)
		}
		n.children = append(n.children, child)
	}
	if open == '{' {
		slices.SortFunc(n.children, func(a, b node) int { return compareNames(a.name, b.name) })
		for i := range n.children[min(1, len(n.children)):] {
			if n.children[i].name == n.children[i+1].name {
				return n, errors.New("two members of the same name in the object that ends here")
			}
		}
	}
	g.at++
	return n, nil
}

// name reads a member's name and the colon.
func (g *general) name() (string, error) {
	if g.peek() != '"' {
		return "", errors.New("want a member name")
	}
	name, err := g.text()
	if err != nil {
		return "", err
	}
	if g.peek() != ':' {
		return "", errors.New("want a colon")
	}
	g.at++
	return name, nil
}

// text reads a string.
func (g *general) text() (string, error) {
	g.at++
	if n := run(g.src[g.at:]); g.at+n < len(g.src) && g.src[g.at+n] == '"' { // most strings
		s := string(g.src[g.at : g.at+n])
		g.at += n + 1
		return s, nil
	}
	var s []byte
	for {
		plain := run(g.src[g.at:])
		s = append(s, g.src[g.at:g.at+plain]...)
		g.at += plain
		switch c := g.byte(); {
		case g.at == len(g.src):
			return "", errors.New("unterminated string")
		case c == '"':
			g.at++
			return string(s), nil
		case c == '\\':
			r, err := g.escape()
			if err != nil {
				return "", err
			}
			s = utf8.AppendRune(s, r)
		case c < ' ':
			return "", errors.New("control character in a string")
		default:
			r, size := utf8.DecodeRune(g.src[g.at:])
			if r == utf8.RuneError && size == 1 {
				return "", errors.New("invalid UTF-8")
			}
			s = append(s, g.src[g.at:g.at+size]...)
			g.at += size
		}
	}
}

// escape reads one escape, or the two escapes of a surrogate pair.
func (g *general) escape() (rune, error) {
	g.at++
	c := g.byte()
	if c != 'u' {
		at := strings.IndexByte(`"\/bfnrt`, c)
		if at < 0 {
			return 0, errors.New("unknown escape")
		}
		g.at++
		return rune("\"\\/\b\f\n\r\t"[at]), nil
	}
	r, err := g.unit()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if g.byte() == '\\' {
		g.at++
		low, err := g.unit()
		if err != nil {
			return 0, err
		}
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			return r, nil
		}
	}
	return 0, errors.New("lone surrogate")
}

// unit reads the u and the four digits of an escape.
func (g *general) unit() (rune, error) {
	const size = len("uXXXX")
	if g.byte() != 'u' || len(g.src)-g.at < size {
		return 0, errors.New("lone surrogate, or an escape without its digits")
	}
	n, err := strconv.ParseUint(string(g.src[g.at+1:g.at+size]), 16, 16)
	if err != nil {
		return 0, errors.New("want four hexadecimal digits in an escape")
	}
	g.at += size
	return rune(n), nil
}

// number reads a number by the grammar of JSON, which is stricter than strconv.
func (g *general) number() (node, error) {
	start := g.at
	if g.byte() == '-' {
		g.at++
	}
	zero := g.byte() == '0'
	whole := g.digits()
	if whole == 0 {
		return node{}, errors.New("want a value")
	}
	if zero && whole > 1 {
		return node{}, errors.New("number with a leading zero")
	}
	if g.byte() == '.' {
		g.at++
		if g.digits() == 0 {
			return node{}, errors.New("want digits after the decimal point")
		}
	}
	if c := g.byte(); c == 'e' || c == 'E' {
		g.at++
		if c := g.byte(); c == '+' || c == '-' {
			g.at++
		}
		if g.digits() == 0 {
			return node{}, errors.New("want digits in the exponent")
		}
	}
	f, err := strconv.ParseFloat(string(g.src[start:g.at]), 64)
	if err != nil {
		return node{}, errors.New("number outside the range of a double")
	}
	return node{text: string(appendNumber(nil, f))}, nil
}

// digits skips digits and counts them.
func (g *general) digits() int {
	start := g.at
	for '0' <= g.byte() && g.byte() <= '9' {
		g.at++
	}
	return g.at - start
}
