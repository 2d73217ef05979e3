package watchers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// A valueScan walks one JSON value piece by piece, each byte once, however many
// pieces it comes in. It checks how the value is built, not its numbers and
// words: what matters is where a value ends, and whether it can still end.
//
// A writer that died in the midst of a value left one that never ends. What
// follows it cannot follow there: a brace where a comma is due, a new line in a
// string, or, where the value was written with indentation, a container that
// begins a line.
type valueScan struct {
	open     []byte // the containers that are not closed, innermost last
	expect   expect
	key      bool  // the string we are in is a key
	escaped  bool  // the byte before was a backslash that escapes
	newline  bool  // the byte before ended a line, outside of strings
	indented bool  // a line of this value began with white space
	start    int64 // the white space before the value
	sum      uint32
}

// maxDepth is how deep a value may nest before it is held to be broken.
const maxDepth = 10_000

// expect is what may come next in a value.
type expect uint8

const (
	aValue      expect = iota // at the top, after a colon, after a comma of a list
	aValueOrEnd               // after the bracket that opens a list
	aKey                      // after a comma of an object
	aKeyOrEnd                 // after the brace that opens an object
	aColon
	aCommaOrEnd
	inString
	inWord // a number, true, false or null
)

// A verdict says what a valueScan found.
type verdict uint8

const (
	half   verdict = iota // all is read, the value goes on
	whole                 // the value ends before the next byte
	broken                // the next byte cannot stand there
)

// next walks on through b and returns how far it came.
func (s *valueScan) next(b []byte) (n int, v verdict) {
	for i := 0; i < len(b); {
		switch s.expect {
		case inString:
			n, ended := s.inString(b[i:])
			i += n
			if !ended {
				if i < len(b) {
					return i, broken
				}
				return i, half
			}
			if s.expect = aCommaOrEnd; s.key {
				s.expect = aColon
			}
			if len(s.open) == 0 {
				return i, whole
			}
			continue
		case inWord:
			if !isWord(b[i]) {
				s.expect = aCommaOrEnd
				if len(s.open) == 0 {
					return i, whole
				}
				continue
			}
			i++
			continue
		}
		c := b[i]
		switch c {
		case '\n':
			s.newline = true
			fallthrough
		case ' ', '\t', '\r':
			if c != '\n' {
				s.indented = s.indented || s.newline && c != '\r'
				s.newline = false
			}
			i++
			if len(s.open) == 0 {
				s.start++
				s.indented = false
			}
			continue
		}
		first := s.newline
		s.newline = false
		if !s.step(c, first) {
			return i, broken
		}
		i++
		if s.expect == aCommaOrEnd && len(s.open) == 0 {
			return i, whole
		}
	}
	return len(b), half
}

// inString walks to the end of the string. It stops before a byte that no
// string can hold; only that of a new line is looked for.
func (s *valueScan) inString(b []byte) (n int, ended bool) {
	for n < len(b) {
		quote := bytes.IndexByte(b[n:], '"')
		part := b[n:]
		if quote >= 0 {
			part = part[:quote]
		}
		if i := bytes.IndexByte(part, '\n'); i >= 0 {
			return n + i, false
		}
		slashes := 0
		for slashes < len(part) && part[len(part)-1-slashes] == '\\' {
			slashes++
		}
		odd := slashes%2 == 1
		if slashes == len(part) {
			odd = odd != s.escaped
		}
		s.escaped = odd
		n += len(part)
		if quote < 0 {
			return n, false
		}
		n++
		s.escaped = false
		if !odd {
			return n, true
		}
	}
	return n, false
}

