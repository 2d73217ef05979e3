//go:build e2e

package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/gate/starter"
	"lifeloop/internal/mock"
)

// TestPolicyApproval checks that each harness waits while a person decides about a tool
// call, even for longer than a hook's usual limit. After the approval the command runs.
func TestPolicyApproval(t *testing.T) {
	for name, s := range map[string]story{
		"claude":       {harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "go")},
		"codex":        {harness: codex, argv: codexExec("go")},
		"gemini":       {harness: gemini, argv: geminiArgs("-p", "go")},
		"opencode run": {harness: opencode, argv: []string{"opencode", "run", "go"}},
	} {
		const doomed = "sub/file" // removed with rm -r, because Codex itself refuses rm -rf
		s.replies = []mock.Reply{mock.Runs("mkdir -p sub && touch " + doomed), mock.Runs("rm -r sub"), mock.Says("done")}
		s.files = map[string]string{"policy.yaml": starter.Policy()}
		s.flags = []string{"--policy", filepath.Join(home, "policy.yaml"), "--approval-wait", "10m"}
		s.script = func(r *run) {
			var waiting struct {
				Gate struct {
					Waiting []struct {
						Intent string `json:"intent_digest"`
					}
				}
			}
			for began := time.Now(); len(waiting.Gate.Waiting) == 0; time.Sleep(50 * time.Millisecond) {
				require.Less(r.t, time.Since(began), 2*time.Minute, "no act waits for an approval")
				if out, err := r.tool("--json", "status", "last"); err == nil {
					require.NoError(r.t, json.Unmarshal([]byte(out), &waiting))
				}
			}
			time.Sleep(12 * time.Second) // longer than the hook's usual limit of 8 s
			require.FileExists(r.t, filepath.Join(project, doomed))
			_, err := r.tool("approve", "last", waiting.Gate.Waiting[0].Intent)
			require.NoError(r.t, err)
		}
		t.Run(name, func(t *testing.T) {
			alone(t, s.harness, func(t *testing.T) {
				p := s.perform(t, true)
				require.Zero(t, p.code, p.run.shown())
				require.NoFileExists(t, filepath.Join(project, doomed), "the command that was approved")
			})
		})
	}
}
