//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/gate/starter"
	"lifeloop/internal/mock"
)

// waitingActs returns the digests of the intents that wait for an approval, as
// `status --json` reports them.
func (w *world) waitingActs() (digests []string) {
	var status struct {
		Gate struct {
			Waiting []struct {
				Intent string `json:"intent_digest"`
			}
		}
	}
	out, err := w.tool("--json", "status", "last")
	if err == nil {
		require.NoError(w.t, json.Unmarshal([]byte(out), &status), out)
	}
	for _, act := range status.Gate.Waiting {
		digests = append(digests, act.Intent)
	}
	return digests
}

// TestPolicyWrapperKilledInACall: if SIGKILL ends the wrapper while a tool call waits for an
// approval, the call does not run, in each harness with a hook that can refuse.
func TestPolicyWrapperKilledInACall(t *testing.T) {
	for name, s := range map[string]story{
		"claude":       {harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "go")},
		"codex":        {harness: codex, argv: codexExec("go")},
		"gemini":       {harness: gemini, argv: geminiArgs("-p", "go")},
		"opencode run": {harness: opencode, argv: []string{"opencode", "run", "go"}},
	} {
		const doomed = "sub/file"
		s.replies = []mock.Reply{mock.Runs("mkdir -p sub && touch " + doomed), mock.Runs("rm -r sub"), mock.Says("done")}
		s.files = map[string]string{"policy.yaml": starter.Policy()}
		s.flags = []string{"--policy", filepath.Join(home, "policy.yaml"), "--approval-wait", "10m"}
		t.Run(name, func(t *testing.T) {
			s.plays(t, func(w *world) {
				r := w.start(s, true)
				r.await("the question", func() bool { return len(w.waitingActs()) == 1 })
				require.FileExists(t, filepath.Join(project, doomed), "the call that the policy allows")
				require.NoError(t, r.cmd.Process.Signal(syscall.SIGKILL))
				require.True(t, poll(patience, func() bool { return len(others()) == 0 }), "the harness ends with its wrapper: %s", strings.Join(others(), "\n"))
				r.leaves()
				require.FileExists(t, filepath.Join(project, doomed), "the call was never approved")
				require.NoError(t, os.RemoveAll(filepath.Join(project, "sub")))
			})
		})
	}
}

// TestPolicyRefusesAPayload: under a policy that refuses payloads for a prompt, the model
// never reads one, a payload of another placement arrives, and the receipt has the reason.
func TestPolicyRefusesAPayload(t *testing.T) {
	for name, s := range map[string]story{
		"claude": {harness: claude, argv: claudeArgs("-p", "go")},
		"codex":  {harness: codex, argv: codexExec("go")},
	} {
		s.replies = []mock.Reply{mock.Says("done")}
		s.clients = []client{sessionPayload, promptPayload}
		s.files = map[string]string{"policy.yaml": `default_verdict: allow
rules:
  - name: no-prompts
    effect: block
    match: {tool_names: [harness.inject], target_values: [pre_prompt_frame]}
    reason_codes: [no_prompts]
`}
		s.flags = []string{"--policy", filepath.Join(home, "policy.yaml")}
		t.Run(name, func(t *testing.T) {
			alone(t, s.harness, func(t *testing.T) {
				p := s.perform(t, true)
				require.Zero(t, p.code, p.run.shown())
				asked := p.run.questions()
				require.Len(t, asked, 1)
				require.NotContains(t, asked[0], promptPayload.body)
				require.Contains(t, asked[0], sessionPayload.body)
				p.record.checkDelivered(t, sessionPayload)
				receipts, err := p.run.tool("receipts", "last")
				require.NoError(t, err)
				require.Contains(t, receipts, "the policy does not allow harness.inject: no_prompts (rule no-prompts)")
			})
		})
	}
}

// TestPolicyRefusesARenewal: under a policy that refuses renewals, the programs of the
// renewal's profile do not run, and the harness continues in its session.
func TestPolicyRefusesARenewal(t *testing.T) {
	for name, s := range map[string]story{
		"claude": {harness: claude, argv: claudeArgs(), script: func(r *run) {
			claudeReady(r)
			claudeTurn(r, "the first prompt")
			old := claudeRegistry()
			r.refusesRenewal()
			claudeTurn(r, "the second prompt")
			require.Equal(r.t, old.PID, claudeRegistry().PID)
			require.Equal(r.t, old.SessionID, claudeRegistry().SessionID)
			r.types("/exit\r")
		}},
		"codex": {harness: codex, argv: codexArgs(), script: func(r *run) {
			codexReady(r)
			codexTurn(r, "the first prompt")
			r.refusesRenewal()
			codexTurn(r, "the second prompt")
			codexSends(r, "/quit")
		}},
	} {
		s.tty, s.config = true, strings.Replace(relaunched, "printf", "touch ~/prepared; printf", 1)
		s.replies = []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA")}
		s.files = map[string]string{"policy.yaml": `default_verdict: allow
rules:
  - name: no-renewals
    effect: block
    match: {tool_names: [harness.renew]}
    reason_codes: [no_renewals]
`}
		s.flags = []string{"--policy", filepath.Join(home, "policy.yaml")}
		t.Run(name, func(t *testing.T) {
			alone(t, s.harness, func(t *testing.T) {
				p := s.perform(t, true)
				require.Zero(t, p.code, p.run.shown())
				require.NoFileExists(t, filepath.Join(home, "prepared"))
				asked := p.run.questions()
				require.Len(t, asked, 2)
				require.Contains(t, asked[1], "ALPHA", "the second prompt is in the same session")
				require.NotContains(t, asked[1], handedOver)
			})
		})
	}
}

// refusesRenewal asks for a renewal, which the policy refuses.
func (r *run) refusesRenewal() {
	r.t.Helper()
	r.asks("wait", "last", "--for", "idle")
	out, err := r.tool("renew", "last", "--wait")
	require.Error(r.t, err, out)
	last := r.renewals().Last
	require.Equal(r.t, "refused", string(last.Outcome))
	require.Contains(r.t, last.Why, "no_renewals")
}