// step takes one byte that is no white space and in no string or word. It
// reports whether the byte may stand there; first says that it begins a line.
func (s *valueScan) step(c byte, first bool) bool {
	wants := s.expect == aValue || s.expect == aValueOrEnd
	switch c {
	case '"':
		if s.key = s.expect == aKey || s.expect == aKeyOrEnd; !wants && !s.key {
			return false
		}
		s.expect = inString
		return true
	case '{', '[':
		if !wants || len(s.open) == maxDepth || first && s.indented {
			return false
		}
		s.open = append(s.open, c)
		if s.expect = aKeyOrEnd; c == '[' {
			s.expect = aValueOrEnd
		}
		return true
	case '}', ']':
		opened, empty := byte('{'), aKeyOrEnd
		if c == ']' {
			opened, empty = '[', aValueOrEnd
		}
		if len(s.open) == 0 || s.open[len(s.open)-1] != opened || s.expect != aCommaOrEnd && s.expect != empty {
			return false
		}
		s.open = s.open[:len(s.open)-1]
		s.expect = aCommaOrEnd
		return true
	case ':':
		if s.expect != aColon {
			return false
		}
		s.expect = aValue
		return true
	case ',':
		if s.expect != aCommaOrEnd {
			return false
		}
		if s.expect = aKey; s.open[len(s.open)-1] == '[' {
			s.expect = aValue
		}
		return true
	}
	if !wants || !isWord(c) {
		return false
	}
	s.expect = inWord
	return true
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// again makes the scan ready for another value.
func (s *valueScan) again() { *s = valueScan{open: s.open[:0]} }

// sum adds b to a checksum that the processor can compute by itself.
func sum(was uint32, b []byte) uint32 {
	return crc32.Update(was, crc32.MakeTable(crc32.Castagnoli), b) // the table is made once, at the first call
}

// splitValues tells the values of b, which begins at the position. Of a half
// value nothing is kept but how far it was walked: the bytes that were walked
// are read again with their rest, and known by their checksum.
func (w *Watcher) splitValues(t *tail, b []byte) {
	for len(b) > 0 {
		if t.lost {
			if b = w.regain(t, b); t.lost {
				return
			}
			continue
		}
		if t.pending > int64(len(b)) || t.pending > 0 && sum(0, b[:t.pending]) != t.scan.sum {
			t.pending = 0 // the half value became another one
		}
		if t.pending == 0 {
			t.scan.again()
		}
		n, v := t.scan.next(b[t.pending:])
		if v == half {
			t.scan.sum = sum(t.scan.sum, b[t.pending:])
			t.pending = int64(len(b))
			w.tooLarge(t)
			return
		}
		size := t.pending + int64(n)
		if v == broken {
			b = w.lose(t, b)
			continue
		}
		text := b[t.scan.start:size:size]
		told := t.off+size > t.quiet
		switch {
		case len(text) > w.cfg.MaxLine:
			if told {
				w.skip(t)
			}
			told = false
		case isWord(text[0]) && !json.Valid(text): // what a dying writer printed, for instance
			b = w.lose(t, b)
			continue
		}
		w.advance(t, b[:size])
		if told {
			w.cfg.Deliver(Line{Source: t.Source, Path: t.Path, Text: text, Pos: t.pos()})
		}
		t.tooLong = false
		b = b[size:]
	}
}

// tooLarge tells of a half value that exceeds the limit already.
func (w *Watcher) tooLarge(t *tail) {
	if t.pending-t.scan.start > int64(w.cfg.MaxLine) && t.off+t.pending > t.quiet {
		w.skip(t)
	}
}

// advance moves the position behind told, which begins there.
func (w *Watcher) advance(t *tail, told []byte) {
	if free := headSize - len(t.head); free > 0 {
		t.head = append(t.head, told[:min(len(told), free)]...)
		t.prefix = ""
	}
	t.off += int64(len(told))
	t.pending = 0
}

// lose gives the value up that b begins with, and goes behind its first byte:
// a whole value that follows may begin anywhere after that.
func (w *Watcher) lose(t *tail, b []byte) []byte {
	at := t.scan.start
	t.lost, t.tooLong = true, false
	if t.off+at >= t.quiet {
		w.report(t, Broken, fmt.Errorf("what begins at byte %d never ends as a value", t.off+at))
	}
	w.advance(t, b[:at+1])
	return b[at+1:]
}

// regain passes over what is left of a broken value: to the next line that
// begins with a container.
func (w *Watcher) regain(t *tail, b []byte) []byte {
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			w.advance(t, b)
			return nil
		}
		if i += n + 1; i == len(b) {
			w.advance(t, b[:i-1])
			t.pending = 1 // the end of the line waits for what begins the next
			return nil
		}
		if b[i] == '{' || b[i] == '[' {
			w.advance(t, b[:i])
			t.lost = false
			return b[i:]
		}
	}
}

// searchValue walks on behind a long half value until its end, and makes room
// for the whole of it. One that exceeds the limit is passed over.
func (w *Watcher) searchValue(t *tail, until int64) (found, more bool) {
	for {
		n, err := readAt(t.file, w.buf, t.off+t.pending)
		if err != nil {
			w.unreadable(t, err)
			return false, false
		}
		if n == 0 {
			was := t.pending
			same := w.same(t, 0)
			return !same || t.pending != was, false
		}
		n, v := t.scan.next(w.buf[:n])
		if v == half {
			t.scan.sum = sum(t.scan.sum, w.buf[:n])
			t.pending += int64(n)
			if t.pending == t.scan.start {
				w.pass(t, t.pending) // white space only
				return true, false
			}
			w.tooLarge(t)
			if t.off+t.pending >= until {
				return false, true
			}
			continue
		}
		size := t.pending + int64(n)
		if v == whole && size-t.scan.start > int64(w.cfg.MaxLine) {
			if t.off+size > t.quiet {
				w.skip(t)
			}
			w.pass(t, size)
			return true, false
		}
		if v == broken && size > int64(w.cfg.MaxLine) {
			// Too much to look through again for a line that begins a value.
			t.lost = true
			if t.off+size > t.quiet {
				w.report(t, Broken, fmt.Errorf("what begins at byte %d never ends as a value", t.off+t.scan.start))
			}
			w.pass(t, size)
			return true, false
		}
		if size >= int64(len(w.buf)) {
			w.buf = make([]byte, size+1) // a number ends with the byte behind it
		}
		t.pending = 0 // walked once more, now that all of it is in one piece
		return true, false
	}
}

// pass moves the position by size bytes that are not in the buffer.
func (w *Watcher) pass(t *tail, size int64) {
	t.off += size
	t.pending, t.tooLong = 0, false
	t.head, t.prefix = w.readHead(t, min(t.off, headSize)), ""
}
