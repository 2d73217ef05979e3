//go:build e2e && linux

package e2e

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

// TestAttach starts `observe` in the folder of a bare harness, without a PATH. The
// observation must follow the harness into the session that begins after /clear or /new.
func TestAttach(t *testing.T) {
	for name, c := range map[string]struct {
		story  story
		turn   func(r *run, prompt string)
		ready  func(r *run)
		clears func(r *run)
		window string // a part of the data of context.pressure_observed
	}{
		"claude": {story{harness: claude, argv: claudeArgs()}, claudeTurn, claudeReady, claudeClear, `"window_tokens":200000`},
		"codex":  {story{harness: codex, argv: codexArgs()}, codexTurn, codexReady, codexClears, `"window_tokens":258400`},
		"gemini": {story{harness: gemini, argv: geminiArgs()}, geminiTurn, geminiReady, func(r *run) {
			before := len(r.sessions())
			sendsPatiently(r, "/clear", func() bool { return len(r.sessions()) > before })
		}, `"window_tokens":1048576`},
		"opencode": {story{harness: opencode, argv: opencodeArgs()}, opencodeTurn, opencodeReady, opencodeNew, `"window_source":"settings","window_tokens":200000`},
	} {
		s := c.story
		s.tty, s.replies = true, []mock.Reply{mock.Says("ALPHA"), mock.Says("BETA"), mock.Says("OMEGA")}
		t.Run(name, func(t *testing.T) {
			s.plays(t, func(w *world) {
				r := w.start(s, false)
				c.ready(r)
				c.turn(r, "first prompt (p1)")
				o := w.attach()
				c.turn(r, "second prompt (p2)")
				r.await("the turn in the first session", func() bool { return len(o.sessions("frame.opened")) == 1 })
				c.clears(r)
				c.turn(r, "third prompt (p3)")
				r.await("the turn in the next session", func() bool { return len(o.sessions("frame.opened")) == 2 })
				r.await("its pressure", func() bool { return len(o.sessions("context.pressure_observed")) == 2 })
				printed := o.ends()
				require.Contains(t, printed, c.window)
				require.Equal(t, o.sessions("frame.opened"), o.sessions("session.started"))
			})
		})
	}
}

// An attached observer runs beside a bare harness.
type attached struct {
	*world
	cmd *exec.Cmd

	mu      sync.Mutex
	printed bytes.Buffer
}

func (a *attached) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.printed.Write(b)
}

// attach starts `observe` in the project's folder, without the argument PATH.
func (w *world) attach() *attached {
	w.t.Helper()
	a := &attached{world: w}
	a.cmd = exec.Command(filepath.Join(programs, "lifeloop-wrap"), "observe", "--adapter", w.harness.name, "--follow", "--from-start")
	a.cmd.Dir, a.cmd.Env, a.cmd.Stdout = project, w.env, a
	require.NoError(w.t, a.cmd.Start())
	w.t.Cleanup(func() { _ = a.cmd.Process.Kill() })
	return a
}

// sessions are the ids of the harness sessions that have an event of this name, in order.
func (a *attached) sessions(name string) (ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := a.printed.String()
	whole := text[:strings.LastIndex(text, "\n")+1]
	for _, e := range lines[event](a.t, whole) {
		if id := deref(e.HarnessSessionID); e.Event == name && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// ends stops the observation and returns what it printed.
func (a *attached) ends() string {
	a.t.Helper()
	require.NoError(a.t, a.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(a.t, a.cmd.Wait())
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.printed.String()
}
