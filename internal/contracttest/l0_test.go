package contracttest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// l0Index is the content of testdata/l0/index.json: the scenarios, and those
// that cannot be implemented for a harness process.
type l0Index struct {
	Names   map[string][]string `json:"names"` // the names of the scenarios in each category
	LeftOut map[string]string   `json:"left_out"`
}

func l0Scenarios(t *testing.T) (index l0Index, written map[string][]string) {
	t.Helper()
	dir := filepath.Join(root, "testdata", "l0")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	written = map[string][]string{}
	for _, file := range files {
		doc, err := os.ReadFile(file)
		require.NoError(t, err)
		if filepath.Base(file) == "index.json" {
			require.NoError(t, json.Unmarshal(doc, &index))
			continue
		}
		var of struct {
			Category  string `json:"category"`
			Scenarios []struct {
				Name  string `json:"name"`
				Adopt string `json:"adopt"`
				Why   string `json:"why"`
			} `json:"scenarios"`
		}
		require.NoError(t, json.Unmarshal(doc, &of), file)
		require.Equal(t, of.Category+".json", filepath.Base(file))
		for _, s := range of.Scenarios {
			require.Contains(t, []string{"as-is", "adapt", "ruled"}, s.Adopt, s.Name)
			if s.Adopt == "adapt" {
				require.NotEmpty(t, s.Why, "%s differs from the recording but gives no reason", s.Name)
			}
			written[of.Category] = append(written[of.Category], s.Name)
		}
	}
	return index, written
}

// Each of the 103 scenarios of the lifecycle occurs once, in the order of its
// category, or is excluded with a reason.
func TestEveryL0ScenarioHasItsPlace(t *testing.T) {
	index, written := l0Scenarios(t)
	n := 0
	for category, names := range index.Names {
		n += len(names)
		var want []string
		for _, name := range names {
			if _, out := index.LeftOut[name]; !out {
				want = append(want, name)
			}
		}
		require.Equal(t, want, written[category], category)
	}
	require.Equal(t, 103, n)
	for category := range written {
		require.Contains(t, index.Names, category)
	}
	for name, why := range index.LeftOut {
		require.NotEmpty(t, why, name)
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Values(index.Names)), func(names []string) bool {
			return slices.Contains(names, name)
		}), "%s is excluded but is not a scenario", name)
	}
}

// docs/contract/l0.md lists the scenarios that testdata/l0/index.json excludes, with the
// same reasons.
func TestLeftOutL0ScenariosAreListed(t *testing.T) {
	index, _ := l0Scenarios(t)
	doc, err := os.ReadFile(filepath.Join(root, "docs", "contract", "l0.md"))
	require.NoError(t, err)
	listed := map[string]string{}
	for line := range strings.Lines(string(doc)) {
		if name, why, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- `"), "`: "); ok && strings.HasPrefix(line, "- `") {
			listed[name] = why
		}
	}
	require.Equal(t, index.LeftOut, listed)
}
