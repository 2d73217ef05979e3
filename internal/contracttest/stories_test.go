package contracttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStories checks the table of end-to-end stories: no cell is empty, and every test
// of package e2e that a cell names exists.
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

// TestCapabilities checks the states of capabilities that `make e2e-newest` prints, from
// the table of capabilities in docs/harnesses/stories.md and from the test results.
func TestCapabilities(t *testing.T) {
	results := filepath.Join(t.TempDir(), "results")
	require.NoError(t, os.WriteFile(results, []byte(`version Claude Code 2.1.332
version Gemini CLI missing
holds    TestClaude/simple_turn
holds    TestClaudePrint/simple_turn
CHANGED  TestClaude/API_error
holds    TestClaudePrint/API_error
skipped  TestClaude/compact
CHANGED  TestCodexAsks/in_a_terminal
holds    TestCodexAsks2/in_a_terminal
`), 0o600))
	out, err := exec.Command("awk", "-f", filepath.Join(root, "scripts", "capabilities.awk"), filepath.Join(root, "docs", "harnesses", "stories.md"), results).CombinedOutput()
	require.NoError(t, err, string(out))
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		harness, rest, _ := strings.Cut(strings.Join(strings.Fields(line), " "), " ")
		for _, state := range []string{"proven", "changed", "lost", "not played"} {
			if capability, ok := strings.CutSuffix(rest, " "+state); ok {
				got[harness+" "+capability] = state
			}
		}
	}
	require.Equal(t, "proven", got["Claude Code 2.1.332 frame.opening, frame.opened"])
	require.Equal(t, "changed", got["Claude Code 2.1.332 frame.ending, frame.ended"])
	require.Equal(t, "not played", got["Claude Code 2.1.332 context.compacted"])
	require.Equal(t, "lost", got["Codex approval"])
	require.Equal(t, "not played", got["Gemini CLI missing approval"])
	require.Len(t, got, 4*13)
}
