// This file is the part of parsing command lines that harnesses have in common.

package profiles

import (
	"slices"
	"strings"
)

// arity is the number of words that an option takes as its values.
type arity int

const (
	flag     arity = iota
	value          // takes the next argument, whatever it looks like
	optional       // takes the next argument unless it looks like an option
	variadic       // takes the next argument, and all that follow up to an option
)

type option struct {
	name  string // the long name
	arity arity
}

// optionTable parses lists of names; in `-c,--continue` the last one is the name.
// A table is built per command line and not at program start, since every hook
// call would pay for it.
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

// given has the places of values by the option's name.
type given map[string][]place

// A place is the place of one value.
type place struct {
	at       int  // the index of its word
	attached bool // in one word with the option
}

// with returns the command line with another value for each use of an option. No
// word is removed, since a variadic option before it could then take the words
// after it.
func (g given) with(args []string, name, value string) []string {
	out := slices.Clone(args)
	for _, p := range g[name] {
		out[p.at] = value
		if p.attached {
			out[p.at] = name + "=" + value
		}
	}
	return out
}

// looksLikeOption is the test of the harnesses' parsers. A single dash is an
// operand.
func looksLikeOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// takes reports whether an option takes the next word as its value.
func (o option) takes(next string) bool {
	switch o.arity {
	case value, variadic:
		return true
	case optional:
		return !looksLikeOption(next)
	}
	return false
}

// lookup returns the option of one argument, with the value attached to it:
// `--name=value` or `-nvalue`. `-cp` is two flags; all but the last are added to
// seen.
func lookup(table map[string]option, arg string, seen map[string]string) (opt option, val string, attached, ok bool) {
	if opt, ok = table[arg]; ok {
		return opt, "", false, true
	}
	if strings.HasPrefix(arg, "--") {
		name, val, cut := strings.Cut(arg, "=")
		opt, ok = table[name]
		return opt, val, true, ok && cut && opt.arity != flag
	}
	for len(arg) > 2 {
		opt, ok = table[arg[:2]]
		if !ok {
			return option{}, "", false, false
		}
		if opt.arity != flag {
			return opt, arg[2:], true, true
		}
		seen[opt.name] = ""
		arg = "-" + arg[2:]
	}
	opt, ok = table[arg]
	return opt, "", false, ok
}
