//go:build e2e && linux

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// TestGeminiNested: Gemini CLI as the tool of a wrapped Gemini CLI inherits its home, and with
// it our hooks. Its calls have no effect: the session, its turn and its payloads are those of
// the outer one. Started as usual, Gemini CLI is a launcher and its child.
func TestGeminiNested(t *testing.T) {
	nested := mock.Runs("gemini --approval-mode yolo -p 'inner (p2)'")
	for name, s := range (stories{
		"one process":              {},
		"a launcher and its child": {env: []string{"GEMINI_CLI_NO_RELAUNCH="}},
		"in a Gemini tool":         {env: []string{"GEMINI_CLI=1"}},
	}) {
		s.harness, s.tty, s.argv = gemini, true, geminiArgs()
		s.clients = []client{sessionPayload, promptPayload}
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
			frame("S1 F2", "completed"), ends("S1", "exit"))
		s.and = func(t *testing.T, r *run, rec record) {
			asked := r.questions()
			require.Len(t, asked, 4)
			for _, c := range s.clients {
				require.NotContains(t, asked[1], c.body, "the nested model reads no payload")
				require.Equal(t, 1, strings.Count(asked[0], c.body), c.body)
			}
			rec.checkDelivered(t, sessionPayload)
		}
		t.Run(name, s.play)
	}
}
