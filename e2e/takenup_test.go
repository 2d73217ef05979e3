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

	"github.com/stretchr/testify/require"

	"lifeloop/e2e/mock"
)

// TestTakenUp kills the wrapper in the middle of a turn and takes its session
// up with nothing but its name: the harness goes on with the session of its own
// that it had, what was open is closed, and nothing is told or counted twice.
func TestTakenUp(t *testing.T) {
	for name, c := range map[string]struct {
		story
		ready func(r *run)
		turn  func(r *run, prompt string)
		sends func(r *run, line string)
		quit  string
		// resumes are the words with which the harness goes on with a session.
		resumes func(id string) []string
		told    string
	}{
		"claude": {
			story: story{harness: claude, argv: claudeArgs("--allowedTools", "Bash")},
			ready: claudeReady, turn: claudeTurn, sends: func(r *run, line string) { r.types(line + "\r") }, quit: "/exit",
			resumes: func(id string) []string { return []string{"--resume", id} },
			told: `
				session.starting  S1 startup
				session.started   S1 startup
				frame.opening     S1 F1
				frame.opened      S1 F1
				~ context.pressure_observed S1 low between frame.opened F1 and session.ended S1
				frame.ending      S1 F1 completed
				frame.ended       S1 F1 completed
				frame.opening     S1 F2
				frame.opened      S1 F2
				frame.ending      S1 F2 abandoned
				frame.ended       S1 F2 abandoned
				session.ending    S1 supervisor_lost
				session.ended     S1 supervisor_lost
				session.starting  S1 resume
				session.started   S1 resume
				frame.opening     S1 F3
				frame.opened      S1 F3
				~ context.pressure_observed S1 low between frame.opened F3 and session.ending S1
				frame.ending      S1 F3 completed
				frame.ended       S1 F3 completed
				session.ending    S1 prompt_input_exit
				session.ended     S1 prompt_input_exit`,
		},
		"codex": {
			story: story{harness: codex, argv: codexArgs()},
			ready: codexReady, turn: codexTurn, sends: codexSends, quit: "/quit",
			resumes: func(id string) []string { return []string{"resume", id} },
			told: `
				session.starting  S? startup
				session.started   S? startup
				frame.opening     S1 F1
				frame.opened      S1 F1
				~ context.pressure_observed S1 low between frame.opened F1 and session.ended S1
				frame.ending      S1 F1 completed
				frame.ended       S1 F1 completed
				frame.opening     S1 F2
				frame.opened      S1 F2
				frame.ending      S1 F2 abandoned
				frame.ended       S1 F2 abandoned
				session.ending    S1 supervisor_lost
				session.ended     S1 supervisor_lost
				session.starting  S1 resume
				session.started   S1 resume
				frame.opening     S1 F3
				frame.opened      S1 F3
				~ context.pressure_observed S1 low between frame.opened F3 and session.ending S1
				frame.ending      S1 F3 completed
				frame.ended       S1 F3 completed
				session.ending    S1 other
				session.ended     S1 other`,
		},
	} {
		c.tty, c.replies = true, []mock.Reply{mock.Says("well"), mock.Runs("echo hi"), {Silent: true}}
		t.Run(name, func(t *testing.T) {
			c.plays(t, func(w *world) {
				r := w.start(c.story, true)
				c.ready(r)
				c.turn(r, "one (p1)")
				c.sends(r, "two (p2)")
				r.await("the question, and the books of what was before it", func() bool {
					return w.modelAsked() == 3 && w.status().Usage.Main.Calls == 2
				})
				session := w.sessions()[0]
				r.signals(whatWasStarted, syscall.SIGKILL)
				if code := r.leaves(); code != 137 {
					t.Errorf("exit code %d, want 137", code)
				}
				r.checkTerminal()

				r = w.launch(c.story, true, []string{filepath.Join(programs, "lifeloop-wrap"), "run", "--resume", "last"})
				c.ready(r)
				argv := commandOf(harnessPID())
				if want := c.resumes(session); !slices.ContainsFunc(windows(argv, len(want)), func(w []string) bool { return slices.Equal(w, want) }) {
					t.Errorf("the harness is run as %q, want %q in it", argv, want)
				}
				c.turn(r, "three (p3)")
				c.sends(r, c.quit)
				if code := r.leaves(); code != 0 {
					t.Errorf("exit code %d, want 0", code)
				}
				r.checkTerminal()

				rec := w.recorded()
				compareTold(t, c.told, rec.events)
				w.compareL0(`SESSION_START (launch) TOOL_REQUESTED TOOL_START TOOL_RESULT TOOL_COMPLETED
					CHECKPOINT_SAVED ERROR RETRY_START RETRY_ATTEMPT ATTEMPT_START CONTINUATION_START RESUME_START (launch) COMPLETE RETRY_END`)
				w.compareHCP("created RUNNING", "RUNNING PAUSED supervisor_lost", "PAUSED RUNNING recovered_from_checkpoint",
					"error internal_error recoverable", "RUNNING COMPLETED exit 0", "closed COMPLETED")
				status := w.status()
				if status.State != "COMPLETED" || status.Attempt != 2 || status.HarnessSessionID != session {
					t.Errorf("status: %s, attempt %d, session %s, want %s", status.State, status.Attempt, status.HarnessSessionID, session)
				}
				w.checkUsage(status)
				if t.Failed() {
					t.Log(r.scene())
				}
			})
		})
	}
}

