//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// TestWrapperKilled kills the wrapper in the middle of a tool call. The processes,
// the terminal and the ledger must be in order afterwards.
func TestWrapperKilled(t *testing.T) {
	for name, s := range map[string]story{
		"claude": {
			harness: claude, tty: true, argv: claudeArgs("--allowedTools", "Bash"),
			replies: []mock.Reply{mock.Runs(endless)},
			script: func(r *run) {
				claudeReady(r)
				r.types("run it\r")
			},
		},
		"claude -p": {
			harness: claude, argv: claudeArgs("--allowedTools", "Bash", "-p", "run it"),
			replies: []mock.Reply{mock.Runs(endless)},
		},
		"codex": {
			harness: codex, tty: true, argv: codexArgs(),
			replies: []mock.Reply{mock.Runs(endless)},
			script: func(r *run) {
				codexReady(r)
				codexSends(r, "run it")
			},
		},
		"codex exec": {
			harness: codex, argv: codexExec("run it"),
			replies: []mock.Reply{mock.Runs(endless)},
		},
		"gemini": {
			harness: gemini, tty: true, argv: geminiArgs(),
			replies: []mock.Reply{mock.Runs("sleep 300")},
			script: func(r *run) {
				geminiReady(r)
				sendsPatiently(r, "run it (p1)", func() bool { return r.modelSaw("run it (p1)") > 0 })
			},
		},
		"gemini -p": {
			harness: gemini, argv: geminiArgs("-p", "run it (p1)"),
			replies: []mock.Reply{mock.Runs("sleep 300")},
		},
		"opencode": {
			harness: opencode, tty: true, argv: opencodeArgs(),
			replies: []mock.Reply{mock.Runs("sleep 300")},
			script:  opencodeDuringTool(func(*run) {}),
		},
		"opencode run": {
			harness: opencode, argv: []string{"opencode", "run", "hello-(p1)"},
			replies: []mock.Reply{mock.Runs("sleep 300")},
		},
	} {
		t.Run(name, func(t *testing.T) { alone(t, s.harness, s.isKilled) })
	}
}

func (s story) isKilled(t *testing.T) {
	w := newWorld(t, s)
	r := w.start(s, true)
	if s.script != nil {
		s.script(r)
	}
	midTool(r)
	if r.tty != nil {
		require.NotEmpty(t, modesLeft(r.shown()), "the harness has changed the terminal")
		require.NotEqual(t, r.before, attributes(t, r.tty), "the harness has changed the terminal")
	}

	r.signals(whatWasStarted, syscall.SIGKILL)
	killed := time.Now()

	stay := 0
	if r.tty != nil {
		stay = 1 // the shell of the terminal continues to run
	}
	if !poll(2*time.Second, func() bool { return len(others()) == stay }) {
		t.Errorf("2 s later there are still\n  %s", strings.Join(others(), "\n  "))
	}
	t.Logf("its processes were gone after %v", time.Since(killed))
	if r.tty != nil && !poll(2*time.Second, func() bool {
		return len(modesLeft(r.shown())) == 0 && *attributes(t, r.tty) == *r.before
	}) {
		t.Errorf("2 s later the terminal has the modes %v and the attributes\n%+v, want\n%+v",
			modesLeft(r.shown()), attributes(t, r.tty), r.before)
	}
	r.leavesWith(137)

	out, err := w.tool("--json", "ps")
	require.NoError(t, err)
	var status struct {
		SessionID string `json:"session_id"`
		Liveness  string `json:"liveness"`
		State     string `json:"state"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &status), out)
	if status.Liveness != "lost" {
		t.Errorf("ps: %s, want it lost", out)
	}
	out, err = w.tool("--json", "ledger", "verify", status.SessionID)
	if err != nil || !strings.Contains(out, `"ok":true`) {
		t.Errorf("ledger verify: %v %s", err, out)
	}
	out, err = w.tool("events", "last")
	require.NoError(t, err)
	emitted := rows(slices.DeleteFunc(lines[event](t, out), untested))
	if len(emitted) < 4 || emitted[0].event != "session.starting" || emitted[3].event != "frame.opened" {
		t.Errorf("events of the lost session: %v", emitted)
	}
}
