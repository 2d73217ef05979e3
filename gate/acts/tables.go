package acts

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// tables are the variables that say which command a name runs: those of bash, and those
// of zsh.
const tables = "BASH_CMDS BASH_ALIASES aliases galiases saliases"

// mentionsTable reports whether the text of a word may contain BASH_CMDS or BASH_ALIASES,
// the tables of bash. It does not search for the tables of zsh.
func (s *shell) mentionsTable(w *syntax.Word) bool {
	return slices.ContainsFunc(s.unbraced(w), func(parts []syntax.WordPart) bool {
		return slices.ContainsFunc(s.texts(parts, false), holdsTable)
	})
}

func holdsTable(text string) bool {
	return strings.Contains(text, "BASH_CMDS") || strings.Contains(text, "BASH_ALIASES")
}

// namesTable reports whether a word that is the name of a variable, perhaps with an index
// and a value, may name a table. If too little of the word is known, it counts as the name
// of another variable.
func (a arg) namesTable() bool {
	name := func(text string) string { return text[:len(text)-len(strings.TrimLeft(text, nameLetters))] }
	for _, text := range a.texts() {
		table := name(text)
		if hasWord(tables, table) && (strings.HasPrefix(table, "BASH_") || strings.HasPrefix(text[len(table):], "[")) {
			return true
		}
	}
	end := name(a.text)
	return !a.known && (strings.HasPrefix(a.begin, "BASH_") && name(a.begin) == a.begin ||
		len(end) > 2 && (strings.HasSuffix("BASH_CMDS", end) || strings.HasSuffix("BASH_ALIASES", end)))
}

const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123456789"

// table adds an undecidable command if an assignment changes the command that a name runs.
func (s *shell) table(a *syntax.Assign) {
	name := ""
	if a.Name != nil && !a.Naked {
		name = a.Name.Value
	} else if a.Name == nil && slices.ContainsFunc(s.words(a.Value), arg.namesTable) {
		s.undecidable("command")
	}
	index, _ := a.Index.(*syntax.Word)
	if hasWord(tables, name) || hasWord("commands functions", name) && index != nil && strings.Trim(index.Lit(), "0123456789") != "" {
		s.undecidable("command")
	}
}

// declares notes the variables that a command such as local NAME leaves empty. It also
// notes that a command such as declare -n makes a name refer to another variable.
func (s *shell) declares(decl *syntax.DeclClause) {
	for _, a := range decl.Args {
		if a.Name != nil && a.Naked && hasWord("local declare typeset", decl.Variant.Value) {
			s.count[a.Name.Value]++
		}
	}
	refers := slices.ContainsFunc(decl.Args, func(a *syntax.Assign) bool {
		return a.Name == nil && slices.ContainsFunc(s.words(a.Value), arg.refers)
	})
	if !refers {
		return
	}
	s.count[""]++
	for _, a := range decl.Args {
		if a.Name != nil && slices.ContainsFunc(s.words(a.Value), arg.namesTable) {
			s.undecidable("command")
		}
	}
}

// refers reports whether an argument of declare may be the flag -n.
func (a arg) refers() bool {
	return slices.ContainsFunc(append(a.texts(), a.begin), func(text string) bool {
		return strings.HasPrefix(text, "-") && (strings.Contains(text, "n") || !a.known)
	})
}

// setsTable reports whether a builtin command that sets variables may set a table.
func (s *shell) setsTable(name string, args []arg) bool {
	switch name {
	case "declare", "typeset", "local", "export", "readonly":
		refers := slices.ContainsFunc(args, arg.refers)
		return slices.ContainsFunc(args, func(a arg) bool {
			value := a
			if before, _, is := strings.Cut(a.start(), "="); is && refers {
				value = a.after(before + "=")
			}
			return a.namesTable() || value.namesTable()
		})
	case "printf":
		if first, _ := next(args); first.known && !strings.HasPrefix(first.text, "-v") {
			return false
		}
		args = args[:min(2, len(args))]
	case "read", "mapfile", "readarray", "getopts", "wait", "let":
	default:
		return false
	}
	return slices.ContainsFunc(args, func(a arg) bool {
		if text := a.start(); len(text) > 2 && text[0] == '-' { // as in -vNAME
			a = a.after(text[:2])
		}
		return a.namesTable()
	})
}

// setsForZsh reports whether a command sets variables as only zsh or ksh does: with a flag
// or a builtin that bash does not have, as in set -A x a b or float x.
func setsForZsh(args []arg) bool {
	flag := func(letter string) bool {
		return slices.ContainsFunc(optionsOf(args[0].text, args[1:]), func(a arg) bool {
			text := a.start()
			if !a.known && (strings.HasPrefix(text, "+") && args[0].text == "set" || a.flagPart() && !strings.HasPrefix(text, "--")) {
				return true
			}
			return len(text) > 1 && (text[0] == '-' || text[0] == '+') && strings.Contains(text, letter)
		})
	}
	switch args[0].text {
	case "print":
		return flag("v")
	case "set":
		return flag("A")
	case "zmodload", "zparseopts", "zformat", "zstyle", "integer", "float", "private", "nameref":
		return true
	}
	return false
}
