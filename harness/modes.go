package harness

import (
	"bytes"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"lifeloop/internal/vt"
)

// A tracker reads the bytes that a program sends to a terminal and records
// which modes the program has changed and not changed back. It has no side
// effects: it only returns strings that undo or redo the changes. A read may
// cut a sequence in two at any place.
type tracker struct {
	parser vt.Parser
	wanted []int     // numbers of the operating system commands to collect
	texts  []oscText // the collected commands; Child.pass empties the list
	modes  modes
	raw    bool // the terminal did not use UTF-8 at the start; then sequences that select an encoding are ignored

	look     look
	under    look // the look that returns when the alternate screen is left
	saved    savedCursor
	kept     keptModes
	pushed   pushedLooks
	rendered []span // the parameters for look.render, as spans of the input of scan; empty after scan
}

type span struct{ from, to int }

// savedCursor is what ESC 7 saves in addition to the cursor's position. Mode 1049 saves
// the same when it switches to the alternate screen.
type savedCursor struct {
	look     look
	charsets charsets
}

// keptModes holds the DEC private modes that CSI ? n s has saved. The reset sequence RIS
// does not clear it, because some terminals keep the saved modes after RIS.
type keptModes struct {
	flipped uint64 // bit i: switches[i] was saved, and differed from its default
	other   bool   // the alternate screen was on when one of its modes (47, 1047, 1049) was last saved
}

// pushedLooks is the stack of CSI # { and CSI # }. As with keptModes, RIS does not clear
// it. The array has as many elements as the stack of a terminal.
type pushedLooks struct {
	looks [10]look // outermost first; any deeper look is ORed into the last element
	depth int
}

type oscText struct {
	number int
	text   string
}

// modes is what a program has set in a terminal and what must be undone. The look,
// which changes with every word, is kept separately.
type modes struct {
	flipped     uint64      // bit i: switches[i] differs from its default
	alternate   int         // number of the mode that switched to the alternate screen, or 0
	keyboard    [2]keyboard // the keyboard states of the main and the alternate screen
	keys        [8]string   // CSI > n ; value m sets keys[n]; "" is default, "-" disabled
	keypad      bool        // application keypad
	region      string      // parameters of the scroll region, or ""
	cursorStyle string      // parameter of the cursor style, or ""
	charsets    charsets
	under       charsets // the character sets that return when the alternate screen is left
	latin       bool     // the terminal was switched from UTF-8 to another encoding
	palette     bool     // the palette of a console of Linux was changed
	progress    bool     // a progress bar is shown
	colours     uint32   // bit n is set if the colour of OSC command n was changed; 4 is the palette
}

// charsets are the designated character sets, and which of these are in GL and GR.
type charsets struct {
	sets [4]byte // final byte for G0 to G3; 0 is ASCII
	left byte    // which of G0 to G3 is in GL
	side byte    // which set is in GR: 1 is G1, 3 is G3, and 0 is G2, the default
}

// never is the part of m that no program leaves set on purpose. The other
// modes, a palette for example, are undone only after a death by signal.
func (m *modes) never() modes {
	rest := *m
	rest.flipped, rest.charsets, rest.under, rest.latin = 0, charsets{}, charsets{}, false
	rest.palette, rest.progress, rest.colours = false, false, 0
	for i, p := range switches {
		if !p.late {
			rest.flipped |= m.flipped & (1 << i)
		}
	}
	for i := range rest.keys {
		if i != modifyOtherKeys {
			rest.keys[i] = ""
		}
	}
	return rest
}

const modifyOtherKeys = 4 // the resource number of modifyOtherKeys

// keyboard is the kitty keyboard protocol of one screen: terminals keep one
// stack for the main and one for the alternate screen.
type keyboard struct {
	base  int // flags set without a push
	depth int
	flags [maxPushes]int // flags of the innermost pushes; a full stack drops its outermost ones
}

const maxPushes = 16

