//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// works is a shell command for a tool call. The command runs until the file go exists.
const works = "while [ ! -e go ]; do sleep 0.1; done; rm go"

// working waits until the command in works runs and the session has recorded the
// tool call.
func working(r *run) {
	r.t.Helper()
	r.await("the tool", func() bool {
		return slices.ContainsFunc(others(), func(p string) bool { return strings.HasSuffix(p, " sleep 0.1") })
	})
	r.await("the news of the tool", func() bool { return slices.Contains(types(r.l0()), "TOOL_START") })
}

// asks sends the session a command.
func (w *world) asks(args ...string) {
	w.t.Helper()
	out, err := w.tool(args...)
	require.NoError(w.t, err, out)
}

// still returns the stopped and the running processes among the wrapper, its guard
// and the harness's tree. The terminal's shell and the clients are left out.
func (r *run) still() (still, moving []string) {
	for _, p := range others() {
		pid, command, _ := strings.Cut(p, " ")
		if pid == fmt.Sprint(r.cmd.Process.Pid) || strings.HasPrefix(command, filepath.Join(programs, "fakeclient")) {
			continue
		}
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue // the process has just ended
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "T") {
			still = append(still, p)
		} else {
			moving = append(moving, p)
		}
	}
	return still, moving
}

// standsStill waits until all but the wrapper and its guard are stopped.
func standsStill(r *run) {
	r.t.Helper()
	r.await("all but the wrapper and its guard to be stopped", func() bool {
		still, moving := r.still()
		return len(moving) == 2 && slices.ContainsFunc(moving, isWrapper) &&
			slices.ContainsFunc(still, func(p string) bool { return strings.HasPrefix(p, fmt.Sprint(harnessPID(), " ")) }) &&
			slices.ContainsFunc(still, func(p string) bool { return strings.Contains(p, "sleep 0.1") }) // the tool's shell matches too, if no sleep runs at this moment
	})
}

func isWrapper(p string) bool {
	_, command, _ := strings.Cut(p, " ")
	return strings.HasPrefix(command, filepath.Join(programs, "lifeloop-wrap")+" ")
}

