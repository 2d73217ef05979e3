package profiles

import (
	"slices"
	"strings"
)

// This file is the shared part of turning a command line into one that continues
// a session by its id. It is stricter than parsing for a launch: the value of an
// unknown option could become a prompt. A command line is resumed only if every
// word of it is understood.

// anyUUID is an example of a session id that is a UUID.
const anyUUID = "00000000-0000-4000-8000-000000000000"

// A part is an option with its values, or an operand.
type part struct {
	option // zero for an operand
	words  []string
	value  string // the last value
}

func (p part) is(names ...string) bool { return slices.Contains(names, p.name) }

// A commandLine is the arguments of a program, in parts.
type commandLine []part

// parts parses arguments like commander and clap, or like yargs, for which no
// word that looks like an option is a value. It returns false if an option is
// not in the table or lacks its value.
func parts(args []string, table map[string]option, yargs bool) (l commandLine, ok bool) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			for _, a := range args {
				l = append(l, part{words: []string{a}, value: a})
			}
			return l, true
		}
		if !looksLikeOption(arg) {
			l = append(l, part{words: []string{arg}, value: arg})
			continue
		}
		if !yargs { // split flags in one word, such as -cp
			for len(arg) > 2 && arg[1] != '-' && table[arg[:2]].name != "" && table[arg[:2]].arity == flag {
				if _, whole := table[arg]; whole { // -d2e is one option
					break
				}
				l = append(l, part{option: table[arg[:2]], words: []string{arg[:2]}})
				arg = "-" + arg[2:]
			}
		}
		o, val, attached, known := lookup(table, arg, map[string]string{})
		if _, whole := table[arg]; !known || yargs && !whole && !strings.HasPrefix(arg, "--") {
			return nil, false // yargs parses letters in one word in several ways
		}
		p := part{option: o, words: []string{arg}, value: strings.TrimPrefix(val, "=")}
		if n := o.values(args, yargs); !attached && n > 0 {
			p.words, p.value = append(p.words, args[:n]...), args[n-1]
			args = args[n:]
		} else if !attached && (o.arity == value || o.arity == variadic) {
			return nil, false // it lacks its value
		}
		l = append(l, p)
	}
	return l, true
}

// values returns how many of the next words are values of the option.
func (o option) values(next []string, yargs bool) int {
	n := 0
	if len(next) > 0 && (!looksLikeOption(next[0]) || !yargs && o.takes(next[0])) && o.arity != flag {
		n = 1
	}
	for o.arity == variadic && 0 < n && n < len(next) && !looksLikeOption(next[n]) {
		n++
	}
	return n
}

// find returns the last option of that name.
func (l commandLine) find(name string) (part, bool) {
	for _, p := range slices.Backward(l) {
		if p.name == name {
			return p, true
		}
	}
	return part{}, false
}

func (l commandLine) has(names ...string) bool {
	return slices.ContainsFunc(l, func(p part) bool { return p.name != "" && p.is(names...) })
}

// operands returns the words that belong to no option.
func (l commandLine) operands() (words []string) {
	for _, p := range l {
		if p.name == "" {
			words = append(words, p.value)
		}
	}
	return words
}

// without removes the operands, and the options of these names.
func (l commandLine) without(names ...string) commandLine {
	return slices.DeleteFunc(slices.Clone(l), func(p part) bool { return p.name == "" || p.is(names...) })
}

// words returns the words of the line, followed by operands. It adds "--" if an
// option could take an operand as its value.
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

// ambiguous reports whether a flag is followed by "true" or "false", which yargs
// may take as its value.
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
