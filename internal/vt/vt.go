// Package vt splits the bytes that a program writes to a terminal into text and
// control sequences (ECMA-48, with the extensions of xterm). It does not model
// the screen. The callers decide what a sequence means.
//
// The stream may be cut anywhere: the same bytes give the same text and the same
// sequences, however they are divided among calls. A sequence that is malformed,
// cancelled or too long is dropped, as in terminals.
//
//	var p vt.Parser
//	for len(b) > 0 {
//		var text []byte
//		var seq *vt.Sequence
//		text, seq, b = p.Next(b)
//		...
//	}
package vt

import "bytes"

// Kind is the kind of a sequence.
type Kind uint8

const (
	Escape  Kind = iota // ESC, intermediate bytes, one final byte
	Control             // CSI: ESC [ parameters final
	Command             // OSC: ESC ] text, ended by BEL, by ESC \ or by ST in C1 form
	String              // DCS, SOS, PM or APC, without its content
)

// A Sequence is one complete control sequence. It is valid until the next call
// of Next, and only while the input of Next is not changed.
type Sequence struct {
	Kind   Kind
	Marker byte // private marker of a Control, one of < = > ?, or 0
	First  byte // first intermediate byte of an Escape, or 0
	Inter  byte // last intermediate byte of an Escape or a Control, or 0
	Final  byte // final byte of an Escape or a Control

	// Body holds the parameters of a Control or the text of a Command.
	Body []byte
	// Copied means that Body is in the parser's memory, for example because the sequence
	// was cut in two. Otherwise it is part of the input of Next.
	Copied bool
}

const (
	maxParameters = 2048 // bytes in the body of a Control: enough for 256 parameters, the most that a terminal reads
	maxText       = 4096 // bytes in the body of a Command
)

// C1 says which bytes are read as the controls U+0080 to U+009F. Each control has
// the same meaning as ESC and one other byte.
type C1 uint8

const (
	C1None C1 = iota
	C1UTF8    // the UTF-8 encodings of the controls, which xterm reads in its UTF-8 mode
	C1Raw     // only the byte 0x9b, which means CSI; other bytes are more likely to be letters
)

// A Parser parses one stream. Its zero value is ready for use. It allocates only to
// hold the body of a sequence, for example of one that is cut in two, and reuses that
// space.
type Parser struct {
	// Console means that the terminal is a console of Linux. There OSC R, and OSC P with
	// seven hexadecimal digits, are complete Commands: no BEL or ESC \ follows.
	Console bool

	// C1 may change between two calls of Next. Inside a Command or a String, U+009C ends
	// the sequence if C1 is C1UTF8; no other C1 control has an effect there.
	C1 C1

	state state
	half  bool     // the text or the string so far ends with 0xc2, which may begin a C1 control
	drop  bool     // the sequence in progress is malformed or too long
	seq   Sequence // the sequence in progress, then the one that Next returned
	body  []byte   // the body of the sequence in progress, or of seq if seq.Copied is set
}

type state uint8

const (
	ground     state = iota
	escape           // after ESC, and in its intermediate bytes
	control          // in a Control
	command          // in a Command
	commandEsc       // after an ESC in a Command
	content          // in a String
	contentEsc       // after an ESC in a String
)

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b

	c1Lead    = 0xc2 // the first byte of a C1 control in UTF-8
	stringEnd = 0x9c // the second byte of the C1 control ST, which means ESC \
)

