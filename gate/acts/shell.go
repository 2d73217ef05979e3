package acts

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"lifeloop/gate"
)

// A shell analyses a command line without running it. A part that it cannot
// analyse is undecidable. It knows which files common commands read, write and
// delete. It does not know what other programs do with their arguments, or what
// scripts in files do.
type shell struct {
	*collector
	dirs  []string          // the possible working directories; nil if unknown
	vars  map[string]string // variables that have a single known value from here on
	depth int
}

// maxDepth limits the nesting of commands in commands.
const maxDepth = 10

// shell adds the targets of a command line.
func (c *collector) shell(line string) {
	s := &shell{collector: c, dirs: []string{c.dir}, vars: map[string]string{}}
	s.line(line)
}

func (s *shell) line(line string) {
	if s.depth++; s.depth > maxDepth {
		s.undecidable("command")
		return
	}
	defer func() { s.depth-- }()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		s.undecidable("command")
		return
	}
	assigned := assignments(file)
	for _, st := range file.Stmts {
		s.stmt(st)
		// A variable has a known value only if it is assigned once, by a statement
		// that every run executes.
		if call, ok := st.Cmd.(*syntax.CallExpr); ok && len(call.Args) == 0 && !st.Background && !st.Coprocess {
			for _, a := range call.Assigns {
				if v, known := s.word(a.Value); a.Name != nil && known && !a.Append && a.Index == nil && a.Array == nil && assigned[a.Name.Value] == 1 && assigned[""] == 0 {
					s.vars[a.Name.Value] = v
				}
			}
		}
	}
}

// assignments counts the assignments of each variable; those of unknown names have
// the empty name.
func assignments(file *syntax.File) map[string]int {
	n := map[string]int{}
	syntax.Walk(file, func(node syntax.Node) bool {
		switch node := node.(type) {
		case *syntax.Assign:
			if node.Name != nil {
				n[node.Name.Value]++
			}
		case *syntax.WordIter:
			n[node.Name.Value]++
		case *syntax.LetClause, *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.CStyleLoop:
			n[""]++
		case *syntax.ParamExp:
			if node.Exp != nil { // ${x:=value}
				n[""]++
			}
		case *syntax.CallExpr:
			if len(node.Args) > 0 && slices.Contains([]string{"read", "mapfile", "readarray", "printf", "getopts", "unset", "eval", "source", ".", "set"}, node.Args[0].Lit()) {
				n[""]++
			}
		}
		return true
	})
	return n
}

// apart analyses statements that may run in a subshell, and then restores the
// possible working directories.
func (s *shell) apart(do func()) {
	dirs := s.dirs
	do()
	s.dirs = dirs
}

func (s *shell) stmt(st *syntax.Stmt) {
	for _, r := range st.Redirs {
		s.inside(r)
		if r.Word == nil {
			continue
		}
		to, known := s.word(r.Word)
		switch r.Op {
		case syntax.RdrIn:
			if known {
				s.path(to, "read", s.dirs)
			}
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.DplIn:
		case syntax.DplOut:
			if strings.Trim(to, "0123456789-") != "" || !known {
				s.writes(to, known)
			}
		default:
			s.writes(to, known)
		}
	}
	switch cmd := st.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		for _, a := range cmd.Assigns {
			s.inside(a)
		}
		for _, w := range cmd.Args {
			s.inside(w)
		}
		s.call(cmd)
	case *syntax.Subshell:
		s.apart(func() { s.stmts(cmd.Stmts) })
	case *syntax.BinaryCmd:
		s.binary(cmd)
	default:
		s.inside(cmd)
	}
}

func (s *shell) stmts(list []*syntax.Stmt) {
	for _, st := range list {
		s.stmt(st)
	}
}

func (s *shell) binary(cmd *syntax.BinaryCmd) {
	if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
		s.apart(func() { s.stmt(cmd.X) })
		s.apart(func() { s.stmt(cmd.Y) })
		return
	}
	before := s.dirs
	s.stmt(cmd.X)
	call, isCall := cmd.X.Cmd.(*syntax.CallExpr)
	if cmd.Op == syntax.AndStmt && isCall && len(call.Args) == 2 && call.Args[0].Lit() == "cd" && len(s.dirs) > len(before) {
		after := s.dirs
		s.dirs = after[len(before):] // here, cd has succeeded
		s.stmt(cmd.Y)
		s.dirs = append(slices.Clone(after), s.dirs...)
		return
	}
	s.stmt(cmd.Y)
}

// inside analyses the statements within a node, such as a loop, a function or
// $(…).
func (s *shell) inside(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		st, is := n.(*syntax.Stmt)
		if is {
			s.stmt(st)
		}
		return !is
	})
}

// word is the text of a word, if it is known before the shell runs. A pattern
// counts as known, in its written form.
func (s *shell) word(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", true
	}
	return s.parts(w.Parts, false)
}

func (s *shell) parts(parts []syntax.WordPart, quoted bool) (text string, known bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if !quoted && strings.Contains(p.Value, "{") && strings.ContainsAny(p.Value, ",.") && strings.Contains(p.Value, "}") {
				return "", false // {a,b}
			}
			text += unescaped(p.Value, quoted)
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				return "", false
			}
			text += p.Value
		case *syntax.DblQuoted:
			inner, known := s.parts(p.Parts, true)
			if !known {
				return "", false
			}
			text += inner
		case *syntax.ParamExp:
			v, known := s.param(p)
			if !known || !quoted && strings.ContainsAny(v, " \t\n*?[") {
				return "", false
			}
			text += v
		default:
			return "", false
		}
	}
	return text, true
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
	if v, known := s.vars[p.Param.Value]; known {
		return v, true
	}
	switch p.Param.Value {
	case "HOME":
		return s.scene.Home, s.scene.Home != ""
	case "PWD":
		if len(s.dirs) == 1 {
			return s.dirs[0], true
		}
	}
	return "", false
}

func (s *shell) writes(p string, known bool) { s.touch(arg{p, known}, "write") }

func (s *shell) touch(a arg, op string) {
	switch {
	case !a.known || s.dirs == nil && !path.IsAbs(a.text):
		if op != "read" {
			s.undecidable("path")
		}
	default:
		s.path(a.text, op, s.dirs)
	}
}

func (s *shell) destroys(name string) {
	s.add(gate.Target{Kind: "other", Value: name, Operation: "exec", EndpointClass: "proc.exec", Sensitivity: Destructive})
}
