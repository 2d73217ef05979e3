package programs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/dispatch"
	"lifeloop/kernel/effect"
	"lifeloop/lifeloop"
	"lifeloop/renewal/profile"
	"lifeloop/vault"
)

const canary = "canary-41c9-do-not-print"

var at = time.Unix(1778100000, 0).UTC()

// A world is a working directory with programs of one profile.
type world struct {
	dir, vault string
	now        time.Time
	*Programs
}

func sh(script string) []string { return []string{"sh", "-c", script, "sh"} }

// newWorld creates a world with one profile. edit changes the default values of
// this profile.
func newWorld(t *testing.T, edit func(*profile.Profile)) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), vault: filepath.Join(t.TempDir(), "vault"), now: at}
	var p profile.Profile
	p.SetDefaults()
	p.Name, p.Client = "handoff", "notes"
	edit(&p)
	require.NoError(t, p.Check(""))
	var err error
	w.Programs, err = New(Config{Profiles: []profile.Profile{p}, Vault: vault.At(w.vault), Dir: w.dir, Environ: os.Environ(),
		Around: func(client string) dispatch.Config {
			return dispatch.Config{Env: []string{"LIFELOOP_SESSION_ID=s1"}, StderrFile: filepath.Join(w.dir, "stderr-"+client)}
		}, Now: func() time.Time { return w.now }})
	require.NoError(t, err)
	return w
}

func ref() effect.RenewalRef {
	return effect.RenewalRef{Renewal: "r1", Profile: "handoff", Client: "notes", Adapter: "generic", Session: "old"}
}

// fails checks for a failure whose text does not contain the canary.
func fails(t *testing.T, class lifeloop.FailureClass, why string, err error) {
	t.Helper()
	var f *dispatch.Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, why, f.Why)
	require.Equal(t, class, f.Class)
	for cause := error(f); cause != nil; cause = errors.Unwrap(cause) {
		require.NotContains(t, cause.Error(), canary)
	}
}

// found lists the files below the folders. It lists only files that contain the canary.
func found(t *testing.T, dirs ...string) (files []string) {
	t.Helper()
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && e.IsDir() {
				return nil
			}
			require.NoError(t, err)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			if strings.Contains(string(text), canary) {
				files = append(files, filepath.Base(path))
			}
			return nil
		}))
	}
	return files
}

// The vault keeps the continuation of the first program for the second program, which
// can receive the continuation in three ways. No other file contains the continuation.
func TestContinuationReachesTheSecondProgram(t *testing.T) {
	for name, command := range map[string][]string{
		"stdin":     sh(`read token; echo "with $token in $PWD"`),
		"file":      append(sh(`stat -c %a "$1" >mode; read token <"$1"; echo "with $token in $PWD"`), "{token_file}"),
		"arguments": append(sh(`test -z "$(cat)"; echo "with $1 in $PWD"`), "{token}"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(p *profile.Profile) {
				p.Prepare.Command = append(sh(`echo "$1 $2 $LIFELOOP_SESSION_ID $LIFELOOP_CLIENT_ID $LIFELOOP_ADAPTER_ID $LIFELOOP_HARNESS_SESSION_ID" >seen; echo `+canary+` >&2; echo `+canary), "{adapter}", "{harness_session}")
				p.Continue.Command = command
			})
			digest, expires, err := w.Prepare(t.Context(), ref())
			require.NoError(t, err)
			require.Equal(t, string(vault.NewToken(canary).Digest()), digest)
			require.Equal(t, at.Add(24*time.Hour), *expires)
			seen, err := os.ReadFile(filepath.Join(w.dir, "seen"))
			require.NoError(t, err)
			require.Equal(t, "generic old s1 notes generic old\n", string(seen))
			held := found(t, w.dir, w.vault)
			require.Len(t, held, 1)
			require.True(t, strings.HasSuffix(held[0], ".held"))

			text, err := w.Continue(t.Context(), ref(), digest)
			require.NoError(t, err)
			require.Equal(t, "with "+canary+" in "+w.dir+"\n", text.Reveal())
			require.Empty(t, found(t, w.dir, w.vault))
			if name == "file" {
				mode, err := os.ReadFile(filepath.Join(w.dir, "mode"))
				require.NoError(t, err)
				require.Equal(t, "600\n", string(mode))
			}
			_, err = w.Continue(t.Context(), ref(), digest)
			fails(t, lifeloop.PayloadRejected, "the continuation is consumed", err)
		})
	}
}

