package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The boundary to clients: the program neither names clients nor interprets the
// values that belong to them. The rules hold for every Go file, including tests
// and developers' programs, except for the profiles, which serve named clients,
// and the examples, which are clients. They are separate from the other rules
// because they read more files.
var boundary = map[string]rule{
	"no client is named":    beyond(clientNames),
	"no client is imported": beyond(clientImports),
	"no client is treated specially": beyond(func(f file, fixed map[string]bool) []string {
		if f.isTest() {
			return nil // a test may compare with the values that it expects
		}
		return append(ownedFieldNames(f), clientBranches(f, fixed)...)
	}),
}

// namesOfClients are written in two pieces, because the rules read this file too.
var namesOfClients = []string{"c" + "cd", "r" + "lm"}

// owned are the members of the contract that belong to clients: JSON name → Go
// name.
var owned = map[string]string{"client_id": "ClientID", "payload_kind": "PayloadKind", "format": "Format", "metadata": "Metadata"}

// prying lists the packages whose functions inspect a value.
var prying = words("bytes cmp maps path path/filepath regexp slices strings unicode unicode/utf8")

func TestClientsAreNotKnown(t *testing.T) {
	files := everyFile(t)
	for name, rule := range boundary {
		t.Run(name, func(t *testing.T) {
			for _, line := range rule(files) {
				t.Error(line)
			}
		})
	}
}

