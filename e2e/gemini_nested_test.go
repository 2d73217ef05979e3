//go:build e2e && linux

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// TestGeminiNested: a tool of a wrapped Gemini CLI runs another Gemini CLI. The inner one
// inherits the home of the outer one, and so our hooks. The hook calls of the inner one
// have no effect on the session, its turns and its payloads. By default Gemini CLI is a
// launcher and its child.
func TestGeminiNested(t *testing.T) {
	nested := mock.Runs("gemini --approval-mode yolo -p 'inner (p2)'")
	for name, s := range (stories{
		"one process":              {},
		"a launcher and its child": {env: []string{"GEMINI_CLI_NO_RELAUNCH="}},
		"in a Gemini tool":         {env: []string{"GEMINI_CLI=1"}},
	}) {
		s.harness, s.tty, s.argv = gemini, true, geminiArgs()
		s.clients = []client{promptPayload}
		s.replies = []mock.Reply{nested, mock.Says("inner answer"), mock.Says("done"), mock.Says("thanks")}
		s.script = func(r *run) {
			geminiReady(r)
			sendsPatiently(r, "outer (p1)", func() bool { return r.modelSaw("outer (p1)") > 0 })
			r.await("the turn of the outer one", func() bool {
				return r.modelSaw("outer (p1)") == 2 && r.modelRests() && strings.Contains(r.title(), "Ready")
			})
			geminiTurn(r, "again (p3)")
			geminiQuits(r)
		}
		s.emits = sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
			frame("S1 F2", "completed"), ends("S1", "exit"), "? capability.degraded S? frame.opening native") // only after a slow start
		s.and = func(t *testing.T, r *run, rec record) {
			asked := r.questions()
			require.Len(t, asked, 4)
			for i, want := range []int{1, 0, 1, 2} { // the nested Gemini CLI sends the second request
				require.Equal(t, want, strings.Count(asked[i], promptPayload.body), "question %d", i)
			}
			rec.checkDelivered(t, promptPayload)
		}
		t.Run(name, s.play)
	}
}

// TestGeminiNestedPolicy: the gate answers only the outer Gemini CLI. It allows the command
// that starts the inner one, whose own tools are refused.
func TestGeminiNestedPolicy(t *testing.T) {
	s := story{
		harness: gemini, argv: geminiArgs("-p", "outer (p1)"),
		replies: []mock.Reply{mock.Runs("gemini --approval-mode yolo -p 'inner (p2)'"), mock.Runs("touch inner.txt"), mock.Says("refused"), mock.Runs("touch outer.txt"), mock.Says("done")},
		files:   map[string]string{"policy.yaml": "default_verdict: allow\n"},
		flags:   []string{"--policy", filepath.Join(home, "policy.yaml")},
	}
	alone(t, gemini, func(t *testing.T) {
		p := s.perform(t, true)
		require.Zero(t, p.code, p.run.scene())
		require.NoFileExists(t, filepath.Join(project, "inner.txt"))
		require.FileExists(t, filepath.Join(project, "outer.txt"))
		asked := p.run.questions()
		require.Len(t, asked, 5)
		require.Contains(t, asked[2], "the gate did not answer, so this tool call is denied")
	})
}
