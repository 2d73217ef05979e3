//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// Three clients answer with a payload, each with a different placement.
var (
	sessionPayload = client{id: "sessions", events: "session.starting", placement: "developer_equivalent_frame", body: "CANARY-SESSION"}
	promptPayload  = client{id: "prompts", events: "frame.opening", placement: "pre_prompt_frame", body: "CANARY-PROMPT"}
	toolPayload    = client{id: "tools", events: "frame.opened", placement: "side_channel_context", body: "CANARY-TOOL"}
)

// TestPayloads follows payloads from a client to the model. They must be in the right
// request bodies of the model server, and the receipts must confirm it.
func TestPayloads(t *testing.T) {
	turn := sequence(frame("S1 F1", "completed"), pressure("low", "S1 F1"))
	common := story{
		clients: []client{sessionPayload, promptPayload, toolPayload},
		emits:   sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
		and: func(t *testing.T, r *run, rec record) {
			asked := r.questions()
			require.Len(t, asked, 2, "requests of the turn: before and after the tool")
			for body, want := range map[string][2]int{
				sessionPayload.body: {1, 1},
				promptPayload.body:  {1, 1},
				toolPayload.body:    {0, 1},
			} {
				require.Equal(t, want, [2]int{strings.Count(asked[0], body), strings.Count(asked[1], body)}, "%s in the two requests", body)
			}
			for _, c := range []client{sessionPayload, promptPayload, toolPayload} {
				rec.checkDelivered(t, c)
			}
		},
	}
	for name, s := range map[string]story{
		"claude": {
			harness: claude, tty: true, argv: claudeArgs("--allowedTools", "Bash"),
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			script:  claudeTurns("run it"),
			emits:   sequence(starts("S1", "startup"), turn, ends("S1", "prompt_input_exit")),
		},
		"claude -p": {
			harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "run it"),
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			emits:   sequence(starts("S1", "startup"), turn, ends("S1", "other")),
		},
		"codex": {
			harness: codex, tty: true, argv: codexArgs(),
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			script:  codexTurns("run it"),
			emits:   sequence(starts("S?", "startup"), turn, ends("S1", "other")),
		},
		"codex exec": {
			harness: codex, argv: codexExec("run it"),
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			emits:   sequence(starts("S? S1", "startup"), turn, ends("S1", "other")),
		},
	} {
		s.clients, s.and = common.clients, common.and
		t.Run(name, s.play)
	}
}

// The client of latePayload answers a prompt only when the prompt's hook is over. The client
// of nextPayload answers at the end of a turn, with a payload for the next prompt.
var (
	latePayload = client{id: "late", events: "frame.opening", placement: "pre_prompt_frame", body: "CANARY-LATE", delay: 6 * time.Second}
	nextPayload = client{id: "next", events: "frame.ending", placement: "pre_prompt_frame", body: "CANARY-NEXT"}
)

// TestLatePayload: a payload that comes too late for its prompt never reaches a later
// prompt. A payload that a client returned for the next prompt reaches that prompt.
func TestLatePayload(t *testing.T) {
	twice := func(ready func(*run), turn func(*run, string), leave func(*run)) func(*run) {
		return func(r *run) {
			ready(r)
			turn(r, "the first")
			r.await("the late answer", func() bool {
				text, _ := os.ReadFile(r.path("events.jsonl"))
				return strings.Contains(string(text), `"client_id":"late"`)
			})
			turn(r, "the second")
			leave(r)
		}
	}
	for name, s := range map[string]story{
		"claude": {harness: claude, tty: true, argv: claudeArgs(),
			script: twice(claudeReady, claudeTurn, func(r *run) { r.types("/exit\r") })},
		"codex": {harness: codex, tty: true, argv: codexArgs(),
			script: twice(codexReady, codexTurn, func(r *run) { codexSends(r, "/quit") })},
	} {
		s.clients = []client{latePayload, nextPayload}
		s.replies = []mock.Reply{mock.Says("one"), mock.Says("two")}
		t.Run(name, func(t *testing.T) {
			alone(t, s.harness, func(t *testing.T) { s.checkLate(t, s.perform(t, true)) })
		})
	}
}

func (s story) checkLate(t *testing.T, p performance) {
	t.Helper()
	asked := p.run.questions()
	require.Len(t, asked, 2)
	for i, body := range asked {
		require.NotContains(t, body, latePayload.body, "request %d", i)
		require.Equal(t, i, strings.Count(body, nextPayload.body), "request %d", i)
	}
	p.record.checkDelivered(t, nextPayload)
	for _, r := range p.record.receipts {
		if r.ClientID == latePayload.id {
			require.Equal(t, "degraded", r.Status)
			require.Equal(t, "skipped", r.Payloads[0].Status)
			require.NotNil(t, r.Frame, "the receipt of a frame's event names the frame")
		}
	}
	if t.Failed() {
		t.Log(p.run.scene())
	}
}

// questions are the request bodies of the main conversation, in order.
func (w *world) questions() []string {
	var out []string
	for _, c := range w.model.Calls() {
		if c.Kind == mock.Main {
			out = append(out, string(c.Body))
		}
	}
	return out
}

// checkDelivered checks the receipt of a client's delivered payload.
func (rec record) checkDelivered(t *testing.T, c client) {
	t.Helper()
	for _, r := range rec.receipts {
		if r.ClientID != c.id {
			continue
		}
		if len(r.Payloads) != 1 || r.Payloads[0].Status != "delivered" || r.Payloads[0].Placement != c.placement || r.Payloads[0].Kind != "note" {
			text, _ := json.Marshal(r)
			t.Errorf("the receipt of %s: %s", c.id, text)
		}
		return
	}
	t.Errorf("%s has no receipt", c.id)
}

// TestSeenAs checks the role of the message in which Claude Code sends the context of
// SessionStart. The role depends on the model; the manifest claims the weaker role, user
// (DECISIONS L6).
func TestSeenAs(t *testing.T) {
	for model, role := range map[string]string{"claude-sonnet-4-5": "user", "claude-opus-4-8": "system"} {
		s := story{
			harness: claude, argv: []string{"claude", "--model", model, "-p", "hello"},
			replies: []mock.Reply{mock.Says("done")}, clients: []client{sessionPayload},
		}
		t.Run(model, func(t *testing.T) {
			alone(t, s.harness, func(t *testing.T) {
				p := s.perform(t, true)
				require.Equal(t, []string{role}, rolesOf(t, p.run.questions()[0], sessionPayload.body))
				p.record.checkDelivered(t, sessionPayload)
			})
		})
	}
}

// rolesOf are the roles of the messages of a request that hold text.
func rolesOf(t *testing.T, body, text string) (roles []string) {
	t.Helper()
	var request struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &request))
	for _, m := range request.Messages {
		if strings.Contains(string(m.Content), text) {
			roles = append(roles, m.Role)
		}
	}
	return roles
}
