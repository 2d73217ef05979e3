package attempt

import (
	"bytes"
	"iter"
	"regexp"
	"strings"
	"time"
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

// RuleOn says which text a rule is matched against.
type RuleOn string

const (
	OnOutput RuleOn = "output" // each line, including a last one without a newline
	OnExit   RuleOn = "exit"   // the whole text, after the attempt ended
)

// A Severity is the effect of a broken rule.
type Severity string

const (
	Warning Severity = "warning" // the broken rule is only reported
	Error   Severity = "error"
	Grave   Severity = "fatal"
)

// Stops reports whether breaking the rule ends the attempt at once. An unrecoverable
// rule does, unless it is only a warning; other rules that fail the attempt take effect
// at its end (DECISIONS Z4, Z15).
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

// A Finding is what a [Watch] found in one line of the output, or in the part of a
// line that was read so far.
type Finding struct {
	Units int64        // units of output so far; the line of this Finding is included even if it is incomplete
	Rules []RuleResult // the results of all output rules, if one was broken for the first time
	Drift bool         // the line repeats earlier ones too often
}

const (
	lineLimit = 64 << 10 // the longest text, in bytes, that an output rule is matched against; a longer line is matched in overlapping parts
	loopLimit = 8 << 10  // the longest line, in bytes, that is compared for drift; the beginning of a longer line may be lost (see cut)
	textLimit = 4 << 20  // exit rules are matched against at most this many bytes from the end of the text
)

// Watch checks the output of one attempt line by line, so that the results do not
// depend on the sizes of the reads. A lone carriage return also ends a line for
// rules and drift, but such a line is not counted as a unit. Watch holds the text
// in memory only, and reports only which rule matched.
type Watch struct {
	rules  []Rule
	repeat int

	streams []*stream
	broken  map[string]bool
	output  bool // there are output rules
	keep    bool // exit rules need the text
	text    []byte

	calls   series
	drifted bool
	printed bool

	units int64
}

// A stream is one file that a harness writes to. Its lines are separate from
// those of other streams.
type stream struct {
	strip    stripper
	line     []byte    // the output since the last end of a line
	examined int       // how many bytes of line the rules were matched against
	held     bool      // line[:examined] ends with an incomplete character, which was not matched
	since    time.Time // when the first byte after the examined ones was read
	kept     int       // how many bytes of line were added to Watch.text
	counted  bool      // line was already counted in Watch.units
	series   series
}

// A series counts how often the same line or call was repeated in a row.
type series struct {
	last string
	row  int
}

// NewWatch returns a watch for one attempt under policy p.
func NewWatch(p *Policy) *Watch {
	w := &Watch{rules: p.Rules, repeat: p.Repeat, broken: map[string]bool{}}
	for _, r := range p.Rules {
		w.keep = w.keep || r.On == OnExit
		w.output = w.output || r.On == OnOutput
	}
	return w
}

// Recall marks the given rules as broken, because an earlier watch of the same attempt
// found them broken.
func (w *Watch) Recall(rules []string) {
	for _, id := range rules {
		w.broken[id] = true
	}
}

// Printed reports whether the lines so far contained a visible character.
func (w *Watch) Printed() bool { return w.printed }

// Oldest returns the earliest time at which a stream received text that was not matched
// against the output rules yet, because its line is incomplete. Oldest returns zero if
// there is no such text. If the rest of the line does not arrive soon, the caller should
// call Examine.
func (w *Watch) Oldest() (at time.Time) {
	for _, s := range w.streams {
		if w.output && s.examined < len(s.line) && (at.IsZero() || s.since.Before(at)) {
			at = s.since
		}
	}
	return at
}

// Skip counts lines of output that were lost and so never passed to Text.
func (w *Watch) Skip(lines int64) { w.units += lines }

// Text checks the next output of a stream, which was read at the given time. It yields a
// Finding for each completed line. If a line is longer than lineLimit, Text also yields
// a Finding for each part of the line that breaks a rule for the first time. If whole is
// set, b is one complete unit, with or without a newline at its end. In that case Text
// yields one more Finding for the text after the last completed line, even if this text
// is empty.
func (w *Watch) Text(at time.Time, stream int, b []byte, whole bool) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		s := w.stream(stream)
		if whole {
			w.units++
		}
		begin := len(s.line) // the offset of the new output in the incomplete line
		for clean := s.strip.clean(b); len(clean) > 0; {
			s.counted = s.counted || whole
			part := clean
			end := bytes.IndexByte(clean, '\n')
			if end >= 0 {
				part = clean[:end]
			}
			if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
				part, end = part[:cr], cr
			}
			for len(part) > 0 {
				if len(s.line) == lineLimit {
					if f := w.examine(s, false); f.Rules != nil && !yield(f) {
						return
					}
					w.cut(s)
				}
				if s.examined == len(s.line) {
					s.since = at
				}
				n := min(len(part), lineLimit-len(s.line))
				s.line, part = append(s.line, part[:n]...), part[n:]
			}
			if end < 0 {
				break
			}
			if clean[end] == '\n' && !whole {
				w.units++
				s.counted = true
			}
			clean, begin = clean[end+1:], 0
			if f := w.complete(s, true); !yield(f) {
				return
			}
		}
		if whole {
			w.printed = w.printed || visible(s.line)
			s.counted = true
			f := w.examine(s, true)
			f.Drift = w.drifts(&s.series, string(s.line[min(begin, len(s.line)):]))
			yield(f)
		}
		s.counted = whole
	}
}

