//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// codex is Codex with the mock as its model provider. Its whole configuration is on
// the command line; its home is empty.
var codex = kind{
	name: "codex", version: "0.169.0",
	records: ".codex/sessions/*/*/*/rollout-*.jsonl",
	env:     []string{"MOCK_KEY=none"},
	seed:    func(*testing.T) {},
}

var codexConfig = []string{
	"-c", `model="mock-model"`,
	"-c", `model_provider="mock"`,
	"-c", `model_providers.mock={name="mock",base_url="http://127.0.0.1:8787/v1",env_key="MOCK_KEY",wire_api="responses",request_max_retries=0,stream_max_retries=0}`,
	"-c", `projects={"/home/dev/project"={trust_level="trusted"}}`,
	"-c", `check_for_update_on_startup=false`,
	"-c", `analytics.enabled=false`, // otherwise Codex delays its exit by five seconds
	"-c", `approval_policy="never"`,
	"-c", `sandbox_mode="danger-full-access"`,
}

func codexArgs(args ...string) []string {
	return append(append([]string{"codex"}, codexConfig...), args...)
}

func codexExec(args ...string) []string {
	return append(append(append([]string{"codex", "exec"}, codexConfig...), "--skip-git-repo-check"), args...)
}

// codexState is the last state that Codex sent to its terminal (OSC 7501).
func (r *run) codexState() string {
	shown := r.shown()
	i := strings.LastIndex(shown, "\x1b]7501;state=")
	if i < 0 {
		return ""
	}
	state := shown[i+len("\x1b]7501;state="):]
	return state[:max(0, strings.IndexAny(state, ":;\x1b\x07"))]
}

// turnsOver counts the finished turns in the rollouts.
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

// codexRelaunched waits until Codex is ready in a process whose pid is not old.
func codexRelaunched(r *run, old int) {
	r.t.Helper()
	r.await("the new launch", func() bool { pid := harnessPID(); return pid != 0 && pid != old })
	shown := len(r.shown())
	r.await("Codex to be ready again", func() bool { return strings.Contains(r.shown()[shown:], "\x1b]7501;state=idle") })
}

// codexSends pastes a line and presses Enter separately. Sent together they would
// be a paste with a line break.
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

// codexClears gives Codex a new thread. A prompt that is pasted before the thread is
// shown is lost.
func codexClears(r *run) {
	r.t.Helper()
	before := codexThreads()
	codexSends(r, "/clear")
	r.await("the new thread", func() bool { return codexThreads() > before && r.codexState() == "idle" })
}

// codexTurns is a script that sends prompts, waits for the end of each turn and
// leaves with /quit.
func codexTurns(prompts ...string) func(r *run) {
	return func(r *run) {
		codexReady(r)
		for _, p := range prompts {
			codexTurn(r, p)
		}
		codexSends(r, "/quit")
	}
}

// codexDuringTool is a script that acts while the tool of the first turn runs.
func codexDuringTool(act func(r *run)) func(r *run) {
	return func(r *run) {
		codexReady(r)
		codexSends(r, "hello")
		duringTool(act)(r)
	}
}

// codexThreads counts the threads of this Codex.
func codexThreads() int {
	locks, _ := filepath.Glob(home + "/.codex/thread-writer-locks/*.lock")
	return len(locks)
}

// codexRecords waits until the rollouts contain n records of a type.
func codexRecords(r *run, n int, what string) {
	r.t.Helper()
	r.await(what, func() bool {
		got := 0
		for _, line := range r.rollouts() {
			if line.Type == what || line.Payload.Type == what {
				got++
			}
		}
		return got >= n && r.codexState() != "working"
	})
}

func TestCodex(t *testing.T) {
	merged(codexTalks(), codexContexts(), codexEnds()).play(t, story{harness: codex, argv: codexArgs(), tty: true})
}

