package acts

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"lifeloop/gate"
)

// A shell analyses a command line without running it. For a part that it cannot
// analyse it adds a target of the class Undecidable; such a part is called
// undecidable. A shell knows which files common commands read, write and delete. It
// does not know what other programs do with their arguments, or what scripts in files
// do.
type shell struct {
	*collector
	dirs     []string            // the possible working directories; nil if unknown
	vars     map[string]string   // the values of variables that have one known value in the whole line
	count    map[string]int      // the number of assignments to each variable; "" is for variables of unknown name
	input    string              // what the present command reads from <<EOF or <<<; empty if unknown
	fed      bool                // the present command reads a file, as with <FILE
	funcs    map[string][]*body  // the functions; their bodies are analysed where they are called
	traps    []arg               // the commands of traps; they may run in every later folder
	lists    map[string]int      // the number of loops that set a variable only to words that are no flags, such as src/*.go
	written  map[string][]string // the texts that the line assigns to each variable; a variable may have other values
	fixed    map[string]int      // the number of loops that set a variable only to words that are written out, as in for x in a b
	looped   map[string]int      // for each variable, the number of loops around the present command that set it
	chosen   int                 // the present nesting of calls of the method texts; see maxChosen
	depth    int
	nested   bool // the present words are inside an unknown word, as $x in $(echo $x); their choices and shapes (see arg) are not computed
	physical bool // cd may follow links before .., as after set -P
	// gitDirs are the folders and files that variables such as GIT_DIR name.
	gitDirs []arg
	// captured says that another command may get the output, as in cat $(ls). A name in the
	// output may become the name of a file that is read.
	captured bool
	// substituting says that the present command is within $(…).
	substituting bool
}

// A body is the body of a function.
type body struct {
	stmt    *syntax.Stmt
	callers [][]string // for each call that is being analysed, the possible working directories
}

// maxDepth limits the nesting of commands in commands, as in sudo sh -c ls. maxSteps limits
// the number of commands, and maxWords the number of words, that are analysed for one tool
// call: even a short line can cause many, because the body of a function is analysed at
// each call. Every ten bytes of a word count as one more word, because a long word may be a
// program of awk or sed. maxLine limits the length of one line, and maxNesting its nesting,
// because the time of an analysis grows with the square of the nesting.
const (
	maxDepth   = 10
	maxSteps   = 5000
	maxWords   = 50000
	maxLine    = 64 << 10 // bytes
	maxNesting = 100
)

// shell adds the targets of a command line.
func (c *collector) shell(line string) {
	c.newShell([]string{c.dir}).line(line)
}

func (c *collector) newShell(dirs []string) *shell {
	return &shell{collector: c, dirs: dirs, vars: map[string]string{}, count: map[string]int{}, lists: map[string]int{}, written: map[string][]string{}, fixed: map[string]int{}, looped: map[string]int{}, funcs: map[string][]*body{}}
}

func (s *shell) line(line string) {
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth || len(line) > maxLine {
		s.undecidable("command")
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil || nesting(file) > maxNesting {
		s.undecidable("command")
		return
	}
	s.assignments(file)
	s.arithmetic(file)
	for _, st := range file.Stmts {
		s.stmt(st)
		// A variable has a known value only if it is assigned once, by a statement
		// that every run executes.
		if call, ok := st.Cmd.(*syntax.CallExpr); ok && len(call.Args) == 0 && !st.Background && !st.Coprocess {
			for _, a := range call.Assigns {
				if v, known := s.word(a.Value); a.Name != nil && known && !a.Append && a.Index == nil && a.Array == nil && s.count[a.Name.Value] == 1 && s.count[""] == 0 && !setByShell(a.Name.Value) {
					s.vars[a.Name.Value] = v
				}
			}
		}
	}
}

// nesting returns how deep statements and expansions are nested in a line.
func nesting(file *syntax.File) (deepest int) {
	var around []int // the depth of each node around the present one
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		depth := 0
		if len(around) > 0 {
			depth = around[len(around)-1]
		}
		switch n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ParamExp, *syntax.Subshell, *syntax.Block, *syntax.IfClause,
			*syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.FuncDecl, *syntax.ArithmExp, *syntax.ParenArithm, *syntax.ParenTest:
			depth++
		}
		around, deepest = append(around, depth), max(deepest, depth)
		return true
	})
	return deepest
}

