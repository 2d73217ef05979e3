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

	"lifeloop/internal/mock"
)

// A recovery is a session whose wrapper is killed, and its continuation.
type recovery struct {
	story
	ready func(r *run)
	turn  func(r *run, prompt string)
	sends func(r *run, line string)
	quit  string
	// resumes are the arguments with which the harness continues a session.
	resumes func(id string) []string
}

var (
	claudeResumes = func(id string) []string { return []string{"--resume", id} }
	codexResumes  = func(id string) []string { return []string{"resume", id} }
)

// TestTakenUp kills the wrapper in the middle of a turn and recovers its session
// with `run --resume last`. The harness continues its own session, open frames are
// closed, and no event or call is recorded twice.
func TestTakenUp(t *testing.T) {
	// turns are the events between the first start and the last end of the
	// session.
	turns := sequence(frame("S1 F1", "completed"), pressure("low", "S1 F1"), frame("S1 F2", "abandoned"), ends("S1", "supervisor_lost"),
		starts("S1", "resume"), frame("S1 F3", "completed"), pressure("low", "S1 F3", "session.ending S1"))
	for name, c := range map[string]recovery{
		"claude": {
			story: story{harness: claude, argv: claudeArgs("--allowedTools", "Bash"),
				emits: sequence(starts("S1", "startup"), turns, ends("S1", "prompt_input_exit"))},
			ready: claudeReady, turn: claudeTurn, sends: func(r *run, line string) { r.types(line + "\r") }, quit: "/exit",
			resumes: claudeResumes,
		},
		"codex": {
			story: story{harness: codex, argv: codexArgs(),
				emits: sequence(starts("S?", "startup"), turns, ends("S1", "other"))},
			ready: codexReady, turn: codexTurn, sends: codexSends, quit: "/quit",
			resumes: codexResumes,
		},
	} {
		c.tty, c.replies = true, []mock.Reply{mock.Says("well"), mock.Runs("echo hi"), {Silent: true}}
		t.Run(name, func(t *testing.T) { c.plays(t, c.atPrompt) })
	}
}

// atPrompt recovers a session in which the user types.
func (c recovery) atPrompt(w *world) {
	r := w.start(c.story, true)
	c.ready(r)
	c.turn(r, "one (p1)")
	c.sends(r, "two (p2)")
	session := r.killedAt(3)
	r.checkTerminal()

	r = c.continues(w)
	c.ready(r)
	c.checkArguments(w.t, session)
	c.turn(r, "three (p3)")
	c.sends(r, c.quit)
	r.leavesWith(0)
	r.checkTerminal()

	compareEvents(w.t, c.emits, w.recorded().events)
	w.compareL0(`SESSION_START (launch) TOOL_REQUESTED TOOL_START TOOL_RESULT TOOL_COMPLETED
		CHECKPOINT_SAVED ERROR RETRY_START RETRY_ATTEMPT ATTEMPT_START CONTINUATION_START RESUME_START (launch) COMPLETE RETRY_END`)
	w.compareHCP(recovered...)
	status := w.status()
	if status.State != "COMPLETED" || status.Attempt != 2 || status.HarnessSessionID != session {
		w.t.Errorf("status: %s, attempt %d, session %s, want %s", status.State, status.Attempt, status.HarnessSessionID, session)
	}
	w.checkUsage(status)
	if w.t.Failed() {
		w.t.Log(r.scene())
	}
}

// recovered lists the HCP events (docs/contract/hcp.md) of a recovered session.
var recovered = []string{"created RUNNING", "RUNNING PAUSED supervisor_lost", "PAUSED RUNNING recovered_from_checkpoint",
	"error internal_error recoverable", "RUNNING COMPLETED exit 0", "closed COMPLETED"}

// killedAt kills the wrapper when the model has been asked the given number of
// questions, and all calls before the last one are recorded. It returns the id of the
// harness session.
func (r *run) killedAt(questions int) string {
	r.t.Helper()
	r.await("the question, and the record of the calls before it", func() bool {
		return r.modelAsked() == questions && r.status().Usage.Main.Calls == int64(questions-1)
	})
	session := r.sessions()[0]
	r.signals(whatWasStarted, syscall.SIGKILL)
	r.leavesWith(137)
	return session
}

// continues runs `run --resume last`, with no other flag and no command, to recover
// the session.
func (c recovery) continues(w *world) *run {
	return w.launch(c.story, true, []string{filepath.Join(programs, "lifeloop-wrap"), "run", "--resume", "last"})
}

// checkArguments checks that the harness was started to continue its session.
func (c recovery) checkArguments(t *testing.T, session string) {
	t.Helper()
	argv := commandOf(harnessPID())
	if want := c.resumes(session); !slices.ContainsFunc(windows(argv, len(want)), func(w []string) bool { return slices.Equal(w, want) }) {
		t.Errorf("the harness is run as %q, want %q in it", argv, want)
	}
}

// TestTakenUpPrinting recovers a killed session in print mode. The model gets
// the earlier conversation, which shows the work already done, and then the prompt a
// second time.
func TestTakenUpPrinting(t *testing.T) {
	turns := sequence(frame("S1 F1", "abandoned"), pressure("low", "S1 F1"), ends("S1", "supervisor_lost"),
		starts("S1", "resume"), frame("S1 F2", "completed"), pressure("low", "S1 F2"), ends("S1", "other"))
	for name, c := range map[string]recovery{
		"claude -p": {
			story: story{harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "do it (p1)"),
				emits: sequence(starts("S1", "startup"), turns)},
			resumes: claudeResumes,
		},
		"codex exec": {
			story:   story{harness: codex, argv: codexExec("do it (p1)"), emits: sequence(starts("S? S1", "startup"), turns)},
			resumes: func(id string) []string { return append(codexResumes(id), "do it (p1)") },
		},
	} {
		c.replies = []mock.Reply{mock.Runs("echo hi"), {Silent: true}, mock.Runs(works), mock.Says("done")}
		t.Run(name, func(t *testing.T) { c.plays(t, c.printing) })
	}
}

// printing recovers a session that prints its answer and ends.
func (c recovery) printing(w *world) {
	session := w.start(c.story, true).killedAt(2)

	r := c.continues(w)
	working(r)
	c.checkArguments(w.t, session)
	require.NoError(w.t, os.WriteFile(project+"/go", nil, 0o600))
	if code := r.leaves(); code != 0 || !strings.HasSuffix(r.shown(), "done\n") {
		w.t.Errorf("exit code %d, and printed: %q", code, r.shown())
	}
	if asked := w.questions()[2]; strings.Count(asked, "do it (p1)") != 2 || !strings.Contains(asked, "echo hi") {
		w.t.Errorf("the model was asked: %s", asked)
	}

	compareEvents(w.t, c.emits, w.recorded().events)
	w.compareHCP(recovered...)
	w.checkUsage(w.status())
	if w.t.Failed() {
		w.t.Log(r.scene())
	}
}

// commandOf is the command line of a process.
func commandOf(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// windows are all sequences of n adjacent words.
func windows(words []string, n int) (out [][]string) {
	for i := range len(words) - n + 1 {
		out = append(out, words[i:i+n])
	}
	return out
}