// codexTalks are conversations that end with /quit.
func codexTalks() stories {
	return stories{
		"no turn": {
			script: codexTurns(),
			emits:  sequence(starts("S?", "startup"), ends("S1", "other")),
		},
		"simple turn": {
			script: codexTurns("hello"),
			emits:  sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"tool turn": {
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done"), mock.Says("welcome")},
			script:  codexTurns("run it", "thanks"),
			emits: sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
				frame("S1 F2", "completed"), ends("S1", "other")),
		},
		"API error": {
			replies: []mock.Reply{mock.Fails(500), mock.Says("better")},
			script:  codexTurns("hello", "again"),
			emits: sequence(starts("S?", "startup"), frame("S1 F1", "failed transport_error"), frame("S1 F2", "completed"),
				pressure("low", "S1 F2"), ends("S1", "other")),
		},
		"input while a tool runs is not a frame": {
			replies: []mock.Reply{mock.Runs("while [ ! -e go ]; do sleep 0.1; done; rm go"), mock.Says("done")},
			script: func(r *run) {
				codexReady(r)
				codexSends(r, "run it")
				r.await("the tool", func() bool {
					return slices.ContainsFunc(others(), func(p string) bool { return strings.HasSuffix(p, " sleep 0.1") })
				})
				codexSends(r, "and be quick")
				r.await("the input", func() bool { return strings.Contains(r.shown(), "quick") })
				if err := os.WriteFile(project+"/go", nil, 0o600); err != nil {
					r.t.Fatal(err)
				}
				codexRecords(r, 1, "task_complete")
				codexSends(r, "/quit")
			},
			emits: sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
	}
}

// codexContexts replace or shorten the context between turns.
func codexContexts() stories {
	return stories{
		"clear": {
			script: func(r *run) {
				codexReady(r)
				codexTurn(r, "hello")
				codexClears(r)
				codexTurn(r, "hello again")
				codexSends(r, "/quit")
			},
			emits: sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "clear"),
				starts("S2", "clear"), frame("S2 F2", "completed"), pressure("low", "S2 F2"), ends("S2", "other")),
		},
		"compact": {
			script: func(r *run) {
				codexReady(r)
				codexTurn(r, "hello")
				codexSends(r, "/compact")
				codexRecords(r, 2, "task_complete")
				codexTurn(r, "continue")
				codexSends(r, "/quit")
			},
			emits: sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "context.compacted S1"),
				"context.compacted S1 manual", "~ context.pressure_observed S1 low between context.compacted S1 and session.ended S1",
				frame("S1 F2", "completed"), ends("S1", "other")),
		},
		"auto-compaction before a turn": {
			// Codex compacts at 90 % of 100000; it reports 95000 as its window.
			argv:    codexArgs("-c", "model_context_window=100000"),
			replies: []mock.Reply{mock.Says("noted").Using(92_000), mock.Says("still here")},
			script:  codexTurns("read a lot", "continue"),
			emits: sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("critical", "S1 F1", "frame.opening F2"),
				"context.compacted S1 auto", "~ context.pressure_observed S1 low between context.compacted S1 and session.ended S1",
				frame("S1 F2", "completed"), ends("S1", "other")),
		},
	}
}