// assignments counts the assignments to each variable. Assignments to unknown
// variables are counted under the empty name.
func (s *shell) assignments(file *syntax.File) {
	n := s.count
	mentions := false
	syntax.Walk(file, func(node syntax.Node) bool {
		switch node := node.(type) {
		case *syntax.Lit: // as in ((BASH_CMDS[ls]=1))
			mentions = mentions || holdsTable(node.Value)
		case *syntax.Word:
			mentions = mentions || s.mentionsTable(node)
		}
		switch node := node.(type) {
		case *syntax.Assign:
			s.table(node)
			switch {
			case node.Name != nil && !node.Naked:
				n[node.Name.Value]++
				s.write(node.Name.Value, node.Value)
			case node.Name == nil && !hasWord("-x -r -g", node.Value.Lit()): // export "NAME=value"
				n[""]++
			}
		case *syntax.WordIter:
			n[node.Name.Value]++
			if hasWord(tables, node.Name.Value) {
				s.undecidable("command")
			}
			s.items(node)
			for _, text := range s.written[node.Name.Value] {
				s.value(node.Name.Value, arg{text: text, known: true})
			}
		case *syntax.ForClause:
			if items, is := node.Loop.(*syntax.WordIter); is && node.Select { // the variable may be empty
				n[items.Name.Value]++
			}
		case *syntax.DeclClause:
			s.declares(node)
		case *syntax.LetClause, *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.CStyleLoop:
			n[""]++
		case *syntax.ParamExp:
			if e := node.Exp; e != nil && (e.Op == syntax.AssignUnset || e.Op == syntax.AssignUnsetOrNull) && node.Param != nil {
				if node.Excl || hasWord(tables+" "+prompts, node.Param.Value) { // ${!x=…} sets the variable that x names
					s.undecidable("command")
				}
				n[node.Param.Value]++
				s.write(node.Param.Value, e.Word)
			}
		case *syntax.CallExpr:
			s.assigns(node.Args)
		}
		return true
	})
	if mentions && n[""] > 0 { // as in declare -n x=BASH_CMDS
		s.undecidable("command")
	}
}

// assigns counts the assignments of a builtin command, such as read, in s.count.
func (s *shell) assigns(words []*syntax.Word) {
	var args []arg
	for _, w := range words {
		args = append(args, s.words(w)...)
	}
	for len(args) > 1 && (hasWord("builtin command", args[0].text) || strings.HasPrefix(args[0].text, "-")) {
		args = args[1:]
	}
	if len(args) == 0 {
		return
	}
	if setsForZsh(args) {
		s.count[""]++
	}
	switch args[0].text {
	case "eval", "source", ".":
		s.count[""]++
	case "read", "mapfile", "readarray", "getopts", "unset", "printf":
		sets := args[0].text != "printf"
		for _, a := range args[1:] {
			lit := a.text
			if strings.HasPrefix(lit, "-v") {
				sets = true
			}
			switch {
			case !sets:
			case !a.known, lit == "", strings.HasPrefix(lit, "-") && len(lit) > 2, strings.Contains(lit, "["):
				s.count[""]++
			default:
				s.count[lit]++
				if hasWord(prompts, lit) && args[0].text != "unset" {
					s.undecidable("command")
				}
			}
		}
	}
}

// changed reports whether a variable may have another value than at the start.
func (s *shell) changed(name string) bool { return s.count[name]+s.count[""] > 0 }

// forget drops what is known about variables.
func (s *shell) forget() {
	clear(s.vars)
	s.count[""]++
}

// apart analyses statements that may run in a subshell, and then restores the
// possible working directories.
func (s *shell) apart(do func()) {
	dirs := s.dirs
	do()
	s.dirs = dirs
}

