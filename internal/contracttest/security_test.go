package contracttest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A threat is a row of docs/security.md: | threat | how it is held | test | not defended |
type threat struct {
	line  string
	tests []string
}

var testName = regexp.MustCompile("`([a-z][a-zA-Z0-9_/-]*)\\.((?:Test|Fuzz)[A-Za-z0-9_/]*)`")

func threats(text string) (rows []threat) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) != 4 || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[0]) == "threat" {
			continue
		}
		row := threat{line: strings.TrimSpace(cells[0])}
		for _, m := range testName.FindAllStringSubmatch(cells[2], -1) {
			row.tests = append(row.tests, m[1]+"."+m[2])
		}
		rows = append(rows, row)
	}
	return rows
}

// Each threat names a test, and every test that is named exists.
func TestEveryThreatHasItsTest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	require.NoError(t, err)
	rows := threats(string(text))
	require.Greater(t, len(rows), 20)
	exists := inRepository(t)
	for _, row := range rows {
		if len(row.tests) == 0 {
			t.Errorf("%q names no test", row.line)
		}
		for _, name := range row.tests {
			folder, test, _ := strings.Cut(name, ".")
			if !exists(folder, test) {
				t.Errorf("%q: %s does not exist", row.line, name)
			}
		}
	}
}

func TestThreats(t *testing.T) {
	require.Equal(t, []threat{{line: "A reads B", tests: []string{"cmd/lifeloop-wrap.TestScripts/run_x", "ledger.TestY"}}, {line: "C"}},
		threats("# X\n| threat | how it is held | test | not defended |\n|---|---|---|---|\n"+
			"| A reads B | `chmod` | `cmd/lifeloop-wrap.TestScripts/run_x`, `ledger.TestY` (part) | root |\n| C | no | by hand | |\n"))
}
