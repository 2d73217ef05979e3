//go:build linux

package harness

import (
	"bytes"
	"math/bits"
	"strconv"
	"strings"
)

// A tracker follows the bytes a program sends to a terminal and knows which
// modes it has changed and not changed back. It is pure: bytes in, undo and
// redo strings out. It recognises what the terminal would act on, wherever a
// read happened to cut a sequence in two, and nothing else: a chunk without an
// escape costs one search for it.
type tracker struct {
	state  state
	marker byte   // private marker of the sequence in flight: '?', '>', '=', '<', '!' or 0
	inter  byte   // its last intermediate byte, or 0
	body   []byte // its parameters, or the text of an operating system command
	over   bool   // body would have outgrown its bound

	wanted []int     // numbers of the operating system commands to collect
	texts  []oscText // collected; the owner empties it

	modes modes
}

type oscText struct {
	number int
	text   string
}

// modes is what a terminal has been told and what must be taken back.
type modes struct {
	flipped     uint64 // bit i: privateModes[i] differs from its default
	alternate   int    // number of the mode that switched to the alternate screen, or 0
	keyboard    [2]keyboard
	otherKeys   string // parameter of modifyOtherKeys, or ""
	keypad      bool   // application keypad
	region      string // parameters of the scroll region, or ""
	cursorStyle string // parameter of the cursor style, or ""
}

// keyboard is the kitty keyboard protocol of one screen: terminals keep one
// stack for the main and one for the alternate screen.
type keyboard struct {
	base  int // flags set without a push
	depth int
	flags [maxPushes]int // of the innermost pushes; deeper ones are only counted
}

const (
	maxPushes = 16
	maxParams = 128
	maxText   = 4096
)

// privateModes lists the DEC private modes that a program can leave behind,
// with the state a terminal has them in when nobody asked for anything.
var privateModes = [...]struct {
	number int
	on     bool
}{
	{number: 2026},                                                              // synchronised output: first, so that the rest shows
	{number: 9}, {number: 1000}, {number: 1001}, {number: 1002}, {number: 1003}, // mouse
	{number: 1004},                                                                 // focus reports
	{number: 1005}, {number: 1006}, {number: 1007}, {number: 1015}, {number: 1016}, // mouse encodings, alternate scroll
	{number: 2004},         // bracketed paste
	{number: 2031},         // colour scheme reports
	{number: 2048},         // in-band resize reports
	{number: 9001},         // win32 input
	{number: 1},            // application cursor keys
	{number: 66},           // application keypad, by number
	{number: 5},            // reverse video
	{number: 6},            // origin
	{number: 69},           // left and right margins
	{number: 7, on: true},  // wrap around
	{number: 25, on: true}, // cursor visible
}

type state uint8

const (
	ground    state = iota
	escape          // after ESC
	skipOne         // after ESC and intermediates: one final byte to come
	control         // in a control sequence
	command         // in an operating system command
	commandST       // in one, after ESC
	text            // in another string, whose content means nothing to us
	textST          // in one, after ESC
)

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
)

// scan follows p and reports whether the modes may have changed.
func (t *tracker) scan(p []byte) (changed bool) {
	for len(p) > 0 {
		switch t.state {
		case ground:
			i := bytes.IndexByte(p, esc)
			if i < 0 {
				return changed
			}
			p = p[i+1:]
			if n := harmless(p); n > 0 {
				p = p[n:]
				continue
			}
			t.state = escape
			continue
		case text:
			i := bytes.IndexAny(p, "\x1b\x18\x1a")
			if i < 0 {
				return changed
			}
			p = p[i:]
		}
		if t.step(p[0]) {
			changed = true
		}
		p = p[1:]
	}
	return changed
}

// harmless returns the length of the control sequence after an ESC if it is
// whole and of the kind that makes up a picture: colours, positions, erasures.
// It spares them the state machine.
func harmless(p []byte) int {
	if len(p) < 2 || p[0] != '[' {
		return 0
	}
	for i, b := range p[1:] {
		switch {
		case b >= '0' && b <= ';':
		case b >= 0x40 && b <= 0x7e && b != 'r' && b != 'u':
			return i + 2
		default:
			return 0
		}
	}
	return 0
}

// step takes one byte outside of ground and reports a change of modes.
func (t *tracker) step(b byte) bool {
	switch t.state {
	case escape:
		return t.escaped(b)
	case skipOne:
		switch {
		case b == esc:
			t.state = escape
		case b >= 0x20 && b <= 0x2f:
		default:
			t.state = ground
		}
	case control:
		return t.controlled(b)
	case command:
		switch b {
		case bel:
			t.collect()
			t.state = ground
		case can, sub:
			t.state = ground
		case esc:
			t.state = commandST
		default:
			t.keep(b, maxText)
		}
	case commandST:
		if b == '\\' {
			t.collect()
			t.state = ground
			return false
		}
		// An escape that is not a string terminator abandons the string.
		return t.escaped(b)
	case text:
		switch b {
		case can, sub:
			t.state = ground
		case esc:
			t.state = textST
		}
	case textST:
		if b == '\\' {
			t.state = ground
			return false
		}
		return t.escaped(b)
	}
	return false
}

