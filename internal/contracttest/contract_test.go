package contracttest

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// A row of a table: | sentence | test, test | status |
type row struct {
	line     int
	sentence string
	tests    []string
	status   string
	why      string // the text after "later: " or "out: "
}

func rows(t *testing.T, file string) []row {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var out []row
	scan := bufio.NewScanner(f)
	for line := 1; scan.Scan(); line++ {
		text := strings.TrimSpace(scan.Text())
		if !strings.HasPrefix(text, "|") || strings.HasPrefix(text, "|---") || strings.HasPrefix(text, "| sentence ") {
			continue
		}
		cells := strings.Split(strings.Trim(text, "|"), "|")
		require.Len(t, cells, 3, "%s:%d: a row has three cells", file, line)
		r := row{line: line, sentence: strings.TrimSpace(cells[0]), status: strings.TrimSpace(cells[2])}
		r.status, r.why, _ = strings.Cut(r.status, ": ")
		for _, name := range strings.Split(cells[1], ",") {
			if name = strings.TrimSpace(name); name != "" {
				r.tests = append(r.tests, name)
			}
		}
		out = append(out, r)
	}
	require.NoError(t, scan.Err())
	return out
}

// problems returns the errors of a row. exists reports whether a folder has a
// test function; for a name such as "Test/file" exists also checks that the test has
// a scenario file, a script or an L0 scenario of that name.
func problems(r row, exists func(folder, test string) bool) []string {
	var out []string
	if r.sentence == "" {
		out = append(out, "the row has no sentence")
	}
	switch r.status {
	case "proven":
		if len(r.tests) == 0 {
			out = append(out, "proven, but names no test")
		}
	case "later", "out":
		if len(r.tests) > 0 {
			out = append(out, r.status+", but names a test")
		}
		if r.why == "" {
			out = append(out, r.status+", but gives no reason")
		}
	default:
		out = append(out, fmt.Sprintf("status %q is neither proven nor later nor out", r.status))
	}
	for _, name := range r.tests {
		folder, test, ok := strings.Cut(name, ".")
		switch {
		case !ok:
			out = append(out, name+" is not written as folder.Test or folder.Test/file")
		case !exists(folder, test):
			out = append(out, name+" does not exist")
		case (test == "TestScripts" || test == "TestScenarios") && !slices.Contains(r.tests, "kernel.TestLaws"):
			out = append(out, name+" has many files: name the one that fails")
		}
	}
	return out
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

func inRepository(t *testing.T) func(folder, test string) bool {
	known := map[string][]string{}
	_, worlds := l0Scenarios(t)
	l0 := slices.Concat(slices.Collect(maps.Values(worlds))...)
	return func(folder, test string) bool {
		test, file, one := strings.Cut(test, "/")
		world := folder+"."+test == "simulate.TestL0Scenarios" && slices.Contains(l0, file)
		if one && !world && !isFile(folder, "testdata", file+".txt") && !isFile(folder, "testdata", "script", file+".txt") {
			return false
		}
		names, seen := known[folder]
		if !seen {
			files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				source, err := os.ReadFile(file)
				require.NoError(t, err)
				for _, m := range testFunc.FindAllSubmatch(source, -1) {
					names = append(names, string(m[1]))
				}
			}
			known[folder] = names
		}
		return slices.Contains(names, test)
	}
}

func isFile(folder string, below ...string) bool {
	info, err := os.Stat(filepath.Join(root, folder, filepath.Join(below...)))
	return err == nil && info.Mode().IsRegular()
}

func TestEveryListedTestExists(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "contract", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	exists := inRepository(t)
	for _, file := range files {
		all := rows(t, file)
		require.NotEmpty(t, all, file)
		for _, r := range all {
			for _, p := range problems(r, exists) {
				t.Errorf("%s:%d: %s", filepath.Base(file), r.line, p)
			}
		}
	}
}

// problems finds each kind of error in a row.
func TestFalseRowsAreFound(t *testing.T) {
	exists := inRepository(t)
	for _, c := range []struct {
		row  row
		want []string
	}{
		{row{sentence: "s", status: "proven", tests: []string{"internal/contracttest.TestFalseRowsAreFound"}}, nil},
		{row{sentence: "s", status: "proven"}, []string{"proven, but names no test"}},
		{row{sentence: "s", status: "later", why: "not built", tests: []string{"internal/contracttest.TestFalseRowsAreFound"}}, []string{"later, but names a test"}},
		{row{sentence: "s", status: "proven", tests: []string{"internal/contracttest.TestThatNobodyWrote"}}, []string{"internal/contracttest.TestThatNobodyWrote does not exist"}},
		{row{sentence: "s", status: "proven", tests: []string{"nowhere.TestX"}}, []string{"nowhere.TestX does not exist"}},
		{row{sentence: "s", status: "proven", tests: []string{"TestX"}}, []string{"TestX is not written as folder.Test or folder.Test/file"}},
		{row{sentence: "s", status: "proven", tests: []string{"kernel.TestScenarios/idempotency", "cmd/lifeloop-wrap.TestScripts/frame_nested"}}, nil},
		{row{sentence: "s", status: "proven", tests: []string{"cmd/lifeloop-wrap.TestScripts", "kernel.TestScenarios/idempotency"}}, []string{"cmd/lifeloop-wrap.TestScripts has many files: name the one that fails"}},
		{row{sentence: "s", status: "proven", tests: []string{"kernel.TestScenarios"}}, []string{"kernel.TestScenarios has many files: name the one that fails"}},
		{row{sentence: "s", status: "proven", tests: []string{"kernel.TestScenarios", "kernel.TestLaws"}}, nil},
		{row{sentence: "s", status: "proven", tests: []string{"kernel.TestScenarios/nothing"}}, []string{"kernel.TestScenarios/nothing does not exist"}},
		{row{sentence: "s", status: "proven", tests: []string{"simulate.TestL0Scenarios/spec-abort-midstream"}}, nil},
		{row{sentence: "s", status: "proven", tests: []string{"simulate.TestL0Scenarios/consumer-breaks-early"}}, []string{"simulate.TestL0Scenarios/consumer-breaks-early does not exist"}},
		{row{sentence: "s", status: "proven", tests: []string{"kernel.TestX/idempotency"}}, []string{"kernel.TestX/idempotency does not exist"}},
		{row{sentence: "s", status: "later", why: "not built"}, nil},
		{row{sentence: "s", status: "later"}, []string{"later, but gives no reason"}},
		{row{sentence: "s", status: "out", why: "not needed"}, nil},
		{row{sentence: "s", status: "out"}, []string{"out, but gives no reason"}},
		{row{sentence: "", status: "soon"}, []string{"the row has no sentence", `status "soon" is neither proven nor later nor out`}},
	} {
		require.Equal(t, c.want, problems(c.row, exists))
	}
}
