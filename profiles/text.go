package profiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// quote makes s one word of a POSIX shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// word cuts the letters, digits and underscores off the front of s.
func word(s string) (word, rest string) {
	rest = strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
	return s[:len(s)-len(rest)], rest
}

// hookCommand is the shell line by which a harness calls us back: the words of
// hook, those quoted that are more than a bare word, and the event.
func hookCommand(hook []string, event string) string {
	var line strings.Builder
	for _, w := range hook {
		if bare, rest := word(w); bare == "" || rest != "" {
			w = quote(w)
		}
		line.WriteString(w + " ")
	}
	return line.String() + event
}

// encode is JSON without HTML escaping: a harness that hashes or refuses
// unknown spellings must see the characters themselves.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// jsonString spells s as RFC 8785 does: only the quote, the backslash and
// control characters are escaped, the latter in their short form where there
// is one. encoding/json escapes U+2028 and U+2029 too, which would change a hash.
func jsonString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\b':
			b.WriteString(`\b`)
		case '\t':
			b.WriteString(`\t`)
		case '\n':
			b.WriteString(`\n`)
		case '\f':
			b.WriteString(`\f`)
		case '\r':
			b.WriteString(`\r`)
		default:
			if r < 0x20 {
				fmt.Fprintf(&b, `\u%04x`, r)
				continue
			}
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tomlString spells s as a TOML basic string, which is the JSON string but for
// DEL, a control character there.
func tomlString(s string) string {
	return strings.ReplaceAll(jsonString(s), "\x7f", `\u007f`)
}

// contextAnswer is the reply to a hook that adds context for the model, in the
// form that Claude Code and Codex share. Codex voids a reply with a key that
// it does not know, so this is all there may be.
func contextAnswer(event, context string) []byte {
	type output struct {
		Event   string `json:"hookEventName"`
		Context string `json:"additionalContext"`
	}
	return encode(struct {
		Output output `json:"hookSpecificOutput"`
	}{output{event, context}})
}
