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

// A kind is one of the harnesses.
type kind struct {
	name    string // the name of its program
	version string // the version for which the stories were written
	records string // the pattern of its session files, which are named by id
	env     []string
	seed    func(t *testing.T) // creates the files of a user's home
	// folder holds the harness and its own Node, if the harness needs another version of
	// Node than the machine has. The path is relative to the folder of all harnesses.
	folder string
}

// claude is Claude Code with the dialogs of a first start already answered.
var claude = kind{
	name: "claude", version: "2.1.197",
	records: ".claude/projects/*/*.jsonl",
	env: []string{
		"ANTHROPIC_BASE_URL=http://127.0.0.1:8787", "ANTHROPIC_AUTH_TOKEN=none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_MAX_RETRIES=0",
	},
	seed: func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(home, ".claude.json"),
			[]byte(`{"hasCompletedOnboarding":true,"userID":"0","officialMarketplaceAutoInstallAttempted":true,"officialMarketplaceAutoInstalled":true,
				"projects":{"/home/dev/project":{"hasTrustDialogAccepted":true}}}`), 0o600))
	},
}

// sonnet selects a model whose context window has only one size. So the window is
// known from the model's name, in print mode too.
var sonnet = []string{"--model", "claude-sonnet-4-5"}

func claudeArgs(args ...string) []string {
	return append(append([]string{"claude"}, sonnet...), args...)
}

// registry is an entry of Claude Code in ~/.claude/sessions. A killed process
// leaves its entry.
type registry struct {
	PID             int    `json:"pid"`
	SessionID       string `json:"sessionId"`
	Status          string `json:"status"`
	StatusUpdatedAt int64  `json:"statusUpdatedAt"`
}

func claudeRegistry() registry {
	var out registry
	files, _ := filepath.Glob(home + "/.claude/sessions/*.json")
	for _, f := range files {
		var one registry
		data, _ := os.ReadFile(f)
		if json.Unmarshal(data, &one) == nil && one.PID > 0 && syscall.Kill(one.PID, 0) == nil { // a half-written file is skipped, and read again by the next call
			out = one
		}
	}
	return out
}

// claudeReady waits for the prompt. Claude Code calls the SessionStart hook at the
// same time; a signal or key before that call is answered cancels the call. So a
// wrapped run waits for the call's event too.
func claudeReady(r *run) {
	r.t.Helper()
	r.await("Claude Code to be ready", func() bool { return claudeRegistry().Status == "idle" })
	if r.wrapped {
		r.await("the SessionStart hook", func() bool {
			text, _ := os.ReadFile(r.path("events.jsonl"))
			return strings.Contains(string(text), `"session.started"`)
		})
	}
}

// transcripts counts the transcript lines that hold text.
func (w *world) transcripts(text string) int {
	n := 0
	files, _ := filepath.Glob(home + "/.claude/projects/*/*.jsonl")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, text) {
				n++
			}
		}
	}
	return n
}

const claudeTurnOver = `"subtype":"turn_duration"`

// claudeTurn sends a prompt and waits until its turn is over.
func claudeTurn(r *run, prompt string) {
	r.t.Helper()
	before := r.transcripts(claudeTurnOver)
	r.types(prompt + "\r")
	r.await("the turn of "+prompt, func() bool {
		return r.transcripts(claudeTurnOver) > before && claudeRegistry().Status == "idle"
	})
}

// claudeClear types /clear and waits until the new session is at its prompt.
func claudeClear(r *run) {
	r.t.Helper()
	old := claudeRegistry().SessionID
	r.types("/clear\r")
	r.await("the new session", func() bool {
		reg := claudeRegistry()
		return reg.SessionID != old && reg.Status == "idle"
	})
}

// claudeTurns is a script that sends prompts, waits for the end of each turn and
// leaves with /exit.
func claudeTurns(prompts ...string) func(r *run) {
	return func(r *run) {
		claudeReady(r)
		for _, p := range prompts {
			claudeTurn(r, p)
		}
		r.types("/exit\r")
	}
}

// claudeDuringTool is a script that acts while the tool of the first turn runs.
func claudeDuringTool(act func(r *run)) func(r *run) {
	return func(r *run) {
		claudeReady(r)
		r.types("hello\r")
		duringTool(act)(r)
	}
}

