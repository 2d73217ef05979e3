package archtest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDependenciesNameTheirUsers checks that the column "where" of DEPENDENCIES.md is
// true, and that the document lists every library. It also checks that each package
// which may import a library, by the table libraries, does import the library.
func TestDependenciesNameTheirUsers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "DEPENDENCIES.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := tree(t)
	for _, line := range whereColumn(string(text), files) {
		t.Error(line)
	}
	imported := importers(files, slices.Collect(maps.Keys(libraries)))
	for library, users := range libraries {
		for _, p := range users {
			if !slices.Contains(imported[library], p) {
				t.Errorf("%s may import %s and does not: remove it from lists_test.go", p, library)
			}
		}
	}
}

// whereColumn compares the packages that DEPENDENCIES.md names for each module of the
// program with the packages that import it.
func whereColumn(text string, files []file) (broken []string) {
	_, section, _ := strings.Cut(text, "\n## In the program\n")
	section, others, _ := strings.Cut(section, "\n## ")
	where := map[string][]string{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| `") && len(cells) > 3 {
			for _, module := range quoted(cells[1]) {
				where[module] = quoted(cells[2])
			}
		}
	}
	modules := slices.Sorted(maps.Keys(where))
	imported := importers(files, modules)
	for _, module := range modules {
		if !slices.Equal(where[module], imported[module]) {
			broken = append(broken, "DEPENDENCIES.md: "+module+" is imported by "+strings.Join(imported[module], " ")+", not by "+strings.Join(where[module], " "))
		}
	}
	for _, library := range slices.Sorted(maps.Keys(libraries)) {
		listed := slices.ContainsFunc(modules, func(module string) bool { return within(module, library) || within(library, module) })
		if !listed && !strings.Contains(others, "| `"+library) {
			broken = append(broken, "DEPENDENCIES.md does not list "+library)
		}
	}
	return broken
}

// quoted returns the words between backquotes, sorted.
func quoted(cell string) (names []string) {
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			names = append(names, part)
		}
	}
	slices.Sort(names)
	return names
}

// importers returns for each library the packages of the product that import it, sorted.
func importers(files []file, libraries []string) map[string][]string {
	users := map[string][]string{}
	for _, f := range files {
		for _, im := range f.syntax.Imports {
			p, _ := strconv.Unquote(im.Path.Value) // cannot fail, because the file was parsed
			for _, library := range libraries {
				if product(f) && within(p, library) && !slices.Contains(users[library], f.pkg) {
					users[library] = append(users[library], f.pkg)
				}
			}
		}
	}
	for _, packages := range users {
		slices.Sort(packages)
	}
	return users
}

// within reports whether a path is a library, or in its folder.
func within(path, library string) bool {
	return path == library || strings.HasPrefix(path, library+"/")
}

func TestWhereColumnFindsFaults(t *testing.T) {
	files := []file{
		plant(t, "hosts/x.go", "package hosts\nimport \"golang.org/x/term\"\n"),
		plant(t, "bench/x.go", "package main\nimport \"golang.org/x/term\"\n"),
	}
	table := func(where string) string {
		return "\n## In the program\n| `golang.org/x/term` | " + where + " | why |\n"
	}
	check := func(where, want string) {
		t.Helper()
		found := slices.DeleteFunc(whereColumn(table(where), files), func(s string) bool { return strings.Contains(s, "does not list") })
		expect(t, where, found, want)
	}
	check("`hosts`", "")
	check("`harness` `hosts`", "is imported by hosts, not by harness hosts")
	check("`harness`", "is imported by hosts, not by harness")
	expect(t, "a module without a row", whereColumn(table("`hosts`"), files), "does not list golang.org/x/sys")
}
