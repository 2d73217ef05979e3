package acts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A word that is not known (see arg) has several possible texts. Some of them can be found
// in the line: the default value of ${x:-.env}, each value that the line assigns to x, the
// output of $(echo .env). A variable can also be empty, so that $x.env can be .env. These
// texts are the choices of the word; other texts can be possible too. One choice can decide
// how a command counts: because of .env, cat ${x:-.env} counts as reading a secret.

// The limits of choices, and of the words that the expansion of braces makes.
const (
	maxChoices = 64       // the choices of a word, and the words of {1..9} or of {a,b}{c,d}
	maxList    = 1 << 10  // the words of one list such as {a,b}
	maxMade    = 32 << 10 // the choices and words of a whole tool call, counted by collector.made
	maxChosen  = 8        // the nesting of words with choices, as in ${x:-${y:-z}}
	maxText    = 1 << 10  // the bytes of all choices of a word
)

// texts returns the text of a word that is known, or the choices of one that is not.
func (a arg) texts() []string {
	if a.known {
		return []string{a.text}
	}
	return strings.FieldsFunc(a.choices, func(r rune) bool { return r == 0 })
}

// choices returns the choices of a word, each with a NUL at its end. The word consists of
// parts, as the method unbraced returns them. For a choice with blanks, choices also
// returns each word in the choice, because the shell splits the value "a b" of an unquoted
// $x into a and b.
func (s *shell) choices(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, text := range s.texts(parts, false) {
		b.WriteString(text + "\x00")
		if fields := strings.Fields(text); len(fields) > 1 {
			b.WriteString(strings.Join(fields, "\x00") + "\x00")
		}
	}
	return b.String()
}

// made adds n to the number of choices and words of the tool call. If there are more than
// maxMade, the line is undecidable, and made returns false.
func (c *collector) made(n int) bool {
	if c.choosing += n; c.choosing > maxMade {
		c.undecidable("command")
	}
	return c.choosing <= maxMade
}

// texts returns the choices of a word that consists of parts; nil if it has none, or too
// many. quoted says that the parts are within double quotes.
func (s *shell) texts(parts []syntax.WordPart, quoted bool) []string {
	s.chosen++
	defer func() { s.chosen-- }()
	if s.chosen > maxChosen || !s.made(0) {
		return nil
	}
	all := []string{""}
	for _, p := range parts {
		var longer []string
		size := 0
		for _, end := range s.partTexts(p, quoted) {
			for _, text := range all {
				if size += len(text) + len(end); size > maxText {
					return nil
				}
				longer = append(longer, text+end)
			}
		}
		if all = longer; len(all) == 0 || len(all) > maxChoices || !s.made(len(all)-1) {
			return nil
		}
	}
	return all
}

func (s *shell) partTexts(p syntax.WordPart, quoted bool) []string {
	switch p := p.(type) {
	case *syntax.Lit:
		return []string{unescaped(p.Value, quoted)}
	case *syntax.SglQuoted:
		if p.Dollar {
			text, known := ansi(p.Value)
			if !known && text == "" {
				return nil
			}
			return []string{text}
		}
		return []string{p.Value}
	case *syntax.DblQuoted:
		return s.texts(p.Parts, true)
	case *syntax.ParamExp:
		return s.paramTexts(p, quoted)
	case *syntax.CmdSubst:
		if all := s.printed(p.Stmts); all != nil {
			return all
		}
		return []string{""}
	case *syntax.ExtGlob:
		if p.Op == syntax.GlobExcept {
			return []string{"*"}
		}
		return append(strings.Split(p.Pattern.Value, "|"), "")
	}
	return nil
}

func (s *shell) paramTexts(p *syntax.ParamExp, quoted bool) (all []string) {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		return []string{""}
	}
	if text, known := s.param(p); known {
		return []string{text}
	}
	if s.whole(p, quoted) {
		return s.written[p.Param.Value]
	}
	if p.Exp != nil {
		switch p.Exp.Op {
		case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
			if p.Exp.Word != nil {
				all = s.texts(p.Exp.Word.Parts, quoted)
			}
			return append(all, "")
		case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
			if p.Exp.Word != nil {
				all = s.texts(p.Exp.Word.Parts, quoted)
			}
		default:
			return []string{""}
		}
	}
	return append(append(all, s.written[p.Param.Value]...), "")
}