// TestTakenUpPrinting does the same where nobody could type on: the prompt is
// given again, below what was done for it so far.
func TestTakenUpPrinting(t *testing.T) {
	for name, c := range map[string]struct {
		story
		resumes func(id string) []string
		start   string // of the session, in the words of a story
	}{
		"claude -p": {
			story:   story{harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "do it (p1)")},
			resumes: func(id string) []string { return []string{"--resume", id} },
			start:   "S1",
		},
		"codex exec": {
			story:   story{harness: codex, argv: codexExec("do it (p1)")},
			resumes: func(id string) []string { return []string{"resume", id, "do it (p1)"} },
			start:   "S?",
		},
	} {
		c.replies = []mock.Reply{mock.Runs("echo hi"), {Silent: true}, mock.Runs(works), mock.Says("done")}
		t.Run(name, func(t *testing.T) {
			c.plays(t, func(w *world) {
				r := w.start(c.story, true)
				r.await("the question, and the books of what was before it", func() bool {
					return w.modelAsked() == 2 && w.status().Usage.Main.Calls == 1
				})
				session := w.sessions()[0]
				r.signals(whatWasStarted, syscall.SIGKILL)
				if code := r.leaves(); code != 137 {
					t.Errorf("exit code %d, want 137", code)
				}

				r = w.launch(c.story, true, []string{filepath.Join(programs, "lifeloop-wrap"), "run", "--resume", "last"})
				working(r)
				argv := commandOf(harnessPID())
				if want := c.resumes(session); !slices.ContainsFunc(windows(argv, len(want)), func(w []string) bool { return slices.Equal(w, want) }) {
					t.Errorf("the harness is run as %q, want %q in it", argv, want)
				}
				require.NoError(t, os.WriteFile(project+"/go", nil, 0o600))
				if code := r.leaves(); code != 0 || !strings.HasSuffix(r.shown(), "done\n") {
					t.Errorf("exit code %d, and printed: %q", code, r.shown())
				}
				if asked := w.questions()[2]; strings.Count(asked, "do it (p1)") != 2 || !strings.Contains(asked, "echo hi") {
					t.Errorf("the model was asked: %s", asked)
				}

				compareTold(t, `
					session.starting  `+c.start+` startup
					session.started   S1 startup
					frame.opening     S1 F1
					frame.opened      S1 F1
					~ context.pressure_observed S1 low between frame.opened F1 and session.ended S1
					frame.ending      S1 F1 abandoned
					frame.ended       S1 F1 abandoned
					session.ending    S1 supervisor_lost
					session.ended     S1 supervisor_lost
					session.starting  S1 resume
					session.started   S1 resume
					frame.opening     S1 F2
					frame.opened      S1 F2
					~ context.pressure_observed S1 low between frame.opened F2 and session.ended S1
					frame.ending      S1 F2 completed
					frame.ended       S1 F2 completed
					session.ending    S1 other
					session.ended     S1 other`, w.recorded().events)
				w.compareHCP("created RUNNING", "RUNNING PAUSED supervisor_lost", "PAUSED RUNNING recovered_from_checkpoint",
					"error internal_error recoverable", "RUNNING COMPLETED exit 0", "closed COMPLETED")
				w.checkUsage(w.status())
				if t.Failed() {
					t.Log(r.scene())
				}
			})
		})
	}
}

// commandOf is the command line of a process.
func commandOf(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// windows are all n words that stand side by side.
func windows(words []string, n int) (out [][]string) {
	for i := range len(words) - n + 1 {
		out = append(out, words[i:i+n])
	}
	return out
}