// codexEnds end a turn or the session early.
func codexEnds() stories {
	return stories{
		"Esc while the model answers": {
			replies: []mock.Reply{hanging(), mock.Says("back")},
			script: func(r *run) {
				codexReady(r)
				codexSends(r, "hello")
				r.await("the question", func() bool { return r.codexState() == "working" && r.codexAsked("hello") })
				r.types("\x1b")
				codexRecords(r, 1, "turn_aborted")
				codexTurn(r, "continue")
				codexSends(r, "/quit")
			},
			emits: sequence(starts("S?", "startup"), frame("S1 F1", "interrupted"), frame("S1 F2", "completed"), pressure("low", "S1 F2"),
				ends("S1", "other")),
		},
		"quit while a tool runs": {
			replies: []mock.Reply{mock.Runs("sleep 300")},
			script:  codexDuringTool(func(r *run) { codexSends(r, "/quit") }),
			emits:   sequence(starts("S?", "startup"), frame("S1 F1", "interrupted"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"SIGTERM to the harness while a tool runs": {
			replies: []mock.Reply{mock.Runs(endless)},
			script:  codexDuringTool(func(r *run) { r.signals(theHarness, syscall.SIGTERM) }),
			exit:    143,
			emits:   sequence(starts("S?", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "SIGTERM")),
		},
		"SIGTERM to what was started": {
			script: func(r *run) {
				codexReady(r)
				codexTurn(r, "hello")
				r.signals(whatWasStarted, syscall.SIGTERM)
			},
			exit:  143,
			emits: sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "SIGTERM")),
		},
		"SIGKILL of the harness while a tool runs": {
			replies: []mock.Reply{mock.Runs(endless)},
			script:  codexDuringTool(func(r *run) { r.signals(theHarness, syscall.SIGKILL) }),
			exit:    137,
			emits:   sequence(starts("S?", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "SIGKILL")),
		},
	}
}

// TestCodexAsks: the user permits a command, and denies one.
func TestCodexAsks(t *testing.T) {
	asked := func(r *run, prompt, key string) {
		r.t.Helper()
		since, before := len(r.shown()), r.turnsOver()
		codexSends(r, prompt)
		r.await("the question", func() bool {
			return r.codexState() == "blocked" && strings.Contains(r.shown()[since:], "Would you like to")
		})
		// A key that is typed before the dialog reads the keyboard is lost, so the key is
		// typed again.
		var next time.Time
		r.await("the turn of "+prompt, func() bool {
			if now := time.Now(); r.codexState() == "blocked" && now.After(next) {
				next = now.Add(5 * time.Second)
				r.types(key)
			}
			return r.turnsOver() > before && r.codexState() != "working" && r.codexState() != "blocked"
		})
	}
	story{
		harness: codex, tty: true, argv: codexArgs("-c", `approval_policy="on-request"`, "-c", `sandbox_mode="workspace-write"`),
		replies: []mock.Reply{codexEscalates("touch made"), mock.Says("it is made"), codexEscalates("touch more"), mock.Says("back")},
		script: func(r *run) {
			codexReady(r)
			asked(r, "make it", "y")
			asked(r, "make more", "\x1b")
			codexTurn(r, "continue")
			codexSends(r, "/quit")
		},
		emits: sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
			frame("S1 F2", "interrupted"), frame("S1 F3", "completed"), ends("S1", "other")),
		and: func(t *testing.T, r *run, _ record) {
			require.FileExists(t, project+"/made")
			require.NoFileExists(t, project+"/more")
		},
	}.play(t)
}

func TestCodexExec(t *testing.T) {
	tool := []mock.Reply{mock.Runs(endless)}
	stories{
		"simple turn": {
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"tool turn": {
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			emits:   sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"API error": {
			replies: []mock.Reply{mock.Fails(401)},
			exit:    1,
			emits:   sequence(starts("S? S1", "startup"), frame("S1 F1", "failed operator_required"), ends("S1", "other")),
		},
		"auto-compaction in the middle of a turn": {
			argv:    codexExec("-c", "model_context_window=100000", "hello"),
			replies: []mock.Reply{mock.Runs("echo hi").Using(92_000), mock.Says("done")},
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "completed", "context.compacted S1 F1 auto"),
				pressure("critical", "S1 F1", "context.compacted F1"),
				"~ context.pressure_observed S1 low between context.compacted F1 and session.ended S1", ends("S1", "other")),
		},
		"SIGTERM to the harness while a tool runs": {
			replies: tool,
			script:  duringTool(func(r *run) { r.signals(theHarness, syscall.SIGTERM) }),
			exit:    143,
			emits:   sequence(starts("S? S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "SIGTERM")),
		},
		"SIGINT to what was started": {
			replies: tool,
			script:  duringTool(func(r *run) { r.signals(whatWasStarted, syscall.SIGINT) }),
			exit:    1,
			emits:   sequence(starts("S? S1", "startup"), frame("S1 F1", "interrupted"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"SIGKILL of the harness": {
			replies: tool,
			script:  duringTool(func(r *run) { r.signals(theHarness, syscall.SIGKILL) }),
			exit:    137,
			emits:   sequence(starts("S? S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "SIGKILL")),
		},
	}.play(t, story{harness: codex, argv: codexExec("hello")})
}

// codexAsked reports whether the model received this prompt.
func (w *world) codexAsked(text string) bool {
	return slices.ContainsFunc(w.model.Calls(), func(c mock.Call) bool { return c.Kind == mock.Main && c.Asked == text })
}
