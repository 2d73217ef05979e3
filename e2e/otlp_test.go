//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// With --otlp Claude Code exports calls that none of its files contains. The events
// and the screen stay the same.
func TestExportedTelemetry(t *testing.T) {
	stories{
		"a title": {
			flags:   []string{"--otlp"},
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done"), mock.Says("and more"), mock.Says("and more")},
			script: func(r *run) {
				claudeReady(r)
				// Claude Code makes a title for a long prompt only. An Enter that
				// arrives together with a long text counts as part of the text.
				r.types("please run the command that greets the whole wide world, and tell me what it says")
				r.await("the prompt", func() bool { return strings.Contains(r.shown(), "says") })
				claudeTurn(r, "")
				claudeTurn(r, "thanks")
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
				frame("S1 F2", "completed"), ends("S1", "prompt_input_exit")),
			and: func(t *testing.T, r *run, _ record) {
				want := map[string]mock.Usage{}
				calls := map[string]int64{}
				for _, c := range r.model.Calls() {
					chain := map[mock.Kind]string{mock.Main: "main", mock.Agent: "agents", mock.Title: "side", mock.Compaction: "side", mock.Side: "side"}[c.Kind]
					if chain == "" || c.Status != 200 {
						continue
					}
					want[chain] = want[chain].Plus(c.Given)
					calls[chain]++
				}
				if !claude.since("2.1.330") { // newer versions make no title here
					require.Positive(t, calls["side"], "a title was made")
				}
				out, err := r.tool("status", "last", "--json")
				require.NoError(t, err)
				var status struct {
					Usage map[string]struct {
						Calls int64 `json:"calls"`
						mock.Usage
					} `json:"usage"`
				}
				require.NoError(t, json.Unmarshal([]byte(out), &status), out)
				for _, chain := range []string{"main", "agents", "side"} {
					require.Equal(t, calls[chain], status.Usage[chain].Calls, chain)
					require.Equal(t, want[chain], status.Usage[chain].Usage, chain)
				}
			},
		},
	}.play(t, story{harness: claude, tty: true, argv: claudeArgs()})
	stories{
		"codex": {
			flags:   []string{"--otlp"},
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			script:  codexTurns("run it"),
			emits:   sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
			and: func(t *testing.T, r *run, _ record) {
				facts, err := r.tool("events", "last", "--as", "facts")
				require.NoError(t, err)
				require.Contains(t, facts, "otlp: ", "telemetry reported the thread's id first")
				require.NotContains(t, facts, `"unknown_counted"`)
			},
		},
	}.play(t, story{harness: codex, argv: codexArgs(), tty: true})
}
