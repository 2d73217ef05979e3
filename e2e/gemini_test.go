//go:build e2e && linux

package e2e

import (
	"fmt"
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

// gemini is Gemini CLI with an API key and a trusted folder.
var gemini = kind{
	name: "gemini", version: "0.61.0",
	records: ".gemini/tmp/*/chats/session-*.jsonl",
	env: []string{
		"GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8787",
		"GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true",
	},
	seed: func(t *testing.T) {
		require.NoError(t, os.Mkdir(filepath.Join(home, ".gemini"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(home, ".gemini/settings.json"), []byte(`{
			"security": {"auth": {"selectedType": "gemini-api-key"}},
			"model": {"name": "gemini-2.5-pro"},
			"general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
			"privacy": {"usageStatisticsEnabled": false},
			"telemetry": {"enabled": true, "target": "local", "outfile": "/home/dev/telemetry.log", "logPrompts": false}}`), 0o600))
	},
}

func geminiArgs(args ...string) []string {
	return append([]string{"gemini", "--approval-mode", "yolo"}, args...)
}

// title is the last title that Gemini CLI gave its terminal.
func (r *run) title() string {
	shown := r.shown()
	i := strings.LastIndex(shown, "\x1b]0;")
	if i < 0 {
		return ""
	}
	title := shown[i+len("\x1b]0;"):]
	return title[:max(0, strings.IndexAny(title, "\x1b\x07"))]
}

func geminiReady(r *run) {
	r.t.Helper()
	r.await("Gemini CLI to be ready", func() bool {
		return strings.Contains(r.title(), "Ready") && strings.Contains(r.shown(), "Type your message")
	})
}

// modelSaw counts the requests of a prompt.
func (w *world) modelSaw(prompt string) (n int) {
	mark := mock.Mark(prompt)
	for _, c := range w.model.Calls() {
		if c.Kind == mock.Main && c.Prompt == mark {
			n++
		}
	}
	return n
}

// sendsPatiently pastes a line, waits for it on the screen and presses Enter, until
// begun reports an effect. An Enter right after a paste counts as part of the paste. A
// second Enter after the line was accepted does nothing. A paste during a repaint is
// lost, so a line without effect is pasted again, after a time that is long enough for a
// very busy machine. The Enter of a command comes later: before the harness has found the
// command, Enter selects the first of all commands.
func sendsPatiently(r *run, line string, begun func() bool) {
	r.t.Helper()
	const echo, again, over = 5 * time.Second, 2 * time.Second, 30 * time.Second
	pace := 400 * time.Millisecond
	if strings.HasPrefix(line, "/") {
		pace = time.Second
	}
	var (
		pasted      = -1 // the length of the output when the line was pasted
		seen        bool
		enter, next time.Time // when to press Enter, and when to paste
	)
	r.await("the effect of "+line, func() bool {
		now := time.Now()
		switch {
		case begun():
			return true
		case pasted >= 0 && !seen && strings.Contains(r.shown()[pasted:], line):
			seen, enter, next = true, now.Add(pace), now.Add(over)
		case now.After(next):
			if pasted >= 0 {
				r.types("\x15") // clears what the input line has of the earlier paste
			}
			seen, pasted, next = false, len(r.shown()), now.Add(echo)
			r.types("\x1b[200~" + line + "\x1b[201~")
		case seen && now.After(enter):
			enter = now.Add(again)
			r.types("\r")
		}
		return false
	})
}

// geminiTurn sends a prompt and waits until its turn is over.
func geminiTurn(r *run, prompt string) {
	r.t.Helper()
	sendsPatiently(r, prompt, func() bool { return r.modelSaw(prompt) > 0 })
	r.await("the turn of "+prompt, func() bool { return r.modelRests() && strings.Contains(r.title(), "Ready") })
}

// modelRests reports whether every call has ended and no tool result is pending.
func (w *world) modelRests() bool {
	calls := w.model.Calls()
	for _, c := range calls {
		if !c.Over {
			return false
		}
	}
	main := slices.DeleteFunc(calls, func(c mock.Call) bool { return c.Kind != mock.Main })
	return len(main) > 0 && !main[len(main)-1].Tool
}

// geminiTurns is a script that sends prompts, waits for the end of each turn and
// leaves with /quit.
func geminiTurns(prompts ...string) func(r *run) {
	return func(r *run) {
		geminiReady(r)
		for _, p := range prompts {
			geminiTurn(r, p)
		}
		geminiQuits(r)
	}
}

func geminiQuits(r *run) {
	r.t.Helper()
	sendsPatiently(r, "/quit", r.over)
}

// onlyProcess are the events of a harness that is observed as a process only.
func onlyProcess(exit int) string {
	return fmt.Sprintf(`
		session.starting  S? startup
		session.started   S? startup
		session.ending    S? exit %d
		session.ended     S? exit %[1]d`, exit)
}

func TestGemini(t *testing.T) {
	geminiTurnStories().play(t, story{harness: gemini, argv: geminiArgs(), tty: true})
}

// TestGeminiTerminal plays permissions, an API error, a compaction, a resumed session and
// signals, in a terminal.
func TestGeminiTerminal(t *testing.T) {
	geminiTerminalStories().play(t, story{harness: gemini, argv: geminiArgs(), tty: true})
}

// TestGeminiFiles plays the stories of TestGemini and TestGeminiTerminal without clients.
// The sessions are observed by their files and the terminal's title.
func TestGeminiFiles(t *testing.T) {
	all := merged(geminiTurnStories(), geminiTerminalStories())
	// Without hooks, the id of a new session is known only from its chat file, after
	// session.started. The only known reason of the end is the exit code.
	known := strings.NewReplacer("session.started S1 startup", "session.started S? startup", " exit\n", " exit 0\n")
	for name, s := range all {
		s.emits = known.Replace(s.emits + "\n")
		all[name] = s
	}
	none := all["no turn"]
	none.emits = sequence(starts("S?", "startup"), ends("S?", "exit 0"))
	all["no turn"] = none
	all["a context cleared before the first prompt"] = story{
		script: func(r *run) {
			geminiReady(r)
			geminiClears(r)
			geminiTurn(r, "hello (p1)")
			geminiQuits(r)
		},
		emits: sequence(starts("S?", "startup"), ends("S1", "clear"), starts("S2", "clear"), frame("S2 F1", "completed"), pressure("low", "S2 F1"), ends("S2", "exit 0")),
	}
	all["a prompt of the command line"] = story{
		argv: geminiArgs("-i", "hello (p1)"),
		script: func(r *run) {
			r.await("the turn", func() bool {
				return r.modelSaw("hello (p1)") > 0 && r.modelRests() && strings.Contains(r.title(), "Ready")
			})
			geminiTurn(r, "again (p2)")
			geminiQuits(r)
		},
		emits: sequence(starts("S?", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), frame("S1 F2", "completed"), ends("S1", "exit 0")),
	}
	// The user's hook delays the prompts, so the title shows work before a prompt is
	// recorded.
	late := all["a cleared context"]
	late.files = map[string]string{".gemini/settings.json": `{
		"security": {"auth": {"selectedType": "gemini-api-key"}}, "model": {"name": "gemini-2.5-pro"}, "privacy": {"usageStatisticsEnabled": false},
		"general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
		"hooks": {"BeforeAgent": [{"hooks": [{"type": "command", "command": "sleep 0.5"}]}]}}`}
	all["a hook of the user that delays the prompts"] = late
	all.play(t, story{harness: gemini, argv: geminiArgs(), tty: true, noHooks: true})
}

func geminiTurnStories() stories {
	return stories{
		"no turn": {
			script: geminiTurns(),
			// Gemini CLI deletes the empty chat file at its end. The wrapper may or may not
			// have read the file before, so the last event may be missing.
			emits: sequence(starts("S? S1", "startup"), ends("S1", "exit"), "? capability.degraded S1 context.pressure_observed unavailable"),
		},
		"tool turn": {
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			script:  geminiTurns("run it (p1)", "thanks (p2)"),
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
				frame("S1 F2", "completed"), ends("S1", "exit")),
		},
		"a cleared context": {
			replies: []mock.Reply{mock.Says("one"), mock.Says("two")},
			script:  geminiClearsBetween("hello (p1)", "again (p2)"),
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "clear"),
				starts("S2", "clear"), frame("S2 F2", "completed"), pressure("low", "S2 F2"), ends("S2", "exit")),
		},
		"Esc while the model answers": {
			replies: []mock.Reply{hanging(), mock.Says("back")},
			script: func(r *run) {
				geminiReady(r)
				geminiInterrupted(r, "hello (p1)")
				geminiTurn(r, "continue (p2)")
				geminiQuits(r)
			},
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "interrupted"), frame("S1 F2", "completed"), pressure("low", "S1 F2"),
				ends("S1", "exit")),
		},
	}
}

