package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A file is the source and syntax of one Go file.
type file struct {
	path    string // relative to the root
	source  []byte
	pkg     string // the folder of the file
	syntax  *ast.File
	imports map[string]string // local name → path
	fset    *token.FileSet
}

// at formats the report of a violation.
func (f file) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", f.path, f.fset.Position(n.Pos()).Line, fmt.Sprintf(format, args...))
}

// selected returns the package path and the name of an expression pkg.Name, or
// two empty strings. It mistakes a variable that shadows a package for the
// package.
func (f file) selected(n ast.Node) (pkg, name string) {
	if s, ok := n.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok && f.imports[x.Name] != "" {
			return f.imports[x.Name], s.Sel.Name
		}
	}
	return "", ""
}

const module = "lifeloop/"

// ours returns the folder of a package of this module.
func ours(importPath string) (folder string, ok bool) { return strings.CutPrefix(importPath, module) }

func parse(name string, source []byte) (file, error) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return file{}, err
	}
	f := file{path: name, source: source, pkg: path.Dir(name), syntax: syntax, imports: map[string]string{}, fset: fset}
	for _, im := range syntax.Imports {
		p, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			return file{}, err
		}
		called := strings.TrimPrefix(path.Base(p), "go-") // package go-yaml is called yaml, for example
		if im.Name != nil {
			called = im.Name.Name
		}
		f.imports[called] = p
	}
	return f, nil
}

func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// tree returns the files of the project without its tests.
func tree(t *testing.T) []file {
	t.Helper()
	return slices.DeleteFunc(everyFile(t), file.isTest)
}

// everyFile reads the Go files of the project, except test data and folders whose
// name begins with a dot. It includes the programs in the root's testdata.
func everyFile(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	var files []file
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" && name != "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		source, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		f, err := parse(name, source)
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("only %d files below %s, so it is not the project", len(files), root)
	}
	return files
}

func words(s string) []string { return strings.Fields(s) }

func product(f file) bool { return !slices.Contains(outside, f.pkg) }
