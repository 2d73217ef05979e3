// Package redact replaces each secret in a text with a mark, such as the one in the example
// below, before the text is written to evidence.
//
// It knows the shapes of common tokens, keys, headers and assignments. It cannot know
// every secret: a text without a mark may still hold a secret. It is pure and
// deterministic: the same text gives the same result, and a second pass changes nothing.
// JSON stays JSON, since a mark contains neither a quote nor a backslash, and what it
// replaces is a part of one string.
//
//	r := redact.New()
//	text := r.Text(`export GITHUB_TOKEN=ghp_…`)
//	// export GITHUB_TOKEN=[redacted github sha256:2c26b46b68ffc68f]
package redact

import (
	"regexp"
	"slices"
	"strings"

	"lifeloop/evidence/sign"
)

// A Redactor has the compiled rules.
type Redactor struct {
	rules []rule
	names *regexp.Regexp // a name whose value is a secret
	mark  *regexp.Regexp // what replaces a secret: [redacted RULE sha256:…]
	lines *regexp.Regexp // the next line of a private key, if each line is a string of a JSON array
	begin *regexp.Regexp // the first line of a private key
	end   *regexp.Regexp // the last line of a private key
	base  *regexp.Regexp // 16 or more characters of base64
	eol   *regexp.Regexp // the end of a line, also in the form \n that it has in JSON
	call  *regexp.Regexp // a call in a program, up to its first argument
	named *regexp.Regexp // in a program, a name whose value is a secret
	path  *regexp.Regexp // in a program, a name, or a member such as config.key
}

// A span is a part of a text.
type span struct{ from, to int }

// A rule finds secrets.
type rule struct {
	name string
	// words are in lower case. A text with a secret that the rule finds contains one of
	// words, in upper or lower case. find searches only near these words, because an
	// expression is far slower than a search for a word.
	words []string
	// next lists characters, such as =. find searches near a word only if one of these
	// characters follows the name that contains the word, such as MY_TOKEN in the text.
	// Quotes, backslashes, ] and white space may precede the character. If next is empty,
	// any text may follow.
	next string
	find *regexp.Regexp // its last group is the secret, unless extend is set
	// keep reports whether a text that the rule found stays as it is. Rules that also find
	// texts without a secret, such as words of prose, need keep. If keep is nil, every text
	// that the rule found is replaced.
	keep func(string) bool
	// extend returns the secrets for a match of find, and the end of the part of text that
	// extend has searched. If extend is nil, the last group of find is the secret.
	extend func(text string, match []int) (list []span, until int)
}

// Text returns text with a mark in the place of each secret. A mark names the rule and
// has the first 16 digits of the secret's SHA-256, so that equal secrets can be compared.
func (r *Redactor) Text(text string) string {
	text = r.unescaped(text)
	low := lower(text)
	for i := range r.rules {
		if out := r.apply(&r.rules[i], text, low); out != text {
			text, low = out, lower(out)
		}
	}
	return text
}

// Value returns the value of a name, redacted as by Text. If the name says that its value
// is a secret, a mark replaces all of the value, unless it is a number.
func (r *Redactor) Value(name, value string) string {
	if r.names.MatchString(name) && !number(value) && !r.isMark(value) && value != "" {
		return markOf("member", value)
	}
	return r.Text(value)
}

func markOf(rule, secret string) string {
	return "[redacted " + rule + " sha256:" + sign.Sum([]byte(secret))[:16] + "]"
}

// isMark reports whether s is one mark, which a second pass must keep.
func (r *Redactor) isMark(s string) bool {
	return strings.HasPrefix(s, "[redacted ") && r.mark.FindString(s) == s
}

// A rule searches only near its words: from "around" bytes before the end of a word to
// "behind" bytes after the word, and from there to the end of the line.
const around, behind = 256, 512

// followed reports whether a name is followed by one of the characters in next. i is the
// end of a rule's word in that name; more of the name may follow at text[i]. At most
// 200 bytes from i are examined, so that the time stays linear.
func followed(text string, i int, next string) bool {
	text = text[i:min(i+200, len(text))]
	for i = 0; i < len(text) && (inName(text[i]) || text[i] == '-'); i++ {
	}
	for ; i < len(text) && strings.IndexByte("\\\"'] \t\r\n\f", text[i]) >= 0; i++ {
	}
	return i < len(text) && strings.IndexByte(next, text[i]) >= 0
}