func (s *shell) stmt(st *syntax.Stmt) {
	if s.steps++; s.steps > maxSteps || s.read > maxWords {
		s.undecidable("command")
		return
	}
	defer func(before bool) { s.captured = before }(s.captured)
	for _, r := range st.Redirs {
		s.inside(r)
		if r.Word == nil {
			continue
		}
		target := s.one(r.Word)
		to, known := target.text, target.known
		switch r.Op {
		case syntax.RdrIn:
			s.touch(target, "read")
			s.argument("<", target)
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.DplIn:
		case syntax.DplOut:
			if strings.Trim(to, "0123456789-") != "" || !known {
				s.touch(target, "write")
			}
		default:
			s.touch(target, "write")
			s.captured = s.captured || offersNames(target)
		}
	}
	switch cmd := st.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		if dirs := s.gitDirs; len(cmd.Args) > 0 { // assignments before a command hold only for that command
			defer func() { s.gitDirs = dirs }()
		}
		for _, a := range cmd.Assigns {
			s.inside(a)
			s.names(a.Value)
			if a.Array != nil {
				for _, e := range a.Array.Elems {
					s.names(e.Value)
				}
			}
		}
		for _, w := range cmd.Args {
			s.inside(w)
			s.read += 1 + int(w.End().Offset()-w.Pos().Offset())/10
		}
		s.input = s.heredoc(st.Redirs)
		s.fed = slices.ContainsFunc(st.Redirs, func(r *syntax.Redirect) bool { return r.Op == syntax.RdrIn && r.Word.Lit() != "" })
		s.call(cmd)
	case *syntax.Subshell:
		s.apart(func() { s.stmts(cmd.Stmts) })
	case *syntax.BinaryCmd:
		s.binary(cmd)
	case *syntax.ForClause:
		if items, is := cmd.Loop.(*syntax.WordIter); is {
			for _, w := range items.Items {
				s.names(w)
			}
			s.looped[items.Name.Value]++
			defer func() { s.looped[items.Name.Value]-- }()
		}
		s.loop(cmd)
	case *syntax.WhileClause:
		s.loop(cmd)
	case *syntax.FuncDecl:
		s.apart(func() { s.inside(cmd) })
		if cmd.Name == nil { // as in () { ls; }, which bash refuses
			s.undecidable("command")
			return
		}
		if name := cmd.Name.Value; hasWord(called, name) || strings.HasPrefix(name, "TRAP") {
			s.undecidable("command")
		}
		if name := cmd.Name.Value; !slices.ContainsFunc(s.funcs[name], func(b *body) bool { return b.stmt == cmd.Body }) {
			s.funcs[name] = append(s.funcs[name], &body{stmt: cmd.Body})
		}
	default:
		s.inside(cmd)
	}
}

// offersNames reports whether another command may take names of files to read from target,
// the file that gets the output. For a file such as .gitignore it assumes that none does:
// the programs for which such a file is made do not read the files that it names.
func offersNames(target arg) bool {
	return !target.known || target.text != "/dev/null" && !strings.HasSuffix(target.text, "ignore")
}

// called are the functions that bash and zsh call by themselves. Those of zsh for signals
// begin with TRAP.
const called = "command_not_found_handle command_not_found_handler chpwd precmd preexec periodic zshaddhistory zshexit"

// loop analyses a loop until another round changes neither the folder nor what is known
// about variables. A loop that enters further folders in each round is analysed in an
// unknown folder.
func (s *shell) loop(n syntax.Node) {
	for round := 0; ; round++ {
		dirs, forgotten := unique(s.dirs), s.count[""]
		s.inside(n)
		s.dirs = unique(s.dirs)
		switch {
		case len(s.dirs) == len(dirs) && (forgotten == s.count[""] || round > 0):
			return
		case round == 3:
			s.dirs = nil
		}
	}
}

