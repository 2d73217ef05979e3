//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A kind is one of the harnesses and the model server that it speaks to.
type kind struct {
	server, port, keepFlag string
	env                    []string
	seed                   func(t *testing.T) // what a person's home already holds
}

// claude is Claude Code, past its first-start dialogs.
var claude = kind{
	server: "mock_anthropic.py", port: "8787", keepFlag: "--record",
	env: []string{
		"ANTHROPIC_BASE_URL=http://127.0.0.1:8787", "ANTHROPIC_AUTH_TOKEN=none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
	},
	seed: func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(home, ".claude.json"),
			[]byte(`{"hasCompletedOnboarding":true,"projects":{"/home/dev/project":{"hasTrustDialogAccepted":true}}}`), 0o600))
	},
}

// sonnet is a model whose context window has one size, so it is known in print
// mode as well.
var sonnet = []string{"--model", "claude-sonnet-4-5"}

func claudeArgs(args ...string) []string {
	return append(append([]string{"claude"}, sonnet...), args...)
}

// registry is what Claude Code says of itself in ~/.claude/sessions.
type registry struct {
	PID             int    `json:"pid"`
	SessionID       string `json:"sessionId"`
	Status          string `json:"status"`
	StatusUpdatedAt int64  `json:"statusUpdatedAt"`
}

func (r *run) registry() registry {
	var out registry
	files, _ := filepath.Glob(home + "/.claude/sessions/*.json")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		_ = json.Unmarshal(data, &out) // half a document is read again
	}
	return out
}

// claudeReady waits for the prompt.
func claudeReady(r *run) {
	r.t.Helper()
	r.await("Claude Code to be ready", func() bool { return r.registry().Status == "idle" })
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
		return r.transcripts(claudeTurnOver) > before && r.registry().Status == "idle"
	})
}

func TestClaudeSimpleTurn(t *testing.T) {
	story{
		harness: claude, argv: claudeArgs(), tty: true,
		script: func(r *run) {
			claudeReady(r)
			claudeTurn(r, "hello")
			r.types("/exit\r")
		},
		told: `
			session.starting  S1 startup
			session.started   S1 startup
			frame.opening     S1 F1
			frame.opened      S1 F1
			~ context.pressure_observed S1 low between frame.opened F1 and session.ended S1
			frame.ending      S1 F1 completed
			frame.ended       S1 F1 completed
			session.ending    S1 prompt_input_exit
			session.ended     S1 prompt_input_exit`,
	}.play(t)
}

func TestClaudePrintSimpleTurn(t *testing.T) {
	story{
		harness: claude, argv: claudeArgs("-p", "hello"),
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
	}.play(t)
}