func TestBoundaryFindsPlantedFaults(t *testing.T) {
	const named, imported, special = "no client is named", "no client is imported", "no client is treated specially"
	c, r := namesOfClients[0], namesOfClients[1]
	C, R := strings.ToUpper(c), strings.ToUpper(r)
	for _, p := range []struct {
		rule, path, source, want string
	}{
		{named, "kernel/x.go", `const a = "` + c + `-renewal"`, "client's name"},
		{named, "kernel/x.go", `const a = "` + c + `_renewal"`, "client's name"},
		{named, "kernel/x_test.go", `const a = "` + C + `"`, "client's name"},
		{named, "manifests/x.go", `const a = "` + c + `"`, "client's name"},
		{named, "testdata/fakeclient/x.go", `const a = "` + c + `"`, "client's name"},
		{named, "kernel/x.go", "// By the " + R + "\n// declaration.\nvar a = 1", "client's name"},
		{named, "kernel/x.go", "var a = 1 /* as " + r + " does */", "client's name"},
		{named, "kernel/x.go", `type is` + C + `Renewal int`, "client's name"},
		{named, "kernel/x.go", `func ` + C + `Lease() {}`, "client's name"},
		{named, "kernel/x.go", `func lease` + strings.ToUpper(c[:1]) + c[1:] + `() {}`, "client's name"},
		{named, "kernel/x.go", "type t struct { A int `json:\"" + r + "_frame\"` }", "client's name"},
		{named, "kernel/" + c + ".go", `var a = 1`, "client's name"},
		{named, "kernel/x.go", `const a = "deccde"; const b = "0` + c + `1"`, ""},
		{named, "profiles/x.go", `const a = "` + c + `-renewal"`, ""},
		{named, "examples/notes/x.go", `const a = "` + c + `"`, ""},

		{imported, "kernel/x.go", `import "lifeloop/examples/thread-sync"`, "client's module"},
		{imported, "e2e/x_test.go", `import "lifeloop/examples/thread-sync/state"`, "client's module"},
		{imported, "kernel/x.go", `import _ "example.org/` + c + `/lease"`, "client's module"},
		{imported, "kernel/x.go", `import "lifeloop/lifeloop"`, ""},
		{imported, "examples/notes/x.go", `import "lifeloop/examples/thread-sync"`, ""},

		{special, "kernel/x.go", `func f(p t) bool { return p.ClientID == "notes" }`, "compares ClientID"},
		{special, "kernel/x.go", `func f(p t) bool { return "notes" != (p.a.b[0].PayloadKind) }`, "compares PayloadKind"},
		{special, "kernel/x.go", `func f(p t) bool { return p.Format < "b" }`, "compares Format"},
		{special, "kernel/x.go", `func f(p t) bool { return string(*p.Format) == "b" }`, "compares Format"},
		{special, "kernel/x.go", `const mine = "notes"; func f(p t) bool { return p.ClientID == mine }`, "compares ClientID"},
		{special, "kernel/x.go", `func f(p t) bool { const mine = "notes"; return p.ClientID == "a" + mine }`, "compares ClientID"},
		{special, "kernel/x.go", `var mine = "notes"; func f(p t) bool { return p.ClientID == mine }`, "compares ClientID"},
		{special, "kernel/x.go", `import "lifeloop/lifeloop"; func f(p t) bool { return p.ClientID == lifeloop.Version }`, "compares ClientID"},
		{special, "kernel/x.go", `func f(p t) bool { kind := p.PayloadKind; return kind == "note" }`, "compares PayloadKind"},
		{special, "kernel/x.go", `func f(p t) { if id := p.ClientID; id != "notes" { f(p) } }`, "compares ClientID"},
		{special, "kernel/x.go", `func f(p t) { switch p.PayloadKind { case "note": } }`, "switches on PayloadKind"},
		{special, "kernel/x.go", `func f(p t) { switch { case p.PayloadKind == "note": } }`, "compares PayloadKind"},
		{special, "kernel/x.go", `func f(p t) { switch kind := p.PayloadKind; kind { case "note": } }`, "switches on PayloadKind"},
		{special, "kernel/x.go", `var m = map[string]int{"note": 1}; func f(p t) int { return m[p.PayloadKind] }`, "looks PayloadKind up"},
		{special, "kernel/x.go", `func f(p t) any { return p.Metadata["trace"] }`, "looks into Metadata"},
		{special, "kernel/x.go", `func f(p t, k string) any { return p.Metadata[k] }`, "looks into Metadata"},
		{special, "kernel/x.go", `func f(p t) { for range p.Metadata { } }`, "looks into Metadata"},
		{special, "kernel/x.go", `func f(p t) { meta := p.Metadata; delete(meta, "trace") }`, "looks into Metadata"},
		{special, "kernel/x.go", `func f(m map[string]any) bool { return m["client_id"] == "notes" }`, "compares ClientID"},
		{special, "kernel/x.go", `func f(m map[string]any) bool { return m["payload_kind"].(string) == "note" }`, "compares PayloadKind"},
		{special, "kernel/x.go", `func f(m map[string]any) any { return m["metadata"].(map[string]any)["x"] }`, "looks into Metadata"},
		{special, "kernel/x.go", `import "strings"; func f(p t) bool { return strings.HasPrefix(p.PayloadKind, "no") }`, "passes PayloadKind to strings.HasPrefix"},
		{special, "kernel/x.go", `import "slices"; func f(p t) bool { return slices.Contains([]string{"a"}, string(p.ClientID)) }`, "passes ClientID to slices.Contains"},
		{special, "kernel/x.go", "type t struct { Kind string `json:\"payload_kind\"` }", "must be named PayloadKind"},
		{special, "kernel/x.go", "type t struct { Kind string `json:\"payload_kind,omitempty\"` }", "must be named PayloadKind"},
		{special, "testdata/fakeclient/x.go", `func f(p t) bool { return p.ClientID == "notes" }`, "compares ClientID"},

		{special, "kernel/x.go", `func f(p t, k t) bool { return p.ClientID != k.Client }`, ""},
		{special, "kernel/x.go", `func f(p t) bool { return p.Metadata == nil }`, ""},
		{special, "kernel/x.go", `func f(p t) string { return p.ClientID + "\x00" + p.InvocationID }`, ""},
		{special, "kernel/x.go", `func f(p t) t { return t{ClientID: p.ClientID, Metadata: p.Metadata} }`, ""},
		{special, "kernel/x.go", `import "time"; func f(p time.Time) bool { return p.Format("2006") == "2026" }`, ""},
		{special, "kernel/x.go", `func f(p t) bool { return p.Redaction == "none" }`, ""},
		{special, "kernel/x.go", "type t struct { PayloadKind string `json:\"payload_kind\"`; Kind string `json:\"kind\"` }", ""},
		{special, "kernel/x_test.go", `func f(p t) bool { return p.ClientID == "notes" }`, ""},
		{special, "profiles/x.go", `func f(p t) bool { return p.ClientID == "notes" }`, ""},
		{special, "examples/notes/x.go", `func f(p t) bool { return p.ClientID == "notes" }`, ""},
	} {
		f := plant(t, p.path, "// Package p is planted.\npackage p\n"+p.source+"\n")
		expect(t, p.rule+": "+p.path+": "+p.source, boundary[p.rule]([]file{f}), p.want)
	}
}

