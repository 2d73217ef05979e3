//go:build e2e && linux

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// openclaw is OpenClaw with the mock as its model provider.
var openclaw = kind{
	name: "openclaw", version: "2026.9.6", folder: "openclaw",
	records: ".openclaw/agents/main/agent/openclaw-agent.sqlite",
	env:     []string{"TMPDIR=" + openclawTemp},
	seed: func(t *testing.T) {
		require.NoError(t, os.MkdirAll(openclawTemp, 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(home, ".openclaw", "tmp"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(home, ".openclaw", "openclaw.json"), []byte(openclawConfig), 0o600))
	},
}

// openclawTemp is the temporary folder of a world. OpenClaw keeps locks there, by the
// path of the state folder, which is the same in all worlds.
const openclawTemp = "/home/openclaw-tmp"

const openclawConfig = `{"models":{"providers":{"mock":{"baseUrl":"http://127.0.0.1:8787/v1","apiKey":"none","api":"openai-completions",
	"models":[{"id":"m1","name":"M1","reasoning":false,"input":["text"],"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"contextWindow":200000,"maxTokens":8000}]}}},
	"agents":{"defaults":{"model":{"primary":"mock/m1"},"workspace":"/home/dev/project"}},
	"gateway":{"mode":"local","auth":{"mode":"token","token":"none-at-all"}}}`

func openclawAgent(message string) []string {
	return []string{"openclaw", "agent", "--local", "--agent", "main", "--session-key", "agent:main:story", "--message", message}
}

// TestOpenclaw plays turns in the process itself.
func TestOpenclaw(t *testing.T) {
	runs := []mock.Reply{mock.Runs("touch made"), mock.Says("made")}
	one := sequence(starts("S? S1", "startup"), frame("S1 F1", "completed", pressure("low", "S1 F1")), ends("S1", "exit 0"))
	stories{
		"turn": {
			clients: []client{sessionPayload, promptPayload}, replies: runs, emits: one,
			and: func(t *testing.T, r *run, rec record) {
				rec.checkDelivered(t, sessionPayload)
				rec.checkDelivered(t, promptPayload)
				r.checkAsked(map[string][]int{sessionPayload.body: {1, 1}, promptPayload.body: {1, 1}})
				r.checkOpenclawLeft()
			},
		},
	}.play(t, story{harness: openclaw, argv: openclawAgent("run it (p1)")})
}

// checkOpenclawLeft checks that no lock for our configuration is left in the home, and
// that the user's configuration has not changed.
func (r *run) checkOpenclawLeft() {
	r.t.Helper()
	left, err := filepath.Glob(filepath.Join(home, ".openclaw/tmp/openclaw-0/gateway.[0-9a-f]*.lock.sqlite*"))
	require.NoError(r.t, err)
	require.Empty(r.t, left)
	config, err := os.ReadFile(filepath.Join(home, ".openclaw/openclaw.json"))
	require.NoError(r.t, err)
	require.Equal(r.t, openclawConfig, string(config))
}
