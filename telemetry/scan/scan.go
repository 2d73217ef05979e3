// Package scan reads single members of JSON records without decoding the rest. A
// record may be megabytes of text with six short members of interest: the scan
// finds those and skips the other values by searching for quotes, so a session's
// text is neither parsed nor copied. It checks the brackets, so that an
// incomplete record is rejected, but not the content of the values that it
// skips.
//
//	var kind []byte
//	var s telemetry.Signal
//	ok := scan.Object(record, scan.Raw("type", &kind), scan.Name("session_id", &s.Session))
package scan

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// Members calls f with the key, without its quotes, and the value of each member of
// the object b, until f returns false. It reports whether b is one complete object. If
// f returned false, Members returns true without a check of the rest of b.
//
// Members does not call Walk but has its own loop. A second callback per member
// would cost 1.4 % more instructions when a Codex rollout is read from its start.
func Members(b []byte, f func(key, val []byte) bool) bool {
	i := Space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return Space(b, i+1) == len(b)
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return false
		}
		end := skipString(b, i)
		if end < 0 {
			return false
		}
		key := b[i+1 : end-1]
		i = Space(b, end)
		if i >= len(b) || b[i] != ':' {
			return false
		}
		i = Space(b, i+1)
		end = skipValue(b, i)
		if end < 0 {
			return false
		}
		if !f(key, b[i:end]) {
			return true
		}
		i = Space(b, end)
		if i >= len(b) {
			return false
		}
		switch b[i] {
		case ',':
			i = Space(b, i+1)
		case '}':
			return Space(b, i+1) == len(b)
		default:
			return false
		}
	}
}

// A callback of Walk or WalkElements returns StepOver for a value that it did not
// read, and Halt to end the walk.
const (
	StepOver = 0
	Halt     = -1
)

// Walk is like Members but lets the callback descend into chosen values, so that a
// long record is read once. It calls f with the index of each value of the object
// that begins at b[i]; f returns the index after the value, StepOver or Halt. Walk
// returns the index after the object, or -1 if there is no object or f halted.
func Walk(b []byte, i int, f func(key []byte, i int) int) int {
	if i >= len(b) || b[i] != '{' {
		return -1
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return -1
		}
		end := skipString(b, i)
		if end < 0 {
			return -1
		}
		key := b[i+1 : end-1]
		i = Space(b, end)
		if i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = Space(b, i+1); i >= len(b) {
			return -1
		}
		if end = f(key, i); end == StepOver {
			end = skipValue(b, i)
		}
		if end < 0 {
			return -1
		}
		i = Space(b, end)
		if i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = Space(b, i+1)
		case '}':
			return i + 1
		default:
			return -1
		}
	}
}

// WalkElements is Walk for the elements of the array that begins at b[i].
func WalkElements(b []byte, i int, f func(i int) int) int {
	if i >= len(b) || b[i] != '[' {
		return -1
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i >= len(b) {
			return -1
		}
		end := f(i)
		if end == StepOver {
			end = skipValue(b, i)
		}
		if end < 0 {
			return -1
		}
		i = Space(b, end)
		if i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = Space(b, i+1)
		case ']':
			return i + 1
		default:
			return -1
		}
	}
}

// Take returns the value that begins at b[i] and the index after it; nil and -1
// if the value does not end.
func Take(b []byte, i int) ([]byte, int) {
	end := skipValue(b, i)
	if end < 0 {
		return nil, -1
	}
	return b[i:end], end
}

// A Member is one member of an object: its key, without its quotes, and its value.
type Member struct{ Key, Val []byte }

// Gather appends the members of the object that begins at b[i] to list, for a
// caller that reads them later, for example after it has read the record's type. It
// returns the list and the index after the object; nil and StepOver if there is no
// object.
func Gather(list []Member, b []byte, i int) ([]Member, int) {
	end := Walk(b, i, func(key []byte, i int) int {
		val, end := Take(b, i)
		list = append(list, Member{key, val})
		return end
	})
	if end < 0 {
		return nil, StepOver
	}
	return list, end
}

// Elements calls f with each element of the array b, as Members does.
func Elements(b []byte, f func(val []byte) bool) bool {
	stopped := false
	end := WalkElements(b, Space(b, 0), func(i int) int {
		val, end := Take(b, i)
		if stopped = end >= 0 && !f(val); stopped {
			return Halt
		}
		return end
	})
	return stopped || end >= 0 && Space(b, end) == len(b)
}

// Space returns the index of the first byte from b[i] on that is not white space.
func Space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that starts at b[i], or -1.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		start := i
		i += n
		// The quote is escaped if an odd number of backslashes precedes it.
		j := i
		for j > start && b[j-1] == '\\' {
			j--
		}
		if (i-j)&1 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the index after the value that starts at b[i], or -1. It
