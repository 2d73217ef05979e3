package contracttest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	ourVariable = regexp.MustCompile(`"(LIFELOOP_[A-Z_]*[A-Z])["=]`)
	stateFile   = regexp.MustCompile(`(?m)^(?:const |\t)[a-z]+File +(?:= )"([^"]+)"`)
	// internalVariables are set and read by our own processes only.
	internalVariables = []string{"LIFELOOP_GUARD_OF", "LIFELOOP_CLIENT_TEST", "LIFELOOP_DEMO_STAND_IN"}
)

// TestVariablesAndFilesAreDocumented checks that docs/CLI.md names each variable of the
// program and each file that internal/store keeps in a session's folder.
func TestVariablesAndFilesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root, "docs", "CLI.md"))
	require.NoError(t, err)
	found := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, at)
		folder, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"e2e", "bench", "testdata"}, folder) || len(folder) > 2 && folder[0] == '.'):
			return fs.SkipDir
		case d.IsDir(), !strings.HasSuffix(at, ".go"), strings.HasSuffix(at, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(at)
		for _, m := range ourVariable.FindAllSubmatch(source, -1) {
			found[string(m[1])] = true
		}
		if filepath.ToSlash(filepath.Dir(rel)) == "internal/store" {
			for _, m := range stateFile.FindAllSubmatch(source, -1) {
				found[string(m[1])] = true
			}
		}
		return err
	}))
	require.Contains(t, found, "LIFELOOP_SOCKET")
	require.Contains(t, found, "command.json")
	for name := range found {
		if !slices.Contains(internalVariables, name) && !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/CLI.md does not name %s", name)
		}
	}
}

// TestTargetsAreDocumented checks that the README names each target of the Makefile.
func TestTargetsAreDocumented(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	_, phony, _ := strings.Cut(string(makefile), "\n.PHONY: ")
	phony, _, _ = strings.Cut(phony, "\n")
	require.NotEmpty(t, phony)
	named := regexp.MustCompile(`\bmake ([a-z0-9-]+)`).FindAllStringSubmatch(string(readme), -1)
	for _, target := range strings.Fields(phony) {
		if !slices.ContainsFunc(named, func(m []string) bool { return m[1] == target }) {
			t.Errorf("README.md does not name make %s", target)
		}
	}
}
