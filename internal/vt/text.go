package vt

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Plain returns s in a form that is safe to print as part of a line on a terminal. A
// character that could move the cursor, end the line or reorder the text is written
// as its escape in Go's syntax: \n, \u001b, \u202e. A byte that is not UTF-8 is
// written with its two digits, such as \x9b. All other text is unchanged.
//
// Plain is for text that comes from outside: names of folders and files, labels, ids,
// reports of a harness or a client, and errors that contain such text.
func Plain(s string) string {
	if !strings.ContainsFunc(s, acts) && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for i, r := range s {
		switch {
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case acts(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// acts reports whether a terminal may act on r instead of displaying it: control
// characters (C0, C1 and DEL), line separators, and characters that control the
// direction of text.
func acts(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0x9f:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// Word quotes s, if necessary, as one word of a shell's command line.
func Word(s string) string {
	const safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
	switch plain := Plain(s); {
	case s != "" && strings.Trim(s, safe) == "":
		return s
	case plain != s:
		return "$'" + Plain(strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// A Filter writes text and JSON in such a way that a terminal acts only on line
// ends and tabs. It writes every other character on which a terminal may act as an
// escape such as \u009b. In JSON, such an escape does not change the value of a
// string. Bytes that are not UTF-8 are replaced by U+FFFD.
type Filter struct {
	to      io.Writer
	out     []byte
	pending []byte // the first bytes of a character whose rest has not been passed to Write yet
}

// NewFilter returns a Filter that writes to w.
func NewFilter(w io.Writer) *Filter { return &Filter{to: w} }

// Unfiltered returns the underlying writer.
func (f *Filter) Unfiltered() io.Writer { return f.to }

// Write writes the complete characters of p. If p ends with an incomplete
// character, Write keeps its bytes for the next call.
func (f *Filter) Write(p []byte) (int, error) {
	b := p
	if len(f.pending) > 0 {
		b = append(f.pending, p...)
		f.pending = nil
	}
	f.out = f.out[:0]
	for len(b) > 0 {
		run := 0 // the number of leading bytes that can be copied unchanged
		for run < len(b) && (b[run] >= ' ' && b[run] < 0x7f || b[run] == '\n') {
			run++
		}
		f.out, b = append(f.out, b[:run]...), b[run:]
		r, size := utf8.DecodeRune(b)
		switch {
		case len(b) == 0:
		case r == utf8.RuneError && !utf8.FullRune(b):
			f.pending = append([]byte(nil), b...)
			size = len(b)
		case acts(r) && r != '\n' && r != '\t':
			f.out = fmt.Appendf(f.out, `\u%04x`, r)
		default:
			f.out = utf8.AppendRune(f.out, r)
		}
		b = b[size:]
	}
	if _, err := f.to.Write(f.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes a replacement for an incomplete character at the end. It does
// not close the underlying writer.
func (f *Filter) Close() error {
	if len(f.pending) == 0 {
		return nil
	}
	f.pending = nil
	_, err := f.to.Write([]byte("\uFFFD"))
	return err
}
