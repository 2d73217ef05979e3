package acts

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// ansi decodes the text between the quotes of $'…', as bash does. If quoted has an escape
// that this function does not decode, text is empty and known is false. If shells decode an
// escape in different ways, known is false too, but text is the text that bash decodes.
func ansi(quoted string) (text string, known bool) {
	var b strings.Builder
	known = true
	for quoted != "" {
		if quoted[0] != '\\' {
			b.WriteByte(quoted[0])
			quoted = quoted[1:]
			continue
		}
		if quoted = quoted[1:]; quoted == "" {
			return "", false
		}
		c := quoted[0]
		digits, most, base := quoted, 3, 8
		switch c {
		case 'x':
			digits, most, base = quoted[1:], 2, 16
			if strings.HasPrefix(digits, "{") { // bash decodes \x{41}, zsh does not
				digits, most, known = digits[1:], 8, false
			}
		case 'u':
			digits, most, base = quoted[1:], 4, 16
		case 'U':
			digits, most, base = quoted[1:], 8, 16
		case '0', '1', '2', '3', '4', '5', '6', '7':
		default:
			i := strings.IndexByte(`abeEfnrtv\'"?`, c)
			if i < 0 {
				return "", false
			}
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[i])
			quoted = quoted[1:]
			continue
		}
		n := 0
		for n < most && n < len(digits) {
			if _, err := strconv.ParseUint(digits[n:n+1], base, 8); err != nil {
				break
			}
			n++
		}
		v, err := strconv.ParseUint(digits[:n], base, 32)
		switch {
		case err == nil && v == 0: // bash ends the text here
			return b.String(), false
		case err != nil || v > utf8.MaxRune:
			return "", false
		case c == 'u' || c == 'U':
			b.WriteRune(rune(v))
		default:
			b.WriteByte(byte(v))
		}
		if quoted = digits[n:]; c == 'x' && most > 2 {
			quoted = strings.TrimPrefix(quoted, "}")
		}
	}
	return b.String(), known
}
