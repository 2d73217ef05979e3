package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// packageState: what a package knows at its start it knows for ever. There is
// no init function, and a package variable is a table, a sentinel error or
// something computed once: it has a value where it is declared, nobody writes
// to it, and it is no lock. A variable testOnly… is a seam that tests write to.
//
// A map that is handed out and written to elsewhere escapes this rule.
func packageState(files []file) (broken []string) {
	vars := map[string]map[string]bool{} // folder → names
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" && product(f) {
					broken = append(broken, f.at(d, "an init function runs for every command, and in an order that nobody sees"))
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				if vars[f.pkg] == nil {
					vars[f.pkg] = map[string]bool{}
				}
				for _, spec := range d.Specs {
					spec := spec.(*ast.ValueSpec)
					for _, name := range spec.Names {
						vars[f.pkg][name.Name] = true
					}
					if product(f) {
						broken = append(broken, declared(f, d, spec)...)
					}
				}
			}
		}
	}
	for _, f := range files {
		if !product(f) {
			continue
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				broken = append(broken, writes(f, fn, vars)...)
			}
		}
	}
	return broken
}

// declared looks at one declaration of package variables.
func declared(f file, d *ast.GenDecl, spec *ast.ValueSpec) (broken []string) {
	for _, name := range spec.Names {
		seam := strings.HasPrefix(name.Name, "testOnly")
		if name.IsExported() && !strings.HasPrefix(name.Name, "Err") {
			broken = append(broken, f.at(name, "%s can be written to by every package: export a function", name.Name))
		}
		if len(spec.Values) == 0 && !seam && !embeds(d.Doc) && !embeds(spec.Doc) {
			broken = append(broken, f.at(name, "%s has no value to begin with, so it must be state", name.Name))
		}
	}
	ast.Inspect(spec, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // what it does when it is called is its own
		case *ast.SelectorExpr:
			p, name := f.selected(n)
			if p == "sync/atomic" || p == "sync" && !slices.Contains(words("OnceFunc OnceValue OnceValues"), name) {
				broken = append(broken, f.at(n, "a package variable of %s.%s is state that all share", p, name))
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "make" || x.Name == "new") {
				broken = append(broken, f.at(n, "a package variable made empty is there to be filled"))
			}
		}
		return true
	})
	return broken
}

func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// writes finds where a function writes to a package variable of this package,
// or of another one, or takes its address.
func writes(f file, fn *ast.FuncDecl, vars map[string]map[string]bool) (broken []string) {
	local := locals(fn)
	check := func(n ast.Node, target ast.Expr) {
		for {
			switch x := target.(type) {
			case *ast.IndexExpr:
				target = x.X
				continue
			case *ast.StarExpr:
				target = x.X
				continue
			case *ast.ParenExpr:
				target = x.X
				continue
			case *ast.SelectorExpr:
				if p, name := f.selected(x); p != "" && !local[x.X.(*ast.Ident).Name] {
					if own, ok := ours(p); !ok || vars[own][name] {
						broken = append(broken, f.at(n, "%s writes to %s.%s", fn.Name.Name, p, name))
					}
					return
				}
				target = x.X
				continue
			case *ast.Ident:
				if vars[f.pkg][x.Name] && !local[x.Name] {
					broken = append(broken, f.at(n, "%s writes to the package variable %s", fn.Name.Name, x.Name))
				}
			}
			return
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, target := range n.Lhs {
					check(n, target)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				check(n, n.Key)
				check(n, n.Value)
			}
		case *ast.IncDecStmt:
			check(n, n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				check(n, n.X)
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "delete" || x.Name == "clear" || x.Name == "copy") && len(n.Args) > 0 {
				check(n, n.Args[0])
			}
		}
		return true
	})
	return broken
}

// locals are the names that a function declares anywhere in it.
func locals(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, target := range n.Lhs {
					if id, ok := target.(*ast.Ident); ok {
						names[id.Name] = true
					}
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					names[id.Name] = true
				}
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		}
		return true
	})
	return names
}
