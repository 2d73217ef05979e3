package attempt

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"lifeloop/internal/vt"
)

// A Rule is a guardrail: a pattern that the output must not match.
type Rule struct {
	ID          string
	On          RuleOn
	Pattern     *regexp.Regexp
	Severity    Severity
	Recoverable bool
}

// RuleOn says what a rule looks at.
type RuleOn string

const (
	OnOutput RuleOn = "output" // each line as it comes
	OnExit   RuleOn = "exit"   // the whole text, after the attempt ended
)

// A Severity says what a broken rule means.
type Severity string

const (
	Warning Severity = "warning" // it is told, and nothing else
	Error   Severity = "error"
	Grave   Severity = "fatal"
)

// Stops reports whether a broken rule ends the attempt when it is seen: one
// that no other try could mend does, the others wait for the attempt's end
// (DECISIONS Z4, Z15).
func (r Rule) Stops() bool { return r.Severity != Warning && !r.Recoverable }

// Fails reports whether a broken rule fails the attempt.
func (r Rule) Fails() bool { return r.Severity != Warning }

// A RuleResult is what one rule came to.
type RuleResult struct {
	ID          string   `json:"id"`
	Passed      bool     `json:"passed"`
	Severity    Severity `json:"severity"`
	Recoverable bool     `json:"recoverable"`
}

// A Finding is something that a [Watch] saw in the output: rules that were
// held against it, one of which is broken, or a loop.
type Finding struct {
	Rules []RuleResult
	Drift bool
}

const (
	lineLimit = 64 << 10 // of a line that a rule looks at; what is beyond is another line
	loopLimit = 8 << 10  // of a line that is compared with the next: what is longer may be a piece of one
	textLimit = 4 << 20  // of the text that exit rules look at: its last bytes
)

// Watch looks at what one attempt writes. It keeps the text in memory alone,
// and gives out nothing but which rule matched.
type Watch struct {
	rules  []Rule
	repeat int

	strip  stripper
	line   []byte // since the last line end
	broken map[string]bool
	keep   bool // exit rules want the text
	text   []byte

	last    string // what came last, normalised
	row     int    // how often running
	drifted bool
	printed bool

	units int64
}

// NewWatch returns a watch for one attempt under a policy.
func NewWatch(p *Policy) *Watch {
	w := &Watch{rules: p.Rules, repeat: p.Repeat, broken: map[string]bool{}}
	for _, r := range p.Rules {
		w.keep = w.keep || r.On == OnExit
	}
	return w
}

// Printed reports whether anything was written that a person could see.
func (w *Watch) Printed() bool { return w.printed }

// Units counts the lines so far, and the pieces that were told to be whole.
func (w *Watch) Units() int64 { return w.units }

// Text takes what was written next. Whole says that it is one piece, whether
// or not it ends with a line's end.
func (w *Watch) Text(b []byte, whole bool) []Finding {
	var found []Finding
	clean := w.strip.clean(b)
	if w.keep {
		if w.text = append(w.text, clean...); len(w.text) > 2*textLimit { // moved once in so many bytes
			w.text = append(w.text[:0], w.text[len(w.text)-textLimit:]...)
		}
	}
	var rest []byte // what it adds to a line that has not ended
	for len(clean) > 0 {
		piece, after, ended := bytes.Cut(clean, []byte{'\n'})
		rest, clean = piece, after
		w.line = append(w.line, piece...)
		w.printed = w.printed || visible(piece)
		if f, ok := w.hold(); ok {
			found = append(found, f)
		}
		switch {
		case ended:
			if !whole {
				w.units++
			}
			found = w.again(found, string(w.line))
			w.line, rest = w.line[:0], nil
		case len(w.line) > lineLimit:
			w.line = append(w.line[:0], w.line[len(w.line)-lineLimit/2:]...)
		}
	}
	if whole {
		w.units++
		found = w.again(found, string(rest))
	}
	return found
}

// hold holds the line so far against the rules that look at lines. A rule is
// reported once: its fault is one fault.
func (w *Watch) hold() (Finding, bool) {
	var f Finding
	news := false
	for _, r := range w.rules {
		if r.On != OnOutput {
			continue
		}
		result := RuleResult{ID: r.ID, Passed: true, Severity: r.Severity, Recoverable: r.Recoverable}
		if !w.broken[r.ID] && r.Pattern.Match(w.line) {
			w.broken[r.ID], news = true, true
			result.Passed = false
		}
		f.Rules = append(f.Rules, result)
		if !result.Passed && r.Severity == Grave {
			break // fatal stops later rules
		}
	}
	return f, news
}

// again counts how often the same comes running.
func (w *Watch) again(found []Finding, what string) []Finding {
	if len(what) > loopLimit {
		w.last, w.row = "", 0
		return found
	}
	what = strings.Join(strings.Fields(what), " ")
	if what == "" || w.repeat == 0 || w.drifted {
		return found
	}
	if what != w.last {
		w.last, w.row = what, 0
	}
	if w.row++; w.row >= w.repeat {
		w.drifted = true
		return append(found, Finding{Drift: true})
	}
	return found
}

// Tool takes a call of a tool, by its name and the digest of its arguments, and
// reports whether it is one too many of the same.
func (w *Watch) Tool(name, arguments string) bool {
	return len(w.again(nil, "tool\x00"+name+"\x00"+arguments)) > 0
}

// End holds the whole text against the rules that look at it. Its finding is
// empty where there is no such rule.
func (w *Watch) End() []RuleResult {
	var out []RuleResult
	for _, r := range w.rules {
		if r.On != OnExit {
			continue
		}
		result := RuleResult{ID: r.ID, Passed: !r.Pattern.Match(w.text), Severity: r.Severity, Recoverable: r.Recoverable}
		if !result.Passed {
			w.broken[r.ID] = true
		}
		out = append(out, result)
		if !result.Passed && r.Severity == Grave {
			break
		}
	}
	return out
}

// Broken is the gravest broken rule: the first that cannot be recovered from,
// else the first that fails the attempt. Ok is false where none does.
func (w *Watch) Broken() (r Rule, ok bool) {
	for _, rule := range w.rules {
		if !w.broken[rule.ID] || !rule.Fails() {
			continue
		}
		if rule.Stops() {
			return rule, true
		}
		if !ok {
			r, ok = rule, true
		}
	}
	return r, ok
}

func visible(b []byte) bool {
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		if unicode.IsGraphic(c) && !unicode.IsSpace(c) {
			return true
		}
		b = b[n:]
	}
	return false
}

// A stripper takes control sequences and control characters out of a stream
// that comes in pieces. A lone carriage return begins the line anew, so it
// counts as the end of one.
type stripper struct {
	parser vt.Parser
	cr     bool // a carriage return came last
}

func (s *stripper) clean(b []byte) []byte {
	out := make([]byte, 0, len(b)+1)
	for len(b) > 0 {
		var text []byte
		var seq *vt.Sequence
		text, seq, b = s.parser.Next(b)
		for _, c := range text {
			if s.cr {
				s.cr = false
				out = append(out, '\n')
				if c == '\n' {
					continue
				}
			}
			switch {
			case c == '\r':
				s.cr = true
			case c == '\n', c == '\t', c >= 0x20 && c != 0x7f:
				out = append(out, c)
			}
		}
		if s.cr && seq != nil {
			s.cr = false
			out = append(out, '\n')
		}
	}
	return out
}
