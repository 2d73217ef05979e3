package archtest

import (
	"go/ast"
	"go/token"
	"testing"
)

// shadowing finds names declared in a function that hide a package which the
// same file imports. Readers and the other rules would mistake such a name for
// the package.
func shadowing(files []file) (broken []string) {
	for _, f := range files {
		report := func(names ...*ast.Ident) {
			for _, id := range names {
				if p := f.imports[id.Name]; p != "" && id.Name != "_" {
					broken = append(broken, f.at(id, "%s hides the imported package %s: choose another name", id.Name, p))
				}
			}
		}
		for _, d := range f.syntax.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					report(parameters(n.Recv, n.Type.Params, n.Type.Results)...)
				case *ast.FuncLit:
					report(parameters(n.Type.Params, n.Type.Results)...)
				case *ast.AssignStmt:
					if n.Tok == token.DEFINE {
						report(identifiers(n.Lhs...)...)
					}
				case *ast.RangeStmt:
					if n.Tok == token.DEFINE {
						report(identifiers(n.Key, n.Value)...)
					}
				case *ast.DeclStmt:
					for _, spec := range n.Decl.(*ast.GenDecl).Specs {
						switch spec := spec.(type) {
						case *ast.ValueSpec:
							report(spec.Names...)
						case *ast.TypeSpec:
							report(spec.Name)
						}
					}
				}
				return true
			})
		}
	}
	return broken
}

func parameters(lists ...*ast.FieldList) (names []*ast.Ident) {
	for _, list := range lists {
		if list != nil {
			for _, field := range list.List {
				names = append(names, field.Names...)
			}
		}
	}
	return names
}

func identifiers(list ...ast.Expr) (names []*ast.Ident) {
	for _, e := range list {
		if id, ok := e.(*ast.Ident); ok {
			names = append(names, id)
		}
	}
	return names
}

func TestNoNameHidesAPackage(t *testing.T) {
	for _, line := range shadowing(everyFile(t)) {
		t.Error(line)
	}
}

func TestShadowingFindsPlantedFaults(t *testing.T) {
	const hides = "hides the imported package"
	for _, c := range []struct{ source, want string }{
		{`func f() { path := 1; _ = path }`, hides},
		{`func f(path int) {}`, hides},
		{`func f() (path int) { return }`, hides},
		{`func (path t) f() {}`, hides},
		{`func f() { for path := range 3 { _ = path } }`, hides},
		{`func f() { var path int; _ = path }`, hides},
		{`func f() { type path int }`, hides},
		{`var f = func(path int) {}`, hides},
		{`func f() { if path, ok := g(); ok { _ = path } }`, hides},
		{`type t struct { path int }`, ""},
		{`type t interface { f(path int) }`, ""},
		{`func f() { _ = t{path: 1} }`, ""},
	} {
		f := plant(t, "kernel/x.go", "// Package p is planted.\npackage p\nimport \"path\"\n"+c.source+"\n")
		expect(t, c.source, shadowing([]file{f}), c.want)
	}
}
