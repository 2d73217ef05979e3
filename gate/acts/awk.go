package acts

import (
	"slices"
	"strings"
)

// awk marks a command line as undecidable if the program of an awk command may run a
// command, or write or read a file that the program names.
func (s *shell) awk(u usage, args []arg) {
	in := u.parse(args, true)
	program, _ := next(in.operands)
	inFile := in.has("f E file exec")
	switch {
	case in.marked('#'):
	case in.unknown, in.partly, in.marked('~'),
		slices.ContainsFunc(in.flags, func(f flag) bool { return f.mark == '|' && (!f.value.known || f.value.input()) }),
		!inFile && !program.known, !inFile && awkActs(program.text):
		s.undecidable("command")
	}
}

// awkActs reports whether the text of a program may run a command, write a file or read a
// file that the program names. It also returns true for a text that it does not understand.
func awkActs(program string) bool {
	code, rest, ok := awkCode(program)
	if !ok || awkHas(rest, "system", "getline", "ARGV", "@", ">", "|") || awkHas(code, "system", "getline", "ARGV", "@", "|") {
		return true
	}
	for _, statement := range strings.FieldsFunc(awkJoined(code), func(c rune) bool { return c == ';' || c == '{' || c == '}' || c == '\n' }) {
		if _, printed, is := strings.Cut(statement, "print"); is && awkRedirects(printed) {
			return true // print to a file; elsewhere > compares
		}
	}
	return false
}

// awkRedirects reports whether there is a > outside of parentheses.
func awkRedirects(printed string) bool {
	depth := 0
	for i := range len(printed) {
		switch printed[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '>':
			if depth <= 0 {
				return true
			}
		}
	}
	return false
}

func awkHas(code string, words ...string) bool {
	code = strings.ReplaceAll(strings.ReplaceAll(code, "\\\n", ""), "||", "")
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(code, w) })
}

// awkJoined replaces each newline after , | & ? or : with a space, because such a newline
// does not end a statement.
func awkJoined(code string) string {
	var b strings.Builder
	last := byte(0)
	for i := range len(code) {
		c := code[i]
		if c == '\n' && last != 0 && strings.IndexByte(",|&?:", last) >= 0 {
			c = ' '
		}
		if c != ' ' && c != '\t' && c != '\r' {
			last = c
		}
		b.WriteByte(c)
	}
	return b.String()
}

// awkCode leaves out the strings, regular expressions and comments of a program. If a slash
// may either divide or begin a regular expression, code ends before this slash, and rest is
// the program from this slash on.
func awkCode(program string) (code, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(program); i++ {
		c := program[i]
		switch {
		case c == '#':
			end := strings.IndexByte(program[i:], '\n')
			if end < 0 {
				return b.String(), "", true
			}
			i, c = i+end, '\n'
		case c == '"', c == '/':
			if c == '/' {
				if divides, known := awkDivides(b.String()); !known {
					return b.String(), program[i:], true
				} else if divides {
					break
				}
			}
			end := i + 1
			for end < len(program) && program[end] != c {
				if program[end] == '\\' {
					end++
				} else if program[end] == '\n' || c == '/' && program[end] == '[' && strings.Contains(program[end:], "/") && !closes(program[end:]) {
					return "", "", false
				}
				end++
			}
			if end >= len(program) {
				return "", "", false
			}
			i, c = end, '"'
		case c == '\\' && i+1 < len(program) && program[i+1] == '\n':
			i++
			continue
		}
		b.WriteByte(c)
	}
	return b.String(), "", true
}

// awkDivides reports whether a slash after code is a division; otherwise the slash begins
// a regular expression. If known is false, both are possible.
func awkDivides(code string) (divides, known bool) {
	code = strings.TrimRight(code, " \t")
	if code == "" {
		return false, true
	}
	if word := lastWord(code); word != "" {
		return !hasWord("print printf return in case else do delete exit", word), !hasWord("getline length", word) // mawk reads a regular expression in length /x/
	}
	switch last := code[len(code)-1]; {
	case strings.HasSuffix(code, "++"), strings.HasSuffix(code, "--"):
		return false, false
	case last == ')':
		depth := 0
		for i := len(code) - 1; i >= 0; i-- {
			if code[i] == ')' {
				depth++
			} else if code[i] == '(' {
				if depth--; depth == 0 {
					return !hasWord("if while for switch", lastWord(strings.TrimRight(code[:i], " \t"))), true
				}
			}
		}
		return false, false
	case strings.IndexByte(`]".`, last) >= 0:
		return true, true
	default:
		return false, strings.IndexByte("(,{;!~&|=}\n+-*%^<>?:[/$", last) >= 0
	}
}

// lastWord returns the name, keyword or number at the end of code.
func lastWord(code string) string {
	return code[strings.LastIndexFunc(code, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})+1:]
}

// closes reports whether a set in a regular expression, such as [a-z], ends before a slash.
func closes(set string) bool {
	end := strings.IndexByte(set, ']')
	return end > 1 && !strings.Contains(set[:end], "/") && set[1] != '^' || end > 2 && !strings.Contains(set[:end], "/")
}