// duringTool is a script that acts while a tool runs.
func duringTool(act func(r *run)) func(r *run) {
	return func(r *run) {
		midTool(r)
		act(r)
	}
}

// hanging is a reply whose stream stops after its first line.
func hanging() mock.Reply { return mock.Reply{Text: "ALPHA\n\nOMEGA", Hang: true} }

// claudeSettled reports whether Claude Code has written its settings. Since 2.1.330
// it writes them a moment after its start, and holds a lock meanwhile. In a
// terminal it also writes a record of this session.
func claudeSettled(terminal bool) bool {
	if files, _ := filepath.Glob(home + "/.claude.json.*"); len(files) > 0 {
		return false
	}
	text, err := os.ReadFile(home + "/.claude.json")
	return err == nil && (!terminal || !claude.since("2.1.330") || strings.Contains(string(text), `"lastGracefulShutdown"`))
}

// unknownWindow lists the events about the context of a session. known says whether the
// size of the context window is known.
func unknownWindow(known bool) string {
	if known {
		return pressure("low", "S1 F1")
	}
	return sequence("~ capability.degraded S1 context_pressure partial between frame.opened F1 and session.ended S1",
		"~ context.pressure_observed S1 unknown between capability.degraded S1 and session.ended S1")
}

// endless is a tool call that does not end by itself. Claude Code refuses a single
// sleep since 2.1.330.
const endless = "sh -c 'sleep 300; true'"

// midTool waits until the tool of the turn runs.
func midTool(r *run) {
	r.t.Helper()
	r.await("the tool", func() bool {
		return slices.ContainsFunc(others(), func(p string) bool { return strings.HasSuffix(p, " sleep 300") }) &&
			(r.harness.name != claude.name || r.transcripts(`"type":"tool_use"`) > 0 && claudeSettled(r.tty != nil))
	})
}

// claudeRefuses returns the replies that make one request fail, followed by more. Since
// 2.1.330 Claude Code repeats a request five times if the server answers 400.
func claudeRefuses(more ...mock.Reply) []mock.Reply {
	if claude.since("2.1.330") {
		return append(slices.Repeat([]mock.Reply{mock.Fails(400)}, 6), more...)
	}
	return append([]mock.Reply{mock.Fails(500)}, more...)
}

// claudeFailsFirst is a script with a turn that fails and then a turn that succeeds.
// Since 2.1.330 the transcript does not record the end of the failed turn.
func claudeFailsFirst(r *run) {
	claudeReady(r)
	r.types("hello\r")
	r.await("the failure", func() bool {
		return r.transcripts(`"isApiErrorMessage":true`) > 0 && claudeRegistry().Status == "idle"
	})
	claudeTurn(r, "again")
	r.types("/exit\r")
}

// modelAsked counts the requests of the main conversation.
func (w *world) modelAsked() int { return len(w.questions()) }

// midStream waits until the model has begun to answer.
func midStream(r *run) {
	r.t.Helper()
	r.await("the first words of the answer", func() bool { return strings.Contains(r.shown(), "ALPHA") })
}

func TestClaude(t *testing.T) {
	merged(claudeTalks(), claudeAsks(), claudeContexts(), claudeHookless(), claudeInterruptions(), claudeSignals()).play(t, story{harness: claude, argv: claudeArgs("--allowedTools", "Bash"), tty: true})
}

