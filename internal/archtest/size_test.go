package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

const (
	longestFunction = 80 // the most lines of a function
	widestStruct    = 15 // the most fields of a struct in package kernel
	longestRun      = 249
	runFile         = "cmd/lifeloop-wrap/run.go" // wires a session, and decides nothing
)

// sizes checks the length of a file's functions, the number of fields of the structs in
// package kernel and in its tests, and the length of runFile.
func sizes(f file) (broken []string) {
	if lines := f.fset.File(f.syntax.Pos()).LineCount(); f.path == runFile && lines > longestRun {
		broken = append(broken, f.at(f.syntax, "the file has %d lines, and may have %d: move what decides to the packages below", lines, longestRun))
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if lines := f.fset.Position(n.End()).Line - f.fset.Position(n.Pos()).Line + 1; lines > longestFunction {
				broken = append(broken, f.at(n, "%s has %d lines, and may have %d: split it", n.Name.Name, lines, longestFunction))
			}
		case *ast.StructType: // with or without a name, for example the type of a field
			if f.pkg == "kernel" && n.Fields.NumFields() > widestStruct {
				broken = append(broken, f.at(n, "the struct has %d fields, and may have %d: split it", n.Fields.NumFields(), widestStruct))
			}
		}
		return true
	})
	return broken
}

func TestSizes(t *testing.T) {
	for _, f := range everyFile(t) {
		for _, line := range sizes(f) {
			t.Error(line)
		}
	}
}

func TestSizesAreFound(t *testing.T) {
	long := "func f() {" + strings.Repeat("\n", longestFunction) + "}"
	wide := "type t struct {" + strings.Repeat("a, b, c, d int\n", 4) + "}"
	expect(t, "a long function", sizes(plant(t, "view/x_test.go", "package p\n"+long+"\n")), "f has 81 lines")
	expect(t, "a wide struct", sizes(plant(t, "kernel/x.go", "package p\n"+wide+"\n")), "the struct has 16 fields")
	expect(t, "a wide struct in a test", sizes(plant(t, "kernel/x_test.go", "package p\n"+wide+"\n")), "the struct has 16 fields")
	expect(t, "a wide part of a struct", sizes(plant(t, "kernel/x.go", "package p\ntype t struct {\nhard "+strings.TrimPrefix(wide, "type t ")+"\n}\n")), "x.go:3: the struct has 16 fields")
	expect(t, "a long run.go", sizes(plant(t, runFile, "package p\n"+strings.Repeat("var _ = 1\n", longestRun))), "the file has 250 lines")
	expect(t, "a long file elsewhere", sizes(plant(t, "view/x.go", "package p\n"+strings.Repeat("var _ = 1\n", longestRun))), "")
	expect(t, "a wide struct elsewhere", sizes(plant(t, "view/x.go", "package p\n"+wide+"\n")), "")
}
