//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
)

// resumedTurn are the events of one more turn of an earlier session. The wrapper
// did not choose the session's id, so the first event has no id.
var resumedTurn = sequence(starts("S? S1", "resume"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "other"))

// forkedTurn is resumedTurn in a fork. Before 2.1.330 Claude Code begins a fork with
// the id of the earlier session.
func forkedTurn() string {
	if claude.since("2.1.330") {
		return strings.Replace(resumedTurn, "S1 resume", "S1 fork", 1)
	}
	return strings.Replace(strings.ReplaceAll(resumedTurn, "S1", "S2"), "S2 resume", "S1 resume", 1)
}

// hooklessTurn is resumedTurn without hooks.
var hooklessTurn = sequence(starts("S? S1", "resume"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "exit 0"))

// sameSession checks that every event has the earlier session's id or no id, and that no
// other session is on record.
func sameSession(t *testing.T, r *run, rec record) {
	for _, e := range rec.events {
		if e.HarnessSessionID != nil && *e.HarnessSessionID != r.earlier {
			t.Errorf("%s is about session %s, want the earlier one, %s", e.Event, *e.HarnessSessionID, r.earlier)
		}
	}
	if got := r.sessions(); !slices.Equal(got, []string{r.earlier}) {
		t.Errorf("sessions on record: %v, want %s alone", got, r.earlier)
	}
	r.checkIdentity(r.earlier)
}

// forked checks that the earlier session is unchanged, and that everything since the
// prompt is in a session of its own.
func forked(t *testing.T, r *run, rec record) {
	on := r.sessions() // ordered by the last write, newest first
	require.Len(t, on, 2, "sessions on record")
	fork := on[0]
	require.Equal(t, r.earlier, on[1], "the older session on record")
	for _, e := range rec.events {
		want := fork
		switch e.Event {
		case "session.starting":
			want = ""
		case "session.started":
			if !claude.since("2.1.330") {
				want = r.earlier // the fork has no id of its own before its first prompt
			}
		case pressureObserved:
			// Only the fork's own transcript contains the usage.
			if len(e.Evidence) != 1 || e.Evidence[0].Source != "transcript" {
				t.Errorf("evidence of %s: %v, want its transcript", e.Event, e.Evidence)
			}
		}
		if got := deref(e.HarnessSessionID); got != want {
			t.Errorf("%s is about session %q, want %q", e.Event, got, want)
		}
	}
	r.checkIdentity(fork)
}

// checkIdentity checks the final id of the harness session: the last fact about it
// on the ledger, and `status`.
func (w *world) checkIdentity(want string) {
	w.t.Helper()
	segments, err := filepath.Glob(w.path("state/sessions/*/ledger-*.jsonl"))
	require.NoError(w.t, err)
	bound := ""
	for _, path := range segments {
		text, err := os.ReadFile(path)
		require.NoError(w.t, err)
		for _, entry := range lines[struct {
			Kind string `json:"kind"`
			Body struct {
				ID string `json:"id"`
			} `json:"body"`
		}](w.t, string(text)) {
			if entry.Kind == "bound" {
				bound = entry.Body.ID
			}
		}
	}
	if bound != want {
		w.t.Errorf("the last bound session is %q, want %s", bound, want)
	}

	out, err := w.tool("--json", "status", "last")
	require.NoError(w.t, err)
	var status struct {
		HarnessSessionID string `json:"harness_session_id"`
	}
	require.NoError(w.t, json.Unmarshal([]byte(out), &status), out)
	if status.HarnessSessionID != want {
		w.t.Errorf("status: session %s, want %s", status.HarnessSessionID, want)
	}
}

