//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
	"lifeloop/view"
)

// handsOver is the configuration of a profile whose prepare program computes the
// continuation token, so that no file contains the token before a renewal. The continue
// program prints the token as the text for the model, and searches the disk for the token.
const handsOver = `profiles:
  - name: handoff
    client: notes
    prepare: {command: [sh, -c, 'printf "CANARY-%s" $((20+21))']}
    continue: {command: [sh, -c, 'grep -rl "CANARY-4[1]" ~ "$LIFELOOP_STATE_DIR" "$XDG_RUNTIME_DIR" >"$LIFELOOP_STATE_DIR/../later"; cat']}
    paths: [PATH]
renewal: {profiles: [handoff]}
`

// relaunched and inPlace are handsOver, each with one way to reset. A second way would
// hide that the first has failed.
var (
	relaunched = strings.Replace(handsOver, "PATH", "relaunch", 1)
	inPlace    = strings.Replace(handsOver, "PATH", "in_place", 1)
)

const handedOver = "CANARY-41"

// whileHeld is a user's hook that looks for the continuation on the disk while Claude
// Code ends for the reset.
const whileHeld = `{"hooks":{"SessionEnd":[{"hooks":[{"type":"command","command":` +
	`"test -e $LIFELOOP_STATE_DIR/../held || grep -rl 'CANARY-4[1]' ~ $LIFELOOP_STATE_DIR $XDG_RUNTIME_DIR >$LIFELOOP_STATE_DIR/../held"}]}]}}`

// renewals is the part about renewals in `status --json`.
func (w *world) renewals() view.Renewals {
	w.t.Helper()
	out, err := w.tool("--json", "status", "last")
	require.NoError(w.t, err, out)
	var status struct {
		Renewals view.Renewals `json:"renewals"`
	}
	require.NoError(w.t, json.Unmarshal([]byte(out), &status), out)
	return status.Renewals
}

// renewed waits for the end of the last renewal, and fails the test if the continuation
// was not delivered.
func renewed(r *run) {
	r.t.Helper()
	r.await("the end of the renewal", func() bool { return r.renewals().Last.Outcome != "" })
	if last := r.renewals().Last; last.Outcome != "delivered" {
		r.t.Fatalf("the renewal: %+v\n%s", last, r.scene())
	}
}

// holding returns the files below these folders that contain text.
func holding(t *testing.T, text string, dirs ...string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // not a regular file, or one that was removed meanwhile
			}
			data, _ := os.ReadFile(path)
			if strings.Contains(string(data), text) {
				found = append(found, path)
			}
			return nil
		}))
	}
	return found
}

// ownFiles returns the files of the wrapper that contain text.
func (w *world) ownFiles(text string) []string {
	return holding(w.t, text, w.path("state"), w.path("run"), w.path("events.jsonl"))
}

// checkFirstRequest checks the first request after the reset: it holds the continuation
// once, and nothing of the old session.
func (w *world) checkFirstRequest(n int, continuation string, old ...string) {
	w.t.Helper()
	asked := w.questions()
	require.Greater(w.t, len(asked), n)
	if got := strings.Count(asked[n], continuation); got != 1 {
		w.t.Errorf("the first request after the reset holds the continuation %d times: %s", got, asked[n])
	}
	for _, text := range old {
		if strings.Contains(asked[n], text) {
			w.t.Errorf("the first request after the reset holds %q of the old session", text)
		}
	}
	for i, body := range asked[:n] {
		if strings.Contains(body, continuation) {
			w.t.Errorf("request %d, before the reset, holds the continuation", i)
		}
	}
}

// checkChain checks the four receipts of the only renewal. Each has the previous receipt
// as its parent. The event of the last receipt is delivery, or session.started if delivery
// is missing.
func (w *world) checkChain(client string, delivery ...string) {
	w.t.Helper()
	out, err := w.tool("receipts", "last")
	require.NoError(w.t, err)
	var events []string
	parent := ""
	for _, one := range lines[struct {
		ID      string         `json:"receipt_id"`
		Parent  *string        `json:"parent_receipt_id"`
		Client  string         `json:"client_id"`
		Event   string         `json:"event"`
		Status  string         `json:"status"`
		Summary map[string]any `json:"telemetry_summary"`
	}](w.t, out) {
		if one.Summary["renewal"] == nil {
			continue
		}
		events = append(events, one.Event+" "+one.Status)
		require.Equal(w.t, parent, deref(one.Parent), "the parent of %s", one.Event)
		require.Equal(w.t, client, one.Client)
		parent = one.ID
	}
	carried := append(delivery, "session.started")[0]
	require.Equal(w.t, []string{"session.ending observed", "session.ended observed", "session.started observed", carried + " delivered"}, events)
}

