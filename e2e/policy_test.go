//go:build e2e && linux

package e2e

import (
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/gate/starter"
	"lifeloop/internal/mock"
)

// TestPolicy: under a policy a harness that needs no permission of its user does not
// run a command that deletes outside of the workspace. The model reads the reason, and
// the next command, which the policy allows, runs.
func TestPolicy(t *testing.T) {
	const kept, ran = "keepsake/file", "allowed.txt"
	for name, s := range map[string]story{
		"claude":       {harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "go")},
		"codex":        {harness: codex, argv: codexExec("go")},
		"gemini":       {harness: gemini, argv: geminiArgs("-p", "go")},
		"gemini, root": {harness: gemini, argv: geminiArgs("-p", "go"), state: rootsFolder},
		"gemini, user": {harness: gemini, argv: geminiArgs("-p", "go"), user: someUser},
		"openclaw":     {harness: openclaw, argv: openclawAgent("go")},
		"opencode run": {harness: opencode, argv: []string{"opencode", "run", "go"}},
		"opencode": {harness: opencode, tty: true, argv: opencodeArgs(), script: func(r *run) {
			opencodeReady(r)
			opencodeTurn(r, "go (p1)")
			opencodeQuits(r)
		}},
	} {
		s.replies = []mock.Reply{mock.Runs("bash -c 'rm -rf ~/keepsake'"), mock.Runs("echo yes > " + ran), mock.Says("done")}
		s.files = map[string]string{kept: "kept", "policy.yaml": `default_verdict: allow
rules:
  - name: writes
    effect: block
    match: {data_classes: [outside_write]}
    reason_codes: [write_outside_workspace]
`}
		s.flags = []string{"--policy", filepath.Join(home, "policy.yaml")}
		t.Run(name, func(t *testing.T) {
			alone(t, s.harness, func(t *testing.T) {
				p := s.perform(t, true)
				require.Zero(t, p.code, p.run.shown())
				require.FileExists(t, filepath.Join(home, kept), "the command that the policy refuses")
				require.FileExists(t, filepath.Join(project, ran), "the command that the policy allows")
				asked := p.run.questions()
				require.Len(t, asked, 3, "two tools and the answer")
				require.NotContains(t, asked[0], "write_outside_workspace")
				require.Contains(t, asked[1], "write_outside_workspace", "the model reads the reason")
				require.Equal(t, strings.Count(asked[1], "write_outside_workspace"), strings.Count(asked[2], "write_outside_workspace"), "the second is not refused")

				var status struct {
					Policy string
					Gate   struct{ Allowed, Refused int }
				}
				out, err := p.run.tool("--json", "status", "last")
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal([]byte(out), &status))
				require.Len(t, status.Policy, 64)
				require.Equal(t, []int{2, 1}, []int{status.Gate.Allowed, status.Gate.Refused}, "the launch and a tool; a tool")
				facts, err := p.run.tool("events", "last", "--as", "facts")
				require.NoError(t, err)
				require.NotContains(t, facts, "keepsake", "no argument is on the ledger")
				require.NoError(t, os.Remove(filepath.Join(project, ran)))
			})
		})
	}
}

// TestPolicyWithoutAnswer: while the wrapper is stopped, it allows nothing, and a tool call
// is refused. After the wrapper was killed, a tool call does not run either.
func TestPolicyWithoutAnswer(t *testing.T) {
	waits := "until test -e go; do sleep 0.05; done"
	for name, s := range map[string]story{
		"claude":       {harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "go")},
		"codex":        {harness: codex, argv: codexExec("go")},
		"openclaw":     {harness: openclaw, argv: openclawAgent("go")},
		"opencode run": {harness: opencode, argv: []string{"opencode", "run", "go"}},
	} {
		s.replies = []mock.Reply{mock.Runs(waits), mock.Runs("echo yes > ran.txt"), mock.Says("done")}
		s.files = map[string]string{"policy.yaml": "default_verdict: allow\n"}
		s.flags = []string{"--policy", filepath.Join(home, "policy.yaml")}
		during := func(signal syscall.Signal, then func(r *run)) func(t *testing.T) {
			return func(t *testing.T) {
				alone(t, s.harness, func(t *testing.T) {
					r := newWorld(t, s).start(s, true)
					r.await("the tool", func() bool {
						out, _ := r.tool("events", "last", "--as", "facts")
						return strings.Contains(out, `"decision":"allow"`)
					})
					require.NoError(t, r.cmd.Process.Signal(signal))
					require.NoError(t, os.WriteFile(filepath.Join(project, "go"), nil, 0o600))
					then(r)
					r.leaves()
					require.NoFileExists(t, filepath.Join(project, "ran.txt"))
				})
			}
		}
		t.Run(name+", stopped", during(syscall.SIGSTOP, func(r *run) {
			r.await("the refusal", func() bool { return len(r.questions()) == 3 })
			require.Contains(r.t, r.questions()[2], "the gate did not answer, so this tool call is denied")
			require.NoError(r.t, r.cmd.Process.Signal(syscall.SIGCONT))
		}))
		t.Run(name+", killed", during(syscall.SIGKILL, func(r *run) {
			require.True(r.t, poll(patience, func() bool { return len(others()) == 0 }), "the harness ends with its wrapper")
		}))
	}
}

