package acts

import (
	"bytes"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Arithmetic evaluates the values of variables again: with x='a[$(rm y)]', the shell runs
// rm for $((x)), for [[ $x -eq 1 ]] and for ${list[$x]}. Where such a value comes from is
// known only when the line runs. So a command line that computes with variables is
// undecidable in two cases: the line contains a text that would run a command when used as
// an index, or the line makes a text that it does not contain, for example by decoding.
// The contents of files that the command line reads are not analysed.

// An arithmetic records whether the command lines of one tool call compute with variables,
// contain a text that would run a command when used as an index, or make a text that the
// lines do not contain.
type arithmetic struct {
	computes bool   // a line computes with a value that the line does not contain, such as that of a variable
	hides    bool   // a line decodes or fetches a text, which the line itself does not contain
	deletes  bool   // a command deletes characters of a text; a $ and a ( that were apart may then be adjacent
	literal  []byte // the literal text of the lines; it contains "$(" and "`" only if the line quotes them, as in '$(rm y)'
	reported bool
}

// found reports whether the lines so far run a command by arithmetic, or may do so.
func (a *arithmetic) found() bool {
	has := func(text string) bool { return bytes.Contains(a.literal, []byte(text)) }
	runs := func() bool {
		return has("[") && (has("`") || has("$(") || a.deletes && has("$") && has("("))
	}
	return a.computes && (a.hides || runs())
}

// arithmetic looks at the syntax of a parsed command line, such as $((…)) and array indexes,
// and records in s.numbers what can make arithmetic dangerous. For commands that do
// arithmetic, such as let, s.calculates does the same.
func (s *shell) arithmetic(file *syntax.File) {
	a := &s.numbers
	if a.reported {
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		a.node(n)
		if decl, is := n.(*syntax.DeclClause); is {
			a.computes = a.computes || slices.ContainsFunc(decl.Args, func(named *syntax.Assign) bool {
				return named.Name == nil && slices.ContainsFunc(s.words(named.Value), arg.integer)
			})
		}
		return true
	})
	s.reportArithmetic()
}

// node records what n itself does. arithmetic calls node for the nodes inside n, too.
func (a *arithmetic) node(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.Lit:
		a.literal = append(a.literal, unescaped(n.Value, false)...)
	case *syntax.SglQuoted:
		a.literal = append(a.literal, n.Value...)
		if n.Dollar && hidesText(n.Value) {
			a.hides = true
		}
	case *syntax.ArithmExp:
		a.computes = a.computes || evaluates(n.X)
	case *syntax.ArithmCmd:
		a.computes = a.computes || evaluates(n.X)
	case *syntax.LetClause:
		a.computes = true
	case *syntax.CStyleLoop:
		a.computes = true
	case *syntax.ParamExp:
		a.computes = a.computes || n.Index != nil && evaluates(n.Index) || n.Slice != nil && (evaluates(n.Slice.Offset) || evaluates(n.Slice.Length))
	case *syntax.Assign:
		a.computes = a.computes || n.Index != nil && evaluates(n.Index)
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			a.computes = a.computes || evaluates(n.X) || evaluates(n.Y)
		}
	case *syntax.UnaryTest:
		a.computes = a.computes || n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar
	}
}

// integer reports whether the word a may be the flag -i of declare, or contain it, as -xi
// does. With -i the shell evaluates each assigned value as arithmetic.
func (a arg) integer() bool {
	return a.flagPart() || slices.ContainsFunc(append(a.texts(), a.begin), func(text string) bool {
		return strings.HasPrefix(text, "-") && strings.Contains(text, "i")
	})
}