// geminiClearsBetween is a script that clears the context between two prompts.
func geminiClearsBetween(first, then string) func(r *run) {
	return func(r *run) {
		geminiReady(r)
		geminiTurn(r, first)
		geminiClears(r)
		geminiTurn(r, then)
		geminiQuits(r)
	}
}

func geminiClears(r *run) {
	r.t.Helper()
	before := strings.Count(r.shown(), "\x1b[3J")
	sendsPatiently(r, "/clear", func() bool { return strings.Count(r.shown(), "\x1b[3J") > before })
}

func geminiTerminalStories() stories {
	tool := []mock.Reply{mock.Runs("sleep 300")}
	during := func(act func(r *run)) func(r *run) {
		return func(r *run) {
			geminiReady(r)
			sendsPatiently(r, "run it (p1)", func() bool { return r.modelSaw("run it (p1)") > 0 })
			midTool(r)
			act(r)
		}
	}
	return stories{
		"permission and denied tool": {
			argv:    []string{"gemini"},
			replies: []mock.Reply{mock.Runs("touch made"), mock.Says("it is made"), mock.Runs("touch more"), mock.Says("back")},
			script: func(r *run) {
				geminiReady(r)
				geminiAsked(r, "make it (p1)", "\r")
				geminiAsked(r, "make more (p2)", "\x1b")
				geminiTurn(r, "continue (p3)")
				geminiQuits(r)
			},
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
				frame("S1 F2", "interrupted"), frame("S1 F3", "completed"), ends("S1", "exit")),
			and: func(t *testing.T, r *run, _ record) {
				require.FileExists(t, project+"/made")
				require.NoFileExists(t, project+"/more")
			},
		},
		"API error": {
			replies: []mock.Reply{mock.Fails(400), mock.Says("better")},
			script:  geminiTurns("hello (p1)", "again (p2)"),
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "failed transport_error"), frame("S1 F2", "completed"),
				pressure("low", "S1 F2"), ends("S1", "exit")),
		},
		"compact": {
			script: func(r *run) {
				geminiReady(r)
				geminiTurn(r, "hello (p1)")
				geminiTurn(r, "hello again (p2)")
				compactions := func() bool {
					return slices.ContainsFunc(r.model.Calls(), func(c mock.Call) bool { return c.Kind == mock.Compaction && c.Over })
				}
				sendsPatiently(r, "/compress", compactions)
				r.await("the compaction", func() bool { return r.modelRests() && strings.Contains(r.shown(), "compressed") })
				geminiTurn(r, "continue (p3)")
				geminiQuits(r)
			},
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
				frame("S1 F2", "completed"), "context.compacted S1 unknown", frame("S1 F3", "completed"), pressure("low", "S1 F3"), ends("S1", "exit")), // the chat file does not name the trigger
		},
		"--resume": {
			earlier: [][]string{geminiArgs("-p", "one (p1)")}, argv: geminiArgs("--resume", earlierID),
			script: geminiTurns("two (p2)"),
			emits:  sequence(starts("S1", "resume"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit")),
			and:    func(t *testing.T, r *run, rec record) { rec.checkEarlier(t, r.earlier) },
		},
		"SIGTERM to what was started": {
			replies: tool, script: during(func(r *run) { r.signals(whatWasStarted, syscall.SIGTERM) }), exitWrapped: 143,
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "exit")),
		},
		"SIGKILL of the harness while a tool runs": {
			replies: tool, script: during(func(r *run) { r.signals(theHarness, syscall.SIGKILL) }), exit: 137,
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "SIGKILL")),
		},
	}
}