// escaped takes the byte after an ESC.
func (t *tracker) escaped(b byte) bool {
	t.state = ground
	switch b {
	case '[':
		t.begin(control)
	case ']':
		t.begin(command)
	case 'P', 'X', '^', '_':
		t.state = text
	case esc:
		t.state = escape
	case '=':
		return t.setKeypad(true)
	case '>':
		return t.setKeypad(false)
	case 'c':
		return t.become(modes{})
	default:
		if b >= 0x20 && b <= 0x2f {
			t.state = skipOne
		} else if b < 0x20 && b != can && b != sub {
			t.state = escape // a control character inside a sequence acts and does not end it
		}
	}
	return false
}

func (t *tracker) begin(s state) {
	t.state, t.marker, t.inter, t.over = s, 0, 0, false
	t.body = t.body[:0]
}

// controlled takes a byte of a control sequence.
func (t *tracker) controlled(b byte) bool {
	switch {
	case b >= 0x40 && b <= 0x7e:
		t.state = ground
		if t.over {
			return false
		}
		return t.act(b)
	case b == esc:
		t.state = escape
	case b == can || b == sub:
		t.state = ground
	case b >= '<' && b <= '?':
		if len(t.body) > 0 || t.marker != 0 {
			t.over = true // malformed: terminals ignore it to its end
		}
		t.marker = b
	case b >= '0' && b <= ';':
		t.keep(b, maxParams)
	case b >= 0x20 && b <= 0x2f:
		t.inter = b
	}
	return false
}

func (t *tracker) keep(b byte, bound int) {
	if len(t.body) >= bound {
		t.over = true
		return
	}
	t.body = append(t.body, b)
}

// collect keeps the text of a finished operating system command if somebody
// wants it.
func (t *tracker) collect() {
	if t.over || len(t.wanted) == 0 {
		return
	}
	head, rest, _ := bytes.Cut(t.body, []byte{';'})
	number, err := strconv.Atoi(string(head))
	if err != nil {
		return
	}
	for _, w := range t.wanted {
		if w == number {
			t.texts = append(t.texts, oscText{number, string(rest)})
			return
		}
	}
}

// act performs a whole control sequence with its final byte.
func (t *tracker) act(final byte) bool {
	switch {
	case t.marker == '?' && t.inter == 0 && (final == 'h' || final == 'l'):
		changed := false
		for field := range bytes.SplitSeq(t.body, []byte{';'}) {
			if t.setPrivate(number(field, 0), final == 'h') {
				changed = true
			}
		}
		return changed
	case final == 'u' && t.inter == 0:
		return t.setKeyboard()
	case t.marker == '>' && t.inter == 0 && final == 'm':
		return t.setOtherKeys()
	case t.marker == 0 && t.inter == 0 && final == 'r':
		region := string(t.body)
		if strings.Trim(region, ";0") == "" {
			region = ""
		}
		return assign(&t.modes.region, region)
	case t.marker == 0 && t.inter == ' ' && final == 'q':
		style := string(t.body)
		if number(t.body, 0) == 0 {
			style = ""
		}
		return assign(&t.modes.cursorStyle, style)
	case t.marker == 0 && t.inter == '!' && final == 'p':
		return t.softReset()
	}
	return false
}

func (t *tracker) setPrivate(n int, on bool) bool {
	switch n {
	case 47, 1047, 1049:
		if !on {
			n = 0
			t.modes.keyboard[1] = keyboard{} // of no effect any more
		} else if t.modes.alternate != 0 {
			return false
		}
		return assign(&t.modes.alternate, n)
	}
	for i, m := range privateModes {
		if m.number != n {
			continue
		}
		flipped := t.modes.flipped &^ (1 << i)
		if on != m.on {
			flipped |= 1 << i
		}
		return assign(&t.modes.flipped, flipped)
	}
	return false
}

// setKeyboard performs CSI > flags u, CSI < n u and CSI = flags ; how u.
func (t *tracker) setKeyboard() bool {
	k := &t.modes.keyboard[0]
	if t.modes.alternate != 0 {
		k = &t.modes.keyboard[1]
	}
	first, second, _ := bytes.Cut(t.body, []byte{';'})
	before := *k
	switch t.marker {
	case '>':
		k.push(number(first, 0))
	case '<':
		for n := number(first, 1); n > 0 && (k.depth > 0 || k.base != 0); n-- {
			k.pop()
		}
	case '=':
		flags := number(first, 0)
		top := k.top()
		switch number(second, 1) {
		case 1:
			*top = flags
		case 2:
			*top |= flags
		case 3:
			*top &^= flags
		}
	}
	return *k != before
}