// switches lists the modes that a program can leave behind, with their default
// state: DEC private modes and a few of ECMA-48. The late ones are undone only after a
// death by signal. docs/promises.md lists all these modes.
var switches = [...]struct {
	number         int
	ansi, on, late bool
}{
	{number: 2026},                                                              // synchronised output: reset first, so that the other resets take effect
	{number: 9}, {number: 1000}, {number: 1001}, {number: 1002}, {number: 1003}, // mouse
	{number: 1004},                                                                 // focus reports
	{number: 1005}, {number: 1006}, {number: 1007}, {number: 1015}, {number: 1016}, // mouse encodings, alternate scroll
	{number: 2004},                       // bracketed paste
	{number: 2031},                       // colour scheme reports
	{number: 2048},                       // in-band resize reports
	{number: 9001},                       // win32 input
	{number: 1},                          // application cursor keys
	{number: 66},                         // application keypad, which ESC = sets too
	{number: 5},                          // reverse video
	{number: 6},                          // origin
	{number: 69},                         // left and right margins
	{number: 7, on: true},                // wrap around
	{number: 25, on: true},               // cursor visible
	{number: 8, on: true, late: true},    // autorepeat
	{number: 67, late: true},             // backspace key sends BS
	{number: 2, ansi: true, late: true},  // keyboard locked
	{number: 4, ansi: true, late: true},  // insert
	{number: 20, ansi: true, late: true}, // line feed also moves to column 1
}

const (
	shiftOut = 0x0e
	shiftIn  = 0x0f
	c2       = 0xc2 // the first byte of C1 controls in UTF-8
)

// scan reads the output p and reports whether the modes may have changed.
func (t *tracker) scan(p []byte) (changed bool) {
	// C1 controls and shifts are rare. The text is searched for C1 controls only if p
	// may have one, and for shifts only while a character set is not ASCII, because
	// otherwise a shift has no visible effect.
	switch {
	case t.raw || t.modes.latin:
		t.parser.C1 = vt.C1Raw
	case bytes.IndexByte(p, c2) >= 0, t.parser.Half():
		t.parser.C1 = vt.C1UTF8
	default:
		t.parser.C1 = vt.C1None
	}
	shifts, all := t.modes.charsets != charsets{}, p
	for len(p) > 0 {
		var text []byte
		var seq *vt.Sequence
		text, seq, p = t.parser.Next(p)
		if shifts {
			changed = t.shift(text) || changed
		}
		did := false
		switch {
		case seq == nil:
		case seq.Kind == vt.Control:
			// Most sequences set a look or a position, or erase text, and change no mode.
			switch f := seq.Final; {
			case seq.Marker != 0:
				if seq.Marker == '?' && bytes.Contains(seq.Body, []byte("104")) {
					t.render(all) // the sequence may save or restore the look
				}
				did = t.control(seq)
			case f == 'm' && seq.Inter == 0:
				// Only what follows the last reset counts.
				switch b := seq.Body; {
				case len(b) == 0 || len(b) == 1 && b[0] == '0':
					t.look, t.rendered = 0, t.rendered[:0]
				case seq.Copied:
					t.render(all)
					t.look.render(b)
				default:
					end := len(all) - len(p) - 1
					t.rendered = append(t.rendered, span{end - len(b), end})
				}
			case f == 's' || f == 'u' || seq.Inter == '#':
				t.render(all)
				did = t.control(seq)
			case f != 'H' && f != 'K' && f != 'J' && f != 'C':
				did = t.control(seq)
			}
		case seq.Kind == vt.Command:
			changed = t.command(seq.Body) || changed
		case seq.Kind == vt.Escape:
			t.render(all)
			did = t.escape(seq)
		}
		if did {
			changed, shifts = true, t.modes.charsets != charsets{}
		}
	}
	t.render(all)
	return changed
}

// render applies the parameters that scan has collected to the look, and empties the list
// t.rendered. p is the input of scan, which contains the parameters.
func (t *tracker) render(p []byte) {
	for _, body := range t.rendered {
		t.look.render(p[body.from:body.to])
	}
	t.rendered = t.rendered[:0]
}

// shift handles the control characters that select G0 or G1.
func (t *tracker) shift(text []byte) (changed bool) {
	for _, b := range text {
		if (b == shiftOut || b == shiftIn) && t.modes.charsets != (charsets{}) {
			changed = assign(&t.modes.charsets.left, shiftIn-b) || changed
		}
	}
	return changed
}

