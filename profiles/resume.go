package profiles

import (
	"slices"
	"strings"
)

// This file makes of a user's command line one that goes on with a session by
// its id. It is stricter than what reads a command line for a launch: there an
// option that nobody knows costs a guess, here its value could be taken for a
// prompt. What is not understood to the last word is not resumed.

// anyUUID has the form of a session id where those are UUIDs.
const anyUUID = "00000000-0000-4000-8000-000000000000"

// A part is one thing that a command line says: an option with its values, or
// an operand.
type part struct {
	option // without a name for an operand
	words  []string
	value  string // the last one
}

func (p part) is(names ...string) bool { return slices.Contains(names, p.name) }

// A commandLine is the words behind a program's name, in parts.
type commandLine []part

// parts cuts a command line up as commander and clap read it, or as yargs does,
// to which nothing that looks like an option is a value. It reports whether
// every option is one of the table.
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
		if !yargs { // flags in one word, -cp, are a word each
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
			return nil, false // what yargs makes of letters in one word depends on what they are
		}
		p := part{option: o, words: []string{arg}, value: strings.TrimPrefix(val, "=")}
		if n := o.values(args, yargs); !attached && n > 0 {
			p.words, p.value = append(p.words, args[:n]...), args[n-1]
			args = args[n:]
		} else if !attached && (o.arity == value || o.arity == variadic) {
			return nil, false // it lacks one
		}
		l = append(l, p)
	}
	return l, true
}

// values is how many of the words behind an option are its values.
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

// operands are the words that are no option's.
func (l commandLine) operands() (words []string) {
	for _, p := range l {
		if p.name == "" {
			words = append(words, p.value)
		}
	}
	return words
}

// without leaves out the operands, and the options of these names.
func (l commandLine) without(names ...string) commandLine {
	return slices.DeleteFunc(slices.Clone(l), func(p part) bool { return p.name == "" || p.is(names...) })
}

// words puts the line together again, with operands behind it that no option
// can take for its own.
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

// ambiguous says that a flag stands before a word that yargs may take for its
// truth.
func (l commandLine) ambiguous() bool {
	for i, p := range l[:max(len(l)-1, 0)] {
		if next := l[i+1]; p.name != "" && p.arity == flag && next.name == "" && (next.value == "true" || next.value == "false") {
			return true
		}
	}
	return false
}

// sessionUUID returns a word that is a UUID, else "".
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