// Next parses b up to the end of its first sequence. text is the part of b before the
// sequence, including control characters; rest is the part of b after the sequence.
// seq is nil if the sequence was dropped, or if no sequence ends in b.
func (p *Parser) Next(b []byte) (text []byte, seq *Sequence, rest []byte) {
	if p.state == ground {
		i := bytes.IndexByte(b, esc)
		if p.C1 != C1None {
			if at, after, final := p.findC1(b, i); final != 0 {
				p.begin(escape)
				p.escaped(final)
				text, b = b[:at], b[after:]
				if p.state == ground {
					return text, &p.seq, b // the sequence has no body
				}
				return p.rest(text, b)
			}
		}
		if i < 0 {
			return b, nil, nil
		}
		text, b = b[:i], b[i+1:]
		// Usually a sequence is well-formed and not cut in two; then it need not be
		// copied.
		if len(b) > 1 && b[0] == '[' {
			start, marker := 1, byte(0)
			if b[1] >= '<' && b[1] <= '?' {
				start, marker = 2, b[1]
			}
			for i := start; i < len(b); i++ {
				c := b[i]
				if c-'0' <= ';'-'0' {
					continue
				}
				if c < 0x40 || c > 0x7e || i-start > maxParameters {
					break
				}
				seq = &p.seq
				seq.Kind, seq.Marker, seq.Inter, seq.Final, seq.Copied, seq.Body = Control, marker, 0, c, false, b[start:i]
				return text, seq, b[i+1:]
			}
		} else if n := p.uncutCommand(b); n > 0 {
			return text, &p.seq, b[n:]
		}
		p.begin(escape)
	}
	return p.rest(text, b)
}

// rest parses b up to the end of the sequence that has begun.
func (p *Parser) rest(text, b []byte) ([]byte, *Sequence, []byte) {
	for len(b) > 0 {
		if p.state == content && p.C1 != C1UTF8 {
			i := bytes.IndexAny(b, "\x1b\x18\x1a")
			if i < 0 {
				break
			}
			b = b[i:]
		}
		p.step(b[0])
		b = b[1:]
		if p.state != ground {
			continue
		}
		if p.drop {
			return text, nil, b
		}
		p.seq.Body, p.seq.Copied = p.body, true
		return text, &p.seq, b
	}
	return text, nil, nil
}

// Half reports whether the text or the string so far ends with the first byte of what
// may be a C1 control in UTF-8.
func (p *Parser) Half() bool { return p.half }

// findC1 finds the first C1 control in b before the index esc of the first ESC; esc is
// negative if b has no ESC. It returns where the control begins and ends, and the byte
// that follows ESC in the control's 7-bit form. This byte is 0 if there is no control.
func (p *Parser) findC1(b []byte, esc int) (at, after int, final byte) {
	const csi = 0x9b
	text := b
	if esc >= 0 {
		text = b[:esc]
	}
	if p.C1 == C1Raw {
		if at = bytes.IndexByte(text, csi); at >= 0 {
			return at, at + 1, csi - 0x40
		}
		return 0, 0, 0
	}
	if p.half && len(b) > 0 {
		p.half = false
		if c := b[0]; c >= 0x80 && c <= 0x9f {
			return 0, 1, c - 0x40
		}
	}
	for at = 0; at < len(text); at++ {
		i := bytes.IndexByte(text[at:], c1Lead)
		if i < 0 {
			break
		}
		at += i
		if at+1 == len(text) {
			p.half = esc < 0
			break
		}
		if c := text[at+1]; c >= 0x80 && c <= 0x9f {
			return at, at + 2, c - 0x40
		}
	}
	return 0, 0, 0
}

// uncutCommand sets p.seq to the Command at the beginning of b (after its ESC), and
// returns its length. It returns 0 if b must be parsed byte by byte instead, for example
// because the Command is cut.
func (p *Parser) uncutCommand(b []byte) int {
	if len(b) == 0 || b[0] != ']' || p.Console {
		return 0
	}
	for i, c := range b[1:min(len(b), maxText)] {
		switch c {
		case can, sub:
			return 0
		case stringEnd:
			if p.C1 == C1UTF8 && b[i] == c1Lead {
				return 0
			}
		case bel:
			p.seq = Sequence{Kind: Command, Body: b[1 : i+1]}
			return i + 2
		case esc:
			if i+2 == len(b) || b[i+2] != '\\' {
				return 0
			}
			p.seq = Sequence{Kind: Command, Body: b[1 : i+1]}
			return i + 3
		}
	}
	return 0
}