// claudeTalks are conversations that end with /exit.
func claudeTalks() stories {
	return stories{
		"no turn": {
			script: claudeTurns(),
			emits:  sequence(starts("S1", "startup"), ends("S1", "prompt_input_exit")),
		},
		"simple turn": {
			script: claudeTurns("hello"),
			emits:  sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "prompt_input_exit")),
		},
		"tool turn": {
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			script:  claudeTurns("run it", "thanks"),
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
				frame("S1 F2", "completed"), ends("S1", "prompt_input_exit")),
		},
		"API error": {
			replies: claudeRefuses(mock.Says("better")),
			script:  claudeFailsFirst,
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "failed transport_error"), frame("S1 F2", "completed"),
				pressure("low", "S1 F2"), ends("S1", "prompt_input_exit")),
		},
		"a local command is not a frame": {
			script: func(r *run) {
				claudeReady(r)
				claudeTurn(r, "hello")
				r.types("/context\r")
				r.await("the command's answer", func() bool { return r.transcripts("<local-command-stdout>") > 0 })
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "prompt_input_exit")),
		},
		"input while a tool runs is not a frame": {
			replies: []mock.Reply{mock.Runs("while [ ! -e go ]; do sleep 0.1; done; rm go"), mock.Says("done")},
			script: func(r *run) {
				claudeReady(r)
				r.types("run it\r")
				r.await("the tool", func() bool {
					return slices.ContainsFunc(others(), func(p string) bool { return strings.HasSuffix(p, " sleep 0.1") })
				})
				r.types("and be quick\r")
				r.await("the input", func() bool { return r.transcripts(`"operation":"enqueue"`) > 0 })
				require.NoError(r.t, os.WriteFile(project+"/go", nil, 0o600))
				r.await("the end of the turn", func() bool {
					return r.transcripts(claudeTurnOver) > 0 && claudeRegistry().Status == "idle"
				})
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "prompt_input_exit")),
		},
		"a user with hooks and a status line": {
			// Only the status line reports the window of this model.
			argv: []string{"claude"},
			files: map[string]string{".claude/settings.json": `{
				"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo stopped >> /home/dev/project/own-hook"}]}]},
				"statusLine": {"type": "command", "command": "echo MY STATUS LINE"}}`},
			script: func(r *run) {
				claudeReady(r)
				claudeTurn(r, "hello")
				r.await("the user's status line", func() bool { return strings.Contains(r.shown(), "STATUS") })
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "prompt_input_exit")),
			and: func(t *testing.T, r *run, _ record) {
				ran, err := os.ReadFile(project + "/own-hook")
				if err != nil || string(ran) != "stopped\n" {
					t.Errorf("the user's own hook wrote %q, %v", ran, err)
				}
			},
		},
	}
}

// claudeAsks are conversations in which Claude Code asks the user.
func claudeAsks() stories {
	return stories{
		"permission and denied tool": {
			argv:    claudeArgs(),
			replies: []mock.Reply{mock.Runs("touch made"), mock.Says("it is made"), mock.Runs("touch more"), mock.Says("back")},
			script: func(r *run) {
				claudeReady(r)
				asked := func(prompt, key string, done func() bool) {
					r.types(prompt + "\r")
					r.await("the question", func() bool { return claudeRegistry().Status == "waiting" })
					next := time.Now()
					r.await("the end of the turn of "+prompt, func() bool {
						status := claudeRegistry().Status
						if status == "waiting" && time.Now().After(next) { // a key typed before the dialog is drawn is lost
							r.types(key)
							next = time.Now().Add(2 * time.Second)
						}
						return done() && status == "idle"
					})
				}
				asked("make it", "\r", func() bool { return r.transcripts(claudeTurnOver) == 1 })
				asked("make more", "\x1b", func() bool { return r.transcripts("[Request interrupted by user") == 1 })
				claudeTurn(r, "continue")
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
				frame("S1 F2", "interrupted"), frame("S1 F3", "completed"), ends("S1", "prompt_input_exit")),
			and: func(t *testing.T, r *run, _ record) {
				require.FileExists(t, project+"/made")
				require.NoFileExists(t, project+"/more")
			},
		},
	}
}

// claudeContexts replace or shorten the context between turns.
func claudeContexts() stories {
	return stories{
		"clear": {
			script: func(r *run) {
				claudeReady(r)
				claudeTurn(r, "hello")
				claudeClear(r)
				claudeTurn(r, "hello again")
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "clear"),
				starts("S2", "clear"), frame("S2 F2", "completed"), pressure("low", "S2 F2"), ends("S2", "prompt_input_exit")),
		},
		"compact": {
			script: func(r *run) {
				claudeReady(r)
				claudeTurn(r, "hello")
				claudeTurn(r, "hello again")
				r.types("/compact\r")
				r.await("the compaction", func() bool {
					return r.transcripts(claudeCompacted) == 1 && claudeRegistry().Status == "idle"
				})
				claudeTurn(r, "continue")
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
				frame("S1 F2", "completed"), "context.compacted S1 manual", frame("S1 F3", "completed"), pressure("low", "S1 F3"),
				ends("S1", "prompt_input_exit")),
		},
		"auto-compaction": {
			env:     []string{"CLAUDE_CODE_AUTO_COMPACT_WINDOW=100000"},
			replies: []mock.Reply{mock.Says("hi"), mock.Says("noted").Using(70_000), mock.Says("still here")},
			script: func(r *run) {
				claudeReady(r)
				claudeTurn(r, "hello")
				claudeTurn(r, "read a lot")
				claudeTurn(r, "continue")
				r.await("the compaction", func() bool { return r.transcripts(claudeCompacted) == 1 })
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
				frame("S1 F2", "completed"), frame("S1 F3", "completed", "context.compacted S1 F3 auto"),
				"~ context.pressure_observed S1 low between context.compacted F3 and session.ended S1", ends("S1", "prompt_input_exit")),
		},
	}
}