func (t *tracker) escape(seq *vt.Sequence) bool {
	sets := &t.modes.charsets
	switch which := seq.First; which {
	case 0:
	case '%':
		if t.raw || seq.Inter != '%' || seq.Final != '@' && seq.Final != 'G' {
			return false
		}
		t.parser.C1 = vt.C1UTF8
		if seq.Final == '@' {
			t.parser.C1 = vt.C1Raw
		}
		return assign(&t.modes.latin, seq.Final == '@')
	case '$': // a set of multi-byte characters, in G0 if '$' is the only intermediate byte
		return assign(&sets.sets[max(0, designated(seq.Inter))], seq.Final)
	default:
		i, final := designated(which), seq.Final
		if i < 0 {
			return false
		}
		if which <= '+' && seq.Inter == which && final == 'B' {
			final = 0
		}
		return assign(&sets.sets[i], final)
	}
	switch seq.Final {
	case '=':
		return assign(&t.modes.keypad, true)
	case '>':
		return assign(&t.modes.keypad, false)
	case '7':
		t.save()
	case '8':
		return t.restore()
	case 'n', 'o': // locking shifts
		return assign(&sets.left, seq.Final-'n'+2)
	case '~', '|':
		return assign(&sets.side, '~'-seq.Final+1)
	case '}':
		return assign(&sets.side, 0)
	case 'c':
		t.look, t.under, t.saved = 0, 0, savedCursor{}
		// Not all terminals reset colours or return to UTF-8 on RIS, so these modes stay.
		return assign(&t.modes, modes{latin: t.modes.latin, palette: t.modes.palette, progress: t.modes.progress, colours: t.modes.colours})
	}
	return false
}

func (t *tracker) save() { t.saved = savedCursor{t.look, t.modes.charsets} }

func (t *tracker) restore() bool {
	t.look = t.saved.look
	return assign(&t.modes.charsets, t.saved.charsets)
}

// designated returns which of G0 to G3 a sequence with the intermediate byte b
// designates, or -1.
func designated(b byte) int {
	switch b {
	case '(', ')', '*', '+':
		return int(b - '(')
	case '-', '.', '/': // sets with 96 characters
		return int(b-'-') + 1
	}
	return -1
}

// command handles an operating system command. If t.wanted has the command's number, the
// command's text is appended to t.texts.
func (t *tracker) command(body []byte) (changed bool) {
	if t.parser.Console && (len(body) == 8 && body[0] == 'P' || len(body) == 1 && body[0] == 'R') {
		return assign(&t.modes.palette, body[0] == 'P')
	}
	n, i := 0, 0
	for ; i < len(body) && i < 5 && body[i]-'0' <= 9; i++ {
		n = 10*n + int(body[i]-'0')
	}
	if i == 0 || i < len(body) && body[i] != ';' {
		return false
	}
	rest := body[min(i+1, len(body)):]
	if slices.Contains(t.wanted, n) {
		t.texts = append(t.texts, oscText{n, string(rest)})
	}
	colours := t.modes.colours
	switch {
	case n < 4 || n > 119:
	case n == 9:
		if state, ok := bytes.CutPrefix(rest, []byte("4;")); ok {
			return assign(&t.modes.progress, number(bytes.SplitN(state, []byte{';'}, 2)[0], 0) != 0)
		}
	case n == 4 || n == 5: // the body holds pairs of an index and a colour
		for i, spec := range bytes.Split(rest, []byte{';'}) {
			if i%2 == 1 && string(spec) != "?" {
				colours |= 1 << n
			}
		}
	case n >= 10 && n <= 19: // the body holds the colours n, n+1 and so on
		for spec := range bytes.SplitSeq(rest, []byte{';'}) {
			if n <= 19 && len(spec) > 0 && string(spec) != "?" {
				colours |= 1 << n
			}
			n++
		}
	case n >= 104 && len(rest) == 0:
		colours &^= 1 << (n - 100)
	}
	return assign(&t.modes.colours, colours)
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
	case form{'?', 0, 's'}:
		for field := range bytes.SplitSeq(seq.Body, []byte{';'}) {
			t.keep(number(field, 0))
		}
	case form{'?', 0, 'r'}:
		changed := false
		for field := range bytes.SplitSeq(seq.Body, []byte{';'}) {
			changed = t.recall(number(field, 0)) || changed
		}
		return changed
	case form{0, 0, 'h'}, form{0, 0, 'l'}:
		changed := false
		for field := range bytes.SplitSeq(seq.Body, []byte{';'}) {
			changed = t.setSwitch(number(field, 0), true, seq.Final == 'h') || changed
		}
		return changed
	case form{0, 0, 's'}, form{0, 0, 'u'}: // with parameters, these sequences have other functions
		switch {
		case len(seq.Body) > 0:
		case seq.Final == 's':
			t.save()
		default:
			return t.restore()
		}
	case form{'>', 0, 'u'}, form{'<', 0, 'u'}, form{'=', 0, 'u'}:
		return t.setKeyboard(seq)
	case form{'>', 0, 'm'}, form{'>', 0, 'n'}:
		return t.setKeys(seq)
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
	case form{0, '#', '{'}, form{0, '#', 'p'}:
		t.pushed.push(t.look)
	case form{0, '#', '}'}, form{0, '#', 'q'}:
		// Not all terminals have this stack, and some save only a part of the look. So
		// the properties of the present look stay set.
		t.look |= t.pushed.pop()
	case form{0, '!', 'p'}:
		t.rendered = t.rendered[:0]
		return t.softReset()
	}
	return false
}

