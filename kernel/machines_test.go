package kernel

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestMachinesOwnTheirState: only the methods of a machine select its fields,
// and only they write to its records, which other machines may read. The apply
// methods of facts in the machine's files count as its own.
func TestMachinesOwnTheirState(t *testing.T) {
	for _, fault := range trespasses(t, sources(t)) {
		t.Error(fault)
	}
}

func TestTrespassesAreFound(t *testing.T) {
	const header = "package kernel\n\nimport \"time\"\n\n"
	for _, c := range []struct{ name, source, want string }{
		{"a step reads a field", `func (s *step) f() string { return s.attempts.hard.Run }`, "f selects Run of attempts"},
		{"a machine reads a field of another", `func (c *scopes) f(s *step) time.Time { return s.session.soft.eventAt }`, "f selects eventAt of sessionMachine"},
		{"through an embedded part", `func (s *step) f() int64 { return s.attempts.soft.units }`, "f selects units of attempts"},
		{"a fact elsewhere", `func (f Negotiated) apply(k *Kernel) { k.books.hard.Usage = f.x }`, "apply selects Usage of books"},
		{"an alias", `func (s *step) f() { t := &s.turns; t.hard.PastIn = nil }`, "f selects PastIn of turns"},
		{"a record is written", `func (c *scopes) f(s *step) { s.turns.top().Ending = true }`, "f writes to Ending of frame"},
		{"a record is counted up", `func (s *step) f() { s.scopes.current().Receipts++ }`, "f writes to Receipts of harnessSession"},
		{"a record is read", `func (s *step) f() string { return s.turns.top().Outcome }`, ""},
		{"a method is called", `func (s *step) f() string { return s.attempts.run() }`, ""},
		{"its own state", `func (t *turns) f() { t.hard.PastIn = nil; t.top().Ending = true }`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			planted, err := parser.ParseFile(fileSet, "planted.go", header+c.source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(trespasses(t, append(sources(t), planted)), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// TestMachinesHaveTheirOwnFiles: no file has methods of two machines.
func TestMachinesHaveTheirOwnFiles(t *testing.T) {
	for _, fault := range sharedFiles(survey(t, sources(t))) {
		t.Error(fault)
	}
	planted, err := parser.ParseFile(fileSet, "planted.go", "package kernel\nfunc (b *books) f() {}\nfunc (l *slots) f() {}\n", parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if got := sharedFiles(survey(t, append(sources(t), planted))); !slices.Equal(got, []string{"planted.go has methods of books and slots"}) {
		t.Errorf("found %q", got)
	}
}

func sharedFiles(e *estate) (found []string) {
	owner := map[string]string{}
	for _, machine := range slices.Sorted(maps.Keys(e.files)) {
		for _, file := range slices.Compact(slices.Sorted(slices.Values(e.files[machine]))) {
			if other := owner[file]; other != "" {
				found = append(found, file+" has methods of "+other+" and "+machine)
			}
			owner[file] = machine
		}
	}
	return found
}

// An estate lists the fields, records and files that belong to each machine.
type estate struct {
	fields  map[*types.Var]string // field of a machine → the machine
	records map[*types.Var]record // field of a record → the record
	types   map[string]string     // name of a type → the machine that the type is, or belongs to
	files   map[string][]string   // machine → the files with its methods
	info    types.Info
}

// A record is a struct that a machine refers to.
type record struct{ name, owner string }

// trespasses returns the places where a function that is not a machine's own selects a
// field of the machine, or writes to one of its records.
func trespasses(t *testing.T, files []*ast.File) (found []string) {
	e := survey(t, files)
	for _, f := range files {
		file := path.Base(fileSet.Position(f.Pos()).Filename)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			written := map[ast.Expr]bool{}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, x := range n.Lhs {
						written[x] = true
					}
				case *ast.IncDecStmt:
					written[n.X] = true
				case *ast.UnaryExpr:
					written[n.X] = written[n.X] || n.Op == token.AND
				case *ast.SelectorExpr:
					field, isField := e.info.Uses[n.Sel].(*types.Var)
					if !isField || !field.IsField() {
						break
					}
					at := fileSet.Position(n.Pos())
					if owner := e.fields[field]; owner != "" && !e.belongs(fn, file, owner) {
						found = append(found, fmt.Sprintf("%s: %s selects %s of %s", at, fn.Name.Name, field.Name(), owner))
					}
					if r := e.records[field]; r.owner != "" && written[n] && !e.belongs(fn, file, r.owner) {
						found = append(found, fmt.Sprintf("%s: %s writes to %s of %s", at, fn.Name.Name, field.Name(), r.name))
					}
				}
				return true
			})
		}
	}
	return found
}

// belongs reports whether a function is one of the machine's own: a method of it or
// of its records, the constructor, or the apply of a fact in its files.
func (e *estate) belongs(fn *ast.FuncDecl, file, machine string) bool {
	if fn.Recv == nil {
		return strings.EqualFold(fn.Name.Name, "new"+machine)
	}
	receiver := receiverOf(fn)
	return e.types[receiver] == machine || fn.Name.Name == "apply" && slices.Contains(e.files[machine], file)
}

func receiverOf(fn *ast.FuncDecl) string {
	x := fn.Recv.List[0].Type
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	return x.(*ast.Ident).Name
}

// survey finds the machines and notes what each of them owns. A machine is the type
// of a field of Kernel: an unexported struct of this package. Imported packages are
// left empty, because machines own only types of this package.
func survey(t *testing.T, files []*ast.File) *estate {
	e := &estate{fields: map[*types.Var]string{}, records: map[*types.Var]record{}, types: map[string]string{}, files: map[string][]string{},
		info: types.Info{Uses: map[*ast.Ident]types.Object{}}}
	conf := types.Config{Importer: nothing{}, Error: func(error) {}}
	pkg, _ := conf.Check("kernel", fileSet, files, &e.info)
	kernel := pkg.Scope().Lookup("Kernel").Type().Underlying().(*types.Struct)
	var fields []*types.Var
	for field := range kernel.Fields() {
		if group, ok := field.Type().Underlying().(*types.Struct); ok && field.Embedded() { // the struct only groups machines
			for i := range group.NumFields() {
				fields = append(fields, group.Field(i))
			}
			continue
		}
		fields = append(fields, field)
	}
	for _, field := range fields {
		named, ok := field.Type().(*types.Named)
		if !ok || named.Obj().Pkg() != pkg || named.Obj().Exported() || field.Name() == "step" {
			continue
		}
		machine := named.Obj().Name()
		e.types[machine] = machine
		e.own(named.Underlying().(*types.Struct), machine)
	}
	if len(e.types) < 12 {
		t.Fatalf("only %v have an owner", e.types)
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				if m := receiverOf(fn); e.types[m] == m {
					e.files[m] = append(e.files[m], path.Base(fileSet.Position(f.Pos()).Filename))
				}
			}
		}
	}
	return e
}