// geminiAsked sends a prompt whose turn asks for a permission, and presses a key in
// the dialog until the turn is over.
func geminiAsked(r *run, prompt, key string) {
	r.t.Helper()
	since := len(r.shown())
	sendsPatiently(r, prompt, func() bool { return r.modelSaw(prompt) > 0 })
	r.await("the question", func() bool { return strings.Contains(r.shown()[since:], "Allow execution") })
	next := time.Now()
	r.await("the end of the turn of "+prompt, func() bool {
		if strings.Contains(r.title(), "Ready") {
			return true
		}
		if time.Now().After(next) {
			r.types(key)
			next = time.Now().Add(3 * time.Second)
		}
		return false
	})
}

// TestGeminiPayloads checks that each payload reaches the model exactly once.
func TestGeminiPayloads(t *testing.T) {
	emits := sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit"))
	clients := []client{sessionPayload, promptPayload}
	for name, s := range (stories{
		"terminal": {tty: true, argv: geminiArgs(), script: geminiTurns("hello (p1)")},
		"-p":       {argv: geminiArgs("-p", "hello (p1)")},
	}) {
		s.harness, s.clients, s.replies, s.emits = gemini, clients, []mock.Reply{mock.Says("done")}, emits
		s.and = func(t *testing.T, r *run, rec record) {
			asked := r.questions()
			require.Len(t, asked, 1)
			for _, c := range clients {
				require.Equal(t, 1, strings.Count(asked[0], c.body), c.body)
				rec.checkDelivered(t, c)
			}
		}
		t.Run(name, s.play)
	}
}

