package kernel

import (
	"fmt"
	"strings"

	"lifeloop/lifeloop"
)

// This file limits how much one answer of a client adds to the ledger: 256 KiB in
// all its facts, and 64 KiB in its receipt (DECISIONS L21). Lengths are those of
// JSON text, where a control character takes two or six bytes.

const (
	maxWarnings    = 32       // the largest number of warnings in one receipt
	keptWarnings   = 7        // how many of the last warnings are always kept, because the wrapper adds its own at the end
	maxWarning     = 1024     // the largest size of a warning in bytes
	maxPayloads    = 64       // the largest number of payloads in one answer
	maxPayloadText = 12 << 10 // the largest size in bytes of the ids, kinds and keys of an answer's payloads
)

const dropped = "further warnings were dropped: a receipt has at most 32"

// overLimit describes the limit that an answer exceeds; it is empty if the answer
// exceeds none.
func overLimit(r *lifeloop.CallbackResponse) string {
	if n := len(r.ClientPayloads); n > maxPayloads {
		return fmt.Sprintf("the answer has %d payloads: at most %d are accepted", n, maxPayloads)
	}
	text := 0
	for _, p := range r.ClientPayloads {
		text += jsonLength(p.PayloadID) + jsonLength(p.PayloadKind)
		if p.IdempotencyKey != nil {
			text += jsonLength(*p.IdempotencyKey)
		}
	}
	if text > maxPayloadText {
		return fmt.Sprintf("the ids, kinds and idempotency keys of the answer's payloads have %d bytes: at most %d are accepted", text, maxPayloadText)
	}
	return ""
}

// bounded returns the warnings, with long ones shortened, and with some left out if
// there are too many. The argument is not changed.
func bounded(warnings []string) []string {
	var out []string
	for i, w := range warnings {
		switch n := len(warnings); {
		case n <= maxWarnings, i < maxWarnings-keptWarnings-1, i >= n-keptWarnings:
			out = append(out, cut(w))
		case i == maxWarnings-keptWarnings-1:
			out = append(out, dropped)
		}
	}
	return out
}

// cut shortens a warning that is too long, and ends it with an ellipsis.
func cut(s string) string {
	const ellipsis = "…"
	s = strings.ToValidUTF8(s, "\uFFFD")
	if jsonLength(s) <= maxWarning {
		return s
	}
	length := len(ellipsis)
	for i, c := range s {
		if length += jsonLength(string(c)); length > maxWarning {
			return s[:i] + ellipsis
		}
	}
	return s
}

// jsonLength returns the length of a string as JSON text, without its quotes.
func jsonLength(s string) int {
	n := len(s)
	for _, c := range s {
		switch {
		case strings.ContainsRune("\"\\\b\f\n\r\t", c):
			n++
		case c < ' ':
			n += 5
		case c == '\u2028' || c == '\u2029':
			n += 3
		}
	}
	return n
}
