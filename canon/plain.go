package canon

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// The JSON this program writes by the thousand is plain: ASCII member names,
// strings without odd escapes, short numbers. appendPlain canonicalises such
// text in one pass and nearly without allocation, about ten times as fast as
// the general transformer, which matters on the ledger's way to the disk. At
// the first thing that is not plain it gives up and the general transformer
// decides; it never decides that a text is wrong. A fuzz test holds the two
// together.

// plainDepth bounds the recursion; deeper texts are not plain.
const plainDepth = 64

// plainDigits is the number of decimal digits that every double keeps.
const plainDigits = 15

type plain struct {
	src     []byte
	at      int
	dst     []byte
	depth   int
	scratch []byte
}

// appendPlain appends the canonical form of src to dst, or reports false.
func appendPlain(dst, src []byte) ([]byte, bool) {
	p := plain{src: src, dst: dst}
	if !p.value() {
		return dst, false
	}
	p.space()
	return p.dst, p.at == len(src)
}

func (p *plain) space() {
	for p.at < len(p.src) {
		switch p.src[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// next skips white space and takes the byte c if it is the next one.
func (p *plain) next(c byte) bool {
	p.space()
	if p.at >= len(p.src) || p.src[p.at] != c {
		return false
	}
	p.at++
	return true
}

func (p *plain) value() bool {
	p.space()
	if p.at >= len(p.src) {
		return false
	}
	switch p.src[p.at] {
	case '{':
		return p.object()
	case '[':
		return p.array()
	case '"':
		return p.text()
	case 't':
		return p.literal("true")
	case 'f':
		return p.literal("false")
	case 'n':
		return p.literal("null")
	default:
		return p.number()
	}
}

func (p *plain) literal(word string) bool {
	rest := p.src[p.at:]
	if len(rest) < len(word) || string(rest[:len(word)]) != word {
		return false
	}
	p.at += len(word)
	p.dst = append(p.dst, word...)
	return true
}

// number copies integers and decimals whose spelling is already canonical:
// few enough digits for a double to keep, no exponent, no superfluous zero.
func (p *plain) number() bool {
	start := p.at
	negative := p.src[p.at] == '-'
	if negative {
		p.at++
	}
	whole := p.digits()
	switch {
	case len(whole) == 0, len(whole) > plainDigits:
		return false
	case whole[0] == '0' && len(whole) > 1:
		return false
	}
	if p.at < len(p.src) && p.src[p.at] == '.' {
		p.at++
		fraction := p.digits()
		if len(fraction) == 0 || len(whole)+len(fraction) > plainDigits || fraction[len(fraction)-1] == '0' {
			return false
		}
		// Below 1e-6 the canonical spelling has an exponent.
		if whole[0] == '0' && len(bytes.TrimLeft(fraction, "0"))+6 <= len(fraction) {
			return false
		}
	} else if negative && whole[0] == '0' {
		return false
	}
	if p.at < len(p.src) && (p.src[p.at] == 'e' || p.src[p.at] == 'E') {
		return false
	}
	p.dst = append(p.dst, p.src[start:p.at]...)
	return true
}

func (p *plain) digits() []byte {
	start := p.at
	for p.at < len(p.src) && '0' <= p.src[p.at] && p.src[p.at] <= '9' {
		p.at++
	}
	return p.src[start:p.at]
}

// special marks the bytes of a string that need a look.
var special = func() (t [256]bool) {
	for c := range t {
		t[c] = c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf
	}
	return t
}()

// text copies a string. Only the short escapes are canonical as they stand.
func (p *plain) text() bool {
	start := p.at
	p.at++
	ascii := true
	for p.at < len(p.src) {
		c := p.src[p.at]
		if !special[c] {
			p.at++
			continue
		}
		switch {
		case c == '"':
			p.at++
			s := p.src[start:p.at]
			if !ascii && !utf8.Valid(s) {
				return false
			}
			p.dst = append(p.dst, s...)
			return true
		case c == '\\':
			if p.at+1 >= len(p.src) || strings.IndexByte(`"\bfnrt`, p.src[p.at+1]) < 0 {
				return false
			}
			p.at += 2
		case c >= utf8.RuneSelf:
			ascii = false
			p.at++
		default:
			return false
		}
	}
	return false
}

// name copies a member name and returns where its content lies in dst. Only
// printable ASCII without escapes is plain: there the order of bytes is the
// order of UTF-16 code units, by which members are sorted.
func (p *plain) name() (from, to int, ok bool) {
	if !p.next('"') {
		return 0, 0, false
	}
	start := p.at
	for p.at < len(p.src) && !special[p.src[p.at]] {
		p.at++
	}
	if p.at >= len(p.src) || p.src[p.at] != '"' {
		return 0, 0, false
	}
	p.dst = append(p.dst, '"')
	from = len(p.dst)
	p.dst = append(p.dst, p.src[start:p.at]...)
	to = len(p.dst)
	p.dst = append(p.dst, '"')
	p.at++
	return from, to, true
}

func (p *plain) array() bool {
	if p.depth++; p.depth > plainDepth {
		return false
	}
	p.at++
	p.dst = append(p.dst, '[')
	if p.next(']') {
		p.dst = append(p.dst, ']')
		p.depth--
		return true
	}
	for {
		if !p.value() {
			return false
		}
		if p.next(']') {
			p.dst = append(p.dst, ']')
			p.depth--
			return true
		}
		if !p.next(',') {
			return false
		}
		p.dst = append(p.dst, ',')
	}
}

// A member lies in dst from its opening quote to the end of its value.
type member struct{ start, nameEnd, end int }

func (p *plain) object() bool {
	if p.depth++; p.depth > plainDepth {
		return false
	}
	p.at++
	p.dst = append(p.dst, '{')
	if p.next('}') {
		p.dst = append(p.dst, '}')
		p.depth--
		return true
	}
	var few [16]member
	members := few[:0]
	sorted := true
	for {
		start := len(p.dst)
		from, to, ok := p.name()
		if !ok || !p.next(':') {
			return false
		}
		p.dst = append(p.dst, ':')
		if !p.value() {
			return false
		}
		if n := len(members); n > 0 && sorted {
			before := members[n-1]
			sorted = bytes.Compare(p.dst[before.start+1:before.nameEnd], p.dst[from:to]) < 0
		}
		members = append(members, member{start, to, len(p.dst)})
		if p.next('}') {
			break
		}
		if !p.next(',') {
			return false
		}
		p.dst = append(p.dst, ',')
	}
	if !sorted && !p.sort(members) {
		return false
	}
	p.dst = append(p.dst, '}')
	p.depth--
	return true
}

// sort writes the members of one object again in the order of their names. A
// name that occurs twice is not plain: it is the general transformer's part
// to refuse it.
func (p *plain) sort(members []member) bool {
	first := members[0].start
	p.scratch = append(p.scratch[:0], p.dst[first:]...)
	old := p.scratch
	name := func(m member) []byte { return old[m.start+1-first : m.nameEnd-first] }
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(name(a), name(b)) })
	p.dst = p.dst[:first]
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(name(members[i-1]), name(m)) {
				return false
			}
			p.dst = append(p.dst, ',')
		}
		p.dst = append(p.dst, old[m.start-first:m.end-first]...)
	}
	return true
}
