package profiles

import (
	"slices"
	"strings"
)

type arity int

const (
	flag     arity = iota
	value          // takes the next argument, whatever it looks like
	optional       // takes the next argument unless it looks like an option
	variadic       // takes the next argument, and all that follow up to an option
)

type option struct {
	name  string // the long name, by which the rest of this package asks
	arity arity
}

// optionTable reads lists of names; in `-c,--continue` the last one is the
// name. It is made for each command line: made at the start of the program, it
// would be paid for by every hook that a harness runs.
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

// given says where the values of options stand, by the option's name.
type given map[string][]place

// A place is that of one value.
type place struct {
	at       int  // the index of its word
	attached bool // in one word with the option
}

// with is the command line with another value in place of each that the user
// gave this option. The words stay where they are: an option that takes all that
// follows would else take what the removed words kept from it.
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

// looksLikeOption is the parser's own test: a lone dash is an operand.
func looksLikeOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// takes says that an option takes the word behind it as its value.
func (o option) takes(next string) bool {
	switch o.arity {
	case value, variadic:
		return true
	case optional:
		return !looksLikeOption(next)
	}
	return false
}

// lookup finds the option that one argument names, with the value attached to
// it: `--name=value`, `-nvalue`, and `-cp` for two flags, all but the last of
// which it notes in seen.
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
