package contracttest

import (
	"os"
	"path/filepath"
	"regexp"
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
	require.ElementsMatch(t, kinds, documented)
}