// unique returns dirs in order and without repetitions.
func unique(dirs []string) []string {
	dirs = slices.Clone(dirs)
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// function analyses the bodies of a function where the function is called. If the function
// calls itself in another folder, its bodies are analysed once more, in an unknown folder.
func (s *shell) function(name string) {
	for _, f := range s.funcs[name] {
		dirs := unique(s.dirs)
		if n := len(f.callers); n > 0 {
			if slices.Equal(dirs, f.callers[n-1]) {
				continue
			}
			s.dirs, dirs = nil, nil
		}
		f.callers = append(f.callers, dirs)
		s.stmt(f.stmt)
		f.callers = f.callers[:len(f.callers)-1]
	}
}

// trap adds the commands of a trap. If they change the folder, and the trap may run before
// the end of the shell, the folder is unknown from then on.
func (s *shell) trap(args []arg) {
	before := len(s.dirs)
	after := s.dirs
	counts := maps.Clone(s.count)
	s.steps += len(counts) / 100 // count the time that the copy takes
	s.apart(func() {
		s.eval(args[:1])
		after = s.dirs
	})
	if slices.ContainsFunc(args[1:], func(a arg) bool { return !a.known || !hasWord("EXIT 0", a.text) }) {
		if len(after) != before {
			s.dirs = nil
		}
		if !maps.Equal(counts, s.count) { // the trap sets a variable; in a loop, even an earlier command may run after the trap
			s.forget()
		}
	}
	s.traps = append(s.traps, args[0])
}

// moved analyses the commands of the traps again after a change of the folder, because they
// may also run in the new folder.
func (s *shell) moved() {
	traps := s.traps
	s.traps = nil // otherwise a trap that changes the folder would cause its own analysis again
	for _, t := range traps {
		s.apart(func() { s.eval([]arg{t}) })
	}
	s.traps = append(traps, s.traps...)
}

// names adds the files that are named by a word that a variable gets, from an assignment or
// from a loop.
func (s *shell) names(w *syntax.Word) {
	if w == nil {
		return
	}
	for _, a := range s.words(w) {
		s.argument("", a)
	}
}

// heredoc returns the text that <<EOF or <<< gives to a command; empty if it is not known.
func (s *shell) heredoc(redirs []*syntax.Redirect) string {
	for _, r := range redirs {
		w := r.Hdoc
		if r.Op == syntax.WordHdoc {
			w = r.Word
		}
		if w != nil {
			if text, known := s.word(w); known {
				return text
			}
		}
	}
	return ""
}

func (s *shell) stmts(list []*syntax.Stmt) {
	for _, st := range list {
		s.stmt(st)
	}
}

func (s *shell) binary(cmd *syntax.BinaryCmd) {
	if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
		before := s.captured
		s.captured = before || !filters(cmd.Y)
		s.apart(func() { s.stmt(cmd.X) })
		s.captured = before
		s.apart(func() { s.stmt(cmd.Y) })
		return
	}
	before := s.dirs
	s.stmt(cmd.X)
	call, isCall := cmd.X.Cmd.(*syntax.CallExpr)
	if cmd.Op == syntax.AndStmt && isCall && len(call.Args) == 2 && call.Args[0].Lit() == "cd" && len(s.dirs) > len(before) {
		after := s.dirs
		s.dirs = after[len(before):] // the right side of && runs only if cd succeeded
		s.stmt(cmd.Y)
		s.dirs = append(slices.Clone(after), s.dirs...)
		return
	}
	s.stmt(cmd.Y)
}

// filters reports whether a command only prints lines that it reads, or counts them.
func filters(st *syntax.Stmt) bool {
	call, is := st.Cmd.(*syntax.CallExpr)
	return is && len(call.Args) > 0 && len(st.Redirs) == 0 && hasWord("head tail wc sort uniq cat grep", call.Args[0].Lit())
}

// inside analyses the statements within a node, such as a loop, a function or
// $(…).
func (s *shell) inside(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			s.stmt(n)
			return false
		case *syntax.CmdSubst:
			before := s.substituting
			s.substituting = true
			s.substituted(n.Stmts)
			s.substituting = before
			return false
		case *syntax.ProcSubst:
			s.substituted(n.Stmts)
			return false
		case *syntax.ParamExp:
			if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps && n.Exp.Word.Lit() == "P" { // ${x@P} runs the commands in the value of x
				s.undecidable("command")
			}
		case *syntax.ExtGlob:
			if globRuns(n.Pattern.Value) {
				s.undecidable("command")
			}
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil {
				s.value(n.Name.Value, s.one(n.Value))
			} else if n.Name == nil { // export "NAME=value"
				a := s.one(n.Value)
				name, _, _ := strings.Cut(a.start(), "=")
				s.value(name, a.after(name+"="))
			}
		case *syntax.TestClause:
			syntax.Walk(n, func(n syntax.Node) bool {
				if q, is := n.(*syntax.SglQuoted); is && indexRuns(q.Value) {
					s.undecidable("command")
				}
				return true
			})
		}
		return true
	})
}

