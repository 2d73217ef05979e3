package harness

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"lifeloop/internal/vt"
)

// A Stroke is one write of keys, and the pause after it.
type Stroke struct {
	Keys string
	// Shows is the text that the child displays when it has taken the keys, or "" if no
	// text is expected. A space in Shows matches one or more spaces, control characters
	// and control sequences. The pause begins when the text appears. If the text does not
	// appear, nothing more is typed.
	Shows string
	Then  time.Duration
	Undo  string // the keys that take back this stroke
}

// Typing is what [Child.Type] types.
type Typing struct {
	Strokes []Stroke
	// Aside is typed first if the user has begun a line. It makes the harness store the
	// line. Without Aside, nothing is typed while the user has begun a line.
	Aside []Stroke
	// Follows means that Strokes take back the keys that Type typed last. Strokes are
	// typed even if the user had begun a line before those keys. Nothing is typed if the user
	// has pressed a key after those keys.
	Follows bool
	// Patience is how long the child may take to show a stroke; 0 is 5 s.
	Patience time.Duration
}

// Typed says what [Child.Type] has typed.
type Typed struct {
	Strokes int  // how many of Typing.Strokes were typed
	Aside   bool // whether Typing.Aside was typed, at least in part
}

// ErrLine means that nothing was typed, because the user has begun a line, has just sent
// a line, has a dialog open, or, with Typing.Follows, has pressed a key after the keys
// that Type typed last.
var ErrLine = errors.New("the user has begun a line, or has a dialog open")

// ErrTyping means that Type has stopped early. No keys, some keys or, if the child did not
// show the last stroke, all keys were typed.
var ErrTyping = errors.New("interrupted before the last key")

// A typingError is a more precise reason than [ErrTyping], which it wraps.
type typingError string

const (
	errDialog   typingError = "a dialog was opened"
	errNotShown typingError = "the harness did not show the command"
	errNoLine   typingError = "lifeloop-wrap does not see what the user types to the harness"
)

func (e typingError) Error() string { return string(e) }

func (e typingError) Unwrap() error { return ErrTyping }

// showTime is the default of Typing.Patience.
const showTime = 5 * time.Second

// justSent is how long nothing is typed after the user has sent a line, because the
// harness may be about to begin a turn.
const justSent = 2 * time.Second

// A line records from the user's keys whether the harness's input line may hold text. In
// case of doubt the input line counts as begun: a key whose effect is unknown begins a
// line, and only Enter ends a line. An Enter right after text that came faster than a
// person types does not end the line: a harness may take text and Enter for a paste. What
// a terminal itself sends (answers, focus, mouse) is no key.
type line struct {
	begun  bool
	since  bool      // the user has pressed a key that may change the line, after the last keys of Type
	sent   time.Time // time of the newest Enter
	doubt  bool      // the newest key is an Enter that does not count, because it may be a part of a paste
	kept   bool      // Ctrl-S stored a line, which the harness restores after the next command
	paste  bool
	slash  bool      // the newest key is a backslash: an Enter after the backslash is a part of the line
	burst  int       // how many keys of text came fast, one after another
	text   time.Time // time of the newest key of text
	esc    bool      // the newest key is an Esc that was sent in the kitty protocol
	listed bool      // a list of earlier prompts is open
	state  lineState
	param  []byte // parameters of the control sequence so far
	skip   int    // how many bytes of a mouse report in the old format still follow
}

type lineState byte

const (
	lineGround lineState = iota
	lineEscape
	lineControl // ESC [ …
	lineString  // ESC ] … or the like, up to BEL or ESC \
	lineStringEscape
	lineThree // ESC O and one byte
)

// At least burstKeys keys of text with pauses of at most burstPause, and an Enter less
// than burstEnter after them, may be a paste.
const (
	burstKeys  = 3
	burstPause = 30 * time.Millisecond
	burstEnter = 200 * time.Millisecond
)

func (l *line) feed(keys []byte, now time.Time) {
	for _, b := range keys {
		l.key(b, now)
	}
}

// answer handles keys that go to a dialog: they do not change the input line.
func (l *line) answer(keys []byte, now time.Time) {
	begun, kept, listed := l.begun, l.kept, l.listed
	l.feed(keys, now)
	l.begun, l.kept, l.listed = begun, kept, listed
}

func (l *line) key(b byte, now time.Time) {
	switch {
	case l.skip > 0:
		l.skip--
	case l.state == lineEscape:
		l.escape(b)
	case l.state == lineControl:
		if b < '@' || b > '~' || b == '[' && len(l.param) == 0 {
			l.param = append(l.param, b)
			return
		}
		l.state = lineGround
		l.sequence(b, now)
		l.param = l.param[:0]
	case l.state == lineString:
		if b == 0x07 {
			l.state = lineGround
		} else if b == 0x1b {
			l.state = lineStringEscape
		}
	case l.state == lineStringEscape:
		l.state = lineString
		if b == '\\' {
			l.state = lineGround
		}
	case l.state == lineThree:
		l.state = lineGround
		if b == 'A' || b == 'B' { // Up and Down insert a line of the history
			l.begin()
		}
	case b == 0x1b:
		l.state = lineEscape
	default:
		l.plain(b, now)
	}
}