// geminiInterrupted sends a prompt and presses Esc once the answer has begun.
func geminiInterrupted(r *run, prompt string) {
	r.t.Helper()
	sendsPatiently(r, prompt, func() bool { return r.modelSaw(prompt) > 0 })
	midStream(r)
	r.types("\x1b")
	r.await("the interruption", func() bool { return r.modelRests() && strings.Contains(r.title(), "Ready") })
}

func TestGeminiPrint(t *testing.T) {
	stories{
		"tool turn": {
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			emits:   sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit")),
		},
		"API error": {
			replies: []mock.Reply{mock.Fails(400)},
			exit:    1,
			// The chat file is deleted at the end, because it has no answer.
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "abandoned"), ends("S1", "exit"),
				"? capability.degraded S1 context.pressure_observed unavailable"),
		},
		"--resume": {
			earlier: [][]string{geminiArgs("-p", "one (p1)")}, argv: geminiArgs("--resume", earlierID, "-p", "two (p2)"),
			emits: sequence(starts("S1", "resume"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit")),
			and:   func(t *testing.T, r *run, rec record) { rec.checkEarlier(t, r.earlier) },
		},
		// Gemini CLI calls PreCompress hooks before each request, even without a compaction.
		// In this story it compacts.
		"auto-compaction in the middle of a turn": {
			earlier: [][]string{geminiArgs("-p", "one (p1)")}, argv: geminiArgs("--resume", earlierID, "-p", "two (p2)"), flags: []string{"--hooks", "always"},
			replies: []mock.Reply{mock.Says("one"), mock.Runs("echo hi").Using(600_000), mock.Says("done")},
			emits: sequence(starts("S1", "resume"), frame("S1 F1", "completed", "context.compacted S1 F1 unknown"),
				pressure("moderate", "S1 F1", "context.compacted F1"), pressure("low", "S1 F1"), ends("S1", "exit")),
		},
		// The context is as large as in the story of the auto-compaction, but there is no
		// earlier turn to summarize.
		"nothing to compact": {
			flags: []string{"--hooks", "always"}, replies: []mock.Reply{mock.Runs("echo hi").Using(600_000), mock.Says("done")},
			emits: sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("moderate", "S1 F1"), pressure("low", "S1 F1"), ends("S1", "exit")),
			and: func(t *testing.T, r *run, _ record) {
				for _, c := range r.model.Calls() {
					require.NotEqual(t, mock.Compaction, c.Kind)
				}
			},
		},
		"SIGTERM to what was started": {
			replies: []mock.Reply{mock.Runs("sleep 300")}, exitWrapped: 143,
			script: duringTool(func(r *run) { r.signals(whatWasStarted, syscall.SIGTERM) }),
			emits:  sequence(starts("S? S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "exit")),
		},
		"SIGKILL of the harness": {
			replies: []mock.Reply{mock.Runs("sleep 300")}, exit: 137,
			script: duringTool(func(r *run) { r.signals(theHarness, syscall.SIGKILL) }),
			emits:  sequence(starts("S? S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "SIGKILL")),
		},
	}.play(t, story{harness: gemini, argv: geminiArgs("-p", "hello (p1)")})
}