// claudeHookless are conversations without hooks in which the session changes. Only the
// registry names the new session. The transcript reports the prompts, and Claude Code may
// write the usage above the prompt (docs/harnesses/claude.md, the order of a transcript's
// lines).
func claudeHookless() stories {
	twoSessions := func(r *run) {
		claudeReady(r)
		claudeTurn(r, "hello")
		claudeClear(r)
		claudeTurn(r, "hello again")
	}
	both := func(end string) string {
		return sequence(starts("S1", "startup"), frame("S1 F1", "completed"),
			"~ context.pressure_observed S1 low between session.started S1 and session.ended S1", ends("S1", "clear"),
			starts("S2", "clear"), frame("S2 F2", "completed"),
			"~ context.pressure_observed S2 low between session.started S2 and session.ended S2", ends("S2", end))
	}
	return stories{
		"clear without hooks": {
			flags:  []string{"--no-hooks"},
			script: func(r *run) { twoSessions(r); r.types("/exit\r") },
			emits:  both("exit 0"),
		},
		"resume without hooks": {
			flags: []string{"--no-hooks"},
			script: func(r *run) {
				twoSessions(r)
				old := claudeRegistry().SessionID
				r.types("/resume\r")
				r.await("the list of sessions", func() bool {
					_, list, open := strings.Cut(r.shown(), "Ctrl+A")
					return open && strings.Contains(list, "Ctrl+B")
				})
				r.types("\r") // chooses the first session: there is no other besides the current one
				r.await("the first session", func() bool { reg := claudeRegistry(); return reg.SessionID != old && reg.Status == "idle" })
				claudeTurn(r, "hello once more")
				r.types("/exit\r")
			},
			emits: sequence(both("resume"), starts("S1", "resume"), frame("S1 F3", "completed"),
				"~ context.pressure_observed S1 low between session.ended S2 and session.ended S1", ends("S1", "exit 0")),
		},
	}
}

// claudeInterruptions end a turn before its answer is complete.
func claudeInterruptions() stories {
	return stories{
		"Esc while the model answers": {
			replies: []mock.Reply{hanging(), mock.Says("back")},
			script: func(r *run) {
				claudeReady(r)
				r.types("hello\r")
				midStream(r)
				r.types("\x1b")
				r.await("the interruption", func() bool {
					return r.transcripts("[Request interrupted by user") == 1 && claudeRegistry().Status == "idle"
				})
				claudeTurn(r, "continue")
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "interrupted"), frame("S1 F2", "completed"),
				// Since 2.1.330 the transcript has the token counts of an interrupted answer.
				map[bool]string{false: pressure("low", "S1 F2"), true: pressure("low", "S1 F1", "frame.opening F2")}[claude.since("2.1.330")],
				ends("S1", "prompt_input_exit")),
		},
		"Esc before the model answers": {
			replies: []mock.Reply{{Silent: true}},
			script: func(r *run) {
				claudeReady(r)
				r.types("hello\r")
				r.await("the question", func() bool { return r.modelAsked() == 1 && claudeRegistry().Status == "busy" })
				r.types("\x1b")
				// The user waits until the screen shows the end of the turn.
				r.await("the interruption", func() bool {
					entry := claudeRegistry()
					return entry.Status == "idle" && time.Since(time.UnixMilli(entry.StatusUpdatedAt)) > 2*time.Second
				})
				r.types("\x15") // Ctrl-U clears the prompt, which Esc has put back into the input line
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "interrupted"), ends("S1", "prompt_input_exit")),
		},
		"Esc while a tool runs": {
			replies: []mock.Reply{mock.Runs(endless)},
			script: func(r *run) {
				claudeReady(r)
				r.types("hello\r")
				midTool(r)
				r.types("\x1b")
				r.await("the interruption", func() bool {
					return r.transcripts("[Request interrupted by user") == 1 && claudeRegistry().Status == "idle"
				})
				r.types("/exit\r")
			},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "interrupted"), pressure("low", "S1 F1"), ends("S1", "prompt_input_exit")),
		},
		"exit while a tool runs": {
			replies: []mock.Reply{mock.Runs(endless)},
			script:  claudeDuringTool(func(r *run) { r.types("/exit\r") }),
			emits:   sequence(starts("S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "prompt_input_exit")),
		},
	}
}