func (k *keyboard) push(flags int) {
	if k.depth < maxPushes {
		k.flags[k.depth] = flags
		k.depth++
		return
	}
	// Terminals drop the outermost entry of a full stack; so do we.
	copy(k.flags[:], k.flags[1:])
	k.flags[maxPushes-1] = flags
}

func (k *keyboard) pop() {
	if k.depth == 0 {
		k.base = 0 // emptying the stack resets all flags
		return
	}
	k.depth--
	k.flags[k.depth] = 0
}

func (k *keyboard) top() *int {
	if k.depth == 0 {
		return &k.base
	}
	return &k.flags[k.depth-1]
}

// setOtherKeys performs CSI > 4 ; n m.
func (t *tracker) setOtherKeys() bool {
	resource, value, _ := bytes.Cut(t.body, []byte{';'})
	switch {
	case len(t.body) == 0: // resets all of them
		return assign(&t.modes.otherKeys, "")
	case number(resource, 0) != 4:
		return false
	case number(value, 0) == 0:
		return assign(&t.modes.otherKeys, "")
	}
	return assign(&t.modes.otherKeys, string(value))
}

func (t *tracker) setKeypad(on bool) bool { return assign(&t.modes.keypad, on) }

// softReset performs DECSTR, which leaves the mouse, paste mode, the keyboard
// protocol and the screen alone.
func (t *tracker) softReset() bool {
	m := t.modes
	for i, p := range privateModes {
		switch p.number {
		case 1, 6, 7, 25, 66:
			m.flipped &^= 1 << i
		}
	}
	m.keypad, m.region, m.cursorStyle = false, "", ""
	return t.become(m)
}

func (t *tracker) become(m modes) bool { return assign(&t.modes, m) }

// undo returns the bytes that take everything back, "" if there is nothing.
func (m *modes) undo() string {
	if *m == (modes{}) {
		return ""
	}
	var b strings.Builder
	for set := m.flipped; set != 0; set &= set - 1 {
		p := privateModes[bits.TrailingZeros64(set)]
		writePrivate(&b, p.number, p.on)
	}
	if m.otherKeys != "" {
		b.WriteString("\x1b[>4m")
	}
	if m.keypad {
		b.WriteString("\x1b>")
	}
	if m.cursorStyle != "" {
		b.WriteString("\x1b[0 q")
	}
	if m.region != "" {
		// Setting the region moves the cursor: keep it where it is.
		b.WriteString("\x1b7\x1b[r\x1b8")
	}
	m.keyboard[1].undo(&b)
	if m.alternate != 0 {
		writePrivate(&b, m.alternate, false)
	}
	m.keyboard[0].undo(&b)
	return b.String()
}

// redo returns the bytes that bring a terminal after undo to the state it had
// before, without what was drawn.
func (m *modes) redo() string {
	if *m == (modes{}) {
		return ""
	}
	var b strings.Builder
	m.keyboard[0].redo(&b)
	if m.alternate != 0 {
		writePrivate(&b, m.alternate, true)
	}
	m.keyboard[1].redo(&b)
	if m.region != "" {
		b.WriteString("\x1b7\x1b[" + m.region + "r\x1b8")
	}
	if m.cursorStyle != "" {
		b.WriteString("\x1b[" + m.cursorStyle + " q")
	}
	if m.keypad {
		b.WriteString("\x1b=")
	}
	if m.otherKeys != "" {
		b.WriteString("\x1b[>4;" + m.otherKeys + "m")
	}
	for set := m.flipped; set != 0; set &= set - 1 {
		p := privateModes[bits.TrailingZeros64(set)]
		writePrivate(&b, p.number, !p.on)
	}
	return b.String()
}

func (k *keyboard) undo(b *strings.Builder) {
	if k.depth > 0 {
		b.WriteString("\x1b[<" + strconv.Itoa(k.depth) + "u")
	}
	if k.base != 0 {
		b.WriteString("\x1b[=0;1u")
	}
}

func (k *keyboard) redo(b *strings.Builder) {
	if k.base != 0 {
		b.WriteString("\x1b[=" + strconv.Itoa(k.base) + ";1u")
	}
	for _, flags := range k.flags[:k.depth] {
		b.WriteString("\x1b[>" + strconv.Itoa(flags) + "u")
	}
}

func writePrivate(b *strings.Builder, n int, on bool) {
	b.WriteString("\x1b[?" + strconv.Itoa(n))
	if on {
		b.WriteByte('h')
	} else {
		b.WriteByte('l')
	}
}

// number reads a decimal parameter; an empty or absurd one is the default.
func number(field []byte, otherwise int) int {
	n, err := strconv.Atoi(string(field))
	if err != nil || n > 1<<16 {
		return otherwise
	}
	return n
}

func assign[T comparable](at *T, value T) bool {
	if *at == value {
		return false
	}
	*at = value
	return true
}
