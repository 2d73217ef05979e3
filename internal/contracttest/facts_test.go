package contracttest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var factKind = regexp.MustCompile(`\) key\(\) +\(string, bool\) +\{ return "([a-z_]+)",`)

// docs/facts.md has a row for every kind of fact, and for no other.
func TestFactsAreDocumented(t *testing.T) {
	var kinds []string
	files, err := filepath.Glob(filepath.Join(root, "kernel", "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range factKind.FindAllSubmatch(source, -1) {
			kinds = append(kinds, string(m[1]))
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "facts.md"))
	require.NoError(t, err)
	var documented []string
	for line := range strings.Lines(string(text)) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| `") {
			for _, word := range strings.Fields(cell) {
				documented = append(documented, strings.Trim(word, "`"))
			}
		}
	}
	require.NotEmpty(t, kinds)
	for _, kind := range kinds {
		if !slices.Contains(documented, kind) {
			t.Errorf("docs/facts.md has no row for the fact %s", kind)
		}
	}
	for _, kind := range documented {
		if !slices.Contains(kinds, kind) {
			t.Errorf("docs/facts.md has a row for %s, and package kernel has no such fact", kind)
		}
	}
	require.Len(t, documented, len(kinds), "docs/facts.md has one row for each fact")
}
