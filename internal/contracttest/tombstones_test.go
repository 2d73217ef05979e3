package contracttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
)

// "Each break ships with a tombstone in `docs/tombstones/`": every version in the
// published schemas, except the current one, has a tombstone. The tombstone
// names the successor and what is still accepted. There are no other tombstones.
func TestTombstones(t *testing.T) {
	common, err := os.ReadFile(filepath.Join(root, "lifeloop/schema/common.json"))
	require.NoError(t, err)
	var schema struct {
		Defs map[string]struct {
			Enum []string `json:"enum"`
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(common, &schema))
	versions := schema.Defs["version"].Enum
	require.Contains(t, versions, lifeloop.Version)
	require.Greater(t, len(versions), 1)
	want := []string{}
	for _, v := range versions {
		if v == lifeloop.Version {
			continue
		}
		file := filepath.Join(root, "docs/tombstones", v+".md")
		want = append(want, file)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), "# "+v+"\n")
		require.Contains(t, string(text), "Superseded by `"+lifeloop.Version+"`")
		require.Contains(t, string(text), "\n## What changed\n")
		require.Contains(t, string(text), "\n## What is accepted still\n")
	}
	have, err := filepath.Glob(filepath.Join(root, "docs/tombstones", "*"))
	require.NoError(t, err)
	require.ElementsMatch(t, want, have)
}
