package acts

import (
	"bytes"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Arithmetic evaluates the values of variables again: with x='a[$(rm y)]', the shell runs
// rm for $((x)), for [[ $x -eq 1 ]] and for ${list[$x]}. Where such a value comes from is
// known only when the line runs. So a command line that computes with variables, and also
// has a text that would run a command as an index, or hides a text, is undecidable. As with
// scripts, the contents of files that it reads are not analysed.

// An arithmetic records whether the command lines of one tool call compute with variables,
// have a text that would run a command as an index, or hide a text.
type arithmetic struct {
	computes bool   // they compute with a value that is not written in them
	hides    bool   // they decode a text or fetch one, so that it is not written in them
	literal  []byte // their literal text; each "$(" or "`" in it is quoted, so the shell has not run it yet
	reported bool
}

// found reports whether the lines so far run a command by arithmetic, or may do so.
func (a *arithmetic) found() bool {
	runs := bytes.Contains(a.literal, []byte("[")) && (bytes.Contains(a.literal, []byte("$(")) || bytes.Contains(a.literal, []byte("`")))
	return a.computes && (a.hides || runs)
}

// arithmetic records in s.numbers what a parsed command line does.
func (s *shell) arithmetic(file *syntax.File) {
	a := &s.numbers
	if a.reported {
		return
	}
	substs, sums := 0, 0     // how many $(…) and how many $((…)) are around the present node
	var around []syntax.Node // the nodes around it
	syntax.Walk(file, func(n syntax.Node) bool {
		step := 1
		at := n
		if n == nil { // the end of a node
			step, at, around = -1, around[len(around)-1], around[:len(around)-1]
		} else {
			around = append(around, n)
		}
		switch at := at.(type) {
		case *syntax.CmdSubst:
			substs += step
		case *syntax.ArithmExp:
			a.computes = a.computes || n != nil && sums == 0 && evaluates(at.X) // evaluates also searches the sums inside this one
			sums += step
		case *syntax.CallExpr:
			if n != nil {
				a.call(at, substs > 0)
			}
		}
		if n != nil {
			a.node(n)
		}
		return true
	})
	if a.reported = a.found(); a.reported {
		s.undecidable("command")
	}
}

func (a *arithmetic) node(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.Lit:
		a.literal = append(a.literal, unescaped(n.Value, false)...)
	case *syntax.SglQuoted:
		a.literal = append(a.literal, n.Value...)
		if n.Dollar && hidesText(n.Value) {
			a.hides = true
		}
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
	case *syntax.DeclClause:
		for _, arg := range n.Args {
			if arg.Naked && arg.Value != nil && strings.HasPrefix(arg.Value.Lit(), "-") && strings.Contains(arg.Value.Lit(), "i") {
				a.computes = true
			}
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			a.computes = a.computes || evaluates(n.X) || evaluates(n.Y)
		}
	case *syntax.UnaryTest:
		a.computes = a.computes || n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar
	}
}

// call records whether a command computes, or decodes or fetches a text. substituted says
// that the command is within $(…).
func (a *arithmetic) call(call *syntax.CallExpr, substituted bool) {
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		words[i] = w.Lit()
	}
	if len(words) == 0 {
		return
	}
	flag := func(flags string) bool {
		for _, w := range words[1:] {
			if hasWord(flags, w) {
				return true
			}
		}
		return false
	}
	switch words[0] {
	case "test", "[":
		a.computes = a.computes || flag("-v -R")
	case "printf", "echo":
		a.computes = a.computes || words[0] == "printf" && flag("-v")
		decodes := words[0] == "printf" || flag("-e -ne -en")
		for _, w := range call.Args {
			if !decodes {
				break
			}
			text := new(strings.Builder)
			syntax.Walk(w, func(n syntax.Node) bool {
				switch n := n.(type) {
				case *syntax.Lit:
					text.WriteString(n.Value)
				case *syntax.SglQuoted:
					text.WriteString(n.Value)
				}
				return true
			})
			a.hides = a.hides || hidesText(text.String())
		}
	case "base64", "base32", "basenc", "openssl":
		a.hides = a.hides || flag("-d -D --decode -di -id")
	case "xxd":
		a.hides = a.hides || flag("-r -rp -r -p")
	case "rev", "uudecode":
		a.hides = true
	case "curl", "wget", "nc", "ncat":
		a.hides = a.hides || substituted && !flag("-w --write-out")
	}
}

// hidesText reports whether a text has a character as an escaped number, such as \x24.
func hidesText(text string) bool {
	for i := range len(text) - 1 {
		if text[i] == '\\' && strings.IndexByte("xuU01234567", text[i+1]) >= 0 {
			return true
		}
	}
	return false
}

// evaluates reports whether an expression has more than numbers and operators.
func evaluates(x syntax.Node) bool {
	found := false
	if x == nil || x == syntax.ArithmExpr(nil) {
		return false
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst:
			found = true
		case *syntax.Lit:
			found = found || strings.Trim(n.Value, "0123456789@*") != ""
		}
		return true
	})
	return found
}
