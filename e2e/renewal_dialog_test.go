//go:build e2e && linux

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// The stories of this file renew a harness in a state in which the keys of a reset cannot
// work: another field takes them, or a dialog is open. Nothing is approved or chosen, no
// key is sent as a prompt, and the user's line is still there.

// bothWays is handsOver with both ways to reset.
var bothWays = strings.Replace(handsOver, "PATH", "in_place, relaunch", 1)

// codexEscalates is a reply with a command for which Codex asks its user.
func codexEscalates(command string) mock.Reply {
	return mock.Reply{Call: "exec_command", Args: map[string]any{"cmd": command, "yield_time_ms": 30000,
		"sandbox_permissions": "require_escalated", "justification": "It is needed."}}
}

// pressesPatiently presses a key until it has an effect. A key that is typed before a
// dialog reads the keyboard is lost.
func pressesPatiently(r *run, key, what string, effect func() bool) {
	r.t.Helper()
	var next time.Time
	r.await(what, func() bool {
		if effect() {
			return true
		}
		if now := time.Now(); now.After(next) {
			next = now.Add(5 * time.Second)
			r.types(key)
		}
		return false
	})
}

// waitsIn requires that a renewal stays in a state for some time.
func (w *world) waitsIn(state, activity string) {
	w.t.Helper()
	w.await("the renewal to be "+state, func() bool { return string(w.renewals().Last.State) == state })
	w.staysIn(activity, patience/30)
	require.Equal(w.t, state, string(w.renewals().Last.State))
}

// checkFailed checks the receipts of a renewal that failed in place, after which the old
// session continues.
func (w *world) checkFailed(why string) {
	w.t.Helper()
	last := w.renewals().Last
	require.Equal(w.t, "failed", string(last.Outcome))
	require.Equal(w.t, "payload_rejected", string(last.Failure))
	require.Equal(w.t, why, last.Why)
	out, err := w.tool("receipts", "last")
	require.NoError(w.t, err)
	var events []string
	for _, r := range lines[struct {
		receipt
		Summary map[string]any `json:"telemetry_summary"`
	}](w.t, out) {
		if r.Summary["renewal"] != nil {
			events = append(events, r.Event+" "+r.Status)
		}
	}
	require.Equal(w.t, []string{"session.ending observed", "session.ended failed"}, events)
	require.Empty(w.t, w.ownFiles(handedOver), "after the end of the renewal")
	for i, asked := range w.questions() {
		require.NotContains(w.t, asked, handedOver, "request %d", i)
	}
	for _, call := range w.model.Calls() {
		require.NotContains(w.t, call.Asked, "/clear")
	}
}

const notShown = "the command could not be typed: the harness did not show the command"