// escape handles the byte after ESC.
func (l *line) escape(b byte) {
	l.state = lineGround
	switch b {
	case '[':
		l.state = lineControl
	case ']', 'P', 'X', '^', '_':
		l.state = lineString
	case 'O':
		l.state = lineThree
	case 0x1b:
		l.state = lineEscape
		l.list()
	default: // a key with Alt, or Esc and then a key
		l.begin()
	}
}

func (l *line) begin() {
	l.begun, l.doubt = true, false
	l.since = true
}

// taken is called when the harness has taken a line as a prompt. If the newest key is an
// Enter that did not count (doubt is true), that Enter has sent the line.
func (l *line) taken() {
	if l.doubt {
		l.begun, l.kept, l.sent, l.doubt = l.kept, false, l.text, false
	}
}

// list handles the second Esc, which opens a list of earlier prompts. The next Enter
// copies a prompt from the list to the line.
func (l *line) list() {
	l.begin()
	l.listed = true
}

// plain handles a byte outside of sequences.
func (l *line) plain(b byte, now time.Time) {
	l.esc, l.since, l.doubt = false, true, false
	slash := l.slash
	l.slash = b == '\\' && !l.paste
	switch b {
	case '\r':
		if l.paste || slash {
			l.begun = true
			return
		}
		l.enter(now)
	case 'S' & 0x1f:
		l.kept, l.begun = true, true
	case 0, 'A' & 0x1f, 'B' & 0x1f, 'C' & 0x1f, 'D' & 0x1f, 'E' & 0x1f, 'F' & 0x1f, 'H' & 0x1f, 'K' & 0x1f, 'L' & 0x1f, 'U' & 0x1f, 'W' & 0x1f, 0x7f:
		// These keys add no text to the line.
	default:
		if l.begun = true; !l.paste {
			if now.Sub(l.text) > burstPause {
				l.burst = 0
			}
			l.burst++
			l.text = now
		}
	}
}

// enter handles the key Enter. An Enter that chooses from a list, or that may be a part
// of a paste, does not send the line. Any other Enter sends the line. The harness then
// restores a line that Ctrl-S stored.
func (l *line) enter(now time.Time) {
	if l.burst >= burstKeys && now.Sub(l.text) < burstEnter {
		l.begun, l.doubt, l.text = true, true, now
		return
	}
	if l.listed {
		l.begun, l.listed = true, false
		return
	}
	l.begun, l.kept, l.sent, l.burst = l.kept, false, now, 0
}

// sequence handles a control sequence that ends with b.
func (l *line) sequence(b byte, now time.Time) {
	first, rest, _ := bytes.Cut(l.param, []byte{';'})
	switch {
	case len(l.param) > 0 && (l.param[0] == '?' || l.param[0] == '<' || l.param[0] == '>'):
		// The terminal's answer to a query, or a mouse report: the user typed no key.
	case b == 'M' && len(l.param) == 0:
		l.skip = 3
	case b == '~' && string(l.param) == "200":
		l.begin()
		l.paste = true
	case b == '~' && string(l.param) == "201":
		l.paste = false
	case b == 'A', b == 'B': // Up and Down insert a line of the history
		l.begin()
	case b == 'u':
		l.kitty(first, rest, now)
	}
}

// kitty handles a key of the kitty protocol: its code, its modifiers and what
// happened to it.
func (l *line) kitty(code, rest []byte, now time.Time) {
	modifiers, what, _ := bytes.Cut(rest, []byte{':'})
	modifiers, _, _ = bytes.Cut(modifiers, []byte{';'})
	if string(what) == "3" { // the key was released
		return
	}
	l.since, l.doubt = true, false
	code, _, _ = bytes.Cut(code, []byte{':'})
	defer func() { l.esc = string(code) == "27" }()
	plain := len(modifiers) == 0 || string(modifiers) == "1"
	switch n, _ := strconv.Atoi(string(code)); {
	case n == '\r' && plain:
		l.enter(now)
	case n == 27 && l.esc:
		l.list()
	case n == 27:
	case n == 127, n >= 57344: // Backspace, keys without text
	case n == 's' && string(modifiers) == "5":
		l.kept, l.begun = true, true
	default:
		l.begun = true
	}
}

// An expected searches the child's output for a text. The goroutine that copies the
// output calls read.
type expected struct {
	words  string        // the text, with one space where the output may have spaces and control sequences
	came   chan struct{} // closed when the output has shown this text
	parser vt.Parser
	tail   []byte // the end of the output so far
	seen   bool
}

func (e *expected) read(b []byte) {
	for len(b) > 0 && !e.seen {
		text, seq, rest := e.parser.Next(b)
		for _, c := range text {
			e.add(c)
		}
		if seq != nil {
			e.add(' ')
		}
		b = rest
	}
}

func (e *expected) add(c byte) {
	n := len(e.tail)
	if c = max(c, ' '); c == ' ' && n > 0 && e.tail[n-1] == ' ' || e.seen {
		return
	}
	if e.tail = append(e.tail, c); bytes.HasSuffix(e.tail, []byte(e.words)) {
		e.seen = true
		close(e.came)
	}
	if n > 2*len(e.words) {
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-len(e.words):]...)
	}
}