func TestPrepareThatFails(t *testing.T) {
	for _, c := range []struct {
		name, script string
		class        lifeloop.FailureClass
		why          string
	}{
		{"exits with an error", "echo " + canary + "; echo " + canary + " >&2; exit 3", lifeloop.TransportError, "exit status 3"},
		{"prints nothing", "true", lifeloop.InvalidRequest, "the output is empty"},
		{"prints bytes", `printf '` + canary + `\377'`, lifeloop.InvalidRequest, "the output is not UTF-8"},
		{"prints too much", "yes " + canary, lifeloop.InvalidRequest, "answer larger than 1048576 bytes"},
		{"hangs", "echo " + canary + "; exec sleep 60", lifeloop.Timeout, "no answer within 100ms"},
		{"prints another object", `echo '{"other":"` + canary + `"}'`, lifeloop.InvalidRequest, "the output has no text in the member token"},
		{"has expired", `echo '{"token":"` + canary + `","until":1778100000}'`, lifeloop.PayloadRejected, "the continuation is expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(p *profile.Profile) {
				p.Prepare.Command = sh(c.script)
				p.Prepare.Token = profile.Token{From: []profile.Form{profile.JSON, profile.Text}, Member: "token", Expires: "until"}
				if c.name == "hangs" {
					p.Prepare.Timeout = 100 * time.Millisecond
				}
			})
			_, _, err := w.Prepare(t.Context(), ref())
			fails(t, c.class, c.why, err)
			require.Empty(t, found(t, w.dir, w.vault))
		})
	}
	w := newWorld(t, func(p *profile.Profile) { p.Prepare.Command = []string{"no-such-program"} })
	_, _, err := w.Prepare(t.Context(), ref())
	fails(t, lifeloop.TransportError, "not found", err)
	other := ref()
	other.Profile = "other"
	_, _, err = w.Prepare(t.Context(), other)
	fails(t, lifeloop.OperatorRequired, "profile other is not active", err)
}

// If the continue command fails, the continuation is lost, because it was consumed
// before the command was started.
func TestContinueThatFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		script string
		words  []string
		class  lifeloop.FailureClass
		why    string
	}{
		{"exits with an error", "cat >&2; exit 4", nil, lifeloop.TransportError, "exit status 4"},
		{"prints nothing", "echo", nil, lifeloop.InvalidRequest, "the output is empty"},
		{"prints bytes", `printf '\377'`, nil, lifeloop.InvalidRequest, "the output is not UTF-8"},
		{"fails with a file", "exit 5", []string{"{token_file}"}, lifeloop.TransportError, "exit status 5"},
		{"fails with an argument", "exit 6", []string{"{token}"}, lifeloop.TransportError, "exit status 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(p *profile.Profile) {
				p.Prepare.Command, p.Continue.Command = sh("echo "+canary), append(sh(c.script), c.words...)
			})
			digest, _, err := w.Prepare(t.Context(), ref())
			require.NoError(t, err)
			_, err = w.Continue(t.Context(), ref(), digest)
			fails(t, c.class, c.why, err)
			require.Empty(t, found(t, w.dir, w.vault))
			_, err = w.Continue(t.Context(), ref(), digest)
			fails(t, lifeloop.PayloadRejected, "the continuation is consumed", err)
		})
	}
}

func TestWithoutASecondProgramTheContinuationIsTheText(t *testing.T) {
	w := newWorld(t, func(p *profile.Profile) { p.Prepare.Command = sh("echo one; echo two") })
	digest, _, err := w.Prepare(t.Context(), ref())
	require.NoError(t, err)
	text, err := w.Continue(t.Context(), ref(), digest)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo", text.Reveal())
}

