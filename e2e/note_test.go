//go:build e2e && linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
	"lifeloop/profiles"
)

// TestClaudeNote asks an open session for a hand-over note, as the profile
// self-handoff does. The model writes the note with the session's context, and the
// session itself does not change.
func TestClaudeNote(t *testing.T) { alone(t, claude, askForNote) }

func askForNote(t *testing.T) {
	s := story{harness: claude, argv: claudeArgs(), tty: true, replies: []mock.Reply{mock.Says("ALPHA"), mock.Says("THE NOTE"), mock.Says("OMEGA")}}
	w := newWorld(t, s)
	r := w.start(s, false)
	claudeReady(r)
	claudeTurn(r, "remember the answer 41")
	open := claudeRegistry().SessionID
	transcript := func() string {
		files, err := filepath.Glob(home + "/.claude/projects/*/" + open + ".jsonl")
		require.NoError(t, err)
		require.Len(t, files, 1)
		text, err := os.ReadFile(files[0])
		require.NoError(t, err)
		return string(text)
	}
	before := transcript()

	p, _ := profiles.For("claude")
	argv, ok := p.Ask(s.argv, open)
	require.True(t, ok)
	ask := exec.Command(argv[0], argv[1:]...)
	ask.Dir, ask.Env, ask.Stdin = project, append(w.env, "LIFELOOP_SOCKET=/nowhere"), strings.NewReader("Write the hand-over note.")
	note, err := ask.Output()
	require.NoError(t, err)
	require.Equal(t, "THE NOTE\n", string(note))
	asked := w.questions()
	require.Contains(t, asked[len(asked)-1], "remember the answer 41")
	// The open Claude Code may write records of its own state later, but no message.
	added, found := strings.CutPrefix(transcript(), before)
	require.True(t, found)
	require.NotContains(t, added, `"message":`)

	claudeTurn(r, "go on")
	asked = w.questions()
	require.NotContains(t, asked[len(asked)-1], "hand-over")
	r.types("/exit\r")
	r.await("the end", r.over)
}