func (t *tracker) setPrivate(n int, on bool) bool {
	switch n {
	case 47, 1047, 1049:
		before := t.modes
		switch {
		case on && t.modes.alternate != 0:
		case on:
			t.modes.alternate = n
			if n == 1049 {
				t.save()
				t.under, t.modes.under = t.saved.look, t.saved.charsets
			}
		default:
			if n == 1049 && t.modes.alternate == n {
				t.saved = savedCursor{t.under, t.modes.under}
				t.restore()
			}
			t.under, t.modes.under, t.modes.alternate = 0, charsets{}, 0
			t.modes.keyboard[1] = keyboard{} // leaving the alternate screen ends its keyboard protocol
		}
		return t.modes != before
	case 1048:
		if !on {
			return t.restore()
		}
		t.save()
	}
	return t.setSwitch(n, false, on)
}

// keep performs CSI ? n s.
func (t *tracker) keep(n int) {
	if n == 47 || n == 1047 || n == 1049 {
		t.kept.other = t.modes.alternate != 0
	}
	for i, p := range switches {
		if p.number != n || p.ansi {
			continue
		}
		t.kept.flipped = t.kept.flipped&^(1<<i) | t.modes.flipped&(1<<i)
		if n == 66 && t.modes.keypad { // the same mode as ESC =
			t.kept.flipped |= 1 << i
		}
	}
}

// recall performs CSI ? n r. Not all terminals know this sequence. So recall records only
// that a mode is changed, never that it is unchanged: undoing an unchanged mode does no
// harm.
func (t *tracker) recall(n int) bool {
	if t.kept.other && (n == 47 || n == 1047 || n == 1049) {
		return t.setPrivate(n, true)
	}
	for i, p := range switches {
		if p.number == n && !p.ansi {
			return assign(&t.modes.flipped, t.modes.flipped|t.kept.flipped&(1<<i))
		}
	}
	return false
}

// plain reports whether text appears in the default look, both at present and after the
// program leaves the alternate screen.
func (t *tracker) plain() bool { return t.look == 0 && t.under == 0 }

// showsCursor reports whether the cursor is visible.
func (m *modes) showsCursor() bool {
	for i, p := range switches {
		if p.number == 25 {
			return m.flipped&(1<<i) == 0
		}
	}
	return true
}

