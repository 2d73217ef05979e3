//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// codex is Codex with a model provider of its own. All of its configuration is
// on the command line; its home is empty.
var codex = kind{
	server: "mock_openai.py", port: "8099", keepFlag: "--log-dir",
	env:  []string{"MOCK_KEY=none"},
	seed: func(*testing.T) {},
}

var codexConfig = []string{
	"-c", `model="mock-model"`,
	"-c", `model_provider="mock"`,
	"-c", `model_providers.mock={name="mock",base_url="http://127.0.0.1:8099/v1",env_key="MOCK_KEY",wire_api="responses",request_max_retries=0,stream_max_retries=0}`,
	"-c", `projects={"/home/dev/project"={trust_level="trusted"}}`,
	"-c", `check_for_update_on_startup=false`,
	"-c", `analytics.enabled=false`, // else it tries for five seconds to reach its maker before it ends
	"-c", `approval_policy="never"`,
	"-c", `sandbox_mode="danger-full-access"`,
}

func codexArgs(args ...string) []string {
	return append(append([]string{"codex"}, codexConfig...), args...)
}

func codexExec(args ...string) []string {
	return append(append(append([]string{"codex", "exec"}, codexConfig...), "--skip-git-repo-check"), args...)
}

// codexState is the last state that Codex told its terminal (OSC 7501).
func (r *run) codexState() string {
	shown := r.shown()
	i := strings.LastIndex(shown, "\x1b]7501;state=")
	if i < 0 {
		return ""
	}
	state := shown[i+len("\x1b]7501;state="):]
	return state[:max(0, strings.IndexAny(state, ":;\x1b\x07"))]
}

// turnsOver counts the turns that the rollouts say are over.
func (w *world) turnsOver() int {
	n := 0
	for _, line := range w.rollouts() {
		if line.Type == "event_msg" && (line.Payload.Type == "task_complete" || line.Payload.Type == "turn_aborted") {
			n++
		}
	}
	return n
}

type rolloutLine struct {
	Type    string `json:"type"`
	Payload struct {
		Type string `json:"type"`
	} `json:"payload"`
}

func (w *world) rollouts() []rolloutLine {
	var out []rolloutLine
	files, _ := filepath.Glob(home + "/.codex/sessions/*/*/*/rollout-*.jsonl")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		for line := range strings.Lines(string(data)) {
			var l rolloutLine
			if json.Unmarshal([]byte(line), &l) == nil {
				out = append(out, l)
			}
		}
	}
	return out
}

func codexReady(r *run) {
	r.t.Helper()
	r.await("Codex to be ready", func() bool { return r.codexState() == "idle" })
}

// codexSends pastes a line and presses Enter: typed in one go it would be
// taken for a paste with a line break.
func codexSends(r *run, line string) {
	r.t.Helper()
	r.types("\x1b[200~" + line + "\x1b[201~")
	r.types("\r")
}

func codexTurn(r *run, prompt string) {
	r.t.Helper()
	before := r.turnsOver()
	codexSends(r, prompt)
	r.await("the turn of "+prompt, func() bool {
		return r.turnsOver() > before && r.codexState() != "working"
	})
}

func TestCodexSimpleTurn(t *testing.T) {
	story{
		harness: codex, argv: codexArgs(), tty: true,
		script: func(r *run) {
			codexReady(r)
			codexTurn(r, "hello")
			codexSends(r, "/quit")
		},
		told: `
			session.starting  S? startup
			session.started   S? startup
			frame.opening     S1 F1
			frame.opened      S1 F1
			~ context.pressure_observed S1 low between frame.opened F1 and session.ended S1
			frame.ending      S1 F1 completed
			frame.ended       S1 F1 completed
			session.ending    S1 other
			session.ended     S1 other`,
	}.play(t)
}

func TestCodexExecSimpleTurn(t *testing.T) {
	story{
		harness: codex, argv: codexExec("hello"),
		told: `
			session.starting  S? startup
			session.started   S1 startup
			frame.opening     S1 F1
			frame.opened      S1 F1
			~ context.pressure_observed S1 low between frame.opened F1 and session.ended S1
			frame.ending      S1 F1 completed
			frame.ended       S1 F1 completed
			session.ending    S1 other
			session.ended     S1 other`,
	}.play(t)
}