// TestResumed continues sessions within a second of their last turn, as scripts do.
// No event of that turn may be emitted again.
func TestResumed(t *testing.T) {
	claudeBefore := [][]string{claudeArgs("-p", "one")}
	codexBefore := [][]string{codexExec("one")}
	for name, s := range map[string]story{
		"claude -p -c": {
			harness: claude, earlier: claudeBefore, argv: claudeArgs("-p", "-c", "two"),
			emits: resumedTurn, and: sameSession,
		},
		"claude -p --resume": {
			harness: claude, earlier: claudeBefore, argv: claudeArgs("-p", "--resume", earlierID, "two"),
			emits: resumedTurn, and: sameSession,
		},
		"claude --resume": {
			harness: claude, earlier: claudeBefore, tty: true, argv: claudeArgs("--resume", earlierID),
			script: claudeTurns("two"),
			emits:  strings.ReplaceAll(resumedTurn, "other", "prompt_input_exit"), and: sameSession,
		},
		// Without hooks, Claude Code's file in ~/.claude/sessions gives the session id.
		"claude --resume, --no-hooks": {
			harness: claude, earlier: claudeBefore, tty: true, argv: claudeArgs("--resume", earlierID), flags: []string{"--no-hooks"},
			script: claudeTurns("two"),
			emits:  hooklessTurn, and: sameSession,
		},
		"claude -p -c, --no-hooks": {
			harness: claude, earlier: claudeBefore, argv: claudeArgs("-p", "-c", "two"), flags: []string{"--no-hooks"},
			emits: hooklessTurn, and: sameSession,
		},
		"claude -p --resume --fork-session": {
			harness: claude, earlier: claudeBefore, argv: claudeArgs("-p", "--resume", earlierID, "--fork-session", "two"),
			emits: forkedTurn(), and: forked,
		},
		"codex exec resume": {
			harness: codex, earlier: codexBefore, argv: codexExecResume("--last", "two"),
			emits: resumedTurn, and: sameSession,
		},
		"codex resume": {
			harness: codex, earlier: codexBefore, tty: true, argv: append(codexArgs("resume"), earlierID),
			script: codexTurns("two"),
			// Codex's terminal is ready before a hook knows the session id.
			emits: strings.Replace(resumedTurn, "S1 resume", "S? resume", 1), and: sameSession,
		},
		// In the next four cases package profiles builds the command line that continues
		// the session.
		"claude -p, by its profile": {
			harness: claude, earlier: claudeBefore, argv: continued(t, claudeArgs("-p", "--allowedTools", "Bash", "--session-id", "0f0f", "two")),
			emits: resumedTurn, and: sameSession,
		},
		"claude, by its profile": {
			harness: claude, earlier: claudeBefore, tty: true, argv: continued(t, claudeArgs("not again")),
			script: claudeTurns("two"),
			emits:  strings.ReplaceAll(resumedTurn, "other", "prompt_input_exit"), and: sameSession,
		},
		"codex exec, by its profile": {
			harness: codex, earlier: codexBefore, argv: continued(t, codexExec("two")),
			emits: resumedTurn, and: sameSession,
		},
		"codex, by its profile": {
			harness: codex, earlier: codexBefore, tty: true, argv: continued(t, codexArgs("not again")),
			script: codexTurns("two"),
			emits:  strings.Replace(resumedTurn, "S1 resume", "S? resume", 1), and: sameSession,
		},
	} {
		t.Run(name, s.play)
	}
}

// continued is the command line that continues the earlier session, according to
// the profile of its program.
func continued(t *testing.T, argv []string) []string {
	t.Helper()
	p, _ := profiles.For(profiles.Infer(argv[0]))
	const id = "3f1c2b4a-2222-4333-8444-555555555555"
	on, ok := p.Resume(argv, id, true)
	require.True(t, ok, argv)
	on[slices.Index(on, id)] = earlierID
	return on
}

func codexExecResume(args ...string) []string {
	return append(append(append([]string{"codex", "exec", "resume"}, codexConfig...), "--skip-git-repo-check"), args...)
}

// TestPipedPrompt sends the first prompt through a pipe and types the others.
func TestPipedPrompt(t *testing.T) {
	story{
		harness: claude, tty: true, piped: "hello", argv: claudeArgs(),
		script: func(r *run) {
			r.await("the answer", func() bool {
				return r.transcripts(claudeTurnOver) == 1 && claudeRegistry().Status == "idle"
			})
			claudeTurn(r, "and more")
			r.types("/exit\r")
		},
		emits: sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
			frame("S1 F2", "completed"), ends("S1", "prompt_input_exit")),
	}.play(t)
}