// TestRenewalClaude renews Claude Code by a relaunch.
func TestRenewalClaude(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs("the first prompt"), config: relaunched,
		files:   map[string]string{".claude/settings.json": whileHeld},
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the first turn", func() bool { return r.transcripts(claudeTurnOver) == 1 && claudeRegistry().Status == "idle" })
		claudeTurn(r, "the second prompt")
		old := claudeRegistry()
		w.asks("renew", "last", "--wait")
		renewed(r)
		r.await("the new session", func() bool { return claudeRegistry().Status == "idle" })
		fresh := claudeRegistry()
		require.NotEqual(t, old.PID, fresh.PID)
		require.NotEqual(t, old.SessionID, fresh.SessionID)
		require.Equal(t, fresh.SessionID, deref(w.renewals().Last.NewSession))
		require.Empty(t, w.ownFiles(handedOver), "after the delivery")

		r.types("go on\r") // the first prompt of the second session
		r.await("the turn after the reset", func() bool {
			return r.modelAsked() == 3 && r.transcripts(claudeTurnOver) == 3 && claudeRegistry().Status == "idle"
		})
		r.types("/exit\r")
		r.leavesWith(0)
		r.checkTerminal()

		w.checkFirstRequest(2, handedOver, "the first prompt", "the second prompt", "ALPHA", "BETA")
		w.checkChain("notes")
		held, err := os.ReadFile(w.path("held"))
		require.NoError(t, err)
		require.Regexp(t, `^`+w.path("state")+`/sessions/[^/]+/vault/[0-9a-f]+\.held\n$`, string(held), "while the harness is reset")
		later, err := os.ReadFile(w.path("later"))
		require.NoError(t, err)
		require.Empty(t, string(later), "while the second program holds it")
		require.Empty(t, w.ownFiles(handedOver), "after the session")
		records := holding(t, handedOver, home)
		require.Len(t, records, 1, "the transcript of the new session alone: %v", records)
		require.Contains(t, records[0], fresh.SessionID)
		w.compareL0("SESSION_START (launch) CHECKPOINT_SAVED CONTINUATION_START RESUME_START (launch) COMPLETE")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalClaudeLine relaunches Claude Code only when the line that the user has begun
// is sent and answered. The rest of the line and Enter are typed together.
func TestRenewalClaudeLine(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs("the first prompt"), config: relaunched,
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the first turn", func() bool { return r.transcripts(claudeTurnOver) == 1 && claudeRegistry().Status == "idle" })
		w.asks("wait", "last", "--for", "idle")
		old := claudeRegistry()
		r.types("HALF")
		r.await("the half-typed line", func() bool { return strings.Contains(r.scene(), "HALF") })
		w.asks("renew", "last")
		r.await("the prepared renewal", func() bool { return w.renewals().Last.State == "prepared" })
		w.staysIn("idle", patience/30)
		require.Equal(t, old, claudeRegistry(), "the harness waits for the line")

		r.types(" OF IT\r")
		r.await("the new session", func() bool { return claudeRegistry().Status == "idle" && claudeRegistry().PID != old.PID })
		renewed(r)
		require.Equal(t, "relaunch", string(w.renewals().Last.Path))
		require.Contains(t, w.questions()[1], "HALF OF IT")
		require.Equal(t, 2, r.modelAsked())
		r.types("/exit\r")
		r.leavesWith(0)
		r.checkTerminal()
		w.checkChain("notes")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalClaudeInPlace renews Claude Code by its own command: the process stays, and
// so does a line that the user has begun.
func TestRenewalClaudeInPlace(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs("the first prompt"), config: inPlace,
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA"), mock.Says("PSI")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the first turn", func() bool { return r.transcripts(claudeTurnOver) == 1 && claudeRegistry().Status == "idle" })
		claudeTurn(r, "the second prompt")
		w.asks("wait", "last", "--for", "idle")
		old := claudeRegistry()
		r.types("HALF")
		r.await("the half-typed line", func() bool { return strings.Contains(r.scene(), "HALF") })
		w.asks("renew", "last", "--wait")
		renewed(r)
		last := w.renewals().Last
		require.Equal(t, "in_place", string(last.Path))
		r.await("the new session", func() bool { return claudeRegistry().Status == "idle" && claudeRegistry().SessionID != old.SessionID })
		fresh := claudeRegistry()
		require.Equal(t, old.PID, fresh.PID, "the same process")
		require.Equal(t, fresh.SessionID, deref(last.NewSession))
		require.Equal(t, old.SessionID, deref(last.OldSession))
		require.Empty(t, w.ownFiles(handedOver), "after the delivery")
		require.Equal(t, 2, r.modelAsked(), "no key of the renewal was sent as a prompt")

		r.types("LINE\r")
		r.await("the turn after the reset", func() bool {
			return r.modelAsked() == 3 && r.transcripts(claudeTurnOver) == 3 && claudeRegistry().Status == "idle"
		})
		claudeTurn(r, "and on")
		r.types("/exit\r")
		r.leavesWith(0)
		r.checkTerminal()

		w.checkFirstRequest(2, handedOver, "the first prompt", "the second prompt", "ALPHA", "BETA")
		require.Contains(t, w.questions()[2], "HALFLINE")
		w.checkChain("notes")
		require.Empty(t, w.ownFiles(handedOver), "after the session")
		w.compareL0("SESSION_START (launch) CHECKPOINT_SAVED CONTINUATION_START RESUME_START COMPLETE")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// claudeIsAsked requests a renewal while Claude Code asks its user about a tool. The
// renewal waits, and the question stays open.
func claudeIsAsked(r *run) registry {
	claudeReady(r)
	r.types("make it (p1)\r")
	r.await("the question", func() bool { return claudeRegistry().Status == "waiting" })
	r.asks("wait", "last", "--for", "needs_input")
	old := claudeRegistry()
	r.asks("renew", "last")
	r.staysIn("needs_input", patience/30)
	require.Equal(r.t, "negotiated", string(r.renewals().Last.State))
	require.Equal(r.t, old, claudeRegistry(), "the question is still open")
	require.NoFileExists(r.t, project+"/made")
	return old
}

// TestRenewalDialog requests a renewal while a question to the user is open. The renewal
// leaves the question open, and resets Claude Code only after the answer.
func TestRenewalDialog(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs(), config: relaunched,
		replies: []mock.Reply{mock.Runs("touch made"), mock.Says("it is made"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		claudeIsAsked(r)

		r.types("\r") // yes
		renewed(r)
		require.FileExists(t, project+"/made")
		r.await("the new session", func() bool { return claudeRegistry().Status == "idle" })
		require.Equal(t, 2, r.modelAsked(), "the turn came to its end before the reset")
		claudeTurn(r, "go on")
		r.types("/exit\r")
		r.leavesWith(0)
		w.checkFirstRequest(2, handedOver, "make it (p1)", "it is made")
		w.checkChain("notes")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalDialogInPlace is TestRenewalDialog with a reset in place: no key of the renewal
// answers the question. The keys are typed after the user's answer, here a refusal.
func TestRenewalDialogInPlace(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs(), config: inPlace,
		replies: []mock.Reply{mock.Runs("touch made"), mock.Says("OMEGA"), mock.Says("PSI")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		old := claudeIsAsked(r)

		r.types("\x1b") // no
		renewed(r)
		require.Equal(t, "in_place", string(w.renewals().Last.Path))
		require.NoFileExists(t, project+"/made", "no key of the renewal approved the tool")
		r.await("the new session", func() bool {
			return claudeRegistry().Status == "idle" && claudeRegistry().SessionID != old.SessionID
		})
		require.Equal(t, old.PID, claudeRegistry().PID, "the same process")
		require.Equal(t, 1, r.modelAsked(), "no key of the renewal was sent as a prompt")
		claudeTurn(r, "go on")
		r.types("/exit\r")
		r.leavesWith(0)
		w.checkFirstRequest(1, handedOver, "make it (p1)", "touch made")
		w.checkChain("notes")
		require.Empty(t, w.ownFiles(handedOver), "after the session")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalNote renews Claude Code with a note that a copy of its session writes.
func TestRenewalNote(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs(), flags: []string{"--profile", "self-handoff"},
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("THE NOTE 41"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		claudeReady(r)
		claudeTurn(r, "remember the number")
		w.asks("renew", "last", "--wait")
		renewed(r)
		asked := w.questions()
		require.Len(t, asked, 2)
		require.Contains(t, asked[1], "remember the number", "the note is written with the session's context")
		require.Contains(t, asked[1], "Write the hand-over note")
		r.await("the new session", func() bool { return claudeRegistry().Status == "idle" })
		require.Empty(t, w.ownFiles("THE NOTE 41"))
		claudeTurn(r, "go on")
		r.types("/exit\r")
		r.leavesWith(0)
		w.checkFirstRequest(2, "THE NOTE 41", "remember the number", "ALPHA", "hand-over note for it now")
		w.checkChain("self-handoff")
		// The copy is not a session of the user: it has no events.
		starts := 0
		for _, e := range w.recorded().events {
			if e.Event == "session.started" {
				starts++
			}
		}
		require.Equal(t, 2, starts)
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalCodex renews Codex by a relaunch. Its new session begins with the next
// prompt.
func TestRenewalCodex(t *testing.T) {
	s := story{
		harness: codex, tty: true, argv: codexArgs("the first prompt"), config: relaunched,
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the first turn", func() bool { return r.turnsOver() == 1 && r.codexState() != "working" })
		codexTurn(r, "the second prompt")
		w.asks("wait", "last", "--for", "idle")
		old := harnessPID()
		w.asks("renew", "last")
		codexRelaunched(r, old)
		require.Empty(t, w.ownFiles(handedOver), "before the delivery it is in memory only")
		codexTurn(r, "go on")
		renewed(r)
		codexSends(r, "/quit")
		r.leavesWith(0)
		r.checkTerminal()

		w.checkFirstRequest(2, handedOver, "the first prompt", "the second prompt", "ALPHA", "BETA")
		w.checkChain("notes")
		later, err := os.ReadFile(w.path("later"))
		require.NoError(t, err)
		require.Empty(t, string(later), "while the second program holds it")
		require.Empty(t, w.ownFiles(handedOver))
		records := holding(t, handedOver, home)
		require.True(t, slices.ContainsFunc(records, func(p string) bool { return strings.Contains(p, "/rollout-") }), "%v", records)
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalCodexInPlace renews Codex by its own command: the process stays. The
// renewal waits until a line that the user has begun is sent, and the fresh thread is known
// before its first prompt.
func TestRenewalCodexInPlace(t *testing.T) {
	s := story{
		harness: codex, tty: true, argv: codexArgs("the first prompt"), config: inPlace,
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("GAMMA"), mock.Says("OMEGA"), mock.Says("PSI")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		r.await("the first turn", func() bool { return r.turnsOver() == 1 && r.codexState() != "working" })
		codexTurn(r, "the second prompt")
		w.asks("wait", "last", "--for", "idle")
		old := harnessPID()
		r.types("HALF")
		r.await("the half-typed line", func() bool { return strings.Contains(r.scene(), "HALF") })
		w.asks("renew", "last")
		r.await("the renewal to wait for the line", func() bool { return w.renewals().Last.State == "prepared" })
		w.staysIn("idle", patience/30)
		threads := codexThreads()
		require.Equal(t, "prepared", string(w.renewals().Last.State))

		r.types(" LINE")
		r.await("the whole line", func() bool { return strings.Contains(r.shown(), "LINE") })
		time.Sleep(time.Second) // an Enter right after the text may count as part of a paste
		r.types("\r")
		r.await("the fresh thread", func() bool { return w.renewals().Last.State == "resumed" })
		last := w.renewals().Last
		require.Equal(t, "in_place", string(last.Path))
		require.NotEqual(t, deref(last.OldSession), deref(last.NewSession))
		require.FileExists(t, home+"/.codex/thread-writer-locks/"+deref(last.NewSession)+".lock")
		require.Equal(t, threads+1, codexThreads())
		require.Equal(t, old, harnessPID(), "the same process")
		require.Equal(t, 3, r.modelAsked(), "no key of the renewal was sent as a prompt")
		require.Empty(t, w.ownFiles(handedOver), "before the delivery it is in memory only")

		codexTurn(r, "go on")
		renewed(r)
		require.Equal(t, deref(last.NewSession), deref(w.renewals().Last.NewSession))
		codexTurn(r, "and on")
		codexSends(r, "/quit")
		r.leavesWith(0)
		r.checkTerminal()

		require.Contains(t, w.questions()[2], "HALF LINE")
		require.NotContains(t, w.questions()[2], "/clear")
		w.checkFirstRequest(3, handedOver, "the first prompt", "the second prompt", "HALF LINE", "ALPHA", "BETA", "GAMMA")
		w.checkChain("notes")
		later, err := os.ReadFile(w.path("later"))
		require.NoError(t, err)
		require.Empty(t, string(later), "while the second program holds it")
		require.Empty(t, w.ownFiles(handedOver), "after the session")
		for _, path := range holding(t, handedOver, home) {
			require.Contains(t, path, deref(last.NewSession), "the records of the new thread alone")
		}
		w.compareL0("SESSION_START (launch) CHECKPOINT_SAVED CONTINUATION_START RESUME_START COMPLETE")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalGemini renews Gemini CLI by a relaunch.
func TestRenewalGemini(t *testing.T) {
	s := story{
		harness: gemini, tty: true, argv: geminiArgs(), config: relaunched,
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		geminiReady(r)
		geminiTurn(r, "first prompt (p1)")
		geminiTurn(r, "second prompt (p2)")
		old, err := filepath.Glob(filepath.Join(home, gemini.records))
		require.NoError(t, err)
		require.Len(t, old, 1)
		w.asks("renew", "last", "--wait")
		renewed(r)
		geminiReady(r)
		fresh := deref(w.renewals().Last.NewSession)
		require.Empty(t, w.ownFiles(handedOver), "after the delivery")
		geminiTurn(r, "go on (p3)")
		sendsPatiently(r, "/quit", r.over)
		r.leavesWith(0)
		r.checkTerminal()
		require.NotContains(t, old[0], fresh[:8])
		w.checkRenewed("-" + fresh[:8] + ".jsonl")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalOpencode renews OpenCode by a relaunch. Its new session begins with the next
// prompt.
func TestRenewalOpencode(t *testing.T) {
	s := story{
		harness: opencode, tty: true, argv: opencodeArgs(), config: relaunched,
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		opencodeReady(r)
		opencodeTurn(r, "first prompt (p1)")
		opencodeTurn(r, "second prompt (p2)")
		w.asks("wait", "last", "--for", "idle")
		old := harnessPID()
		since := len(r.shown())
		w.asks("renew", "last")
		r.await("the new launch", func() bool { pid := harnessPID(); return pid != 0 && pid != old })
		r.await("OpenCode to be ready again", func() bool { return strings.Contains(r.shown()[since:], "Ask anything") })
		require.Empty(t, w.ownFiles(handedOver), "before the delivery it is in memory only")
		opencodeTurn(r, "go on (p3)")
		renewed(r)
		last := w.renewals().Last
		require.Regexp(t, records, deref(last.NewSession))
		require.NotEqual(t, deref(last.OldSession), deref(last.NewSession))
		opencodeQuits(r)
		r.leavesWith(0)
		r.checkTerminal()
		w.checkRenewed("no file: OpenCode does not keep its system prompt")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalOpencodeInPlace renews OpenCode by its plugin: the process stays, and so does
// a line that the user has begun.
func TestRenewalOpencodeInPlace(t *testing.T) {
	s := story{
		harness: opencode, tty: true, argv: opencodeArgs(), config: inPlace,
		replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA"), mock.Says("PSI")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		opencodeReady(r)
		opencodeTurn(r, "first prompt (p1)")
		opencodeTurn(r, "second prompt (p2)")
		w.asks("wait", "last", "--for", "idle")
		old := harnessPID()
		r.types("HALF")
		r.await("the half-typed line", func() bool { return strings.Contains(r.scene(), "HALF") })
		w.asks("renew", "last", "--wait")
		renewed(r)
		last := w.renewals().Last
		require.Equal(t, "in_place", string(last.Path))
		require.Equal(t, old, harnessPID(), "the same process")
		require.Regexp(t, records, deref(last.NewSession))
		require.NotEqual(t, deref(last.OldSession), deref(last.NewSession))
		require.Empty(t, w.ownFiles(handedOver), "after the delivery")
		require.Equal(t, 2, r.modelAsked(), "the continuation gets no answer")

		sendsPatiently(r, "LINE (p3)", func() bool { return r.modelSaw("LINE (p3)") > 0 })
		r.await("the turn of the begun line", func() bool { return r.modelRests() && opencodeIdle() })
		opencodeTurn(r, "and on (p4)")
		opencodeQuits(r)
		r.leavesWith(0)
		r.checkTerminal()
		require.Contains(t, w.questions()[2], "HALFLINE")
		require.Equal(t, 1, strings.Count(w.questions()[3], handedOver), "it stays in the conversation, once")
		w.checkRenewed(".local/share/opencode/opencode.db")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestRenewalOpencodeDialog checks that a renewal waits while a question to the user is open,
// does not change the question, and happens after the answer.
func TestRenewalOpencodeDialog(t *testing.T) {
	s := story{
		harness: opencode, tty: true, argv: opencodeArgs(), config: inPlace, env: opencodeAsks,
		replies: []mock.Reply{mock.Runs("touch made"), mock.Says("it is made"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		opencodeReady(r)
		sendsPatiently(r, "make it (p1)", func() bool { return r.modelSaw("make it (p1)") > 0 })
		r.await("the question", func() bool { return strings.Contains(r.shown(), "Permission required") })
		w.asks("wait", "last", "--for", "needs_input")
		w.asks("renew", "last")
		w.staysIn("needs_input", patience/30)
		require.Equal(t, "negotiated", string(w.renewals().Last.State))
		require.NoFileExists(t, project+"/made")

		next := time.Now()
		r.await("the answer to be taken", func() bool {
			if time.Now().After(next) {
				r.types("\r") // yes
				next = time.Now().Add(3 * time.Second)
			}
			return r.modelAsked() == 2
		})
		renewed(r)
		require.FileExists(t, project+"/made")
		last := w.renewals().Last
		require.Equal(t, "in_place", string(last.Path))
		require.NotEqual(t, deref(last.OldSession), deref(last.NewSession))
		require.Equal(t, 2, r.modelAsked(), "the turn came to its end before the reset")
		opencodeTurn(r, "go on (p2)")
		opencodeQuits(r)
		r.leavesWith(0)
		w.checkFirstRequest(2, handedOver, "make it (p1)", "it is made")
		w.checkChain("notes")
		require.Empty(t, w.ownFiles(handedOver))
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// checkRenewed checks a session that was renewed after two turns and then had a third: its
// requests, its receipts, and where the continuation was. In the end only files with
// keptIn in their path may hold the continuation.
func (w *world) checkRenewed(keptIn string) {
	t := w.t
	t.Helper()
	w.checkFirstRequest(2, handedOver, "first prompt", "second prompt", "ALPHA", "BETA")
	w.checkChain("notes")
	later, err := os.ReadFile(w.path("later"))
	require.NoError(t, err)
	require.Empty(t, string(later), "while the second program holds it")
	require.Empty(t, w.ownFiles(handedOver), "after the session")
	for _, path := range holding(t, handedOver, home) {
		if !strings.Contains(path, keptIn) {
			t.Errorf("%s holds the continuation", path)
		}
	}
}

// untilGo runs a tool that ends when goes is called.
var untilGo = mock.Runs("while [ ! -e go ]; do sleep 0.1; done")

func goes(r *run) { require.NoError(r.t, os.WriteFile(project+"/go", nil, 0o600)) }

// TestRenewalGeminiInPlace renews Gemini CLI by the answer of its hook at the end of a turn:
// the process stays, and so does a line that the user has begun. No turn begins by itself.
func TestRenewalGeminiInPlace(t *testing.T) {
	ends := map[string]struct {
		reply mock.Reply
		end   func(r *run) // ends the turn during which the renewal is asked for
		l0    string       // the events of the turn
	}{
		"after an answer": {untilGo, goes, "TOOL_REQUESTED TOOL_START TOOL_RESULT TOOL_COMPLETED "},
		"after Esc": {hanging(), func(r *run) {
			r.types("\x15") // otherwise Esc would clear the begun line and not end the turn
			midStream(r)
			r.types("\x1b")
		}, ""},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			replies := []mock.Reply{mock.Says("GAMMA"), c.reply, mock.Says("DELTA"), mock.Says("OMEGA"), mock.Says("PSI")}
			if c.reply.Hang {
				replies = slices.Delete(replies, 2, 3)
			}
			s := story{harness: gemini, tty: true, argv: geminiArgs(), config: inPlace, replies: replies}
			s.plays(t, func(w *world) {
				r := w.start(s, true)
				geminiReady(r)
				geminiTurn(r, "first prompt (p1)")
				old := harnessPID()
				sendsPatiently(r, "second prompt (p2)", func() bool { return r.modelSaw("second prompt (p2)") > 0 })
				r.types("HALF")
				r.await("the half-typed line", func() bool { return strings.Contains(r.shown(), "HALF") })
				w.asks("renew", "last")
				require.Equal(t, "negotiated", string(w.renewals().Last.State))
				c.end(r)
				r.await("the fresh session", func() bool { return w.renewals().Last.State == "resumed" })
				last := w.renewals().Last
				require.Equal(t, "in_place", string(last.Path))
				require.Equal(t, deref(last.OldSession), deref(last.NewSession), "Gemini CLI keeps its id")
				require.Equal(t, old, harnessPID(), "the same process")
				require.Contains(t, r.shown(), "lifeloop-wrap renews the context")
				require.Contains(t, r.shown(), "Conversation context has been cleared.")
				require.Empty(t, w.ownFiles(handedOver), "before the delivery it is in memory only")
				asked := r.modelAsked()
				w.staysIn("idle", patience/30)
				require.Equal(t, asked, r.modelAsked(), "no turn begins by itself")

				sendsPatiently(r, "LINE (p3)", func() bool { return r.modelSaw("LINE (p3)") > 0 })
				renewed(r)
				r.await("the turn of the begun line", func() bool { return r.modelRests() && strings.Contains(r.title(), "Ready") })
				geminiTurn(r, "and on (p4)")
				geminiQuits(r)
				r.leavesWith(0)
				r.checkTerminal()
				if !c.reply.Hang {
					require.Contains(t, w.questions()[asked], "HALFLINE")
				}
				require.Equal(t, 1, strings.Count(w.questions()[asked+1], handedOver), "it stays in the conversation, once")
				w.checkFirstRequest(asked, handedOver, "first prompt", "second prompt", "GAMMA", "DELTA", "ALPHA")
				w.checkChain("notes", "frame.opening")
				later, err := os.ReadFile(w.path("later"))
				require.NoError(t, err)
				require.Empty(t, string(later), "while the second program holds it")
				require.Empty(t, w.ownFiles(handedOver), "after the session")
				for _, path := range holding(t, handedOver, home) {
					require.Contains(t, path, "/chats/session-")
				}
				w.compareL0("SESSION_START (launch) " + c.l0 + "CHECKPOINT_SAVED CONTINUATION_START RESUME_START COMPLETE")
				if t.Failed() {
					t.Log(r.scene())
				}
			})
		})
	}
}

// TestRenewalGeminiQueued renews Gemini CLI at the end of a turn in which the user has sent
// the next prompt. That prompt is sent to the model after the reset, with the continuation.
func TestRenewalGeminiQueued(t *testing.T) {
	s := story{
		harness: gemini, tty: true, argv: geminiArgs(), config: inPlace,
		replies: []mock.Reply{untilGo, mock.Says("DELTA"), mock.Says("OMEGA")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		geminiReady(r)
		sendsPatiently(r, "first prompt (p1)", func() bool { return r.modelSaw("first prompt (p1)") > 0 })
		since := len(r.shown()) // the first prompt may have been queued too, before Gemini CLI was ready
		sendsPatiently(r, "QUEUED (p2)", func() bool { return strings.Contains(r.shown()[since:], "Queued (press") })
		w.asks("renew", "last")
		require.Equal(t, "negotiated", string(w.renewals().Last.State))
		goes(r)
		renewed(r)
		last := w.renewals().Last
		require.Equal(t, "in_place", string(last.Path))
		r.await("the turn of the queued prompt", func() bool {
			return r.modelSaw("QUEUED (p2)") > 0 && r.modelRests() && strings.Contains(r.title(), "Ready")
		})
		geminiQuits(r)
		r.leavesWith(0)
		w.checkFirstRequest(2, handedOver, "first prompt", "DELTA")
		require.Contains(t, w.questions()[2], "QUEUED")
		w.checkChain("notes", "frame.opening")
		require.Empty(t, w.ownFiles(handedOver), "after the session")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}
