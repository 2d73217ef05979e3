package acts

import (
	"slices"
	"strings"
)

// awk runs commands and writes files that its own program names.
func (s *shell) awk(u usage, args []arg) {
	in := u.parse(args, true)
	program, _ := next(in.operands)
	inFile := in.has("f E file exec")
	switch {
	case in.marked('#'):
	case in.unknown, in.marked('~'),
		slices.ContainsFunc(in.flags, func(f flag) bool { return f.mark == '|' && (!f.value.known || f.value.input()) }),
		!inFile && !program.known, !inFile && awkActs(program.text):
		s.undecidable("command")
	}
}

// awkActs reports whether the text of a program may run a command, write a file or read
// one that it names. A text that it does not understand counts as such a program.
func awkActs(program string) bool {
	code, ok := awkCode(program)
	if !ok {
		return true
	}
	for _, word := range []string{"system", "getline", "ARGV", "@"} {
		if strings.Contains(code, word) {
			return true
		}
	}
	if strings.Contains(strings.ReplaceAll(code, "||", ""), "|") {
		return true
	}
	for _, statement := range strings.FieldsFunc(code, func(c rune) bool { return c == ';' || c == '{' || c == '}' || c == '\n' }) {
		if _, printed, is := strings.Cut(statement, "print"); is && strings.Contains(printed, ">") {
			return true // print to a file; elsewhere > compares
		}
	}
	return false
}

// awkCode leaves out the strings, regular expressions and comments of a program.
func awkCode(program string) (code string, ok bool) {
	var b strings.Builder
	last := byte('\n') // the last character that is not a blank
	for i := 0; i < len(program); i++ {
		c := program[i]
		switch {
		case c == '#':
			end := strings.IndexByte(program[i:], '\n')
			if end < 0 {
				return b.String(), true
			}
			i, c = i+end, '\n'
		case c == '"', c == '/' && strings.IndexByte("(,{;!~&|=}\n", last) >= 0:
			end := i + 1
			for end < len(program) && program[end] != c {
				if program[end] == '\\' {
					end++
				} else if program[end] == '\n' || c == '/' && program[end] == '[' && strings.Contains(program[end:], "/") && !closes(program[end:]) {
					return "", false
				}
				end++
			}
			if end >= len(program) {
				return "", false
			}
			i = end
		case c == '\\' && i+1 < len(program) && program[i+1] == '\n':
			i++
			continue
		}
		b.WriteByte(c)
		if c != ' ' && c != '\t' {
			last = c
		}
	}
	return b.String(), true
}

// closes reports whether a set in a regular expression, such as [a-z], ends before a slash.
func closes(set string) bool {
	end := strings.IndexByte(set, ']')
	return end > 1 && !strings.Contains(set[:end], "/") && set[1] != '^' || end > 2 && !strings.Contains(set[:end], "/")
}
