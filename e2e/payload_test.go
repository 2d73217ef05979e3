//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/e2e/mock"
)

// Three clients answer with a payload, each for another slot.
var (
	sessionPayload = client{id: "sessions", events: "session.starting", placement: "developer_equivalent_frame", body: "CANARY-SESSION"}
	promptPayload  = client{id: "prompts", events: "frame.opening", placement: "pre_prompt_frame", body: "CANARY-PROMPT"}
	toolPayload    = client{id: "tools", events: "frame.opened", placement: "side_channel_context", body: "CANARY-TOOL"}
)

// TestPayloads follows payloads from a client to the model: they stand in the
// request bodies that the model server recorded, where they belong, and the
// receipts say so.
func TestPayloads(t *testing.T) {
	common := story{
		clients: []client{sessionPayload, promptPayload, toolPayload},
		told: `
			session.starting  S1 startup
			session.started   S1 startup
			frame.opening     S1 F1
			frame.opened      S1 F1
			~ context.pressure_observed S1 low between frame.opened F1 and session.ended S1
			frame.ending      S1 F1 completed
			frame.ended       S1 F1 completed
			session.ending    S1 other
			session.ended     S1 other`,
		and: func(t *testing.T, r *run, rec record) {
			asked := r.questions()
			require.Len(t, asked, 2, "questions of the turn: before the tool and after it")
			for _, want := range []struct {
				body          string
				first, second bool
			}{
				{sessionPayload.body, true, true},
				{promptPayload.body, true, true},
				{toolPayload.body, false, true},
			} {
				if strings.Contains(asked[0], want.body) != want.first || strings.Contains(asked[1], want.body) != want.second {
					t.Errorf("%s: in the first question %v, in the second %v", want.body,
						strings.Contains(asked[0], want.body), strings.Contains(asked[1], want.body))
				}
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
			script: func(r *run) {
				claudeReady(r)
				claudeTurn(r, "run it")
				r.types("/exit\r")
			},
			told: strings.ReplaceAll(common.told, "other", "prompt_input_exit"),
		},
		"claude -p": {
			harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "run it"),
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			told:    common.told,
		},
		"codex": {
			harness: codex, tty: true, argv: codexArgs(),
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			script: func(r *run) {
				codexReady(r)
				codexTurn(r, "run it")
				codexSends(r, "/quit")
			},
			told: regexp.MustCompile(`(session\.start\w+ +)S1`).ReplaceAllString(common.told, "${1}S?"),
		},
		"codex exec": {
			harness: codex, argv: codexExec("run it"),
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			told:    strings.Replace(common.told, "session.starting  S1", "session.starting S?", 1),
		},
	} {
		s.clients, s.and = common.clients, common.and
		t.Run(name, s.play)
	}
}

// questions are the bodies of the requests of the main conversation, in order.
func (w *world) questions() []string {
	var out []string
	for _, c := range w.model.Calls() {
		if c.Kind == mock.Main {
			out = append(out, string(c.Body))
		}
	}
	return out
}

// checkDelivered finds the receipt that says that a client's payload arrived.
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
