package harness

// A look is how text appears: its colours, weight and so on. Each bit is one property
// that differs from the terminal's default.
type look uint16

const (
	bold look = 1 << iota
	italic
	underline
	blink
	inverse
	hidden
	struck
	font
	foreground
	background
	proportional
	framed
	overline
	underlineColour
	ideogram
	raised
)

const resetLook = "\x1b[0m"

// render applies the control sequence ESC [ body m (SGR), which sets how text appears.
func (l *look) render(body []byte) {
	for i := 0; ; i++ { // an empty field is 0
		n := 0
		for ; i < len(body) && body[i]-'0' <= 9; i++ {
			n = min(10*n+int(body[i]-'0'), 1<<16) // limited, because a program may send any number of digits
		}
		if n < len(properties) {
			p := properties[n]
			*l = *l&^p.off | p.on
		}
		if n == 38 || n == 48 || n == 58 {
			i = afterColour(body, i)
		} else if i < len(body) && body[i] == ':' {
			if n == 4 && i+1 < len(body) && body[i+1] == '0' {
				*l &^= underline // 4:0
			}
			i = afterField(body, i)
		}
		if i >= len(body) {
			return
		}
	}
}

// properties lists which bits of a look each parameter of SGR sets and resets.
var properties = [128]struct{ on, off look }{
	0: {0, ^look(0)}, 1: {bold, 0}, 2: {bold, 0}, 3: {italic, 0}, 4: {underline, 0}, 5: {blink, 0},
	6: {blink, 0}, 7: {inverse, 0}, 8: {hidden, 0}, 9: {struck, 0}, 10: {0, font}, 11: {font, 0},
	12: {font, 0}, 13: {font, 0}, 14: {font, 0}, 15: {font, 0}, 16: {font, 0}, 17: {font, 0}, 18: {font, 0},
	19: {font, 0}, 20: {font, 0}, 21: {underline, 0}, 22: {0, bold}, 23: {0, italic | font}, 24: {0, underline},
	25: {0, blink}, 26: {proportional, 0}, 27: {0, inverse}, 28: {0, hidden}, 29: {0, struck}, 30: {foreground, 0},
	31: {foreground, 0}, 32: {foreground, 0}, 33: {foreground, 0}, 34: {foreground, 0}, 35: {foreground, 0},
	36: {foreground, 0}, 37: {foreground, 0}, 38: {foreground, 0}, 39: {0, foreground}, 40: {background, 0},
	41: {background, 0}, 42: {background, 0}, 43: {background, 0}, 44: {background, 0}, 45: {background, 0},
	46: {background, 0}, 47: {background, 0}, 48: {background, 0}, 49: {0, background}, 50: {0, proportional},
	51: {framed, 0}, 52: {framed, 0}, 53: {overline, 0}, 54: {0, framed}, 55: {0, overline},
	58: {underlineColour, 0}, 59: {0, underlineColour}, 60: {ideogram, 0}, 61: {ideogram, 0}, 62: {ideogram, 0},
	63: {ideogram, 0}, 64: {ideogram, 0}, 65: {0, ideogram},
	73: {raised, 0}, 74: {raised, 0}, 75: {0, raised},
	90: {foreground, 0}, 91: {foreground, 0}, 92: {foreground, 0}, 93: {foreground, 0}, 94: {foreground, 0},
	95: {foreground, 0}, 96: {foreground, 0}, 97: {foreground, 0},
	100: {background, 0}, 101: {background, 0}, 102: {background, 0}, 103: {background, 0}, 104: {background, 0},
	105: {background, 0}, 106: {background, 0}, 107: {background, 0},
}

// afterColour returns where the parameters of a colour end. In an SGR sequence, the
// parameter 38, 48 or 58 selects a colour, and body[i:] is what follows it: ;5;n or
// ;2;r;g;b, or the same with colons in place of semicolons.
func afterColour(body []byte, i int) int {
	if i >= len(body) || body[i] == ':' {
		return afterField(body, i)
	}
	fields := 1
	if i+1 < len(body) && body[i+1] == '2' {
		fields = 3
	}
	for i = afterField(body, i+1); fields > 0 && i < len(body); fields-- {
		i = afterField(body, i+1)
	}
	return i
}

// afterField returns the position of the next semicolon, or the end.
func afterField(body []byte, i int) int {
	for i < len(body) && body[i] != ';' {
		i++
	}
	return i
}