// Examine checks each incomplete line that has unchecked text, if the first byte of this
// text was read no later than the parameter since. Examine yields a Finding for each of
// these lines that breaks a rule for the first time.
func (w *Watch) Examine(since time.Time) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		for _, s := range w.streams {
			if s.since.After(since) {
				continue
			}
			if f := w.examine(s, false); f.Rules != nil && !yield(f) {
				return
			}
		}
	}
}

// Close checks the last line of each stream, if it is incomplete. It is called
// after all output.
func (w *Watch) Close() iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		for _, s := range w.streams {
			if len(s.line) == 0 {
				continue
			}
			if s.counted {
				w.keepLine(s, "")
				continue
			}
			w.units++
			s.counted = true
			if !yield(w.complete(s, false)) {
				return
			}
		}
	}
}

func (w *Watch) stream(i int) *stream {
	for len(w.streams) <= i {
		w.streams = append(w.streams, &stream{})
	}
	return w.streams[i]
}

// examine matches the line of s against the output rules, unless the whole line was
// already matched. If complete is not set, examine omits an incomplete character at the
// end of the line.
func (w *Watch) examine(s *stream, complete bool) (f Finding) {
	if f.Units = w.units; !s.counted {
		f.Units++ // this line is not counted in w.units yet
	}
	if w.output && (s.examined < len(s.line) || complete && s.held) {
		text := s.line
		if !complete {
			text = characters(text)
		}
		s.examined, s.held = len(s.line), len(text) < len(s.line)
		f.Rules = w.match(OnOutput, text)
	}
	return f
}

