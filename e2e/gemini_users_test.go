//go:build e2e && linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/mock"
)

const (
	// rootsFolder is a state folder in the file system that isolate.sh mounts on /home. Only
	// root can write to this folder and to the folders above it. The other stories have
	// their state below /tmp, where every user can write.
	rootsFolder = "/home/state"
	// someUser is the id of an ordinary user.
	someUser = 1000
)

// TestGeminiUsers: root gets our hooks as system defaults if only root can write the folder
// of the state. An ordinary user gets the hooks by an overlay of the home. Most other
// stories run as root, with an overlay.
func TestGeminiUsers(t *testing.T) {
	for name, s := range map[string]story{"root": {state: rootsFolder}, "uid 1000": {user: someUser}} {
		s.harness, s.tty, s.argv = gemini, true, geminiArgs()
		s.clients = []client{sessionPayload, promptPayload}
		s.replies = []mock.Reply{mock.Says("one"), mock.Says("two")}
		s.script = geminiClearsBetween("hello (p1)", "again (p2)")
		s.emits = sequence(starts("S? S1", "startup"), frame("S1 F1", "completed"), pressure("low", "S1 F1"), ends("S1", "clear"),
			starts("S2", "clear"), frame("S2 F2", "completed"), pressure("low", "S2 F2"), ends("S2", "exit"))
		s.and = func(t *testing.T, r *run, rec record) {
			asked := r.questions()
			require.Len(t, asked, 2)
			require.Equal(t, 1, strings.Count(asked[0], sessionPayload.body))
			require.Equal(t, 1, strings.Count(asked[0], promptPayload.body))
			require.Equal(t, 1, strings.Count(asked[1], promptPayload.body), "the context was cleared")
			rec.checkDelivered(t, promptPayload)
			// With an overlay the footer shows the whole path instead of ~/project.
			require.Equal(t, s.state != "", strings.Contains(r.shown(), "~/project"))
		}
		t.Run(name, s.play)
	}
}

// TestGeminiUntrusted: in a folder that root does not trust, Gemini CLI runs the hooks of an
// extension, but no hooks of settings. For such a folder our hooks are in an extension, also
// for root, and the gate is asked.
func TestGeminiUntrusted(t *testing.T) {
	s := story{
		harness: gemini, tty: true, argv: []string{"gemini"}, state: rootsFolder, env: []string{"GEMINI_CLI_TRUST_WORKSPACE="},
		replies: []mock.Reply{mock.Runs("bash -c 'rm -rf ~/keepsake'"), mock.Says("done")},
		files: map[string]string{"keepsake/file": "kept", "policy.yaml": "default_verdict: allow\nrules:\n" +
			"  - {name: writes, effect: block, match: {data_classes: [outside_write]}, reason_codes: [write_outside_workspace]}\n"},
		flags: []string{"--policy", filepath.Join(home, "policy.yaml")},
	}
	alone(t, gemini, func(t *testing.T) {
		r := newWorld(t, s).start(s, true)
		r.await("the question about trust", func() bool { return strings.Contains(r.shown(), "Don't trust") })
		time.Sleep(time.Second) // the dialog ignores keys at first
		r.types("3")
		geminiReady(r)
		sendsPatiently(r, "go (p1)", func() bool { return r.modelSaw("go (p1)") > 0 })
		r.await("the answer", func() bool { return r.modelSaw("go (p1)") == 2 && r.modelRests() })
		require.Contains(t, r.questions()[1], "write_outside_workspace")
		geminiQuits(r)
		r.leavesWith(0)
		require.FileExists(t, filepath.Join(home, "keepsake/file"))
	})
}

// TestGeminiSignsOut: when its user signs out, Gemini CLI removes a file in the overlay. The
// file is then removed in the user's home too.
func TestGeminiSignsOut(t *testing.T) {
	const creds = ".gemini/oauth_creds.json"
	story{
		harness: gemini, tty: true, argv: geminiArgs(),
		files: map[string]string{creds: `{"refresh_token":"none"}`},
		script: func(r *run) {
			geminiReady(r)
			r.types("\x1b[200~/auth signout\x1b[201~") // sendsPatiently would not find the line: its words have different colours on the screen
			r.await("the command", func() bool { return strings.Contains(r.shown(), "clear all cached credentials") })
			r.await("the sign-out", func() bool {
				if poll(2*time.Second, func() bool { return strings.Contains(r.shown(), "signed out") }) {
					return true
				}
				r.types("\r")
				return false
			})
			r.await("the end", func() bool {
				r.types("\x1b")
				return poll(time.Second, r.over)
			})
		},
		emits: sequence(starts("S? S1", "startup"), ends("S1", "exit"), "? capability.degraded S1 context.pressure_observed unavailable"),
		and: func(t *testing.T, _ *run, _ record) {
			_, err := os.Lstat(filepath.Join(home, creds))
			require.ErrorIs(t, err, os.ErrNotExist)
		},
	}.play(t)
}
