package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A rule checks the whole project and returns its violations.
type rule func([]file) []string

var rules = map[string]rule{
	"layers":        layering,
	"libraries":     libraryUse,
	"purity":        purity,
	"comments":      comments,
	"dialects":      dialectWords,
	"harness names": harnessNames,
	"client words":  clientVocabulary,
	"state":         packageState,
	"tickers":       tickers,
}

// each returns a rule that applies a check to every file except those of the packages
// in outside.
func each(check func(file) []string) rule {
	return func(files []file) (broken []string) {
		for _, f := range files {
			if product(f) {
				broken = append(broken, check(f)...)
			}
		}
		return broken
	}
}

// layering checks that a package has a layer and imports only lower layers.
func layering(files []file) (broken []string) {
	rank := map[string]int{}
	for i, layer := range layers {
		for _, p := range layer {
			rank[p] = i
		}
	}
	for _, f := range files {
		if !product(f) {
			continue
		}
		me, known := rank[f.pkg]
		if !known {
			broken = append(broken, f.at(f.syntax, "package %s has no layer: add it to lists_test.go", f.pkg))
			continue
		}
		for _, im := range f.syntax.Imports {
			p, _ := strconv.Unquote(im.Path.Value) // cannot fail, because the file was parsed
			own, ok := ours(p)
			if !ok {
				continue
			}
			switch other, known := rank[own]; {
			case slices.Contains(outside, own):
				broken = append(broken, f.at(im, "the product imports %s, which is for tests", own))
			case known && other >= me:
				broken = append(broken, f.at(im, "%s (layer %d) imports %s (layer %d): imports go down only", f.pkg, me, own, other))
			case slices.Contains(forbidden[f.pkg], own):
				broken = append(broken, f.at(im, "%s may not import %s: its decisions arrive as a kernel.Output", f.pkg, own))
			}
		}
	}
	return broken
}

// libraryUse checks that only the listed packages import a library, and that none
// imports a costly package of the standard library.
var libraryUse = each(func(f file) (broken []string) {
	for _, im := range f.syntax.Imports {
		p, _ := strconv.Unquote(im.Path.Value)
		if slices.Contains(costly, p) {
			broken = append(broken, f.at(im, "%s imports %s, which makes every start slower: see DEPENDENCIES.md", f.pkg, p))
		}
		if host, _, _ := strings.Cut(p, "/"); !strings.Contains(host, ".") {
			continue // a package of this module or of the standard library
		}
		var users []string
		for library, in := range libraries {
			if p == library || strings.HasPrefix(p, library+"/") {
				users = in
			}
		}
		if !slices.Contains(users, f.pkg) {
			broken = append(broken, f.at(im, "%s imports %s: only %v may", f.pkg, p, users))
		}
	}
	return broken
})

// purity checks that a pure package uses no clock, files, goroutines, locks,
// logs or random numbers.
var purity = each(func(f file) (broken []string) {
	if !slices.Contains(pure, f.pkg) {
		return nil
	}
	for _, im := range f.syntax.Imports {
		p, _ := strconv.Unquote(im.Path.Value)
		own, isOurs := ours(p)
		switch {
		case im.Name != nil && im.Name.Name == ".":
			broken = append(broken, f.at(im, "a dot import hides the package of a call"))
		case isOurs && !slices.Contains(pure, own):
			broken = append(broken, f.at(im, "pure package imports %s, which is not pure", own))
		case !isOurs && !slices.Contains(pureImports, p):
			broken = append(broken, f.at(im, "pure package imports %s", p))
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			broken = append(broken, f.at(n, "pure package starts a goroutine"))
		case *ast.ChanType, *ast.SelectStmt:
			broken = append(broken, f.at(n, "pure package has a channel"))
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "print" || x.Name == "println") {
				broken = append(broken, f.at(n, "pure package calls %s", x.Name))
			}
		case *ast.SelectorExpr:
			if p, name := f.selected(n); slices.Contains(worldly[p], name) {
				broken = append(broken, f.at(n, "pure package uses %s.%s", path.Base(p), name))
			}
		}
		return true
	})
	return broken
})

