package contracttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every HCP conformance case has exactly one row, with its number and level.
// Cases that need a message broker have the status "later".
func TestEveryHCPCaseHasItsRow(t *testing.T) {
	doc, err := os.ReadFile("testdata/hcp_conformance.json")
	require.NoError(t, err)
	var list struct {
		Count     int `json:"count"`
		Scenarios []struct {
			ID     string `json:"id"`
			Level  string `json:"level"`
			Broker bool   `json:"needs_broker"`
		} `json:"scenarios"`
	}
	require.NoError(t, json.Unmarshal(doc, &list))
	require.Len(t, list.Scenarios, 49)
	require.Equal(t, list.Count, len(list.Scenarios))
	all := rows(t, filepath.Join(root, "docs", "contract", "hcp.md"))
	for _, c := range list.Scenarios {
		mark := c.ID + " (" + c.Level + "): "
		if c.Broker {
			mark = c.ID + " (" + c.Level + ", broker): "
		}
		n := 0
		for _, r := range all {
			if !strings.HasPrefix(r.sentence, mark) {
				continue
			}
			n++
			if c.Broker {
				require.Equal(t, "later", r.status, "%s", c.ID)
				require.Contains(t, r.why, "AMQP", "%s", c.ID)
			}
		}
		require.Equal(t, 1, n, "rows that begin with %q", mark)
	}
}
