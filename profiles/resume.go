package profiles

import "slices"

// This file has the shared functions that change a command line so that it continues
// a session by its id. They are stricter than the preparation of a launch, because the
// value of an unknown option could become a prompt. A command line is resumed only if
// every option in it is known.

// anyUUID is an example of a session id that is a UUID.
const anyUUID = "00000000-0000-4000-8000-000000000000"

// without removes the operands, and the options with these names.
func (l commandLine) without(names ...string) commandLine {
	return slices.DeleteFunc(slices.Clone(l), func(p part) bool { return p.name == "" || slices.Contains(names, p.name) })
}

// words returns the words of the line, followed by the operands. It puts "--" before the
// operands if an option could take an operand as its value, or if an operand looks like
// an option.
func (l commandLine) words(operands ...string) (words []string) {
	for _, p := range l {
		words = append(words, p.words...)
	}
	open := slices.ContainsFunc(operands, looksLikeOption)
	if len(l) > 0 {
		last := l[len(l)-1]
		open = open || last.arity == variadic || last.arity == optional && len(last.words) == 1
	}
	if open && len(operands) > 0 {
		words = append(words, "--")
	}
	return append(words, operands...)
}

// ambiguous reports whether a flag is followed by "true" or "false". Yargs may take that
// word as the flag's value.
func (l commandLine) ambiguous() bool {
	for i, p := range l[:max(len(l)-1, 0)] {
		if next := l[i+1]; p.name != "" && p.arity == flag && next.name == "" && (next.value == "true" || next.value == "false") {
			return true
		}
	}
	return false
}

// sessionUUID returns a word if it is a UUID, otherwise "".
func sessionUUID(word string) string {
	if len(word) != 36 {
		return ""
	}
	for i, r := range word {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		switch {
		case dash && r == '-':
		case !dash && (r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F'):
		default:
			return ""
		}
	}
	return word
}