// calculates records in s.numbers whether a command computes, or decodes, changes or fetches
// a text.
func (s *shell) calculates(name string, args []arg) {
	a := &s.numbers
	before := [...]bool{a.computes, a.hides, a.deletes}
	flagged := func(is func(text string) bool) bool {
		return slices.ContainsFunc(args, func(a arg) bool {
			return slices.ContainsFunc(append(a.texts(), a.begin), func(text string) bool { return strings.HasPrefix(text, "-") && is(text) })
		})
	}
	option := func(flags string) bool { return flagged(func(text string) bool { return hasWord(flags, text) }) }
	// unknown says that an argument may be a flag, such as -d, which makes a command decode its
	// input.
	unknown := slices.ContainsFunc(args, func(a arg) bool { return !a.known && (a.begin == "" || a.begin[0] == '-') })
	switch name {
	case "test", "[":
		a.computes = a.computes || testsPart(args) || option("-v -R")
	case "let":
		a.computes = true
	case "declare", "typeset", "local", "export", "readonly":
		a.computes = a.computes || slices.ContainsFunc(args, arg.integer)
	case "printf", "print", "echo":
		a.computes = a.computes || name == "printf" && slices.ContainsFunc(firstWord(args), func(a arg) bool {
			return !a.known && a.begin == "-" || slices.ContainsFunc(append(a.texts(), a.begin), func(text string) bool { return strings.HasPrefix(text, "-v") })
		})
		if name != "echo" || decodesPart(args) || flagged(func(text string) bool { return strings.Trim(text, "-neE") == "" && strings.Contains(text, "e") }) {
			a.hides = a.hides || slices.ContainsFunc(args, func(a arg) bool { return a.escaped || slices.ContainsFunc(a.texts(), hidesText) })
		}
	case "base64", "base32", "basenc":
		a.hides = a.hides || unknown || flagged(func(text string) bool {
			return strings.HasPrefix(text, "--d") || !strings.HasPrefix(text, "--") && strings.ContainsAny(text, "dD")
		})
	case "openssl":
		a.hides = a.hides || unknown || option("-d --d")
	case "xxd":
		a.hides = a.hides || unknown || flagged(func(text string) bool { return strings.HasPrefix(strings.TrimLeft(text, "-"), "r") })
	case "rev", "uudecode":
		a.hides = true
	case "tr":
		in := usage{}.parse(args, false)
		a.deletes = a.deletes || slices.ContainsFunc(in.flags, func(f flag) bool { return strings.HasPrefix(f.name, "d") })
		a.hides = a.hides || slices.ContainsFunc(args, func(a arg) bool { return !a.known }) || len(in.operands) > 1 && !plainSet(in.operands[1].text)
	case "curl", "wget", "nc", "ncat":
		a.hides = a.hides || s.substituting && !slices.ContainsFunc(args, func(a arg) bool { return hasWord("-w --write-out", a.text) && a.known })
	}
	if before != [...]bool{a.computes, a.hides, a.deletes} {
		s.reportArithmetic()
	}
}

// firstWord returns the arguments that may become the first word after a command's name.
// An argument such as $x may become no word; then the next argument may be the first word.
func firstWord(args []arg) []arg {
	if i := slices.IndexFunc(args, func(a arg) bool { return a.start() != "" || !a.known && !a.loose }); i >= 0 {
		return args[:i+1]
	}
	return args
}

// testsPart reports whether an argument of test is -$x where -v or -R may stand: at the
// start, or after a word such as !, and not before a word such as =.
func testsPart(args []arg) bool {
	for i, a := range args {
		starts := i == 0 || !args[i-1].known || hasWord("! ( -a -o", args[i-1].text)
		if after, _ := next(args[i+1:]); !a.known && a.begin == "-" && starts && !(after.known && hasWord("= == != =~ < > -eq -ne -lt -le -gt -ge -nt -ot -ef", after.text)) {
			return true
		}
	}
	return false
}

// decodesPart reports whether a flag of echo, such as -$x, may be -e.
func decodesPart(args []arg) bool {
	for _, a := range args {
		if strings.Trim(a.start(), "neE") != "-" {
			return false
		}
		if !a.known {
			return true
		}
	}
	return false
}

// reportArithmetic adds an undecidable command, once, if the lines so far run a command by
// arithmetic, or may do so.
func (s *shell) reportArithmetic() {
	if a := &s.numbers; !a.reported && a.found() {
		a.reported = true
		s.undecidable("command")
	}
}

// plainSet reports whether set, the second operand of tr, has no $, (, [ or `, not even as
// an escape or in a range. These characters begin $(…), `…` and the index of a variable.
func plainSet(set string) bool {
	set = strings.NewReplacer("[:upper:]", "x", "[:lower:]", "x", "a-z", "x", "A-Z", "x", "0-9", "x", `\n`, "x", `\t`, "x", `\r`, "x").Replace(set)
	return set == `\0` || !strings.ContainsAny(set, "$([`\\") && !strings.Contains(strings.Trim(set, "-"), "-") // any other range may contain one of these characters
}

// escapes reports whether the literal text of a word contains a character that is written
// as an escaped number, such as \x24.
func escapes(parts []syntax.WordPart) bool {
	text := new(strings.Builder)
	for _, p := range parts {
		if _, is := p.(*syntax.BraceExp); is { // a sequence such as {1..999}
			continue
		}
		syntax.Walk(p, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Lit:
				text.WriteString(n.Value)
			case *syntax.SglQuoted:
				text.WriteString(n.Value)
			}
			return true
		})
	}
	return hidesText(text.String())
}

// hidesText reports whether a text contains a character that is written as an escaped
// number, such as \x24.
func hidesText(text string) bool {
	for i := range len(text) - 1 {
		if text[i] == '\\' && strings.IndexByte("xuU01234567", text[i+1]) >= 0 {
			return true
		}
	}
	return false
}

// evaluates reports whether an expression has more than numbers and operators. It skips
// each $((…)) in the expression, because node examines each $((…)) by itself.
func evaluates(x syntax.Node) bool {
	found := false
	if x == nil || x == syntax.ArithmExpr(nil) {
		return false
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ArithmExp:
			return false
		case *syntax.ParamExp, *syntax.CmdSubst:
			found = true
		case *syntax.Lit:
			found = found || strings.Trim(n.Value, "0123456789@*") != ""
		}
		return true
	})
	return found
}
