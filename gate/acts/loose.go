package acts

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file says which words that are not known (see arg) may be flags. Without quotes, an
// unknown part may become several words, and each may be a flag: rm $x deletes more if x is
// "-r a". In quotes, an unknown part at the start of a word counts as one that begins with
// another character than -.

// beginning returns what precedes the first unknown part: -o for -o$(pwd). If all parts are
// known, it returns their text and true.
func (s *shell) beginning(parts []syntax.WordPart, quoted bool) (text string, known bool) {
	for i, p := range parts {
		part, ok := s.part(p, quoted)
		if modified(parts, i) {
			return text, false
		}
		if !ok {
			if q, is := p.(*syntax.DblQuoted); is {
				part, _ = s.beginning(q.Parts, true)
			}
			return text + part, false
		}
		text += part
	}
	return text, true
}

// form returns the text of parts, with a NUL in the place of each unknown part.
func (s *shell) form(parts []syntax.WordPart, quoted bool) string {
	var b strings.Builder
	for i, p := range parts {
		text, known := s.part(p, quoted)
		if q, is := p.(*syntax.DblQuoted); is && !known {
			text = s.form(q.Parts, true)
		} else if !known || modified(parts, i) {
			text = "\x00"
		}
		b.WriteString(text)
	}
	return b.String()
}

// unknowns calls each(before) for every unknown part of the word a, where before is the
// form of what precedes the part, until one call returns true. unknowns returns true if a
// call returned true, or if there are more than maxChoices unknown parts.
func (a arg) unknowns(each func(before string) bool) bool {
	parts := 0
	for i := range len(a.form) {
		if a.form[i] == 0 {
			if parts++; parts > maxChoices || each(a.form[:i]) {
				return true
			}
		}
	}
	return false
}

// loose reports whether a part of a word is not known and may become a flag or several
// words, as $x without quotes, "$@" and "${x:--r}", but not "$x".
func (s *shell) loose(p syntax.WordPart, quoted bool) bool {
	if _, known := s.part(p, quoted); known {
		return false
	}
	switch p := p.(type) {
	case *syntax.DblQuoted:
		return slices.ContainsFunc(p.Parts, func(p syntax.WordPart) bool { return s.loose(p, true) })
	case *syntax.SglQuoted:
		return hidesText(p.Value)
	case *syntax.ParamExp:
		if p.Excl || p.Names != 0 || p.Param == nil {
			return true
		}
		name := p.Param.Value
		if quoted {
			index, _ := p.Index.(*syntax.Word)
			return s.defaultFlag(p.Exp) || name == "@" && !p.Length || index != nil && index.Lit() == "@" && !p.Length
		}
		list := s.lists[name] > 0 && s.lists[name] == s.count[name] && s.count[""] == 0 && !s.changed("IFS") && p.Exp == nil && p.Repl == nil && p.Slice == nil
		return !list && s.plain(p) != aNumber
	case *syntax.CmdSubst:
		return quoted && s.printsFlag(p.Stmts) || !quoted && !s.printsOperands(p.Stmts)
	}
	return false
}

// defaultFlag reports whether the word of an expansion such as ${x:--r} begins with -.
func (s *shell) defaultFlag(exp *syntax.Expansion) bool {
	if exp == nil || exp.Word == nil {
		return false
	}
	text := exp.Word.Lit()
	switch exp.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		text, _ = s.beginning(exp.Word.Parts, true)
	}
	return strings.HasPrefix(text, "-")
}

// printsFlag reports whether a command prints a flag that is written in it, or the beginning
// of one, as in echo "-o$x".
func (s *shell) printsFlag(list []*syntax.Stmt) bool {
	if len(list) != 1 {
		return false
	}
	call, is := list[0].Cmd.(*syntax.CallExpr)
	if !is || len(call.Args) == 0 || !hasWord("echo printf", call.Args[0].Lit()) {
		return false
	}
	return slices.ContainsFunc(call.Args[1:], func(w *syntax.Word) bool {
		text, known := s.word(w)
		if begin, _ := s.beginning(w.Parts, false); !known && strings.HasPrefix(begin, "-") && !strings.HasPrefix(begin, "- ") {
			return true
		}
		return strings.HasPrefix(text, "-") && !hasWord("- -- -n -e -ne -en -E", text)
	})
}

// printsOperands reports whether a command is known to print no word that may be a flag.
func (s *shell) printsOperands(list []*syntax.Stmt) bool {
	if len(list) != 1 {
		return false
	}
	if b, is := list[0].Cmd.(*syntax.BinaryCmd); is && b.Op == syntax.Pipe { // as in go list ./... | grep -v x
		call, is := b.Y.Cmd.(*syntax.CallExpr)
		if !is || len(call.Args) == 0 || len(b.Y.Redirs) > 0 || !hasWord("head tail sort uniq grep", call.Args[0].Lit()) || len(s.funcs[call.Args[0].Lit()]) > 0 {
			return false
		}
		return s.printsOperands([]*syntax.Stmt{b.X}) && !slices.ContainsFunc(call.Args[1:], func(w *syntax.Word) bool {
			text, known := s.word(w)
			return !known || strings.HasPrefix(text, "-") && strings.Trim(text, "-0123456789nvEFiur") != ""
		})
	}
	shape := s.prints(list[0])
	call, is := list[0].Cmd.(*syntax.CallExpr)
	if !is || len(call.Args) == 0 || len(list[0].Redirs) > 0 {
		return shape == aNumber
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		a := s.one(w)
		if words[i] = a.text; a.flagPart() {
			return false
		} else if !a.known {
			words[i] = "name" // a word that is not known counts as a name, not as a flag
		}
	}
	if name := words[0]; len(s.funcs[name]) > 0 || name == "date" {
		return false
	}
	line := strings.Join(words, " ")
	switch {
	case shape != "", line == "git branch --show-current", line == "git rev-parse --show-toplevel", line == "git rev-parse --abbrev-ref HEAD":
		return true
	case len(words) > 1 && (words[0] == "git" && words[1] == "merge-base" || words[0] == "go" && words[1] == "list"):
		return !slices.ContainsFunc(words[2:], func(w string) bool { return strings.HasPrefix(w, "-") && !hasWord("-m -deps -test --fork-point -a", w) })
	}
	return words[0] == "pkg-config" && !strings.Contains(line, "variable")
}
