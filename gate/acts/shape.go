package acts

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A shape is the text of a word with a mark in the place of each part that is known only
// when the command runs: aWord for a part that has only letters, digits, blanks and .:_+-
// on one line, aNumber for one that has only digits. The shape of "s/v1/$(nproc)/" is
// s/v1/, aNumber and /. It shows that this script of sed runs no command, whatever nproc
// prints.
const (
	aWord   = "\x01"
	aNumber = "\x02"
)

// shape returns the shape of parts; it is empty if a part may be any text.
func (s *shell) shape(parts []syntax.WordPart, quoted bool) (shape string) {
	for i, p := range parts {
		text, known := s.part(p, quoted)
		if modified(parts, i) {
			return ""
		}
		if !known {
			if q, is := p.(*syntax.DblQuoted); is {
				text = s.shape(q.Parts, true)
			} else if text = ""; quoted {
				text = s.plain(p)
			}
			if text == "" {
				return ""
			}
		}
		if !known || !strings.ContainsAny(text, aWord+aNumber) {
			shape += text
		} else {
			return ""
		}
	}
	return shape
}

// plain returns aWord or aNumber for an unknown part of a quoted word; the result is empty
// if the part may be any text.
func (s *shell) plain(p syntax.WordPart) string {
	switch p := p.(type) {
	case *syntax.ArithmExp:
		return aNumber
	case *syntax.ParamExp:
		if s.whole(p, true) && !slices.ContainsFunc(s.written[p.Param.Value], func(text string) bool { return len(text) > 20 || strings.Trim(text, "0123456789") != "" }) {
			return aNumber
		}
		if p.Param != nil && (p.Length || p.Short && hasWord("? # $", p.Param.Value)) && p.Exp == nil && p.Repl == nil && p.Slice == nil {
			return aNumber
		}
	case *syntax.CmdSubst:
		if len(p.Stmts) == 1 {
			return s.prints(p.Stmts[0])
		}
	}
	return ""
}

// prints returns the shape of what a command prints.
func (s *shell) prints(st *syntax.Stmt) string {
	call, is := st.Cmd.(*syntax.CallExpr)
	if !is || len(call.Args) == 0 || len(call.Assigns) > 0 || st.Negated || st.Background || st.Coprocess {
		return ""
	}
	input := false
	for _, r := range st.Redirs {
		if r.Op != syntax.RdrIn {
			return ""
		}
		input = true
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		text, known := s.word(w)
		if !known || text == "" {
			return ""
		}
		words[i] = text
	}
	if len(s.funcs[words[0]]) > 0 {
		return ""
	}
	line := strings.Join(words, " ")
	switch words[0] {
	case "date":
		return datePrints(words[1:])
	case "wc":
		if input && len(words) == 2 && hasWord("-l -c -w -m", words[1]) {
			return aNumber
		}
	case "git":
		if line == "git rev-parse HEAD" || line == "git rev-parse --short HEAD" || line == "git rev-list --count HEAD" {
			return aWord
		}
	default:
		switch line {
		case "nproc", "id -u", "id -g":
			return aNumber
		case "whoami", "id -un", "uname", "uname -s", "uname -m", "uname -r":
			return aWord
		}
	}
	return ""
}

func datePrints(args []string) string {
	for i, a := range args {
		format, is := strings.CutPrefix(a, "+")
		switch {
		case is:
			for {
				before, after, found := strings.Cut(format, "%")
				if !isPlain(before) {
					return ""
				}
				if !found {
					break
				}
				after = strings.TrimPrefix(after, "-")
				if after == "" || strings.IndexByte("YmdHMSsFTjyZzNuVabABeklIRGp", after[0]) < 0 {
					return ""
				}
				format = after[1:]
			}
		case hasWord("-u --utc -I --iso-8601 -Iseconds -Iminutes -Idate -d", a), strings.HasPrefix(a, "--date="):
		case i > 0 && args[i-1] == "-d":
		default:
			return ""
		}
	}
	return aWord
}

func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(" .:_+-", r))
	})
}
