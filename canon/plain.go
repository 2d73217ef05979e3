package canon

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// Most JSON of this program is plain: ASCII member names, strings with common
// escapes, numbers. This code transforms a plain text in one pass and almost
// without allocation, about six times as fast as the general transformer. If this
// code finds anything else, it stops, and the general transformer is used. Only the
// general transformer decides that a text is invalid. A fuzz test compares the two.

// plainDepth limits the recursion; deeper texts are not plain.
const plainDepth = 64

// plainDigits is the number of decimal digits that every double preserves.
const plainDigits = 15

// A plain scans src. It writes the canonical form to dst; with check set, it writes
// nothing and stops where src is not canonical.
type plain struct {
	src   []byte
	at    int
	check bool
	depth int

	dst     []byte
	members []member // the members of the objects around the current value, the innermost object last
	scratch []byte
}

// isPlainCanonical reports whether src is plain and canonical.
func isPlainCanonical(src []byte) bool {
	p := plain{src: src, check: true}
	return p.value() && p.at == len(src)
}

// appendPlain appends the canonical form of src to dst. If src is not plain, it
// returns false.
func appendPlain(dst, src []byte) ([]byte, bool) {
	p := plain{src: src, dst: dst, members: make([]member, 0, 32)}
	if !p.value() {
		return dst, false
	}
	p.space()
	return p.dst, p.at == len(src)
}

func (p *plain) put(b ...byte) {
	if !p.check {
		p.dst = append(p.dst, b...)
	}
}

// space skips white space. With check set, it skips nothing: canonical text has none.
func (p *plain) space() {
	for !p.check && p.at < len(p.src) && strings.IndexByte(" \t\r\n", p.src[p.at]) >= 0 {
		p.at++
	}
}

// is skips white space, and then the byte c if c is next. It reports whether c was
// next.
func (p *plain) is(c byte) bool {
	if p.at < len(p.src) && p.src[p.at] == c {
		p.at++
		return true
	}
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
	p.put(rest[:len(word)]...)
	p.at += len(word)
	return true
}

// number copies a number that is already canonical: at most plainDigits digits, no
// exponent, no redundant zero. It leaves all other numbers to otherNumber.
func (p *plain) number() bool {
	start := p.at
	if !p.plainNumber() {
		return p.otherNumber(start)
	}
	p.put(p.src[start:p.at]...)
	return true
}

// otherNumber writes the canonical form of a number that plainNumber did not accept.
// With check set, it only reports whether the number is canonical.
func (p *plain) otherNumber(start int) bool {
	g := general{src: p.src, at: start}
	n, err := g.number()
	if err != nil || p.check && n.text != string(p.src[start:g.at]) {
		return false
	}
	p.put([]byte(n.text)...)
	p.at = g.at
	return true
}

func (p *plain) plainNumber() bool {
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
		// Below 1e-6 the canonical form has an exponent.
		if whole[0] == '0' && len(bytes.TrimLeft(fraction, "0"))+6 <= len(fraction) {
			return false
		}
	} else if negative && whole[0] == '0' {
		return false
	}
	return p.at >= len(p.src) || p.src[p.at]|0x20 != 'e'
}

func (p *plain) digits() []byte {
	start := p.at
	for p.at < len(p.src) && '0' <= p.src[p.at] && p.src[p.at] <= '9' {
		p.at++
	}
	return p.src[start:p.at]
}