// beyond returns a rule that applies a check to every file except those that may
// name clients. fixed lists the constants and package variables, as
// "folder.Name".
func beyond(check func(f file, fixed map[string]bool) []string) rule {
	return func(files []file) (broken []string) {
		fixed := map[string]bool{}
		for _, f := range files {
			for _, d := range f.syntax.Decls {
				for _, name := range declaredValues(d) {
					fixed[f.pkg+"."+name] = true
				}
			}
		}
		for _, f := range files {
			if top, _, _ := strings.Cut(f.path, "/"); top != "profiles" && top != "examples" {
				broken = append(broken, check(f, fixed)...)
			}
		}
		return broken
	}
}

func declaredValues(d ast.Decl) (names []string) {
	if d, ok := d.(*ast.GenDecl); ok {
		for _, spec := range d.Specs {
			if spec, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// clientNames searches the text of a file: identifiers, strings, tags, imports and
// comments. A word consists of letters and digits; an underscore separates words.
func clientNames(f file, _ map[string]bool) (broken []string) {
	notInWord := func(r rune) bool {
		return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}
	named := func(text string) string {
		for _, word := range strings.FieldsFunc(parted(text), notInWord) {
			if slices.Contains(namesOfClients, strings.ToLower(word)) {
				return word
			}
		}
		return ""
	}
	if word := named(f.path); word != "" {
		broken = append(broken, f.at(f.syntax, "the file has a client's name, %s", word))
	}
	for i, line := range strings.Split(string(f.source), "\n") {
		if word := named(line); word != "" {
			broken = append(broken, f.path+":"+strconv.Itoa(i+1)+": "+word+" is a client's name")
		}
	}
	return broken
}

func clientImports(f file, _ map[string]bool) (broken []string) {
	for _, im := range f.syntax.Imports {
		p, _ := strconv.Unquote(im.Path.Value) // cannot fail, because the file was parsed
		client := strings.HasPrefix(p, module+"examples/")
		for _, part := range strings.Split(p, "/") {
			client = client || slices.Contains(namesOfClients, part)
		}
		if client {
			broken = append(broken, f.at(im, "%s is a client's module", p))
		}
	}
	return broken
}

// ownedFieldNames checks that a field which belongs to clients has the Go name
// in owned, because clientBranches finds fields by name.
func ownedFieldNames(f file) (broken []string) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		tag, _ := strconv.Unquote(field.Tag.Value)
		_, member, _ := strings.Cut(tag, `json:"`)
		member, _, _ = strings.Cut(member, `"`)
		member, _, _ = strings.Cut(member, ",")
		for _, name := range field.Names {
			if want := owned[member]; want != "" && name.Name != want {
				broken = append(broken, f.at(field, "%s holds %s and must be named %s", name.Name, member, want))
			}
		}
		return true
	})
	return broken
}

// clientBranches checks the use of values that belong to clients: they may be
// copied and compared with other values, but not with values that are fixed in the
// program. A local variable that holds a client's value counts as the field. The check
// does not follow a value that is passed to another function.
func clientBranches(f file, fixed map[string]bool) (broken []string) {
	for _, d := range f.syntax.Decls {
		b := branches{file: f, fixed: fixed, local: map[string]bool{}, holds: map[string]string{}}
		b.learn(d)
		ast.Inspect(d, func(n ast.Node) bool {
			broken = append(broken, b.look(n)...)
			return true
		})
	}
	return broken
}

// branches is the state of the check of one declaration.
type branches struct {
	file
	fixed map[string]bool   // constants and variables of all packages
	local map[string]bool   // the constants in the declaration
	holds map[string]string // local variable with the value of an owned field → name of the field
}

