package contracttest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// rulings matches references to rulings: a single one, a list or a range.
	rulings  = regexp.MustCompile(`DECISIONS(?:\.md)?,? ((?:[A-Z]\d+(?:, | to | and )?)+)`)
	ruling   = regexp.MustCompile(`[A-Z]\d+`)
	wrapping = regexp.MustCompile(`\s+(?://|#)?\s*`)
)

// named returns the rulings that a text refers to.
func named(text string) []string {
	var out []string
	for _, m := range rulings.FindAllStringSubmatch(wrapping.ReplaceAllString(text, " "), -1) {
		out = append(out, ruling.FindAllString(m[1], -1)...)
	}
	return out
}

func TestNamed(t *testing.T) {
	require.Equal(t, []string{"L4"}, named("as ruled (DECISIONS L4)."))
	require.Equal(t, []string{"H2", "H4"}, named("\t// ended (DECISIONS\n\t// H2, H4)."))
	require.Equal(t, []string{"Z1", "Z15"}, named("(docs/DECISIONS.md, Z1 to Z15)"))
	require.Empty(t, named("(DECISIONS, Crashes)"))
}

// Every ruling that a comment or a document refers to is in docs/DECISIONS.md.
func TestEveryRulingThatIsNamedIsWrittenDown(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(root, "docs", "DECISIONS.md"))
	require.NoError(t, err)
	n := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(path); d.IsDir() || ext != ".go" && ext != ".md" || strings.Contains(path, "internal/contracttest/") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, name := range named(string(text)) {
			n++
			if !strings.Contains(string(list), "**"+name+"**") {
				t.Errorf("%s names ruling %s, which docs/DECISIONS.md does not have", strings.TrimPrefix(path, root+"/"), name)
			}
		}
		return err
	}))
	require.Greater(t, n, 50)
}
