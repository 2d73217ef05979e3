package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// packageState checks that package variables do not change. There is no init
// function, except those of internal/minimum and internal/quick, which must run before
// other packages are initialized. A package variable is a table, a sentinel error or a value
// computed once: it has an initial value, no code writes to it, and it is not a
// lock. A variable named testOnly… is an exception: tests write to it.
//
// The rule does not detect writes to a map that a function returned.
func packageState(files []file) (broken []string) {
	vars := map[string]map[string]bool{} // folder → names
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" && product(f) && f.pkg != "internal/minimum" && f.pkg != "internal/quick" {
					broken = append(broken, f.at(d, "an init function runs for every command, in a hidden order"))
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

// declared checks one declaration of package variables.
func declared(f file, d *ast.GenDecl, spec *ast.ValueSpec) (broken []string) {
	for _, name := range spec.Names {
		seam := strings.HasPrefix(name.Name, "testOnly")
		if name.IsExported() && !strings.HasPrefix(name.Name, "Err") {
			broken = append(broken, f.at(name, "every package can write to %s: export a function", name.Name))
		}
		if len(spec.Values) == 0 && !seam && !embeds(d.Doc) && !embeds(spec.Doc) {
			broken = append(broken, f.at(name, "%s has no initial value, so it is state", name.Name))
		}
	}
	ast.Inspect(spec, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // the body of a function runs later
		case *ast.SelectorExpr:
			p, name := f.selected(n)
			if p == "sync/atomic" || p == "sync" && !slices.Contains(words("OnceFunc OnceValue OnceValues"), name) {
				broken = append(broken, f.at(n, "a package variable of type %s.%s is shared state", p, name))
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "make" || x.Name == "new") {
				broken = append(broken, f.at(n, "a package variable is made empty, to be filled later"))
			}
		}
		return true
	})
	return broken
}

func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// writes finds the statements of a function that write to a package variable, of
// this or another package, or take its address.
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

// locals returns all names that a function declares.
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