func (b branches) learn(d ast.Decl) {
	put := func(to, from ast.Expr) {
		if id, ok := to.(*ast.Ident); ok && b.ownedIn(from) != "" {
			b.holds[id.Name] = b.ownedIn(from)
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) {
					put(n.Lhs[i], n.Rhs[i])
				}
			}
			if len(n.Lhs) == 2 && len(n.Rhs) == 1 { // a statement such as v, ok := m["client_id"]
				put(n.Lhs[0], n.Rhs[0])
			}
		case *ast.DeclStmt:
			if gen, ok := n.Decl.(*ast.GenDecl); ok && gen.Tok == token.CONST {
				for _, name := range declaredValues(gen) {
					b.local[name] = true
				}
			}
		case *ast.ValueSpec:
			for i := range min(len(n.Names), len(n.Values)) {
				put(n.Names[i], n.Values[i])
			}
		}
		return true
	})
}

func (b branches) look(n ast.Node) (broken []string) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if !slices.Contains([]token.Token{token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ}, n.Op) {
			return nil
		}
		for _, side := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
			if field := b.ownedIn(side[0]); field != "" && b.isFixed(side[1]) {
				broken = append(broken, b.at(n, "compares %s with a fixed value", field))
			}
		}
	case *ast.SwitchStmt:
		if field := b.ownedIn(n.Tag); field != "" {
			broken = append(broken, b.at(n, "switches on %s", field))
		}
	case *ast.IndexExpr:
		if field := b.ownedIn(n.Index); field != "" {
			broken = append(broken, b.at(n, "looks %s up in a table", field))
		}
		if b.ownedIn(n.X) == "Metadata" {
			broken = append(broken, b.at(n, "looks into Metadata"))
		}
	case *ast.RangeStmt:
		if b.ownedIn(n.X) == "Metadata" {
			broken = append(broken, b.at(n, "looks into Metadata"))
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "delete" && b.ownedIn(n.Args[0]) == "Metadata" {
			broken = append(broken, b.at(n, "looks into Metadata"))
		}
		if pkg, name := b.selected(n.Fun); slices.Contains(prying, pkg) {
			for _, arg := range n.Args {
				if field := b.ownedIn(arg); field != "" {
					broken = append(broken, b.at(n, "passes %s to %s.%s", field, pkg, name))
				}
			}
		}
	}
	return broken
}

// ownedIn returns the name of the owned field whose value an expression has, or "". The
// expression is a field of a struct, a member of a JSON object, or a local variable
// that has the value of the field.
func (b branches) ownedIn(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return b.ownedIn(e.X)
	case *ast.StarExpr:
		return b.ownedIn(e.X)
	case *ast.TypeAssertExpr:
		return b.ownedIn(e.X)
	case *ast.CallExpr: // only the conversion string(x) counts as x
		if id, ok := e.Fun.(*ast.Ident); ok && id.Name == "string" && len(e.Args) == 1 {
			return b.ownedIn(e.Args[0])
		}
	case *ast.Ident:
		return b.holds[e.Name]
	case *ast.SelectorExpr:
		for _, field := range owned {
			if e.Sel.Name == field {
				return field
			}
		}
	case *ast.IndexExpr:
		if lit, ok := e.Index.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			member, _ := strconv.Unquote(lit.Value)
			return owned[member]
		}
	}
	return ""
}

// isFixed reports whether a value is fixed in the program: a literal, a constant,
// a package variable, or an expression of these.
func (b branches) isFixed(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.ParenExpr:
		return b.isFixed(e.X)
	case *ast.BinaryExpr:
		return b.isFixed(e.X) || b.isFixed(e.Y)
	case *ast.CallExpr: // a conversion
		return len(e.Args) == 1 && b.isFixed(e.Args[0])
	case *ast.Ident:
		return b.local[e.Name] || b.fixed[b.pkg+"."+e.Name]
	case *ast.SelectorExpr:
		pkg, _ := b.selected(e)
		return pkg != "" // a constant or variable of another package
	}
	return false
}
