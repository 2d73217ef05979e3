package acts

import (
	"slices"
	"strings"
)

// sed finds the commands that a script of sed runs, and the files that it writes.
func (s *shell) sed(in invocation) {
	files := in.operands
	var scripts []arg
	for _, f := range in.flags {
		if f.name == "e" || f.name == "expression" {
			scripts = append(scripts, f.value)
		}
	}
	if len(scripts) == 0 && !in.has("f file") && len(files) > 0 {
		scripts, files = files[:1], files[1:]
	}
	if in.has("i in-place") {
		s.each(files, "write")
		s.backups(in)
	}
	if slices.ContainsFunc(in.flags, func(f flag) bool { return hasWord("f file", f.name) && (!f.value.known || f.value.input()) }) {
		s.undecidable("command")
	}
	for _, script := range scripts {
		text := script.text
		if !script.known {
			text = script.shape
		}
		// If an unknown text after a backslash is empty, the backslash changes the meaning
		// of the character after the text.
		hides := strings.Contains(text, `\`+aWord) || strings.Contains(text, `\`+aNumber)
		if text == "" && !script.known || hides || !s.sedScript(text) {
			s.undecidable("command")
		}
	}
}

// sedScript adds the files that a script reads and writes. It reports whether all commands
// of the script are understood and none runs another command. An unknown part of the script
// (see shape) is understood only within an address, a comment, the operands of s or y, or
// the text of a, i or c.
func (s *shell) sedScript(script string) bool {
	for script = sedAddress(script); script != ""; script = sedAddress(script) {
		c, rest := script[0], script[1:]
		switch c {
		case '}', 'p', 'P', 'd', 'D', 'q', 'Q', '=', 'n', 'N', 'h', 'H', 'g', 'G', 'x', 'l', 'z', 'F':
			rest = strings.TrimLeft(rest, "0123456789 ")
		case '{':
		case 's', 'y':
			var ok bool
			if rest, ok = sedDelimited(rest, 2, c == 's'); !ok {
				return false
			}
			if c == 's' {
				rest = strings.TrimLeft(rest, "gpiIMm0123456789")
				if rest != "" && strings.IndexByte(" \t\n;}#w", rest[0]) < 0 { // the flag e, or a text that is not understood
					return false
				}
				if strings.HasPrefix(rest, "w") {
					script = rest
					file, after, _ := strings.Cut(rest[1:], "\n")
					if shaped(file) {
						return false
					}
					s.touch(arg{text: strings.TrimSpace(file), known: true}, "write")
					rest = after
				}
			}
		case 'w', 'W', 'r', 'R':
			file, after, _ := strings.Cut(rest, "\n")
			if shaped(file) {
				return false
			}
			s.touch(arg{text: strings.TrimSpace(file), known: true}, map[bool]string{true: "write", false: "read"}[c == 'w' || c == 'W'])
			rest = after
		case '#':
			_, rest, _ = strings.Cut(rest, "\n")
		case 'a', 'i', 'c':
			var ok bool
			if rest, ok = sedText(rest); !ok {
				return false
			}
		case 'b', 't', 'T', ':':
			i := strings.IndexAny(rest, ";\n}")
			if i < 0 {
				i = len(rest)
			}
			if shaped(rest[:i]) {
				return false
			}
			rest = rest[i:]
		default:
			return false
		}
		script = rest
	}
	return true
}

// backups adds an undecidable path if the copies that an edit in place keeps may be in
// another folder: sed -i'old/*' copies x to old/x before it edits x.
func (s *shell) backups(in invocation) {
	for _, f := range in.flags {
		if hasWord("i in-place", f.name) && (!f.value.known || strings.Contains(f.value.text, "/")) {
			s.undecidable("path")
		}
	}
}

// sedText returns the script after the text of sed's command a, i or c. The text ends
// at the first newline that does not follow an odd number of backslashes.
func sedText(script string) (rest string, ok bool) {
	first := true
	for {
		line, after, _ := strings.Cut(script, "\n")
		if slashes := strings.Trim(line, " \t"); first && len(slashes) > 1 && strings.Trim(slashes, " \t\\") == "" {
			return "", false // the first backslash may belong to the command or to the text
		}
		if script, first = after, false; (len(line)-len(strings.TrimRight(line, `\`)))%2 == 0 {
			return script, true
		}
	}
}

// sedAddress returns the script without the white space, semicolons and addresses before
// its first command. If an address is not understood, it returns ?, which is no command.
func sedAddress(script string) string {
	for script != "" {
		switch c := script[0]; {
		case strings.IndexByte(" \t\n;0123456789$,!~+"+aNumber, c) >= 0:
			script = script[1:]
		case c == '/' || c == '\\' && len(script) > 1:
			if c == '\\' {
				script = script[1:]
			}
			rest, ok := sedDelimited(script, 1, true)
			if !ok {
				return "?"
			}
			script = strings.TrimLeft(rest, "IM")
		default:
			return script
		}
	}
	return script
}

// sedDelimited returns the script after n texts that each end with the delimiter, which is
// the first character of script. If pattern is set, the first text may have sets such as
// [a-z]. A set that contains the delimiter is not understood, because only some versions of
// sed end the pattern there.
func sedDelimited(script string, n int, pattern bool) (rest string, ok bool) {
	if script == "" || shaped(script[:1]) {
		return "", false
	}
	for i := 1; i < len(script); i++ {
		switch script[i] {
		case '\\':
			i++
		case '[':
			if pattern && script[0] != '[' {
				length := setLength(script[i:], script[0])
				if length == 0 {
					return "", false
				}
				i += length - 1
			}
		case script[0]:
			pattern = false
			if n--; n == 0 {
				// A part that is not known has only plain characters (see isPlain). If the
				// delimiter is plain too, such a part could contain it, so ok is false.
				return script[i+1:], !shaped(script[:i]) || !isPlain(script[:1])
			}
		}
	}
	return "", false
}

// setLength returns the length of a set such as [^a-z[:digit:]_] at the start of a pattern;
// 0 if the length is in doubt, or if the set contains end, which ends the pattern.
func setLength(pattern string, end byte) int {
	for i := 1; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == end:
			return 0
		case c == ']' && i > 1 && pattern[:i] != "[^":
			return i + 1
		case c == '[':
			class := strings.Index(pattern[i:], ":]")
			if class < 0 || !strings.HasPrefix(pattern[i:], "[:") || !isPlain(pattern[i+2:i+class]) {
				return 0
			}
			i += class + 1
		case c == '\\' && i+1 < len(pattern) && pattern[i+1] == ']':
			return 0
		}
	}
	return 0
}

// shaped reports whether a part of a script is not known.
func shaped(script string) bool { return strings.ContainsAny(script, aWord+aNumber) }