// comments checks that every package has one package comment, which begins with
// its name unless it is a program.
func comments(files []file) (broken []string) {
	commented := map[string]file{}
	first := map[string]file{}
	for _, f := range files {
		if _, seen := first[f.pkg]; !seen {
			first[f.pkg] = f
		}
		if f.syntax.Doc == nil {
			continue
		}
		if other, twice := commented[f.pkg]; twice {
			broken = append(broken, f.at(f.syntax.Doc, "package %s already has its comment in %s", f.pkg, path.Base(other.path)))
		}
		commented[f.pkg] = f
		name := f.syntax.Name.Name
		if want := "Package " + name + " "; name != "main" && !strings.HasPrefix(f.syntax.Doc.Text(), want) {
			broken = append(broken, f.at(f.syntax.Doc, "the package comment does not begin with %q", want))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(first)) {
		if _, ok := commented[p]; !ok {
			broken = append(broken, first[p].at(first[p].syntax, "package %s has no comment", p))
		}
	}
	return broken
}

// literals calls yield with the value of every string literal except import
// paths.
func literals(f file, yield func(n ast.Node, value string)) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if value, err := strconv.Unquote(lit.Value); err == nil {
				yield(n, value)
			}
		}
		return true
	})
}

// pieces returns the words of a text; the characters _ - and . do not separate
// words.
func pieces(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return !(r == '_' || r == '-' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	})
}

// dialectWords checks that the words of other protocols occur only in the
// packages that translate them.
var dialectWords = each(func(f file) (broken []string) {
	literals(f, func(n ast.Node, value string) {
		for _, d := range dialects {
			if slices.Contains(d.in, f.pkg) {
				continue
			}
			for _, piece := range pieces(value) {
				if slices.Contains(d.words, piece) {
					broken = append(broken, f.at(n, "%s is a word of %s: write it in %v only", piece, d.name, d.in))
				}
			}
		}
	})
	return broken
})

// harnessNames checks that no code names a harness, in a literal or an
// identifier.
var harnessNames = each(func(f file) (broken []string) {
	if slices.Contains(harnessesIn, f.pkg) {
		return nil
	}
	name := func(s string) string {
		for _, h := range harnesses {
			if strings.Contains(strings.ToLower(s), h) {
				return h
			}
		}
		return ""
	}
	literals(f, func(n ast.Node, value string) {
		sentence := strings.ContainsAny(strings.TrimSpace(value), " \n")
		if h := name(value); h != "" && !(f.pkg == harnessHelp && sentence) {
			broken = append(broken, f.at(n, "%q may be written in %v only; use the manifest or the profile", h, harnessesIn))
		}
	})
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name(id.Name) != "" {
			broken = append(broken, f.at(n, "%s is named after a harness; use the manifest or the profile", id.Name))
		}
		return true
	})
	return broken
})

// clientVocabulary checks that the words of clients do not occur, not even in
// comments.
var clientVocabulary = each(func(f file) (broken []string) {
	if slices.Contains(clientWordsIn, f.pkg) {
		return nil
	}
	find := func(n ast.Node, text string) {
		if word := clientWords.FindString(text); word != "" {
			broken = append(broken, f.at(n, "%q is a client's word", word))
		}
	}
	for _, group := range f.syntax.Comments {
		find(group, group.Text())
	}
	literals(f, find)
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			find(id, parted(id.Name))
		}
		return true
	})
	return broken
})

// parted separates the words of Go names in a text: isABCName is "is ABC Name".
func parted(text string) string { return camel.ReplaceAllString(text, "$1$3 $2$4") }

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// tickers checks that there is no ticker, so that an idle session uses no processor
// time. Timers are allowed.
var tickers = each(func(f file) (broken []string) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if p, name := f.selected(n); p == "time" && (name == "NewTicker" || name == "Tick") {
			broken = append(broken, f.at(n, "time.%s wakes an idle program: set a timer for the next event", name))
		}
		return true
	})
	return broken
})