// globRuns reports whether zsh may run a command for (text) at the end of a pattern. zsh
// runs one that follows e or + in the text, as in *(e:rm x:). A text that has only plain
// characters, *, ? and | runs a command only if the text has an e or + and no |.
func globRuns(text string) bool {
	plain := strings.Trim(text, "*?|.") == "" || isPlain(strings.NewReplacer("*", "", "?", "", "|", "").Replace(text))
	return !plain || !strings.Contains(text, "|") && strings.ContainsAny(text, "e+")
}

// indexRuns reports whether a text has an index of a variable with a command in it, as in
// a[$(ls)].
func indexRuns(text string) bool {
	_, index, is := strings.Cut(text, "[")
	return is && (strings.Contains(index, "$(") || strings.Contains(index, "`"))
}

func (s *shell) substituted(list []*syntax.Stmt) {
	before := s.captured
	s.captured = true
	s.stmts(list)
	s.captured = before
}

// word is the text of a word, if it is known before the shell runs. A pattern
// counts as known, in its written form.
func (s *shell) word(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", true
	}
	a := s.one(w)
	return a.text, a.known
}

// one returns the word that w expands to. If w expands to several words, the result is a
// word that is not known.
func (s *shell) one(w *syntax.Word) arg {
	if all := s.words(w); len(all) == 1 {
		return all[0]
	}
	return arg{}
}

// words returns the words that the expansion of braces makes of w.
func (s *shell) words(w *syntax.Word) (all []arg) {
	if w == nil {
		return nil
	}
	words := s.unbraced(w)
	if words == nil {
		return []arg{{loose: true}}
	}
	for _, parts := range words {
		a := arg{}
		if a.text, a.known = s.parts(parts, false); !a.known {
			a.begin, _ = s.beginning(parts, false)
			a.form = s.form(parts, false)
			if a.loose = true; !s.nested { // for the words inside this word, choices and shapes (see arg) are not computed: with deep nesting, that would take too long
				s.nested = true
				a.choices = s.choices(parts)
				a.whole = s.wholeParts(parts, false)
				a.escaped = escapes(parts)
				_, is := parts[0].(*syntax.ProcSubst)
				a.pipe = is && len(parts) == 1
				a.shape = s.shape(parts, false)
				a.loose = slices.ContainsFunc(parts, func(p syntax.WordPart) bool { return s.loose(p, false) }) ||
					a.whole && slices.ContainsFunc(a.texts(), func(text string) bool { return strings.HasPrefix(text, "-") })
				s.nested = false
			}
		}
		all = append(all, a)
	}
	return all
}

// unbraced returns the words that the expansion of braces makes of w; nil if they are too
// many, or if zsh expands w differently.
func (s *shell) unbraced(w *syntax.Word) [][]syntax.WordPart {
	if !s.made(0) {
		return nil
	}
	if slices.ContainsFunc(w.Parts, charRange) {
		return nil
	}
	open := 0
	for _, p := range w.Parts {
		if lit, is := p.(*syntax.Lit); is {
			open += strings.Count(lit.Value, "{")
		}
	}
	if open > maxChoices { // the time of SplitBraces grows with the square of open
		s.undecidable("command")
		return nil
	}
	split := *w
	syntax.SplitBraces(&split)
	words := braces(&split, false)
	if words == nil {
		words = braces(&split, true)
	}
	if words == nil { // there are too many words; one of them may name a secret
		s.undecidable("command")
	}
	if !s.made(max(len(words), 1) - 1) {
		return nil
	}
	return words
}

