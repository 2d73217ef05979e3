package hosts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A statement is a table's header or a key with its value in a TOML file.
type statement struct {
	header     bool
	list       bool     // [[…]]
	path       []string // whole, from the root
	start, end int      // offsets of its lines, with the last line end
	value      [2]int   // offsets of a pair's value
}

// scan splits a TOML file into statements. It decodes keys; of a value it finds
// only the end.
func scan(text string) ([]statement, *Flaw) {
	if flaw := notUTF8(text); flaw != nil {
		return nil, flaw
	}
	s := scanner{text: text, at: len(text) - len(strings.TrimPrefix(text, byteOrderMark))}
	var found []statement
	var table []string
	for {
		start := s.at
		s.blanks()
		if s.at == len(text) {
			return found, nil
		}
		if c := s.peek(); c == '#' || c == '\n' || c == '\r' {
			if flaw := s.lineEnd(); flaw != nil {
				return nil, flaw
			}
			continue
		}
		st := statement{start: start}
		var flaw *Flaw
		if s.peek() == '[' {
			st.header = true
			if st.path, st.list, flaw = s.tableName(); flaw == nil {
				table = st.path
			}
		} else {
			st.path, flaw = s.key()
			st.path = slices.Concat(table, st.path)
			if flaw == nil && s.peek() != '=' {
				flaw = s.flaw("invalid %s, want an equals sign", s.here())
			}
			if flaw == nil {
				s.at++
				s.blanks()
				st.value[0] = s.at
				flaw = s.value()
				st.value[1] = s.at
			}
		}
		if flaw == nil {
			flaw = s.lineEnd()
		}
		if flaw != nil {
			return nil, flaw
		}
		st.end = s.at
		found = append(found, st)
	}
}

type scanner struct {
	text string
	at   int
}

func (s *scanner) flaw(format string, args ...any) *Flaw {
	return flawAt(s.text, s.at, format, args...)
}

// peek is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// here is the next character for error messages.
func (s *scanner) here() string {
	if s.at == len(s.text) {
		return "end of file"
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.at:])
	return fmt.Sprintf("%q", r)
}

func (s *scanner) blanks() {
	for c := s.peek(); c == ' ' || c == '\t'; c = s.peek() {
		s.at++
	}
}

// lineEnd skips blanks, a comment and the end of the line.
func (s *scanner) lineEnd() *Flaw {
	s.blanks()
	if s.peek() == '#' {
		s.comment()
	}
	rest := s.text[s.at:]
	switch {
	case rest == "":
	case rest[0] == '\n':
		s.at++
	case strings.HasPrefix(rest, "\r\n"):
		s.at += 2
	default:
		return s.flaw("invalid %s, want the end of the line", s.here())
	}
	return nil
}

func (s *scanner) comment() {
	line, _, _ := strings.Cut(s.text[s.at:], "\n")
	s.at += len(strings.TrimSuffix(line, "\r"))
}

func (s *scanner) tableName() (path []string, list bool, flaw *Flaw) {
	closing := "]"
	if list = strings.HasPrefix(s.text[s.at:], "[["); list {
		closing = "]]"
	}
	s.at += len(closing)
	s.blanks()
	if path, flaw = s.key(); flaw != nil {
		return nil, list, flaw
	}
	if !strings.HasPrefix(s.text[s.at:], closing) {
		return nil, list, s.flaw("invalid %s, want %s", s.here(), closing)
	}
	s.at += len(closing)
	return path, list, nil
}

// key reads a dotted key and the blanks after it.
func (s *scanner) key() ([]string, *Flaw) {
	var path []string
	for {
		var part string
		switch c := s.peek(); {
		case c == '"' || c == '\'':
			from := s.at
			if strings.HasPrefix(s.text[s.at:], strings.Repeat(string(c), 3)) {
				return nil, s.flaw("a key cannot be a multi-line string")
			}
			if flaw := s.quoted(c); flaw != nil {
				return nil, flaw
			}
			part = s.text[from+1 : s.at-1]
			if c == '"' {
				var ok bool
				if part, ok = unescape(part); !ok {
					s.at = from
					return nil, s.flaw("invalid escape in a string")
				}
			}
		default:
			from := s.at
			for strings.IndexByte("-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", s.peek()) >= 0 {
				s.at++
			}
			if part = s.text[from:s.at]; part == "" {
				return nil, s.flaw("invalid %s, want a key", s.here())
			}
		}
		path = append(path, part)
		s.blanks()
		if s.peek() != '.' {
			return path, nil
		}
		s.at++
		s.blanks()
	}
}

// quoted skips a string of one line.
func (s *scanner) quoted(quote byte) *Flaw {
	start := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == quote:
			s.at++
			return nil
		case c == '\n':
			s.at = start
			return s.flaw("string not closed on its line")
		case c == '\\' && quote == '"' && !strings.HasPrefix(s.text[s.at+1:], "\n"):
			s.at++
		}
	}
	s.at = start
	return s.flaw("string not closed")
}

// value skips one value.
func (s *scanner) value() *Flaw {
	start := s.at
	for depth := 0; ; {
		rest := s.text[s.at:]
		c := s.peek()
		switch {
		case rest == "":
			s.at = start
			return s.flaw("incomplete value")
		case strings.HasPrefix(rest, `"""`), strings.HasPrefix(rest, `'''`):
			if flaw := s.block(rest[:3]); flaw != nil {
				return flaw
			}
		case c == '"' || c == '\'':
			if flaw := s.quoted(c); flaw != nil {
				return flaw
			}
		case c == '[' || c == '{':
			depth++
			s.at++
			continue
		case c == ']' || c == '}':
			if depth--; depth < 0 {
				return s.flaw("invalid %s, want a value", s.here())
			}
			s.at++
		case depth > 0 && c == '#':
			s.comment()
			continue
		case depth > 0 && strings.IndexByte(" \t\r\n,=.", c) >= 0:
			s.at++
			continue
		default:
			n := strings.IndexAny(rest, " \t\r\n,#]}[{\"'=")
			if n < 0 {
				n = len(rest)
			}
			if n == 0 {
				return s.flaw("invalid %s, want a value", s.here())
			}
			s.at += n
			// A date and a time may be separated by one blank.
			if depth == 0 && n == len("2006-01-02") && len(rest) > n+1 && rest[n] == ' ' && '0' <= rest[n+1] && rest[n+1] <= '9' && rest[4] == '-' {
				s.at++
				continue
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// block skips a string of several lines, which may end with up to two quotes
// of its own.
func (s *scanner) block(quotes string) *Flaw {
	start := s.at
	for s.at += 3; s.at < len(s.text); s.at++ {
		if s.text[s.at] == '\\' && quotes[0] == '"' {
			s.at++
			continue
		}
		if strings.HasPrefix(s.text[s.at:], quotes) {
			s.at += 3
			for range 2 {
				if s.peek() == quotes[0] {
					s.at++
				}
			}
			return nil
		}
	}
	s.at = start
	return s.flaw("string not closed")
}

// unescape decodes the text between the quotes of a basic string.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if digits > 0 {
			if i+digits >= len(s) {
				return "", false
			}
			r, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || !utf8.ValidRune(rune(r)) {
				return "", false
			}
			b.WriteRune(rune(r))
			i += digits
			continue
		}
		at := strings.IndexByte(`btnfre"\`, s[i])
		if at < 0 {
			return "", false
		}
		b.WriteByte("\b\t\n\f\r\x1b\"\\"[at])
	}
	return b.String(), true
}

// basic spells a string for TOML.
func basic(s string) string {
	return strings.ReplaceAll(encode(s), "\x7f", `\u007f`)
}