// opencodeLock is the lock of the package installation in ~/.config/opencode.
var opencodeLock = fmt.Sprintf(".local/state/opencode/locks/%x.lock", sha1.Sum([]byte("npm-install:"+home+"/.config/opencode")))

// TestPolicyOpencode: the plugin that guards OpenCode's tools leaves nothing in the home,
// and a tool has the environment of a bare run. The start does not wait for a package
// installation, not even after an earlier start that was killed during its installation.
func TestPolicyOpencode(t *testing.T) {
	hostname, err := os.Hostname()
	require.NoError(t, err)
	stories{
		"environment and home": {
			argv:    []string{"opencode", "run", "hello-(p1)"},
			replies: []mock.Reply{mock.Runs("env | grep -E '^(npm_|NPM_|OPENCODE_)' | grep -v OPENCODE_PID | sort > env.txt"), mock.Says("done")},
			emits:   slowly(sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit 0"))),
			files:   map[string]string{"policy.yaml": "default_verdict: allow\n"},
			flags:   []string{"--policy", filepath.Join(home, "policy.yaml")},
			and: func(t *testing.T, _ *run, _ record) {
				env, err := os.ReadFile(filepath.Join(project, "env.txt"))
				require.NoError(t, err)
				require.Contains(t, string(env), "OPENCODE_CONFIG_CONTENT=")
				require.NotContains(t, string(env), "lifeloop")
			},
		},
		"after a start that was killed": {
			argv:  []string{"opencode", "run", "hello-(p1)"},
			emits: slowly(sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit 0"))),
			files: map[string]string{"policy.yaml": "default_verdict: allow\n", opencodeLock + "/heartbeat": "",
				opencodeLock + "/meta.json": `{"token":"t","pid":999999999,"hostname":"` + hostname + `","createdAt":"2026-01-01T00:00:00.000Z"}`},
			flags: []string{"--policy", filepath.Join(home, "policy.yaml")},
			// OpenCode waits for the lock until the heartbeat is a minute old, here for a
			// day. So the launch must set the heartbeat to an old time.
			beside: func(w *world) {
				tomorrow := time.Now().AddDate(0, 0, 1)
				require.NoError(w.t, os.Chtimes(filepath.Join(home, opencodeLock, "heartbeat"), tomorrow, tomorrow))
			},
		},
	}.play(t, story{harness: opencode})
}

// TestPolicyAsks: an approval that the policy requires is Claude Code's own question.
// In print mode no user answers it, so the command does not run.
func TestPolicyAsks(t *testing.T) {
	s := story{harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "go"),
		replies: []mock.Reply{mock.Runs("mkdir -p sub && touch sub/file"), mock.Runs("rm -rf sub"), mock.Says("done")},
		files:   map[string]string{"policy.yaml": starter.Policy()}, flags: []string{"--policy", filepath.Join(home, "policy.yaml")}}
	alone(t, s.harness, func(t *testing.T) {
		p := s.perform(t, true)
		require.FileExists(t, filepath.Join(project, "sub/file"), p.run.shown())
		facts, err := p.run.tool("events", "last", "--as", "facts")
		require.NoError(t, err)
		require.Contains(t, facts, `"decision":"ask"`)
		require.NoError(t, os.RemoveAll(filepath.Join(project, "sub")))
	})
}

// TestPolicyTyped: Codex calls no hook before it types text into a running program. A shell
// without a script would run whatever is typed, so a policy that refuses undecidable
// commands refuses such a shell. Text for any other program is not judged.
func TestPolicyTyped(t *testing.T) {
	alone(t, codex, func(t *testing.T) {
		starts := func(program string) mock.Reply {
			return mock.Reply{Call: "exec_command", Args: map[string]any{"cmd": program, "tty": true, "yield_time_ms": 500}}
		}
		runs := regexp.MustCompile(`running with session ID (\d+)`)
		types := mock.Reply{Call: "write_stdin", ArgsFor: func(request []byte) map[string]any {
			program, _ := strconv.Atoi(string(runs.FindSubmatch(request)[1]))
			return map[string]any{"session_id": program, "chars": "typed\n", "yield_time_ms": 1000}
		}}
		p := story{
			harness: codex, argv: codexExec("go"),
			replies: []mock.Reply{starts("bash"), starts("cat"), types, mock.Says("done")},
			files: map[string]string{"policy.yaml": `default_verdict: allow
rules:
  - name: undecidable
    effect: block
    match: {data_classes: [undecidable]}
    reason_codes: [not_decidable]
`},
			flags: []string{"--policy", filepath.Join(home, "policy.yaml")},
		}.perform(t, true)
		require.Zero(t, p.code, p.run.shown())
		asked := p.run.questions()
		require.Len(t, asked, 4, "three tools and the answer")
		require.Contains(t, asked[1], "not_decidable", "the shell")
		require.Contains(t, asked[3], `typed\r\ntyped\r\n`, "the echo of the terminal, and cat")

		out, err := p.run.tool("--json", "status", "last")
		require.NoError(t, err)
		require.Contains(t, out, `"gate":{"allowed":2,"refused":1`, "the launch and cat; the shell")
	})
}