// braces returns the words that {a,b} and sequences in w expand to; nil if there are too
// many words. If short is set, a sequence becomes the pattern * or stays unchanged (see
// expanded).
func braces(w *syntax.Word, short bool) [][]syntax.WordPart {
	all := [][]syntax.WordPart{nil}
	for _, part := range w.Parts {
		choices := [][]syntax.WordPart{{part}}
		if b, is := part.(*syntax.BraceExp); is && b.Sequence {
			choices = expanded(b, w.Parts[0], short)
		} else if is {
			choices = nil
			for _, e := range b.Elems {
				words := braces(e, short)
				if words == nil {
					return nil
				}
				choices = append(choices, words...)
			}
		}
		if n := len(all) * len(choices); n > maxList || n > maxChoices && len(all) > 1 && len(choices) > 1 {
			return nil
		}
		if len(choices) == 1 {
			for i := range all {
				all[i] = append(all[i], choices[0]...)
			}
			continue
		}
		var longer [][]syntax.WordPart
		for _, before := range all {
			for _, c := range choices {
				longer = append(longer, slices.Concat(before, c))
			}
		}
		all = longer
	}
	return all
}

// parts returns the text of parts. If it is not known, the text is what follows the
// last unknown part.
func (s *shell) parts(parts []syntax.WordPart, quoted bool) (text string, known bool) {
	known = true
	for i, p := range parts {
		part, ok := s.part(p, quoted)
		if !ok || modified(parts, i) {
			part, text, known = "", "", false
		}
		text += part
	}
	return text, known
}

func (s *shell) part(p syntax.WordPart, quoted bool) (text string, known bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		return unescaped(p.Value, quoted), true
	case *syntax.SglQuoted:
		if p.Dollar {
			if text, known := ansi(p.Value); known {
				return text, true
			}
			return "", false
		}
		return p.Value, true
	case *syntax.DblQuoted:
		return s.parts(p.Parts, true)
	case *syntax.ParamExp:
		v, known := s.param(p)
		if !known || !quoted && (strings.ContainsAny(v, " \t\n*?[(") || s.changed("IFS")) {
			return "", false
		}
		return v, true
	}
	return "", false
}

// unescaped returns a literal without the backslashes that quote characters.
func unescaped(lit string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(lit); i++ {
		if lit[i] == '\\' && i+1 < len(lit) && (!quoted || strings.IndexByte("$`\"\\\n", lit[i+1]) >= 0) {
			if i++; lit[i] == '\n' {
				continue
			}
		}
		b.WriteByte(lit[i])
	}
	return b.String()
}

func (s *shell) param(p *syntax.ParamExp) (string, bool) {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Exp != nil || p.Names != 0 {
		return "", false
	}
	if v, known := s.vars[p.Param.Value]; known && s.count[p.Param.Value] == 1 {
		return v, true
	}
	if s.changed(p.Param.Value) {
		return "", false
	}
	switch p.Param.Value {
	case "!":
		return "%!", true // the pid of a job of this line, in the form %JOB that kill accepts
	case "HOME":
		return s.scene.Home, s.scene.Home != ""
	case "PWD":
		if len(s.dirs) == 1 {
			return s.dirs[0], true
		}
	}
	return "", false
}

func (s *shell) touch(a arg, op string) {
	if op == "write" {
		op = opPut
	}
	switch {
	case a.pipe:
	case a.known && strings.HasPrefix(a.text, "=") && (op == opPut || op == "delete"): // zsh expands =NAME to the file of the command NAME
		s.undecidable("path")
	case a.whole && a.choices != "":
		texts := a.texts()
		if !s.made(len(texts)) {
			return
		}
		for _, text := range texts {
			s.touch(arg{text: text, known: true}, op)
		}
	case !a.known || s.dirs == nil && !path.IsAbs(a.text) || strings.HasPrefix(a.text, "~") && s.changed("HOME"):
		if op == opPut || op == "delete" {
			s.undecidable("path")
		}
	default:
		s.path(a.text, op, s.dirs)
	}
}

func (s *shell) destroys(name string) {
	s.add(gate.Target{Kind: "other", Value: name, Operation: "exec", EndpointClass: "proc.exec", Sensitivity: Destructive})
}
