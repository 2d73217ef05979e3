package harness

import (
	"bytes"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"lifeloop/internal/vt"
)

// A tracker follows the bytes that a program sends to a terminal and knows
// which modes it has changed and not changed back. It is pure: bytes in, undo
// and redo strings out. A read may cut a sequence in two at any place.
type tracker struct {
	parser vt.Parser
	wanted []int     // numbers of the operating system commands to collect
	texts  []oscText // collected; the owner empties it
	modes  modes
}

type oscText struct {
	number int
	text   string
}

// modes is what a program has set in a terminal and what must be undone.
type modes struct {
	flipped     uint64      // bit i: privateModes[i] differs from its default
	alternate   int         // number of the mode that switched to the alternate screen, or 0
	keyboard    [2]keyboard // of the main and the alternate screen
	otherKeys   string      // parameter of modifyOtherKeys, or ""
	keypad      bool        // application keypad
	region      string      // parameters of the scroll region, or ""
	cursorStyle string      // parameter of the cursor style, or ""
}

// keyboard is the kitty keyboard protocol of one screen: terminals keep one
// stack for the main and one for the alternate screen.
type keyboard struct {
	base  int // flags set without a push
	depth int
	flags [maxPushes]int // of the innermost pushes; deeper ones are only counted
}

const maxPushes = 16

// privateModes lists the DEC private modes that a program can leave behind,
// with their default state.
var privateModes = [...]struct {
	number int
	on     bool
}{
	{number: 2026},                                                              // synchronised output: first, so that the others take effect
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

// scan follows p and reports whether the modes may have changed.
func (t *tracker) scan(p []byte) (changed bool) {
	for len(p) > 0 {
		var seq *vt.Sequence
		_, seq, p = t.parser.Next(p)
		switch {
		case seq == nil:
		case seq.Kind == vt.Control:
			// Most are colours, positions and erasures, which change no mode.
			if f := seq.Final; seq.Marker != 0 || f != 'm' && f != 'H' && f != 'K' && f != 'J' && f != 'C' {
				changed = t.control(seq) || changed
			}
		case seq.Kind == vt.Command:
			t.collect(seq.Body)
		case seq.Kind == vt.Escape:
			changed = t.escape(seq) || changed
		}
	}
	return changed
}

func (t *tracker) escape(seq *vt.Sequence) bool {
	switch {
	case seq.Inter != 0:
	case seq.Final == '=':
		return assign(&t.modes.keypad, true)
	case seq.Final == '>':
		return assign(&t.modes.keypad, false)
	case seq.Final == 'c':
		return assign(&t.modes, modes{})
	}
	return false
}

// collect appends the text of an operating system command to texts if its
// number is wanted.
func (t *tracker) collect(body []byte) {
	if len(t.wanted) == 0 {
		return
	}
	head, rest, _ := bytes.Cut(body, []byte{';'})
	if n, err := strconv.Atoi(string(head)); err == nil && slices.Contains(t.wanted, n) {
		t.texts = append(t.texts, oscText{n, string(rest)})
	}
}

func (t *tracker) control(seq *vt.Sequence) bool {
	type form struct{ marker, inter, final byte }
	switch (form{seq.Marker, seq.Inter, seq.Final}) {
	case form{'?', 0, 'h'}, form{'?', 0, 'l'}:
		changed := false
		for field := range bytes.SplitSeq(seq.Body, []byte{';'}) {
			changed = t.setPrivate(number(field, 0), seq.Final == 'h') || changed
		}
		return changed
	case form{'>', 0, 'u'}, form{'<', 0, 'u'}, form{'=', 0, 'u'}:
		return t.setKeyboard(seq)
	case form{'>', 0, 'm'}:
		return t.setOtherKeys(seq.Body)
	case form{0, 0, 'r'}:
		region := string(seq.Body)
		if strings.Trim(region, ";0") == "" {
			region = ""
		}
		return assign(&t.modes.region, region)
	case form{0, ' ', 'q'}:
		style := string(seq.Body)
		if number(seq.Body, 0) == 0 {
			style = ""
		}
		return assign(&t.modes.cursorStyle, style)
	case form{0, '!', 'p'}:
		return t.softReset()
	}
	return false
}

func (t *tracker) setPrivate(n int, on bool) bool {
	switch n {
	case 47, 1047, 1049:
		if !on {
			n = 0
			t.modes.keyboard[1] = keyboard{} // it ends with its screen
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
func (t *tracker) setKeyboard(seq *vt.Sequence) bool {
	k := &t.modes.keyboard[0]
	if t.modes.alternate != 0 {
		k = &t.modes.keyboard[1]
	}
	first, second, _ := bytes.Cut(seq.Body, []byte{';'})
	before := *k
	switch seq.Marker {
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
func (t *tracker) setOtherKeys(body []byte) bool {
	resource, value, _ := bytes.Cut(body, []byte{';'})
	if len(body) > 0 && number(resource, 0) != 4 { // an empty body resets all resources
		return false
	}
	if number(value, 0) == 0 {
		value = nil
	}
	return assign(&t.modes.otherKeys, string(value))
}

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
	return assign(&t.modes, m)
}

// undo returns the sequences that reset all modes, or "" if none is set.
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
		// Setting the region moves the cursor, so its position is saved around it.
		b.WriteString("\x1b7\x1b[r\x1b8")
	}
	m.keyboard[1].undo(&b)
	if m.alternate != 0 {
		writePrivate(&b, m.alternate, false)
	}
	m.keyboard[0].undo(&b)
	return b.String()
}

// redo returns the sequences that set the modes again after undo.
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

// number reads a decimal parameter; an empty or too large one is the default.
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