func (p *Parser) begin(s state) {
	p.state, p.drop, p.seq, p.body = s, false, Sequence{}, p.body[:0]
}

// step handles one byte of a sequence. After the last byte the state is ground.
func (p *Parser) step(b byte) {
	half := p.half
	p.half = b == c1Lead && p.C1 == C1UTF8 && (p.state == command || p.state == content)
	switch {
	case half && b == stringEnd:
		p.endC1()
	case b == can || b == sub:
		p.cancel()
	case p.state == escape:
		p.escaped(b)
	case p.state == control:
		p.controlled(b)
	case p.state == command && p.Console && b != esc && p.palette(b):
	case p.state == command && b == bel:
		p.end(Command)
	case p.state == command && b == esc:
		p.state = commandEsc
	case p.state == command:
		p.append(b, maxText)
	case p.state == content && b == esc:
		p.state = contentEsc
	case p.state == commandEsc && b == '\\':
		p.end(Command)
	case p.state == contentEsc && b == '\\':
		p.end(String)
	case p.state == commandEsc || p.state == contentEsc:
		// An ESC that does not end the string cancels it.
		p.begin(escape)
		p.escaped(b)
	}
}

// endC1 ends a String or a Command at U+009C. From the body of a Command it removes the
// first byte of U+009C, which was already added.
func (p *Parser) endC1() {
	if p.state == content {
		p.end(String)
		return
	}
	p.body = p.body[:max(0, len(p.body)-1)]
	p.end(Command)
}

// escaped handles a byte after ESC.
func (p *Parser) escaped(b byte) {
	switch {
	case b == esc:
		p.begin(escape)
	case b < 0x20:
		// A control character inside a sequence does not end the sequence.
	case b <= 0x2f:
		if p.seq.First == 0 {
			p.seq.First = b
		}
		p.seq.Inter = b
	case p.seq.Inter != 0:
		p.seq.Final = b
		p.end(Escape)
	case b == '[':
		p.state = control
	case b == ']':
		p.state = command
	case b == 'P' || b == 'X' || b == '^' || b == '_':
		p.state = content
	default:
		p.seq.Final = b
		p.end(Escape)
	}
}

// controlled handles a byte of a Control.
func (p *Parser) controlled(b byte) {
	switch {
	case b == esc:
		p.begin(escape)
	case b >= 0x40 && b <= 0x7e:
		p.seq.Final = b
		p.end(Control)
	case b >= '<' && b <= '?':
		if len(p.body) > 0 || p.seq.Marker != 0 {
			p.drop = true // a marker is allowed only as the first byte; terminals ignore such a sequence
		}
		p.seq.Marker = b
	case b >= '0' && b <= ';':
		p.append(b, maxParameters)
	case b >= 0x20 && b <= 0x2f:
		p.seq.Inter = b
	}
}

// palette handles a byte of OSC R or OSC P. It returns false if b is a byte of another
// Command.
func (p *Parser) palette(b byte) bool {
	const digits = 7
	switch {
	case len(p.body) == 0 && b == 'R':
		p.append(b, 1)
		p.end(Command)
	case len(p.body) == 0:
		if b == 'P' {
			p.append(b, 1)
		}
		return b == 'P'
	case p.body[0] != 'P':
		return false
	case b < 0x20:
		// A control character inside a sequence does not end the sequence.
	case b-'0' <= 9, b|0x20 >= 'a' && b|0x20 <= 'f':
		p.append(b, 1+digits)
		if len(p.body) == 1+digits {
			p.end(Command)
		}
	default:
		p.cancel()
	}
	return true
}

func (p *Parser) append(b byte, limit int) {
	if len(p.body) >= limit {
		p.drop = true
		return
	}
	p.body = append(p.body, b)
}

func (p *Parser) end(k Kind) { p.state, p.seq.Kind = ground, k }

func (p *Parser) cancel() { p.state, p.drop = ground, true }