// write adds to s.written the choices of a word that the line assigns to a variable.
func (s *shell) write(name string, w *syntax.Word) {
	if w == nil {
		return
	}
	for _, text := range s.texts(w.Parts, false) {
		if len(s.written[name]) < maxChoices && !slices.Contains(s.written[name], text) {
			s.written[name] = append(s.written[name], text)
		}
	}
}

// items adds the words of a loop (a and b in for x in a b) to s.written as values of the
// loop's variable. It counts the loop in s.fixed if all these words are written out, and in
// s.lists if none of them can be a flag.
func (s *shell) items(loop *syntax.WordIter) {
	name, fixed := loop.Name.Value, loop.InPos.IsValid() && len(loop.Items) > 0
	list := loop.InPos.IsValid()
	for _, w := range loop.Items {
		words, lit := s.unbraced(w), w.Lit()
		plain, flags := words != nil, false
		for _, parts := range words {
			s.write(name, &syntax.Word{Parts: parts})
			text, known := s.parts(parts, false)
			plain = plain && known && text != "" && !strings.ContainsAny(text, " \t\n*?[~\x00()<^#|") && slices.Contains(s.written[name], text) &&
				!slices.ContainsFunc(parts, hasParam) // the value of $PWD, for example, changes with cd
			flags = flags || strings.HasPrefix(text, "-")
		}
		fixed = fixed && plain
		list = list && (plain && !flags || lit != "" && !strings.Contains(lit, `\`) && !strings.ContainsAny(lit[:1], "-*?[{"))
	}
	if fixed {
		s.fixed[name]++
	}
	if list {
		s.lists[name]++
	}
}

func hasParam(p syntax.WordPart) bool {
	q, is := p.(*syntax.DblQuoted)
	_, param := p.(*syntax.ParamExp)
	return param || is && slices.ContainsFunc(q.Parts, hasParam)
}

// wholeParts reports whether a word that consists of parts can expand to no other text than
// its choices. quoted says that the parts are within double quotes.
func (s *shell) wholeParts(parts []syntax.WordPart, quoted bool) bool {
	for i, p := range parts {
		if !s.whole(p, quoted) || modified(parts, i) {
			return false
		}
	}
	return true
}

// modified reports whether the text after a variable changes the expansion in zsh: $x[1] is
// only a character of the value, and $x:h the folder of a path.
func modified(parts []syntax.WordPart, i int) bool {
	p, is := parts[i].(*syntax.ParamExp)
	if !is || !p.Short || i+1 == len(parts) {
		return false
	}
	lit, is := parts[i+1].(*syntax.Lit)
	return is && (strings.HasPrefix(lit.Value, "[") || len(lit.Value) > 1 && lit.Value[0] == ':' && strings.ContainsRune(nameLetters+"&", rune(lit.Value[1])))
}

// whole reports whether a part of a word can have no other text than its choices. The part
// must be known, or be the variable of an enclosing loop whose words are all written out,
// as $x is in "for x in a b; do rm $x; done".
func (s *shell) whole(p syntax.WordPart, quoted bool) bool {
	switch p := p.(type) {
	case *syntax.DblQuoted:
		return s.wholeParts(p.Parts, true)
	case *syntax.ParamExp:
		if p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Exp == nil && p.Names == 0 {
			name := p.Param.Value
			if s.looped[name] > 0 && !setByShell(name) && s.fixed[name] == s.count[name] && s.count[""] == 0 && (quoted || !s.changed("IFS")) {
				return true
			}
		}
	}
	_, known := s.part(p, quoted)
	return known
}

// setByShell reports whether a shell itself may set a variable.
func setByShell(name string) bool {
	return strings.HasPrefix(name, "BASH") || hasWord("_ PWD OLDPWD REPLY MAPFILE OPTARG OPTIND RANDOM SRANDOM SECONDS LINENO COLUMNS LINES DIRSTACK FUNCNAME GROUPS UID EUID PPID SHLVL SHELLOPTS PIPESTATUS COPROC HISTCMD EPOCHSECONDS EPOCHREALTIME argv status path match mbegin mend MATCH prompt", name)
}

// printed returns the text that echo or printf prints, if the text is written in the
// command; otherwise nil.
func (s *shell) printed(list []*syntax.Stmt) []string {
	if len(list) != 1 || len(list[0].Redirs) > 0 {
		return nil
	}
	call, is := list[0].Cmd.(*syntax.CallExpr)
	if !is || len(call.Args) == 0 {
		return nil
	}
	words, size := make([]string, 0, len(call.Args)), 0
	for _, w := range call.Args {
		texts := s.texts(w.Parts, false)
		if len(texts) != 1 || size > maxText {
			return nil
		}
		size += len(texts[0])
		words = append(words, texts[0])
	}
	name, words := words[0], words[1:]
	text, decodes := "", name == "printf"
	switch name {
	case "echo":
		for len(words) > 0 && hasWord("-n -e -E -ne -en", words[0]) {
			decodes = decodes || strings.Contains(words[0], "e")
			words = words[1:]
		}
		text = strings.Join(words, " ")
	case "printf":
		if len(words) > 0 && words[0] == "--" {
			words = words[1:]
		}
		text = formatted(words)
	default:
		return nil
	}
	if decodes {
		var known bool
		if text, known = ansi(text); !known && text == "" {
			return nil
		}
	}
	return []string{strings.TrimRight(text, "\n")}
}

// formatted inserts the arguments of printf into its format. It does not decode escaped
// characters such as \n; the caller does that afterwards.
func formatted(words []string) string {
	if len(words) == 0 {
		return ""
	}
	format, words := words[0], words[1:]
	var b strings.Builder
	for {
		before := len(words)
		for rest := format; rest != ""; {
			switch {
			case strings.HasPrefix(rest, "%%"):
				b.WriteByte('%')
				rest = rest[2:]
			case rest[0] == '%' && len(rest) > 1:
				if len(words) > 0 {
					b.WriteString(words[0])
					words = words[1:]
				}
				rest = rest[2:]
			default:
				b.WriteByte(rest[0])
				rest = rest[1:]
			}
		}
		if len(words) == 0 || len(words) == before || b.Len() > maxText {
			return b.String()
		}
	}
}

// sequence returns the words of a sequence such as {a..z}; nil if they are too many.
func sequence(b *syntax.BraceExp) (words []string) {
	var ends [3]int
	width, letters := 0, false
	for i, e := range b.Elems {
		text := e.Lit()
		n, err := strconv.Atoi(text)
		if err != nil && i < 2 && len(text) == 1 {
			letters, n = true, int(text[0])
		} else if err != nil || i > 2 {
			return nil
		} else if digits := strings.TrimPrefix(text, "-"); i < 2 && len(digits) > 1 && digits[0] == '0' {
			width = max(width, len(text))
		}
		ends[min(i, 2)] = n
	}
	from, to, step := ends[0], ends[1], max(ends[2], -ends[2], 1)
	if letters && (min(from, to) < 'A' || max(from, to) > 'Z' && min(from, to) < 'a') { // the sequence may contain \, as {Z..a} does, and \ quotes the next character
		return nil
	}
	if count := max(from-to, to-from) / step; count < 0 || count >= maxChoices {
		return nil
	}
	for n := from; n >= min(from, to) && n <= max(from, to); {
		text := fmt.Sprintf("%0*d", width, n)
		if letters {
			text = string(rune(n))
		}
		words = append(words, text)
		if n += step; to < from {
			n -= 2 * step
		}
	}
	return words
}

// expanded returns the words of a sequence such as {1..9}, each as parts of a word. If there
// are too many, or if short is set, it returns the pattern * instead, as for a{1..999}. A
// word such as {1..999} or -{1..999} may be a command or a flag: for these, expanded returns
// the sequence unchanged. before is the first part of the whole word.
func expanded(b *syntax.BraceExp, before syntax.WordPart, short bool) (all [][]syntax.WordPart) {
	if !short {
		for _, text := range sequence(b) {
			all = append(all, []syntax.WordPart{&syntax.SglQuoted{Value: text}})
		}
	}
	if lit, is := before.(*syntax.Lit); all == nil && is && !strings.HasPrefix(lit.Value, "-") {
		all = [][]syntax.WordPart{{&syntax.SglQuoted{Value: "*"}}}
	}
	if all == nil {
		return [][]syntax.WordPart{{b}}
	}
	return all
}
