// This file parses command lines, for all harnesses.

package profiles

import (
	"slices"
	"strings"
)

// arity is the number of words that an option takes as its values.
type arity int

const (
	flag     arity = iota
	value          // takes any next argument; with yargs, none that looks like an option
	optional       // takes the next argument unless it looks like an option
	variadic       // takes the next argument, and all later arguments before the next option
)

type option struct {
	name  string // the long name
	arity arity
}

// optionTable parses lists of names; in `-c,--continue` the last name is the long one.
// A table is built when a command line is parsed: tables that are built at program
// start would delay every hook call.
func optionTable(lists map[arity]string) map[string]option {
	table := map[string]option{}
	for a, list := range lists {
		for _, field := range strings.Fields(list) {
			names := strings.Split(field, ",")
			for _, n := range names {
				table[n] = option{name: names[len(names)-1], arity: a}
			}
		}
	}
	return table
}

// A part is an option with its values, or an operand.
type part struct {
	option   // the option; zero for an operand
	words    []string
	value    string // the last value, or the operand
	at       int    // the index, in the arguments, of the last element of words
	attached bool   // the value is in one word with the option
	literal  bool   // an operand after "--"
}

// A commandLine holds the parsed arguments of a program.
type commandLine []part

// parse parses arguments like the libraries commander and clap. If yargs is set, it
// parses like yargs, where a word that looks like an option is never a value. An
// option that is not in the table is treated as a flag; if it has a value, that
// value is mistaken for an operand. sure is false if there is an unknown option, an
// option without its value, or an option in a form that different parsers interpret
// differently.
func parse(args []string, table map[string]option, yargs bool) (l commandLine, sure bool) {
	sure = true
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			for i++; i < len(args); i++ {
				l = append(l, part{words: args[i : i+1], value: args[i], at: i, literal: true})
			}
			break
		}
		if !looksLikeOption(arg) {
			l = append(l, part{words: args[i : i+1], value: arg, at: i})
			continue
		}
		if !yargs { // split a word with several flags, such as -cp
			for len(arg) > 2 && arg[1] != '-' && table[arg[:2]].name != "" && table[arg[:2]].arity == flag {
				if _, whole := table[arg]; whole { // -d2e is one option
					break
				}
				l = append(l, part{option: table[arg[:2]], words: []string{arg[:2]}, at: i})
				arg = "-" + arg[2:]
			}
		}
		p := part{words: []string{arg}, at: i}
		var known bool
		if p.option, p.value, p.attached, known = lookup(table, arg, yargs); !known {
			p.name, sure = arg, false
		}
		n := p.values(args[i+1:], yargs)
		switch {
		case p.attached:
			sure = sure && p.arity != flag && (!yargs || strings.HasPrefix(arg, "--"))
		case n > 0:
			i += n
			p.words, p.value, p.at = append(p.words, args[i+1-n:i+1]...), args[i], i
		case p.arity == value || p.arity == variadic:
			sure = false
		}
		l = append(l, p)
	}
	return l, sure
}

// looksLikeOption is the test that the harnesses' parsers use. A single dash is
// an operand.
func looksLikeOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// lookup returns the option of one argument, with the value attached to it:
// `--name=value` or `-nvalue`.
func lookup(table map[string]option, arg string, yargs bool) (o option, val string, attached, known bool) {
	if o, known = table[arg]; known {
		return o, "", false, true
	}
	if yargs || strings.HasPrefix(arg, "--") {
		name, val, cut := strings.Cut(arg, "=")
		if o, known = table[name]; known && cut && (yargs || o.arity != flag) {
			return o, val, true, true
		}
	} else if o, known = table[arg[:2]]; known && o.arity != flag {
		return o, strings.TrimPrefix(arg[2:], "="), true, true
	}
	return option{}, "", false, false
}

// values returns how many of the next words are values of the option.
func (o option) values(next []string, yargs bool) int {
	n := 0
	if len(next) > 0 && (!looksLikeOption(next[0]) || !yargs && o.arity != optional) && o.arity != flag {
		n = 1
	}
	for o.arity == variadic && 0 < n && n < len(next) && !looksLikeOption(next[n]) {
		n++
	}
	return n
}

// find returns the last option with that name.
func (l commandLine) find(name string) (part, bool) {
	for _, p := range slices.Backward(l) {
		if p.name == name {
			return p, true
		}
	}
	return part{}, false
}

// last returns the value of the last option of that name, empty if there is none.
func (l commandLine) last(name string) string {
	p, _ := l.find(name)
	return p.value
}

func (l commandLine) has(names ...string) bool {
	return slices.ContainsFunc(l, func(p part) bool { return slices.Contains(names, p.name) })
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

// with returns a copy of args, from which l was parsed. In the copy, each option with this
// name that had a value has the new value. No word is removed: if an option were removed,
// a variadic option before it could take the operands after it as values.
func (l commandLine) with(args []string, name, value string) []string {
	out := slices.Clone(args)
	for _, p := range l {
		switch {
		case p.name != name:
		case p.attached:
			out[p.at] = name + "=" + value
		case len(p.words) > 1:
			out[p.at] = value
		}
	}
	return out
}
