//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProbe probes each harness as a user does, and checks what was proven, what was
// stored, and that nothing else was written.
func TestProbe(t *testing.T) {
	turn := []string{"frame.opening", "frame.opened", "frame.ended", "context.pressure_observed"}
	for _, c := range []struct {
		kind
		proven []string
	}{
		{claude, append(slices.Clone(turn), "context.compacted")},
		{codex, append(slices.Clone(turn), "context.compacted")},
		{gemini, turn},
		{opencode, turn},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, c.kind, func(t *testing.T) {
				w := newWorld(t, story{harness: c.kind})
				before := homeTree(t)
				out, err := w.tool("doctor", "--probe", c.name, "--json")
				require.NoError(t, err, out)
				var report struct {
					Version  string
					Problems []string
					Proven   []struct{ Capability string }
					Seconds  float64
					Alone    bool `json:"network_alone"`
				}
				require.NoError(t, json.Unmarshal([]byte(out), &report))
				var proven []string
				for _, one := range report.Proven {
					proven = append(proven, one.Capability)
				}
				require.ElementsMatch(t, c.proven, proven)
				if report.Version != running[c.name] || len(report.Problems) > 0 || !report.Alone {
					t.Errorf("the report: %s", out)
				}
				t.Logf("%s %s: %.1f s", c.name, report.Version, report.Seconds)

				require.Equal(t, before, homeTree(t), "the home of the user")
				require.Empty(t, w.model.Calls(), "requests to the user's own model server")
				require.Empty(t, others(), "processes that were left")
				stored, err := os.ReadFile(w.path("state/proven.json"))
				require.NoError(t, err)
				for _, capability := range c.proven {
					if !strings.Contains(string(stored), `"`+capability+`"`) {
						t.Errorf("%s is not stored: %s", capability, stored)
					}
				}
			})
		})
	}
}
