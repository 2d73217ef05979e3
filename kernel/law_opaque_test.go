package kernel

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lifeloop/lifeloop"
)

// open are the objects that the contract leaves open. Their types prove nothing,
// so [TestOpenObjectsDoNotPrintABody] tests them.
var open = []string{
	"observed.Record.Data[] is interface {}, which can hold anything",
	"receipt_issued.Receipt.TelemetrySummary[] is interface {}, which can hold anything",
}

// TestNoFactCanHoldABody is the law of opacity: no fact can hold the body of a
// payload, so no body can reach the ledger. A fact contains no lifeloop.Opaque. A value
// whose type could hide a body, such as an interface, must be listed in the variable
// named open.
func TestNoFactCanHoldABody(t *testing.T) {
	var found []string
	for _, zero := range registry {
		for _, leak := range leaks(reflect.TypeOf(zero), nil) {
			found = append(found, Kind(zero)+leak)
		}
	}
	if !slices.Equal(found, open) {
		t.Errorf("a body could get into\n%q\nand it is known to be safe in\n%q", found, open)
	}
}

func TestOpenObjectsDoNotPrintABody(t *testing.T) {
	const canary = "the body of a payload"
	inside := map[string]any{"a": lifeloop.NewOpaque(canary), "b": []any{map[string]any{"c": lifeloop.NewOpaque(canary)}}}
	for _, f := range []Fact{
		Observed{Record: lifeloop.EventRecord{Data: inside}},
		ReceiptIssued{Receipt: lifeloop.Receipt{TelemetrySummary: inside}},
	} {
		kind, body, err := Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(body), canary) {
			t.Errorf("fact %s prints the body: %s", kind, body)
		}
		if text := fmt.Sprintf("%v %+v %#v", f, f, f); strings.Contains(text, canary) {
			t.Errorf("fact %s prints the body: %s", kind, text)
		}
	}
}

// leaks are the paths from t to a body. seen are the types on the path to t.
func leaks(t reflect.Type, seen []reflect.Type) (found []string) {
	below := func(step string, next reflect.Type) {
		for _, leak := range leaks(next, append(slices.Clone(seen), t)) {
			found = append(found, step+leak)
		}
	}
	switch {
	case t == reflect.TypeFor[lifeloop.Opaque]():
		return []string{" is a payload body"}
	case slices.Contains(seen, t):
		return nil
	case t.PkgPath() == "time":
		return nil // a time.Time has a pointer to its time zone, which holds no body
	}
	switch t.Kind() {
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return []string{fmt.Sprintf(" is %s, which can hold anything", t)}
	case reflect.Pointer:
		below("", t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return []string{fmt.Sprintf(" is %s, which can hold a body's bytes", t)}
		}
		below("[]", t.Elem())
	case reflect.Map:
		below("[key]", t.Key())
		below("[]", t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			below("."+f.Name, f.Type)
		}
	}
	return found
}

func TestLeaksAreFound(t *testing.T) {
	type loop struct {
		Next *loop
		Body *lifeloop.Opaque
	}
	for _, c := range []struct {
		name string
		in   any
		want string
	}{
		{"a plain fact", Began{}, ""},
		{"a body", struct{ B lifeloop.Opaque }{}, ".B is a payload body"},
		{"a whole payload", struct{ P []lifeloop.PayloadEnvelope }{}, ".P[].Body is a payload body; .P[].Metadata[] is interface {}, which can hold anything"},
		{"a body in a map's value", struct{ M map[string][]lifeloop.Opaque }{}, ".M[][] is a payload body"},
		{"a hidden field counts", struct{ b lifeloop.Opaque }{}, ".b is a payload body"},
		{"a type that holds itself", loop{}, ".Body is a payload body"},
		{"anything", struct{ A any }{}, ".A is interface {}, which can hold anything"},
		{"bytes", struct{ Raw []byte }{}, ".Raw is []uint8, which can hold a body's bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(leaks(reflect.TypeOf(c.in), nil), "; "); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// TestEveryFactIsRegistered: TestNoFactCanHoldABody would not check a fact that is
// missing in the registry, and such a fact could not be read back from the ledger.
func TestEveryFactIsRegistered(t *testing.T) {
	var facts []string
	for _, f := range sources(t) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "apply" {
				facts = append(facts, fn.Recv.List[len(fn.Recv.List)-1].Type.(*ast.Ident).Name)
			}
		}
	}
	var known, kinds []string
	for _, zero := range registry {
		known = append(known, reflect.TypeOf(zero).Name())
		kinds = append(kinds, Kind(zero))
	}
	slices.Sort(facts)
	slices.Sort(known)
	if !slices.Equal(facts, known) {
		t.Errorf("facts are %v\nthe registry has %v", facts, known)
	}
	slices.Sort(kinds)
	if len(slices.Compact(kinds)) != len(known) {
		t.Errorf("two facts have the same kind: %v", kinds)
	}
}

// sources are the files of the package, without its tests.
func sources(t *testing.T) (files []*ast.File) {
	paths, err := filepath.Glob("*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no source to look at: %v", err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fileSet, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

var fileSet = token.NewFileSet()
