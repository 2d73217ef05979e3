package attempt

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"

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

// RuleOn is what a rule is matched against.
type RuleOn string

const (
	OnOutput RuleOn = "output" // each line, also while it is incomplete
	OnExit   RuleOn = "exit"   // the whole text, after the attempt ended
)

// A Severity is the effect of a broken rule.
type Severity string

const (
	Warning Severity = "warning" // it is only reported
	Error   Severity = "error"
	Grave   Severity = "fatal"
)

// Stops reports whether breaking the rule ends the attempt at once. An unrecoverable
// rule does; the others take effect at the attempt's end (DECISIONS Z4, Z15).
func (r Rule) Stops() bool { return r.Severity != Warning && !r.Recoverable }

// Fails reports whether breaking the rule fails the attempt.
func (r Rule) Fails() bool { return r.Severity != Warning }

// A RuleResult is the result of one rule.
type RuleResult struct {
	ID          string   `json:"id"`
	Passed      bool     `json:"passed"`
	Severity    Severity `json:"severity"`
	Recoverable bool     `json:"recoverable"`
}

// A Finding is what a [Watch] found in the output: the results of the rules, one of
// which is broken, or drift.
type Finding struct {
	Rules []RuleResult
	Drift bool
}

const (
	lineLimit = 64 << 10 // bytes of a line that a rule sees; the rest is another line
	loopLimit = 8 << 10  // bytes of a line that is compared for drift; a longer one may be a piece
	textLimit = 4 << 20  // last bytes of the text that exit rules see
)

// Watch checks the output of one attempt. It holds the text in memory only, and
// reports only which rule matched.
type Watch struct {
	rules  []Rule
	repeat int

	strip  stripper
	line   []byte // since the last newline
	broken map[string]bool
	keep   bool // exit rules need the text
	text   []byte

	last    string // the last line or call, normalised
	row     int    // how often in a row
	drifted bool
	printed bool

	units int64
}

// NewWatch returns a watch for one attempt under policy p.
func NewWatch(p *Policy) *Watch {
	w := &Watch{rules: p.Rules, repeat: p.Repeat, broken: map[string]bool{}}
	for _, r := range p.Rules {
		w.keep = w.keep || r.On == OnExit
	}
	return w
}

// Printed reports whether the output had a visible character.
func (w *Watch) Printed() bool { return w.printed }

// Units returns the number of lines so far, and of pieces passed as whole.
func (w *Watch) Units() int64 { return w.units }

// Text checks the next output. Whole means that b is one complete piece, with or
// without a newline at its end.
func (w *Watch) Text(b []byte, whole bool) []Finding {
	var found []Finding
	clean := w.strip.clean(b)
	if w.keep {
		if w.text = append(w.text, clean...); len(w.text) > 2*textLimit { // moves the rest only once per textLimit
			w.text = append(w.text[:0], w.text[len(w.text)-textLimit:]...)
		}
	}
	var rest []byte // the part of an incomplete line
	for len(clean) > 0 {
		piece, after, ended := bytes.Cut(clean, []byte{'\n'})
		rest, clean = piece, after
		w.line = append(w.line, piece...)
		w.printed = w.printed || visible(piece)
		if results, broke := w.match(OnOutput, w.line); broke {
			found = append(found, Finding{Rules: results})
		}
		switch {
		case ended:
			if !whole {
				w.units++
			}
			found = w.checkDrift(found, string(w.line))
			w.line, rest = w.line[:0], nil
		case len(w.line) > lineLimit:
			w.line = append(w.line[:0], w.line[len(w.line)-lineLimit/2:]...)
		}
	}
	if whole {
		w.units++
		found = w.checkDrift(found, string(rest))
	}
	return found
}

// match matches text against the rules of one kind. A broken rule is reported once;
// broke means that one broke now.
func (w *Watch) match(on RuleOn, text []byte) (results []RuleResult, broke bool) {
	for _, r := range w.rules {
		if r.On != on {
			continue
		}
		result := RuleResult{ID: r.ID, Passed: true, Severity: r.Severity, Recoverable: r.Recoverable}
		if !w.broken[r.ID] && r.Pattern.Match(text) {
			w.broken[r.ID], broke = true, true
			result.Passed = false
		}
		results = append(results, result)
		if !result.Passed && r.Severity == Grave {
			break // fatal stops later rules
		}
	}
	return results, broke
}

// checkDrift counts how often the same line or call comes in a row.
func (w *Watch) checkDrift(found []Finding, what string) []Finding {
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

// Tool checks a tool call, given its name and the digest of its arguments. It reports
// whether the call is drift.
func (w *Watch) Tool(name, arguments string) bool {
	return len(w.checkDrift(nil, "tool\x00"+name+"\x00"+arguments)) > 0
}

// End matches the whole text against the exit rules. The result is empty if there
// are none.
func (w *Watch) End() []RuleResult {
	results, _ := w.match(OnExit, w.text)
	return results
}

// Broken returns the most severe broken rule: the first that stops the attempt, else
// the first that fails it. Ok is false if there is none.
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
	return bytes.ContainsFunc(b, func(c rune) bool { return unicode.IsGraphic(c) && !unicode.IsSpace(c) })
}

// A stripper removes control sequences and control characters from a stream that
// comes in pieces. A lone carriage return starts the line again, so it counts as a
// newline.
type stripper struct {
	parser vt.Parser
	cr     bool // the last byte was a carriage return
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