func TestContinuationThatIsNotUsed(t *testing.T) {
	w := newWorld(t, func(p *profile.Profile) { p.Prepare.Command = sh("echo " + canary) })
	digest, _, err := w.Prepare(t.Context(), ref())
	require.NoError(t, err)
	other := ref()
	other.Session = "another"
	_, err = w.Continue(t.Context(), other, digest)
	fails(t, lifeloop.PayloadRejected, "the continuation is missing", err)
	require.NoError(t, w.Discard(ref(), digest))
	require.NoError(t, w.Discard(ref(), digest))
	require.Empty(t, found(t, w.vault))
	_, err = w.Continue(t.Context(), ref(), digest)
	fails(t, lifeloop.PayloadRejected, "the continuation is discarded", err)

	// Without a digest, Discard removes everything that the renewal stored, and nothing else.
	next := ref()
	next.Renewal = "r3"
	_, _, err = w.Prepare(t.Context(), next)
	require.NoError(t, err)
	require.NoError(t, w.Discard(ref(), ""))
	require.NotEmpty(t, found(t, w.vault))
	require.NoError(t, w.Discard(next, ""))
	require.Empty(t, found(t, w.vault))

	// After the end of a session, none of its continuations is left.
	next.Renewal = "r4"
	_, _, err = w.Prepare(t.Context(), next)
	require.NoError(t, err)
	require.NoError(t, w.cfg.Vault.Clear(w.now))
	require.Empty(t, found(t, w.vault))

	next.Renewal = "r2"
	digest, _, err = w.Prepare(t.Context(), next)
	require.NoError(t, err)
	w.now = at.Add(24 * time.Hour)
	_, err = w.Continue(t.Context(), next, digest)
	fails(t, lifeloop.PayloadRejected, "the continuation is expired", err)
}

// Without a client the harness writes the note: it reads the prompt on stdin and has
// the user's whole environment.
func TestNoteOfTheHarness(t *testing.T) {
	t.Setenv("HARNESS_KEY", "k")
	w := newWorld(t, func(p *profile.Profile) { p.Note.Prompt, p.Client = "write it down", "" })
	r := ref()
	r.Client = "handoff"
	_, _, err := w.Prepare(t.Context(), r)
	fails(t, lifeloop.CapabilityUnsupported, "with this command line, the harness cannot be asked for a note", err)

	w.cfg.Environ = os.Environ()
	w.cfg.Ask = func(r effect.RenewalRef) ([]string, bool) {
		return append(sh(`test -n "$LIFELOOP_SOCKET" || exit 1; echo "$(cat), $1 $HARNESS_KEY"; echo `+canary), r.Session), true
	}
	digest, _, err := w.Prepare(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, found(t, w.dir, w.vault), 1)
	text, err := w.Continue(t.Context(), r, digest)
	require.NoError(t, err)
	require.Equal(t, "write it down, old k\n"+canary, text.Reveal())
	require.Empty(t, found(t, w.dir, w.vault))
}

func TestOnlyTheOwnerAsks(t *testing.T) {
	w := newWorld(t, func(p *profile.Profile) { p.Asks = profile.Asks{Member: "session_boundary.action", Value: "renew"} })
	answer := []byte(`{"status":"delivered","session_boundary":{"action":"renew"}}`)
	require.Equal(t, "handoff", w.Asks("notes", answer))
	require.Empty(t, w.Asks("other", answer))
	require.Empty(t, w.Asks("notes", []byte(`{"status":"delivered"}`)))
	require.Equal(t, []string{"session_boundary"}, w.Reads("notes"))
	require.Empty(t, w.Reads("other"))
}

func TestCanceledCallEnds(t *testing.T) {
	w := newWorld(t, func(p *profile.Profile) { p.Prepare.Command = sh("exec sleep 60") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := w.Prepare(ctx, ref())
	fails(t, lifeloop.Timeout, "canceled before it answered", err)
}

func TestNewNeedsAVaultAndAFolder(t *testing.T) {
	_, err := New(Config{Dir: "/"})
	require.EqualError(t, err, "programs of renewals: no vault")
	_, err = New(Config{Vault: vault.At("/v"), Dir: "work"})
	require.EqualError(t, err, `programs of renewals: the working directory "work" is not absolute`)
}