// counts the depth instead of recursing, so that deep nesting cannot exhaust
// the stack.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
	default:
		start := i
		for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
			i++
		}
		if i == start {
			return -1
		}
		return i
	}
	for depth := 0; i < len(b); {
		c := b[i]
		if c == '"' {
			if i = skipString(b, i); i < 0 {
				return -1
			}
			continue
		}
		i++
		switch c | 0x20 { // '[' and '{' differ in this bit, and so do ']' and '}'
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// textOf returns the JSON string val, or "" when val is anything else.
func textOf(val []byte) string {
	if len(val) < 2 || val[0] != '"' {
		return ""
	}
	if bytes.IndexByte(val, '\\') < 0 {
		return string(val[1 : len(val)-1])
	}
	var s string
	if json.Unmarshal(val, &s) != nil {
		return ""
	}
	return s
}

// Is reports whether val is the JSON string of this text, whatever its length and its
// characters.
func Is(val []byte, text string) bool { return Inner(val) != nil && textOf(val) == text }

// NameOf returns the JSON string val if it can be an id or a name, else "". Names
// are stored and displayed. A long or unprintable string is not a name.
func NameOf(val []byte) string { return Printable(val, MaxName) }

// MaxName is the longest name, in bytes.
const MaxName = 256

// WordOf returns the JSON string val if it has the form of a word (see IsWord), else "".
// It is for a field in which the harness writes one word of its vocabulary: a cause, a
// reason or the name of a tool. A later version of the harness may write a sentence in
// such a field, which must not be stored.
func WordOf(val []byte) string {
	s := Printable(val, MaxWord)
	if !IsWord(s) {
		return ""
	}
	return s
}

// MaxWord is the longest word, in bytes.
const MaxWord = 128

// IsWord reports whether s consists of ASCII letters, digits and _-.:/@ only.
func IsWord(s string) bool {
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case r == '_', r == '-', r == '.', r == ':', r == '/', r == '@':
		default:
			return false
		}
	}
	return s != "" && len(s) <= MaxWord
}

// PathOf returns the JSON string val if it can be a file's path, else "".
func PathOf(val []byte) string { return Printable(val, 4096) }

// Printable returns the JSON string val if it is printable and no longer than
// limit bytes, else "".
func Printable(val []byte, limit int) string {
	// An escape sequence has at most 6 bytes for each byte of the decoded character.
	if len(val) > 6*limit+2 {
		return ""
	}
	if len(val) >= 2 && val[0] == '"' && len(val) <= limit+2 && plain(val[1:len(val)-1]) {
		return string(val[1 : len(val)-1])
	}
	if s := textOf(val); IsShown(s, limit) {
		return s
	}
	return ""
}

// IsShown reports whether s is printable and no longer than limit bytes.
func IsShown(s string, limit int) bool {
	if len(s) > limit || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// plain reports whether b is printable ASCII without escapes.
func plain(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// IsTrue reports whether val is true.
func IsTrue(val []byte) bool { return string(val) == "true" }

// IsNull reports whether val is null.
func IsNull(val []byte) bool { return string(val) == "null" }

// MostCounted is the largest number of tokens that is accepted, so that sums do
// not overflow.
const MostCounted = 1 << 50

// CountOf returns the JSON number val if it can be a number of tokens, else 0.
func CountOf(val []byte) int64 {
	n := int64(0)
	for _, c := range val {
		if n = 10*n + int64(c-'0'); c < '0' || c > '9' || n > MostCounted {
			return 0
		}
	}
	return n
}

// TimeOf returns the time of the RFC 3339 string val, or the zero time.
func TimeOf(val []byte) time.Time {
	if len(val) < 2 || len(val) > 64 || val[0] != '"' {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, string(val[1:len(val)-1]))
	if err != nil {
		return time.Time{}
	}
	return InRange(t.UTC())
}

// MilliOf returns the time of the number val, milliseconds since 1970.
func MilliOf(val []byte) time.Time {
	n := CountOf(val)
	if n == 0 {
		return time.Time{}
	}
	return InRange(time.UnixMilli(n).UTC())
}

// InRange returns t, or the zero time if RFC 3339 cannot write it.
func InRange(t time.Time) time.Time {
	if t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// SecondsOf returns the time of the number val, seconds since 1970 with a
// fraction, to the millisecond.
func SecondsOf(val []byte) time.Time {
	t, err := strconv.ParseFloat(string(val), 64)
	if err != nil || !(t > 0 && t < 1<<40) {
		return time.Time{}
	}
	return InRange(time.UnixMilli(int64(t * 1000)).UTC())
}

// MemberOf returns the value of the member with this key in the object val, decoded by
// read; "" if val has no such member.
func MemberOf(val []byte, key string, read func([]byte) string) string {
	var out string
	Members(val, func(k, v []byte) bool {
		if string(k) != key {
			return true
		}
		out = read(v)
		return false
	})
	return out
}

// Inner is the text between the quotes of a JSON string, still escaped; nil if val
// is not a string.
func Inner(val []byte) []byte {
	if len(val) < 2 || val[0] != '"' {
		return nil
	}
	return val[1 : len(val)-1]
}

// Hash returns the FNV-1a hash of a text, which suffices to recognise the text
// when it is repeated.
func Hash(text []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range text {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