// characters returns b without the bytes at its end that may begin a character of
// UTF-8 whose rest is missing.
func characters(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// tail returns at most the last n bytes of b, from the beginning of a character.
func tail(b []byte, n int) []byte {
	at := max(0, len(b)-n)
	for end := at + utf8.UTFMax - 1; 0 < at && at < min(end, len(b)) && !utf8.RuneStart(b[at]); {
		at++
	}
	return b[at:]
}

// complete ends and checks the line of s.
func (w *Watch) complete(s *stream, newline bool) Finding {
	f := w.examine(s, true)
	f.Drift = w.drifts(&s.series, string(s.line))
	end := ""
	if newline {
		end = "\n"
	}
	w.keepLine(s, end)
	s.line, s.examined, s.held, s.kept, s.counted = s.line[:0], 0, false, 0, false
	return f
}

// cut removes the first half of a line that has reached lineLimit. It keeps the second
// half, so that rules can match text across the cut.
func (w *Watch) cut(s *stream) {
	w.keepLine(s, "")
	s.line = append(s.line[:0], tail(s.line, lineLimit/2)...)
	s.examined, s.kept = len(s.line), len(s.line)
}

// keepLine appends to w.text the part of the line that is not in w.text yet, and then
// the string end.
func (w *Watch) keepLine(s *stream, end string) {
	w.printed = w.printed || visible(s.line)
	if !w.keep {
		return
	}
	w.text = append(append(w.text, s.line[s.kept:]...), end...)
	s.kept = len(s.line)
	if len(w.text) > 2*textLimit { // cut rarely, so that the rest of the text is moved only once per textLimit bytes
		w.text = append(w.text[:0], tail(w.text, textLimit)...)
	}
}

// match matches text against the rules of one kind. For the rules of the output, the
// result is empty unless the text breaks a rule that was not broken before. All rules
// are matched, even after a broken fatal one: that rule may be recoverable and so not end
// the attempt, and a later one may be unrecoverable and end it.
func (w *Watch) match(on RuleOn, text []byte) []RuleResult {
	var results []RuleResult
	broke := false
	for _, r := range w.rules {
		if r.On != on {
			continue
		}
		passed := !r.Pattern.Match(text)
		results = append(results, RuleResult{ID: r.ID, Passed: passed, Severity: r.Severity, Recoverable: r.Recoverable})
		if passed {
			continue
		}
		broke = broke || !w.broken[r.ID]
		w.broken[r.ID] = true
	}
	if !broke && on == OnOutput {
		return nil
	}
	return results
}

// drifts reports whether a line or call repeats earlier ones too often. It
// reports true only once.
func (w *Watch) drifts(s *series, what string) bool {
	if w.repeat == 0 || w.drifted {
		return false
	}
	if len(what) > loopLimit {
		*s = series{}
		return false
	}
	if what = strings.Join(strings.Fields(what), " "); what == "" {
		return false
	}
	if what != s.last {
		*s = series{last: what}
	}
	s.row++
	w.drifted = s.row >= w.repeat
	return w.drifted
}

// Tool checks a tool call, given the tool's name and the digest of the arguments. It
// reports whether the call repeats earlier ones too often.
func (w *Watch) Tool(name, arguments string) bool {
	return w.drifts(&w.calls, name+"\x00"+arguments)
}

// End matches the end of the text, at most textLimit bytes, against the exit rules. The
// result is empty if there are no such rules.
func (w *Watch) End() []RuleResult {
	return w.match(OnExit, tail(w.text, textLimit))
}

// Clean returns the results of the output rules if none of them was broken, and
// nothing otherwise. A [Finding] has results only if a rule was broken.
func (w *Watch) Clean() (results []RuleResult) {
	for _, r := range w.rules {
		if r.On != OnOutput {
			continue
		}
		if w.broken[r.ID] {
			return nil
		}
		results = append(results, RuleResult{ID: r.ID, Passed: true, Severity: r.Severity, Recoverable: r.Recoverable})
	}
	return results
}

// Broken returns the most severe broken rule. A rule that stops the attempt comes
// before one that only fails it, and in each of the two groups a fatal rule comes
// first. ok is false if no broken rule fails the attempt.
func (w *Watch) Broken() (r Rule, ok bool) {
	rank := func(r Rule) (n int) {
		if r.Stops() {
			n += 2
		}
		if r.Severity == Grave {
			n++
		}
		return n
	}
	for _, rule := range w.rules {
		if w.broken[rule.ID] && rule.Fails() && (!ok || rank(rule) > rank(r)) {
			r, ok = rule, true
		}
	}
	return r, ok
}

func visible(b []byte) bool {
	return bytes.ContainsFunc(b, func(c rune) bool { return unicode.IsGraphic(c) && !unicode.IsSpace(c) })
}

// A stripper removes control sequences and control characters from a stream that
// is read in pieces. It keeps tabs, newlines, and each carriage return that is not
// directly before a newline.
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
				if c == '\n' {
					out = append(out, '\n')
					continue
				}
				out = append(out, '\r')
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
			out = append(out, '\r')
		}
	}
	return out
}
