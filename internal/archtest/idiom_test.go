package archtest

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// idiom matches words and phrases that readers found hard to understand.
// Write instead that a program emits, reports, receives or reads, and name the actor.
var idiom = regexp.MustCompile(`(?i)\b(told|tells|teller|heard|hears|deaf|lame|whoever|whyever|nobody|somebody|(?:gone|goes|went) on|of which|` +
	`bec[ao]mes? of|the one before (?:it|that)|excludes --\w+|in the midst|in vain|for good|that is none|whatever happen(?:s|ed)|` +
	`lets? go of|folds? (?:one|an?|each) (?:fact|entry)|lest|thereof|therein|hereby|wherein|whereby|hence|thence|whence)\b`)

// spelled matches text in which idiom words are allowed: names in stored
// formats, scenario commands, and a quotation.
var spelled = regexp.MustCompile(`hook_heard|version_told|^deaf$|caller told by session_closed`)

// fragments make a fast first test: each idiom contains one of them. Searching
// them is much faster than the expression.
var fragments = append(words("told tell hear deaf lame ever body lest thereof herein hereby whereby hence fold"), "gone on", "goes on", "went on", "of which",
	"me of", "mes of", "one before", "excludes --", "in the midst", "in vain", "for good", "is none", "go of")

// idiomIn returns the words in a text that idiom matches.
func idiomIn(text string) []string {
	lower := strings.ToLower(text)
	if !slices.ContainsFunc(fragments, func(f string) bool { return strings.Contains(lower, f) }) {
		return nil
	}
	return idiom.FindAllString(spelled.ReplaceAllString(text, ""), -1)
}

// plainEnglish checks the names, comments and string literals of one file.
func plainEnglish(f file) (broken []string) {
	find := func(n ast.Node, text string) {
		for _, word := range idiomIn(text) {
			broken = append(broken, f.at(n, "%q: say it in plain English", word))
		}
	}
	for _, group := range f.syntax.Comments {
		for _, comment := range group.List {
			find(comment, comment.Text)
		}
	}
	literals(f, find)
	seen := map[string]bool{}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !seen[id.Name] {
			seen[id.Name] = true
			find(id, parted(id.Name))
		}
		return true
	})
	return broken
}

// TestPlainEnglish checks Go files, documents, and the comments of scenarios.
func TestPlainEnglish(t *testing.T) {
	for _, f := range everyFile(t) {
		if f.path == "internal/archtest/idiom_test.go" {
			continue // this file lists the words
		}
		for _, line := range plainEnglish(f) {
			t.Error(line)
		}
	}
	root := filepath.Join("..", "..")
	if err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		scenario := strings.Contains(filepath.ToSlash(at), "/testdata/")
		switch {
		case d.IsDir() && (d.Name() == "contract" && scenario || len(d.Name()) > 2 && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir // the contract's own examples; hidden folders
		case d.IsDir(), scenario && !strings.HasSuffix(at, ".txt"), !scenario && !strings.HasSuffix(at, ".md"):
			return nil
		}
		text, err := os.ReadFile(at)
		for i, line := range strings.Split(string(text), "\n") {
			if scenario && !strings.HasPrefix(line, "# ") {
				continue // a command, or what it printed
			}
			for _, word := range idiomIn(line) {
				t.Errorf("%s:%d: %q: say it in plain English", at, i+1, word)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestIdiomIsFound(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"// It is told twice.\nvar a = 1", "told"},
		{`const a = "nobody is there"`, "nobody"},
		{`func toldTwice() {}`, "told"},
		{"// The session\n// goes on.\nvar a = 1", "goes on"},
		{"// It records what became of the call.\nvar a = 1", "became of"},
		{"// It continues the one before it.\nvar a = 1", "the one before it"},
		{`const a = "--follow excludes --json"`, "excludes --json"},
		{"// The lock is held, lest two write.\nvar a = 1", "lest"},
		{"// Apply folds one fact.\nvar a = 1", "folds one fact"},
		{`const a = "hook_heard"`, ""},
		{`const a = "it is reported"`, ""},
	} {
		expect(t, c.source, plainEnglish(plant(t, "kernel/x.go", "package p\n"+c.source+"\n")), c.want)
	}
}
