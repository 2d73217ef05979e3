package contracttest

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStories checks the table of end-to-end stories: each cell has a test that exists
// or a reason.
func TestStories(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(root, "docs", "harnesses", "stories.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, "e2e", "*_test.go"))
	require.NoError(t, err)
	source := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		source += string(text)
	}
	test := regexp.MustCompile("`(Test[A-Za-z]+)(?:/([^`]+))?`")
	rows, tests := 0, 0
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| story") {
			continue
		}
		rows++
		for i, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("column %d of %q is empty", i+1, cells[0])
			}
		}
		for _, m := range test.FindAllStringSubmatch(line, -1) {
			tests++
			if !strings.Contains(source, "func "+m[1]+"(t *testing.T)") {
				t.Errorf("%s: there is no test %s", cells[0], m[1])
			}
			if m[2] != "" && !strings.Contains(source, strconv.Quote(m[2])) {
				t.Errorf("%s: there is no story %q for %s", cells[0], m[2], m[1])
			}
		}
	}
	if rows < 20 || tests < 90 {
		t.Errorf("the table has %d rows with %d tests", rows, tests)
	}
}
