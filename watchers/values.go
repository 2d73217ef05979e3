package watchers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// A valueScan scans one JSON value that arrives in pieces, each byte once. It
// checks the structure, but not numbers and words. It finds where the value ends, or
// that the value is broken.
//
// A writer that died while writing leaves a value that never ends. The scan
// detects that by what follows: a brace in place of a comma, a newline in a
// string, or a container at the start of a line in an indented value.
type valueScan struct {
	open     []byte // the opening brackets of the containers that are not closed yet, innermost last
	expect   expect
	key      bool   // the current string is a key
	escaped  bool   // the previous byte is an escaping backslash
	newline  bool   // the previous byte is a newline outside of a string
	indented bool   // a line of this value begins with white space
	start    int64  // length of the white space before the value
	sum      uint32 // checksum of the scanned bytes
}

// maxDepth is how deep a value may nest; a deeper one is reported as Broken.
const maxDepth = 10_000

// expect says what may follow at the current place of a value.
type expect uint8

const (
	aValue      expect = iota // a value must follow: at the top, after a colon, or after a comma in a list
	aValueOrEnd               // a value or the closing bracket may follow: after the opening bracket of a list
	aKey                      // a key must follow: after a comma in an object
	aKeyOrEnd                 // a key or the closing brace may follow: after the opening brace of an object
	aColon
	aCommaOrEnd
	inString
	inWord // a number, true, false or null
)

// A verdict is the result of a scan.
type verdict uint8

const (
	half   verdict = iota // all bytes are scanned, the value continues
	whole                 // the value ends before the next byte
	broken                // the next byte is not allowed there
)

// next scans b and returns the number of bytes scanned.
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

// inString scans to the end of the string. It stops before a newline, which no
// string may contain.
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

// step scans one byte that is not white space and not part of a string or a
// word. It reports whether the byte is allowed at this place; first means that
// it is the first byte of a line.
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

// reset makes the scan ready for another value.
func (s *valueScan) reset() { *s = valueScan{open: s.open[:0]} }

// sum adds b to a checksum that the processor computes in hardware.
func sum(was uint32, b []byte) uint32 {
	return crc32.Update(was, crc32.MakeTable(crc32.Castagnoli), b) // MakeTable computes the table only at the first call
}

// splitValues delivers the values of b, which begins at the position. For a partial
// value it stores only the state of the scan. The value's bytes are read again
// together with the rest, and their checksum shows whether they have changed.
func (w *Watcher) splitValues(t *tail, b []byte) {
	for len(b) > 0 {
		if t.lost {
			if b = w.regain(t, b); t.lost {
				return
			}
			continue
		}
		if t.pending > int64(len(b)) || t.pending > 0 && sum(0, b[:t.pending]) != t.scan.sum {
			t.pending = 0 // the partial value changed
		}
		if t.pending == 0 {
			t.scan.reset()
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
		wanted := t.off+size > t.quiet
		switch {
		case len(text) > w.cfg.MaxLine:
			if wanted {
				w.reportTooLong(t)
			}
			wanted = false
		case isWord(text[0]) && !json.Valid(text): // for example the error message of a crashing writer
			b = w.lose(t, b)
			continue
		}
		w.advance(t, b[:size])
		if wanted {
			w.ends(t, b[:size])
			w.cfg.Deliver(Line{Source: t.Source, Path: t.Path, Text: text, Pos: t.pos()})
		}
		t.tooLong = false
		b = b[size:]
	}
}

// tooLarge reports a partial value that is longer than the limit already.
func (w *Watcher) tooLarge(t *tail) {
	if t.pending-t.scan.start > int64(w.cfg.MaxLine) && t.off+t.pending > t.quiet {
		w.reportTooLong(t)
	}
}

// advance moves the position to the end of done. The bytes of done begin at the
// position.
func (w *Watcher) advance(t *tail, done []byte) {
	if free := headSize - len(t.head); free > 0 {
		t.head = append(t.head, done[:min(len(done), free)]...)
		t.prefix = ""
	}
	t.off += int64(len(done))
	t.pending = 0
}

// lose reports a broken value at the start of b and skips only its first byte,
// because a whole value may begin anywhere after that byte. It returns the rest
// of b.
func (w *Watcher) lose(t *tail, b []byte) []byte {
	at := t.scan.start
	t.lost, t.tooLong = true, false
	if t.off+at >= t.quiet {
		w.report(t, Broken, fmt.Errorf("the value that begins at byte %d cannot be read as JSON", t.off+at))
	}
	w.advance(t, b[:at+1])
	return b[at+1:]
}

// regain skips the rest of a broken value, up to the next line that begins with a
// container. It returns the rest of b.
func (w *Watcher) regain(t *tail, b []byte) []byte {
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			w.advance(t, b)
			return nil
		}
		if i += n + 1; i == len(b) {
			w.advance(t, b[:i-1])
			t.pending = 1 // keep the newline as pending until the first byte of the next line is known
			return nil
		}
		if b[i] == '{' || b[i] == '[' {
			w.advance(t, b[:i])
			t.lost = false
			return b[i:]
		}
	}
}

// searchValue scans a long partial value up to its end, and makes the buffer large
// enough for the whole value. A value longer than the limit is skipped.
func (w *Watcher) searchValue(t *tail, until int64) (found, more bool) {
	for {
		n, changed := w.readPending(t)
		if n == 0 {
			return changed, false
		}
		n, v := t.scan.next(w.buf[:n])
		if v == half {
			t.scan.sum = sum(t.scan.sum, w.buf[:n])
			t.pending += int64(n)
			if t.pending == t.scan.start {
				w.skip(t, t.pending) // only white space is left
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
				w.reportTooLong(t)
			}
			w.skip(t, size)
			return true, false
		}
		if v == broken && size > int64(w.cfg.MaxLine) {
			// The value is longer than the limit. Skip the scanned part of the value,
			// without a search in it for a line that begins another value.
			t.lost = true
			if t.off+size > t.quiet {
				w.report(t, Broken, fmt.Errorf("the value that begins at byte %d cannot be read as JSON", t.off+t.scan.start))
			}
			w.skip(t, size)
			return true, false
		}
		if size >= int64(len(w.buf)) {
			w.buf = make([]byte, size+1) // one byte more, because a number ends only at the byte after it
		}
		t.pending = 0 // scan the value once more, now that the buffer holds all of it
		return true, false
	}
}

// skip moves the position forward by size bytes. It reads the head from the file,
// because the buffer does not hold all of these bytes.
func (w *Watcher) skip(t *tail, size int64) {
	t.off += size
	t.pending, t.tooLong = 0, false
	t.head, t.prefix = w.readHead(t, min(t.off, headSize)), ""
}