// windows returns the parts of a text that are around one of the words of a rule.
func (r *rule) windows(text, low string) []span {
	var hits []int // ends of words, in order
	for _, w := range r.words {
		for at := 0; ; {
			i := strings.Index(low[at:], w)
			if i < 0 {
				break
			}
			at += i + len(w)
			if r.next == "" || followed(text, at, r.next) {
				hits = append(hits, at)
			}
		}
	}
	slices.Sort(hits)
	var out []span
	for _, h := range hits {
		if n := len(out); n > 0 && (h+behind <= out[n-1].to || out[n-1].to == len(text)) {
			continue
		}
		from, to := max(h-around, 0), min(h+behind, len(text))
		if i := strings.IndexByte(text[to:], '\n'); i >= 0 {
			to += i
		} else {
			to = len(text)
		}
		if n := len(out); n > 0 && from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, to)
		} else {
			out = append(out, span{from, to})
		}
	}
	return out
}

func (r *Redactor) apply(rule *rule, text, low string) string {
	return r.replaced(rule, text, rule.windows(text, low))
}

// replaced returns text with a mark in the place of each secret that a rule finds in the
// given parts of text.
func (r *Redactor) replaced(rule *rule, text string, parts []span) string {
	var out strings.Builder
	at, seen := 0, 0
	replace := func(s span) {
		secret := text[max(s.from, 0):s.to]
		if s.from < at || secret == "" || rule.keep != nil && rule.keep(secret) || r.isMark(secret) {
			return
		}
		out.WriteString(text[at:s.from])
		out.WriteString(markOf(rule.name, secret))
		at = s.to
	}
	for _, w := range parts {
		for _, m := range rule.find.FindAllStringSubmatchIndex(text[w.from:w.to], -1) {
			for i := range m {
				if m[i] >= 0 {
					m[i] += w.from
				}
			}
			if m[0] < max(at, seen) {
				continue // the part in which m begins was already examined with an earlier match
			}
			if rule.extend == nil {
				replace(span{m[len(m)-2], m[len(m)-1]})
				continue
			}
			list, until := rule.extend(text, m)
			for _, s := range list {
				replace(s)
			}
			seen = max(seen, until)
		}
	}
	if at == 0 {
		return text
	}
	out.WriteString(text[at:])
	return out.String()
}

// unescaped returns text with each \u escape of a letter, a digit, _ or - decoded. JSON
// does not need these escapes, and they hide the name or the beginning of a secret.
func (r *Redactor) unescaped(text string) string {
	if !strings.Contains(text, `\u00`) {
		return text
	}
	var out strings.Builder
	at := 0
	for i := 0; i+6 <= len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if text[i+1] != 'u' || text[i+2] != '0' || text[i+3] != '0' {
			i++ // skip the escaped character, which may be another backslash
			continue
		}
		c := unhex(text[i+4])<<4 | unhex(text[i+5])
		if c > 0 && c < 0x80 && (inName(byte(c)) || c == '-') {
			out.WriteString(text[at:i])
			out.WriteByte(byte(c))
			at = i + 6
		}
		i += 5
	}
	out.WriteString(text[at:])
	return out.String()
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1 << 20
}

func inName(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// lower returns text with ASCII letters in lower case, so that positions stay the
// same.
func lower(text string) string {
	out := []byte(text)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c | 0x20
		}
	}
	return string(out)
}

// quotedUntil returns where a string ends. The string begins at from, right after a quote
// with n backslashes before it: n is 0 in JSON, 1 in JSON within a string, and 3 in JSON
// within two strings. If the string is cut off, it ends where a string around it, the line
// or the text ends.
func quotedUntil(text string, from, n int, quote byte) int {
	run := 0
	for i := from; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			run++
			continue
		case '\n', '\r':
			return i - run
		case quote:
			// The quote ends this string, a string around it, or none of them. The number
			// of backslashes before it shows which. The loop tries the strings from the
			// inside out. m is the number of backslashes before a quote of that string.
			for m := n; ; m = (m - 1) / 2 {
				if run%(2*m+2) == m {
					return i - m
				}
				if m == 0 {
					break
				}
			}
		case '"':
			return i - run // the quote may end an enclosing string
		}
		run = 0
	}
	return len(text) - run
}

// prose reports whether s has no digit or no letter. It is then probably a word or a
// number of a sentence, and not a secret.
func prose(s string) bool {
	return !strings.ContainsAny(s, "0123456789") || !strings.ContainsFunc(s, func(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' })
}

func number(s string) bool { return strings.Trim(s, "0123456789") == "" }

// word reports whether s is a word of prose, such as the word after a flag in a sentence,
// or a placeholder in a usage text, such as NAME.
func word(s string) bool {
	s = strings.TrimRight(s, ".:!?")
	rest := strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz")
	if len(s) > 0 && 'A' <= s[0] && s[0] <= 'Z' && len(rest) == len(s) {
		rest = strings.TrimLeft(s[1:], "abcdefghijklmnopqrstuvwxyz")
	}
	return rest == "" || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == ""
}