// text accepts a string whose escapes are all short and canonical, such as \n. The
// escape \/ is short but not canonical.
func (p *plain) text() bool {
	start := p.at
	p.at++
	ascii := true
	for {
		p.at += run(p.src[p.at:])
		if p.at >= len(p.src) {
			return false
		}
		switch c := p.src[p.at]; {
		case c == '"':
			p.at++
			s := p.src[start:p.at]
			if !ascii && !utf8.Valid(s) {
				return false
			}
			p.put(s...)
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
}

// name accepts a member name and returns the text between its quotes. Only ASCII
// without escapes is plain, because its bytes sort in the same order as UTF-16
// code units, which is the order of members.
func (p *plain) name() ([]byte, bool) {
	if !p.is('"') {
		return nil, false
	}
	name := p.src[p.at:]
	name = name[:run(name)]
	p.at += len(name)
	if p.at >= len(p.src) || p.src[p.at] != '"' {
		return nil, false
	}
	p.at++
	return name, true
}

// run counts the bytes at the start of b that a string contains unescaped: ASCII
// without control characters, quotes and backslashes. It checks eight bytes at a
// time. The subtraction may also mark bytes that it should not, but never below
// the first correct mark, because a borrow only affects higher bytes. So the
// lowest marked byte is always correct.
func run(b []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		quote, back := x^('"'*ones), x^('\\'*ones)
		marks := ((x-' '*ones)&^x | (quote-ones)&^quote | (back-ones)&^back | x) & tops
		if marks != 0 {
			return n + bits.TrailingZeros64(marks)/8
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return n
}

func (p *plain) array() bool {
	if p.depth++; p.depth > plainDepth {
		return false
	}
	p.at++
	p.put('[')
	for first := true; ; first = false {
		if first && p.is(']') {
			break
		}
		if !p.value() {
			return false
		}
		if p.is(']') {
			break
		}
		if !p.is(',') {
			return false
		}
		p.put(',')
	}
	p.put(']')
	p.depth--
	return true
}

// A member is a member of an object. It holds offsets, not slices, so that the
// garbage collector need not scan it.
type member struct {
	order         uint64 // the first bytes of the name, most significant first
	name, nameEnd int    // the name in src, between the quotes
	start, end    int    // the member in dst, from the quote to the end of its value
}

// order packs the first bytes of a name into a number that compares like the name.
// The zeros after a short name are less than any byte of a plain name.
func order(name []byte) uint64 {
	if len(name) >= 8 {
		return binary.BigEndian.Uint64(name)
	}
	var b [8]byte
	copy(b[:], name)
	return binary.BigEndian.Uint64(b[:])
}

func (p *plain) object() bool {
	if p.depth++; p.depth > plainDepth {
		return false
	}
	p.at++
	p.put('{')
	base := len(p.members)
	sorted := true
	var before []byte
	for first := true; ; first = false {
		if first && p.is('}') {
			break
		}
		start := len(p.dst)
		name, ok := p.name()
		nameAt := p.at - len(`"`) - len(name)
		if !ok || !p.is(':') {
			return false
		}
		if sorted && !first && bytes.Compare(before, name) >= 0 {
			if p.check {
				return false
			}
			sorted = false
		}
		before = name
		p.put('"')
		p.put(name...)
		p.put('"', ':')
		if !p.value() {
			return false
		}
		if !p.check {
			p.members = append(p.members, member{order(name), nameAt, nameAt + len(name), start, len(p.dst)})
		}
		if p.is('}') {
			break
		}
		if !p.is(',') {
			return false
		}
		p.put(',')
	}
	if !sorted && !p.sort(p.members[base:]) {
		return false
	}
	p.members = p.members[:base]
	p.put('}')
	p.depth--
	return true
}

// sort writes the members of one object again in the order of their names. It
// returns false if a name occurs twice, so that the general transformer reports it.
func (p *plain) sort(members []member) bool {
	src := p.src
	compare := func(a, b member) int {
		if a.order != b.order {
			return cmp.Compare(a.order, b.order)
		}
		return bytes.Compare(src[a.name:a.nameEnd], src[b.name:b.nameEnd])
	}
	first := members[0].start
	slices.SortFunc(members, compare)
	p.scratch = append(p.scratch[:0], p.dst[first:]...)
	p.dst = p.dst[:first]
	for i, m := range members {
		if i > 0 {
			if compare(members[i-1], m) == 0 {
				return false
			}
			p.dst = append(p.dst, ',')
		}
		p.dst = append(p.dst, p.scratch[m.start-first:m.end-first]...)
	}
	return true
}