func (t *tracker) setSwitch(n int, ansi, on bool) bool {
	for i, m := range switches {
		if m.number != n || m.ansi != ansi {
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

func (s *pushedLooks) push(l look) {
	if s.depth < len(s.looks) {
		s.looks[s.depth] = 0
	}
	s.looks[min(s.depth, len(s.looks)-1)] |= l
	s.depth++
}

func (s *pushedLooks) pop() look {
	if s.depth == 0 {
		return 0
	}
	s.depth--
	return s.looks[min(s.depth, len(s.looks)-1)]
}

func (k *keyboard) push(flags int) {
	if k.depth < maxPushes {
		k.flags[k.depth] = flags
		k.depth++
		return
	}
	// Like terminals, drop the outermost entry of a full stack.
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

// setKeys performs CSI > resource ; value m, which sets a resource, and CSI > resource n,
// which disables a resource.
func (t *tracker) setKeys(seq *vt.Sequence) bool {
	resource, value, _ := bytes.Cut(seq.Body, []byte{';'})
	if seq.Final == 'n' {
		return t.setKey(number(resource, 2), "-")
	}
	if len(seq.Body) == 0 {
		return assign(&t.modes.keys, [8]string{})
	}
	if number(value, 0) == 0 {
		value = nil
	}
	return t.setKey(number(resource, 0), string(value))
}

func (t *tracker) setKey(resource int, value string) bool {
	if resource < 0 || resource >= len(t.modes.keys) {
		return false
	}
	return assign(&t.modes.keys[resource], value)
}

// softReset performs DECSTR, which leaves the mouse, paste mode, the keyboard
// protocol and the screen alone.
func (t *tracker) softReset() bool {
	m := t.modes
	for i, p := range switches {
		switch p.number {
		case 1, 2, 4, 6, 7, 25, 66:
			m.flipped &^= 1 << i
		}
	}
	m.keypad, m.region, m.cursorStyle, m.charsets = false, "", "", charsets{}
	t.look, t.saved = 0, savedCursor{}
	return assign(&t.modes, m)
}

// undo returns the sequences that reset the modes that no program leaves set on
// purpose, or all modes if a signal ended the program. It returns "" if no such mode is
// set.
func (m *modes) undo(ended bool) string {
	if !ended {
		kept := m.never()
		return kept.undo(true)
	}
	if *m == (modes{}) {
		return ""
	}
	var b strings.Builder
	for set := m.flipped; set != 0; set &= set - 1 {
		p := switches[bits.TrailingZeros64(set)]
		writeSwitch(&b, p.number, p.ansi, p.on)
	}
	for resource, value := range m.keys {
		if value != "" {
			b.WriteString("\x1b[>" + strconv.Itoa(resource) + "m")
		}
	}
	if m.keypad {
		b.WriteString("\x1b>")
	}
	if m.cursorStyle != "" {
		b.WriteString("\x1b[0 q")
	}
	if m.region != "" {
		// Setting the region moves the cursor, so the position is saved and restored.
		b.WriteString("\x1b7\x1b[r\x1b8")
	}
	m.keyboard[1].undo(&b)
	if m.alternate != 0 {
		writeSwitch(&b, m.alternate, false, false)
	}
	m.keyboard[0].undo(&b)
	m.charsets.or(m.under).undo(&b)
	if m.latin {
		b.WriteString("\x1b%G")
	}
	m.undoCommands(&b)
	return b.String()
}

// everything returns modes in which every resettable mode is changed, except
// alternate scroll, which is on by default in some terminals, and the palette of a
// console: on other terminals, the sequence that resets it would begin a string.
func everything() modes {
	m := modes{alternate: 1049, keypad: true, region: "1", cursorStyle: "1", latin: true, progress: true, charsets: charsets{left: 1, side: 1}}
	for i, p := range switches {
		if p.number != 1007 {
			m.flipped |= 1 << i
		}
	}
	m.keyboard[0] = keyboard{base: 1, depth: maxPushes}
	for i := range m.keys {
		m.keys[i] = "1"
	}
	for i := range m.charsets.sets {
		m.charsets.sets[i] = '0'
	}
	for n := 10; n <= 19; n++ {
		m.colours |= 1 << n
	}
	m.colours |= 1<<4 | 1<<5
	return m
}

// or returns charsets that differ from the default wherever c or d does.
func (c charsets) or(d charsets) charsets {
	for i := range c.sets {
		c.sets[i] |= d.sets[i]
	}
	c.left |= d.left
	c.side |= d.side
	return c
}

func (c charsets) undo(b *strings.Builder) {
	for i, set := range c.sets {
		if set != 0 {
			b.WriteString("\x1b" + string("()*+"[i]) + "B")
		}
	}
	if c.left != 0 {
		b.WriteByte(shiftIn)
	}
	if c.side != 0 {
		b.WriteString("\x1b}")
	}
}

func (m *modes) undoCommands(b *strings.Builder) {
	if m.palette {
		b.WriteString("\x1b]R")
	}
	if m.progress {
		b.WriteString("\x1b]9;4;0\x1b\\")
	}
	for set := m.colours; set != 0; set &= set - 1 {
		b.WriteString("\x1b]" + strconv.Itoa(100+bits.TrailingZeros32(set)) + "\x1b\\")
	}
}

// redo returns the sequences that set the modes again after undo(false).
func (m *modes) redo() string {
	if kept := m.never(); *m != kept {
		return kept.redo()
	}
	if *m == (modes{}) {
		return ""
	}
	var b strings.Builder
	m.keyboard[0].redo(&b)
	if m.alternate != 0 {
		writeSwitch(&b, m.alternate, false, true)
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
	switch value := m.keys[modifyOtherKeys]; value {
	case "":
	case "-":
		b.WriteString("\x1b[>4n")
	default:
		b.WriteString("\x1b[>4;" + value + "m")
	}
	for set := m.flipped; set != 0; set &= set - 1 {
		p := switches[bits.TrailingZeros64(set)]
		writeSwitch(&b, p.number, p.ansi, !p.on)
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

func writeSwitch(b *strings.Builder, n int, ansi, on bool) {
	b.WriteString("\x1b[")
	if !ansi {
		b.WriteByte('?')
	}
	b.WriteString(strconv.Itoa(n))
	if on {
		b.WriteByte('h')
	} else {
		b.WriteByte('l')
	}
}

// number reads a decimal parameter. It returns the value of otherwise if the parameter is
// empty, too large or not a number.
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