// TestPause stops Claude Code in the middle of a tool call, and continues it. Its
// prompt then contains what was typed meanwhile.
func TestPause(t *testing.T) {
	s := story{
		harness: claude, tty: true, argv: claudeArgs("--allowedTools", "Bash"),
		replies: []mock.Reply{mock.Runs(works), mock.Says("it is over"), mock.Says("you are welcome")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		claudeReady(r)
		r.types("run it (p1)\r")
		working(r)
		w.asks("pause", "last", "--reason", "for lunch")
		standsStill(r)
		if status := w.status(); status.State != "PAUSED" {
			t.Errorf("status: %+v", status)
		}
		require.NoError(t, os.WriteFile(project+"/go", nil, 0o600)) // has no effect yet, because the tool is stopped
		r.types("thanks (p2)")
		w.asks("resume", "last")
		r.await("the end of the turn", func() bool {
			return r.transcripts(claudeTurnOver) > 0 && claudeRegistry().Status == "idle"
		})
		claudeTurn(r, "")
		r.types("/exit\r")
		r.leavesWith(0)
		r.checkTerminal()

		compareEvents(t, sequence(starts("S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1", "frame.opening F2"),
			frame("S1 F2", "completed"), ends("S1", "prompt_input_exit")), w.recorded().events)
		w.compareL0("SESSION_START (launch) TOOL_REQUESTED TOOL_START TOOL_RESULT TOOL_COMPLETED COMPLETE")
		w.compareHCP("created RUNNING", "RUNNING PAUSED for lunch", "PAUSED RUNNING resumed", "RUNNING COMPLETED exit 0", "closed COMPLETED")
		w.checkUsage(w.status()) // including the turn with the prompt typed during the pause
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// TestAbort ends sessions in the middle of a tool call, one of them while it is
// paused.
func TestAbort(t *testing.T) {
	tool := []mock.Reply{mock.Runs(works)}
	for name, c := range map[string]struct {
		story
		paused bool
	}{
		"claude":         {story: story{harness: claude, tty: true, argv: claudeArgs("--allowedTools", "Bash"), exit: 143}},
		"claude, paused": {story: story{harness: claude, tty: true, argv: claudeArgs("--allowedTools", "Bash"), exit: 143}, paused: true},
		"claude -p":      {story: story{harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "run it (p1)"), exit: 143}},
		"codex":          {story: story{harness: codex, tty: true, argv: codexArgs(), exit: 130}}, // Codex's own quit signal is SIGINT
	} {
		c.replies, c.flags = tool, []string{"--retries", "3"} // an abort prevents retries
		t.Run(name, func(t *testing.T) {
			c.plays(t, func(w *world) {
				r := w.start(c.story, true)
				switch {
				case !c.tty:
				case c.harness.name == codex.name:
					codexReady(r)
					codexSends(r, "run it (p1)")
				default:
					claudeReady(r)
					r.types("run it (p1)\r")
				}
				working(r)
				want := []string{"created RUNNING"}
				if c.paused {
					w.asks("pause", "last")
					standsStill(r)
					want = append(want, "RUNNING PAUSED paused", "PAUSED ABORTING enough")
				} else {
					want = append(want, "RUNNING ABORTING enough")
				}
				w.asks("abort", "last", "--reason", "enough")
				w.asks("wait", "last")
				if code := r.leaves(); code != c.exit {
					t.Errorf("exit code %d, want %d", code, c.exit)
				}
				if c.tty {
					r.checkTerminal()
				}
				if !poll(2*time.Second, func() bool { return len(others()) == 0 }) {
					t.Errorf("processes that outlive the session: %s", strings.Join(others(), "\n  "))
				}
				over := ""
				if name == "claude -p" && claude.since("2.1.330") {
					over = "TOOL_ERROR TOOL_COMPLETED " // Claude Code records the result of the tool that it ended
				}
				w.compareL0("SESSION_START (launch) TOOL_REQUESTED TOOL_START ABORT_REQUESTED " + over + "ABORT_COMPLETED ERROR")
				w.compareHCP(append(want, "ABORTING ABORTED enough", "closed ABORTED")...)
				if t.Failed() {
					t.Log(r.scene())
				}
			})
		})
	}
}

// TestNeedsInput waits until Claude Code asks for a permission. While it asks, and
// while it waits for the next prompt, no time-out fires: neither for silence nor
// for the tool call.
func TestNeedsInput(t *testing.T) {
	const silence = 4 * time.Second
	s := story{
		harness: claude, tty: true, argv: claudeArgs(), flags: []string{"--timeout-inter", silence.String(), "--timeout-tool", silence.String()},
		replies: []mock.Reply{mock.Runs("touch made"), mock.Says("it is made")},
	}
	s.plays(t, func(w *world) {
		r := w.start(s, true)
		claudeReady(r)
		waiter := make(chan string, 1)
		go func() {
			out, err := w.tool("wait", "last", "--for", "needs_input", "--json")
			waiter <- fmt.Sprint(out, err)
		}()
		r.types("make it (p1)\r")
		var fact struct {
			For  string    `json:"for"`
			Kind string    `json:"kind"`
			At   time.Time `json:"at"`
			Fact struct {
				Source string `json:"source"`
			} `json:"fact"`
		}
		select {
		case text := <-waiter:
			t.Logf("wait printed at %v: %s", time.Now(), text)
			require.NoError(t, json.NewDecoder(strings.NewReader(text)).Decode(&fact))
		case <-time.After(patience):
			t.Fatalf("the wait did not end\n%s", r.scene())
		}
		if fact.For != "needs_input" || fact.Kind != "activity_moved" || fact.Fact.Source == "" {
			t.Errorf("wait: %+v", fact)
		}
		r.await("the question", func() bool { return claudeRegistry().Status == "waiting" })
		w.staysIn("needs_input", silence)
		r.types("\r") // yes
		r.await("the end of the turn", func() bool {
			return r.transcripts(claudeTurnOver) > 0 && claudeRegistry().Status == "idle"
		})
		w.asks("wait", "last", "--for", "idle")
		w.staysIn("idle", silence)
		r.types("/exit\r")
		r.leavesWith(0)
		if _, err := os.Stat(project + "/made"); err != nil {
			t.Errorf("the permitted tool: %v", err)
		}
		w.compareL0("SESSION_START (launch) TIMEOUT_RESET TOOL_REQUESTED TOOL_START TOOL_RESULT TOOL_COMPLETED COMPLETE")
		if t.Failed() {
			t.Log(r.scene())
		}
	})
}

// staysIn checks that the session keeps an activity for longer than the time-out.
func (w *world) staysIn(activity string, silence time.Duration) {
	w.t.Helper()
	out, err := w.tool("wait", "last", "--for", "stopped", "--timeout", (silence + time.Second).String())
	if err == nil {
		w.t.Fatalf("the session ended: %s", out)
	}
	if status := w.status(); status.Activity != activity {
		w.t.Errorf("activity %s, want %s", status.Activity, activity)
	}
}