// claudeSignals end the session by a signal.
func claudeSignals() stories {
	return stories{
		"SIGTERM to the harness while a tool runs": {
			replies: []mock.Reply{mock.Runs(endless)},
			script:  claudeDuringTool(func(r *run) { r.signals(theHarness, syscall.SIGTERM) }),
			exit:    143,
			emits:   sequence(starts("S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"SIGTERM to what was started": {
			script: func(r *run) {
				claudeReady(r)
				claudeTurn(r, "hello")
				r.signals(whatWasStarted, syscall.SIGTERM)
			},
			exit:  143,
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"SIGINT to what was started": {
			script: func(r *run) {
				claudeReady(r)
				r.signals(whatWasStarted, syscall.SIGINT)
			},
			exitWrapped: 130, // Claude Code reports success; an abort is not a success
			emits:       sequence(starts("S1", "startup"), ends("S1", "other")),
		},
		"SIGHUP to what was started": {
			script: func(r *run) {
				claudeReady(r)
				r.signals(whatWasStarted, syscall.SIGHUP)
			},
			exit:  129,
			emits: sequence(starts("S1", "startup"), ends("S1", "other")),
		},
		"SIGKILL of the harness while a tool runs": {
			replies: []mock.Reply{mock.Runs(endless)},
			script:  claudeDuringTool(func(r *run) { r.signals(theHarness, syscall.SIGKILL) }),
			exit:    137,
			emits:   sequence(starts("S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "SIGKILL")),
		},
	}
}

const claudeCompacted = `"subtype":"compact_boundary"`

func TestClaudePrint(t *testing.T) {
	tool := []mock.Reply{mock.Runs(endless)}
	stories{
		"simple turn": {
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"tool turn": {
			replies: []mock.Reply{mock.Runs("echo hi"), mock.Says("done")},
			emits:   sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"denied tool": {
			argv:    claudeArgs("-p", "hello"),
			replies: []mock.Reply{mock.Runs("touch made"), mock.Says("it is not made")},
			emits:   sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other")),
			and:     func(t *testing.T, _ *run, _ record) { require.NoFileExists(t, project+"/made") },
		},
		"API error": {
			replies: []mock.Reply{mock.Fails(401)},
			exit:    1,
			emits:   sequence(starts("S1", "startup"), frame("S1 F1", "failed operator_required"), ends("S1", "other")),
		},
		"a model of unknown window": {
			argv: []string{"claude", "-p", "hello"},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), ends("S1", "other"),
				unknownWindow(claude.since("2.1.330"))), // since 2.1.330 the window of the default model is known
		},
		"auto-compaction in the middle of a turn": {
			env:     []string{"CLAUDE_CODE_AUTO_COMPACT_WINDOW=100000"},
			replies: []mock.Reply{mock.Runs("echo one"), mock.Runs("echo two").Using(70_000), mock.Says("done")},
			emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed", "context.compacted S1 F1 auto"),
				pressure("low", "S1 F1", "context.compacted F1"),
				"~ context.pressure_observed S1 low between context.compacted F1 and session.ended S1", ends("S1", "other")),
		},
		"SIGTERM to the harness while a tool runs": {
			replies: tool,
			script:  duringTool(func(r *run) { r.signals(theHarness, syscall.SIGTERM) }),
			exit:    143,
			emits:   sequence(starts("S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"SIGTERM to what was started": {
			replies: tool,
			script:  duringTool(func(r *run) { r.signals(whatWasStarted, syscall.SIGTERM) }),
			exit:    143,
			emits:   sequence(starts("S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "other")),
		},
		"SIGKILL of the harness": {
			replies: tool,
			script:  duringTool(func(r *run) { r.signals(theHarness, syscall.SIGKILL) }),
			exit:    137,
			emits:   sequence(starts("S1", "startup"), frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "SIGKILL")),
		},
	}.play(t, story{harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "hello")})
}