// own notes that a machine owns the fields of a struct, the fields of the structs in
// it, and the records that these fields refer to.
func (e *estate) own(s *types.Struct, machine string) {
	for field := range s.Fields() {
		e.fields[field] = machine
		switch of := field.Type().(type) {
		case *types.Struct:
			e.own(of, machine)
		case *types.Named:
			if part, ok := of.Underlying().(*types.Struct); ok && !of.Obj().Exported() {
				e.types[of.Obj().Name()] = machine
				e.own(part, machine)
			}
		default:
			e.record(field.Type(), machine)
		}
	}
}

func (e *estate) record(of types.Type, machine string) {
	switch of := of.(type) {
	case *types.Pointer:
		e.record(of.Elem(), machine)
	case *types.Slice:
		e.record(of.Elem(), machine)
	case *types.Map:
		e.record(of.Elem(), machine)
	case *types.Named:
		s, ok := of.Underlying().(*types.Struct)
		if !ok || of.Obj().Exported() || of.Obj().Pkg() == nil || e.types[of.Obj().Name()] != "" {
			return
		}
		e.types[of.Obj().Name()] = machine
		for field := range s.Fields() {
			e.records[field] = record{of.Obj().Name(), machine}
			e.record(field.Type(), machine)
		}
	}
}

// nothing is an importer that returns an empty package for every path.
type nothing struct{}

func (nothing) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, path.Base(p))
	pkg.MarkComplete()
	return pkg, nil
}