// TestRenewalCodexDialog requests a renewal while Codex asks its user a question. The
// renewal waits for the answer.
func TestRenewalCodexDialog(t *testing.T) {
	s := story{
		harness: codex, tty: true, argv: codexArgs("-c", `approval_policy="on-request"`, "-c", `sandbox_mode="workspace-write"`), config: inPlace,
		replies: []mock.Reply{codexEscalates("touch made"), mock.Says("it is made"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		codexReady(r)
		codexSends(r, "make it (p1)")
		r.await("the question", func() bool { return r.codexState() == "blocked" && strings.Contains(r.shown(), "Would you like to") })
		w.asks("wait", "last", "--for", "needs_input")
		w.asks("renew", "last")
		w.waitsIn("negotiated", "needs_input")
		require.Equal(t, "blocked", r.codexState(), "the question is still open")
		require.NoFileExists(t, project+"/made")

		pressesPatiently(r, "y", "the answer to be taken", func() bool { return r.codexState() != "blocked" })
		r.await("the fresh thread", func() bool { return w.renewals().Last.State == "resumed" })
		require.FileExists(t, project+"/made")
		require.Equal(t, "in_place", string(w.renewals().Last.Path))
		require.Equal(t, 2, r.modelAsked(), "the turn came to its end before the reset")
		codexTurn(r, "go on")
		renewed(r)
		codexSends(r, "/quit")
		r.leavesWith(0)
		w.checkFirstRequest(2, handedOver, "make it (p1)", "it is made")
		w.checkChain("notes")
		require.Empty(t, w.ownFiles(handedOver))
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalCodexOwnDialog renews Codex while its user has a list open, in which Enter would
// choose an entry. Codex reports that it is idle.
func TestRenewalCodexOwnDialog(t *testing.T) {
	for command, list := range map[string]struct{ shows, chosen string }{
		"/model":       {"Select Model", "Select Reasoning"},
		"/permissions": {"Update Model Permissions", "Enable full access?"},
	} {
		s := story{
			harness: codex, tty: true, argv: codexArgs("the first prompt"), config: inPlace,
			replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("OMEGA")},
		}
		t.Run(command[1:], func(t *testing.T) {
			s.plays(t, func(w *world) {
				r := w.start(s, true)
				r.await("the first turn", func() bool { return r.turnsOver() == 1 && r.codexState() != "working" })
				old := harnessPID()
				sendsPatiently(r, command, func() bool { return strings.Contains(r.shown(), list.shows) })
				w.asks("renew", "last")
				w.waitsIn("prepared", "idle")
				require.NotContains(t, r.shown(), list.chosen)

				r.types("\x1b")
				r.await("the fresh thread", func() bool { return w.renewals().Last.State == "resumed" })
				require.NotContains(t, r.shown(), list.chosen)
				require.Equal(t, "in_place", string(w.renewals().Last.Path))
				require.Equal(t, old, harnessPID(), "the same process")
				codexTurn(r, "go on")
				renewed(r)
				codexSends(r, "/quit")
				r.leavesWith(0)
				w.checkFirstRequest(1, handedOver, "the first prompt", "ALPHA")
				w.checkChain("notes")
				if t.Failed() {
					t.Log(r.scene())
				}
			})
		})
	}
}

// TestRenewalCodexNotTaken renews Codex while the field for a new thread name is open. This
// field receives the keys of the reset. Enter is not typed, and the field's text is restored.
func TestRenewalCodexNotTaken(t *testing.T) {
	s := story{
		harness: codex, tty: true, argv: codexArgs("the first prompt"), config: inPlace,
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA")},
	}
	opens := func(r *run) {
		r.await("the first turn", func() bool { return r.turnsOver() == 1 && r.codexState() != "working" })
		sendsPatiently(r, "/rename", func() bool { return strings.Contains(r.shown(), "Rename thread") })
		r.await("the suggested name", func() bool { return strings.Count(r.shown(), "Mock title") > 1 })
	}
	t.Run("in place", func(t *testing.T) {
		s.plays(t, func(w *world) {
			r := w.start(s, true)
			opens(r)
			threads, since := codexThreads(), len(r.shown())
			w.asks("renew", "last")
			r.await("the end of the renewal", func() bool { return w.renewals().Last.Outcome != "" })
			w.checkFailed(notShown)
			require.Contains(t, r.shown()[since:], "/clear", "the keys came into the field")
			r.types("s")
			time.Sleep(time.Second) // an Enter right after the text may count as part of a paste
			r.types("\r")           // makes the text of the field the thread's name
			r.await("the name", func() bool { return len(holding(t, "Mock titles", home)) > 0 })
			require.Empty(t, holding(t, "/clear", home+"/.codex"))
			require.Equal(t, threads, codexThreads())

			codexTurn(r, "and on")
			codexSends(r, "/quit")
			r.leavesWith(0)
			r.checkTerminal()
			asked := w.questions()
			require.Contains(t, asked[1], "ALPHA", "the old session continues")
			w.checkFailed(notShown)
			if t.Failed() {
				t.Log(r.scene())
			}
		})
	})
	s.config = bothWays
	t.Run("relaunch", func(t *testing.T) {
		s.plays(t, func(w *world) {
			r := w.start(s, true)
			opens(r)
			old := harnessPID()
			w.asks("renew", "last")
			codexRelaunched(r, old)
			require.Equal(t, "relaunch", string(w.renewals().Last.Path))
			require.Empty(t, holding(t, "/clear", home+"/.codex"))
			codexTurn(r, "go on")
			renewed(r)
			codexSends(r, "/quit")
			r.leavesWith(0)
			w.checkFirstRequest(1, handedOver, "the first prompt", "ALPHA")
			w.checkChain("notes")
			if t.Failed() {
				t.Log(r.scene())
			}
		})
	})
}

// TestRenewalClaudeOwnDialog renews Claude Code while its user has a list open, in which
// Enter would choose an entry.
func TestRenewalClaudeOwnDialog(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs(), config: inPlace,
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		claudeReady(r)
		claudeTurn(r, "the first prompt")
		old := claudeRegistry()
		since := len(r.shown())
		r.types("/model")
		r.await("the command", func() bool { return strings.Contains(r.shown()[since:], "/model") })
		pressesPatiently(r, "\r", "the list", func() bool { return claudeRegistry().Status == "waiting" })
		w.asks("wait", "last", "--for", "needs_input")
		w.asks("renew", "last")
		w.waitsIn("negotiated", "needs_input")
		require.Equal(t, "waiting", claudeRegistry().Status, "the list is still open")

		r.types("\x1b")
		renewed(r)
		require.Equal(t, "in_place", string(w.renewals().Last.Path))
		r.await("the new session", func() bool {
			return claudeRegistry().Status == "idle" && claudeRegistry().SessionID != old.SessionID
		})
		require.Equal(t, old.PID, claudeRegistry().PID, "the same process")
		claudeTurn(r, "go on")
		r.types("/exit\r")
		r.leavesWith(0)
		w.checkFirstRequest(1, handedOver, "the first prompt", "ALPHA")
		w.checkChain("notes")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// claudeNotTaken renews Claude Code in a state in which the keys of the reset would do
// something else. begin holds the keys that the user types before the renewal.
func claudeNotTaken(t *testing.T, s story, begin []string, and func(r *run)) {
	s.harness, s.tty, s.argv, s.config = claude, true, claudeArgs(), inPlace
	s.replies = []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA")}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		claudeReady(r)
		claudeTurn(r, "the first prompt")
		old := claudeRegistry()
		w.asks("wait", "last", "--for", "idle")
		for _, keys := range begin {
			r.types(keys)
			time.Sleep(time.Second) // at the speed of a person
		}
		w.asks("renew", "last")
		r.await("the end of the renewal", func() bool { return w.renewals().Last.Outcome != "" })
		w.checkFailed(notShown)
		require.Equal(t, old.SessionID, claudeRegistry().SessionID)
		require.Equal(t, 1, r.modelAsked(), "no key of the renewal was sent as a prompt")
		and(r)
		r.types("/exit\r")
		r.leavesWith(0)
		r.checkTerminal()
		w.checkFailed(notShown)
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalClaudeNotTaken renews Claude Code in the normal mode of vim, where keys move and
// delete, and in shell mode, where a line is run as a command.
func TestRenewalClaudeNotTaken(t *testing.T) {
	t.Run("vim", func(t *testing.T) {
		s := story{files: map[string]string{".claude/settings.json": `{"editorMode":"vim"}`}}
		claudeNotTaken(t, s, []string{"half", "\x1b"}, func(r *run) {
			for _, keys := range []string{"\x1b", "A", "LINE"} {
				r.types(keys)
				time.Sleep(time.Second)
			}
			before := r.transcripts(claudeTurnOver)
			r.types("\r")
			r.await("the turn of the begun line", func() bool { return r.transcripts(claudeTurnOver) > before && claudeRegistry().Status == "idle" })
			asked := r.questions()
			require.Contains(r.t, asked[1], "halfLINE")
			require.Contains(r.t, asked[1], "ALPHA", "the old session continues")
		})
	})
	t.Run("shell", func(t *testing.T) {
		if claude.since("2.1.330") {
			t.Skip("Ctrl-S stores the shell mode with the line, so the keys work")
		}
		claudeNotTaken(t, story{}, []string{"!", "touch ha"}, func(r *run) {
			r.types("lf")
			time.Sleep(time.Second)
			r.types("\r")
			r.await("the command of the begun line", func() bool { _, err := os.Stat(project + "/half"); return err == nil })
			entries, err := os.ReadDir(project)
			require.NoError(r.t, err)
			require.False(r.t, slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "ha" }))
		})
	})
}

// slowEnd is a user's hook that takes longer to end a session than a renewal waits.
const slowEnd = `{"hooks":{"SessionEnd":[{"hooks":[{"type":"command","command":"sleep 40","timeout":60}]}]}}`

// TestRenewalClaudeNotConfirmed: after the typed /clear Claude Code ends its session, but does
// not begin a new one in time. The renewal then relaunches Claude Code, with the same
// continuation.
func TestRenewalClaudeNotConfirmed(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs(), config: bothWays,
		files: map[string]string{".claude/settings.json": slowEnd}, env: []string{"CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS=60000"},
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		claudeReady(r)
		claudeTurn(r, "the first prompt")
		old := claudeRegistry()
		w.asks("renew", "last")
		renewed(r)
		last := w.renewals().Last
		require.Equal(t, "relaunch", string(last.Path))
		require.Equal(t, old.SessionID, deref(last.OldSession))
		r.await("the new session", func() bool { return claudeRegistry().Status == "idle" && claudeRegistry().PID != old.PID })
		claudeTurn(r, "go on")
		r.signals(whatWasStarted, 15)
		r.leaves()
		w.checkFirstRequest(1, handedOver, "the first prompt", "ALPHA")
		w.checkChain("notes")
		require.Empty(t, w.ownFiles(handedOver))
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalGeminiDialog requests a renewal while Gemini CLI asks its user a question.
// The renewal waits for the answer.
func TestRenewalGeminiDialog(t *testing.T) {
	s := story{
		harness: gemini, tty: true, argv: []string{"gemini"}, config: relaunched,
		replies: []mock.Reply{mock.Runs("touch made"), mock.Says("it is made"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		geminiReady(r)
		sendsPatiently(r, "make it (p1)", func() bool { return r.modelSaw("make it (p1)") > 0 })
		w.asks("wait", "last", "--for", "needs_input")
		old := harnessPID()
		w.asks("renew", "last")
		w.waitsIn("negotiated", "needs_input")
		require.Equal(t, old, harnessPID())
		require.NoFileExists(t, project+"/made")

		pressesPatiently(r, "\r", "the answer to be taken", func() bool { return r.modelAsked() == 2 })
		renewed(r)
		require.FileExists(t, project+"/made")
		require.Equal(t, 2, r.modelAsked(), "the turn came to its end before the reset")
		geminiReady(r)
		geminiTurn(r, "go on (p2)")
		sendsPatiently(r, "/quit", r.over)
		r.leavesWith(0)
		w.checkFirstRequest(2, handedOver, "make it (p1)", "it is made")
		w.checkChain("notes")
		require.Empty(t, w.ownFiles(handedOver))
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}
