package overlay

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/durable"
	"lifeloop/profiles"
)

const (
	linked = "o/.agent/creds"
	inHome = "home/.agent/creds"
)

// newSignedIn returns a world in which the program may remove the files creds and
// tokens. Only creds exists, with the text "old".
func newSignedIn(t *testing.T) *world {
	w := newWorld(t)
	require.NoError(t, os.RemoveAll(w.spec.Root))
	w.write(inHome, "old")
	w.spec.Folders[1].Files = append(w.spec.Folders[1].Files, "creds", "tokens")
	w.spec.Folders[1].Removes = []string{"creds", "tokens"}
	require.NoError(t, Make(w.spec, w.record))
	w.write("o/.agent/extensions/lifeloop/hooks.json", "{}")
	tick()
	return w
}

// tick waits long enough that the next change of a file gets a later time stamp.
func tick() { time.Sleep(30 * time.Millisecond) }

// crash settles the folders twice, as if two wrappers in a row were killed before they
// removed the overlay.
func (w *world) crash() {
	w.t.Helper()
	data, err := durable.ReadFile(w.record)
	require.NoError(w.t, err)
	var r record
	require.NoError(w.t, json.Unmarshal(data, &r))
	for range 2 {
		var kept []string
		require.NoError(w.t, r.settle(&kept))
		tick()
	}
}

// TestWhatTheProgramRemoved: a step is a change by the program in the overlay, or by another
// process in the home. After the steps, the test settles the overlay and checks the home.
func TestWhatTheProgramRemoved(t *testing.T) {
	removes := func(w *world) { require.NoError(w.t, os.Remove(w.path(linked))) }
	writes := func(name, text string) func(w *world) { return func(w *world) { w.write(name, text) } }
	renames := func(w *world) { w.replace(linked, "new") }
	for name, c := range map[string]struct {
		steps  []func(w *world)
		has    string // the text of creds in the home at the end; "" if there is no such file
		beside string // the text of creds.lifeloop-1, the program's file beside that of another process; or ""
	}{
		"nothing":                      {nil, "old", ""},
		"signed out":                   {[]func(w *world){removes}, "", ""},
		"a token refreshed, then out":  {[]func(w *world){writes(linked, "refreshed"), removes}, "", ""},
		"another process refreshed it": {[]func(w *world){writes(inHome, "theirs"), removes}, "", ""},
		"out, and another account":     {[]func(w *world){removes, writes(linked, "new")}, "new", ""},
		"refreshed, out, and another":  {[]func(w *world){writes(linked, "refreshed"), removes, writes(linked, "new"), writes(linked, "newer")}, "newer", ""},
		"refreshed, and renamed over":  {[]func(w *world){writes(linked, "refreshed"), renames}, "new", ""},
		"out, and another process in":  {[]func(w *world){removes, writes(inHome, "theirs")}, "theirs", ""},
		"both in":                      {[]func(w *world){removes, writes(inHome, "theirs"), writes(linked, "new")}, "theirs", "new"},
		"another process out too":      {[]func(w *world){removes, func(w *world) { require.NoError(w.t, os.Remove(w.path(inHome))) }}, "", ""},
		"another process renames an old file": {[]func(w *world){func(w *world) {
			w.write("home/backup", "restored")
			past := time.Now().Add(-time.Hour)
			require.NoError(w.t, os.Chtimes(w.path("home/backup"), past, past))
		}, removes, func(w *world) { require.NoError(w.t, os.Rename(w.path("home/backup"), w.path(inHome))) }}, "restored", ""},
		"the whole folder": {[]func(w *world){func(w *world) { require.NoError(w.t, os.RemoveAll(w.path("o/.agent"))) }}, "old", ""},
		"a link to another file": {[]func(w *world){removes, func(w *world) { require.NoError(w.t, os.Symlink("elsewhere", w.path(linked))) }},
			"old", ""},
		"it is a folder meanwhile": {[]func(w *world){func(w *world) {
			require.NoError(w.t, os.Remove(w.path(inHome)))
			w.write(inHome+"/x", "y")
		}, removes}, "folder", ""},
	} {
		for _, crashes := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newSignedIn(t)
				for _, step := range c.steps {
					step(w)
					tick()
				}
				if crashes {
					w.crash()
				}
				kept := w.settle()
				switch {
				case c.has == "folder":
					w.has(inHome+"/x", "y")
				case c.has == "":
					require.NoFileExists(t, w.path(inHome))
				default:
					w.has(inHome, c.has)
				}
				if c.beside != "" {
					w.has(inHome+".lifeloop-1", c.beside)
				} else {
					require.Empty(t, kept)
					require.NoFileExists(t, w.path(inHome+".lifeloop-1"))
				}
				w.has("home/.agent/settings.json", `{"theme":"dark"}`)
				require.NoDirExists(t, w.path("home/"+witnesses))
			})
		}
	}
}

// TestALinkedCredential: in the home, the file creds is a symbolic link to a file that the
// user keeps elsewhere.
func TestALinkedCredential(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile, writes, want string
	}{
		"out": {"", "", ""},
		"out, and another process in by the link": {"theirs", "", "theirs"},
		"out, and another account":                {"", "new", "new"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSignedIn(t)
			require.NoError(t, os.Rename(w.path(inHome), w.path("home/elsewhere")))
			require.NoError(t, os.Symlink("../elsewhere", w.path(inHome)))
			tick()
			require.NoError(t, os.Remove(w.path(linked)))
			tick()
			if c.meanwhile != "" {
				w.write(inHome, c.meanwhile)
			}
			if c.writes != "" {
				w.write(linked, c.writes)
			}
			require.Empty(t, w.settle())
			if c.want == "" {
				require.NoFileExists(t, w.path(inHome))
			} else {
				w.has(inHome, c.want)
			}
			require.FileExists(t, w.path("home/elsewhere"))
		})
	}
}

// TestDiscardBeginsWithTheWitnesses: discard removes the second names of links before the
// links. In the other order, a link that discard removed before a crash would count as
// removed by the program.
func TestDiscardBeginsWithTheWitnesses(t *testing.T) {
	w := newSignedIn(t)
	fd, err := syscall.InotifyInit()
	require.NoError(t, err)
	defer syscall.Close(fd)
	for _, dir := range []string{"o/.agent", "o/" + witnesses + "/.agent"} {
		_, err := syscall.InotifyAddWatch(fd, w.path(dir), syscall.IN_DELETE)
		require.NoError(t, err)
	}
	require.Empty(t, w.settle())
	w.has(inHome, "old")
	var events [4096]byte
	n, err := syscall.Read(fd, events[:])
	require.NoError(t, err)
	require.Positive(t, n)
	require.EqualValues(t, 2, binary.NativeEndian.Uint32(events[:4]), "the first file to be removed is in the second folder")
}

// TestOnlyListedFilesAreRemoved: when the program removes links, only the files that Removes
// lists are removed from the home. Removes lists "tokens", a file created through its link.
func TestOnlyListedFilesAreRemoved(t *testing.T) {
	w := newSignedIn(t)
	w.write("o/.agent/tokens", "created through the link")
	w.has("home/.agent/tokens", "created through the link")
	tick()
	require.NoError(t, os.Remove(w.path("o/.agent/tokens")))
	require.NoError(t, os.Remove(w.path("o/.agent/settings.json")))
	require.NoError(t, os.Remove(w.path("o/notes")))
	require.NoError(t, os.Remove(w.path("o/.agent/extensions/theirs")))
	require.Empty(t, w.settle())
	require.NoFileExists(t, w.path("home/.agent/tokens"))
	w.has("home/.agent/settings.json", `{"theme":"dark"}`)
	w.has("home/notes", "mine")
	w.has("home/.agent/extensions/theirs/x.json", "{}")
}

// TestTwoOverlaysOfOneHome: one session signs out and another session refreshes the token,
// in both orders. The later change counts.
func TestTwoOverlaysOfOneHome(t *testing.T) {
	for later, want := range map[string]string{"refreshes": "refreshed", "signs out": ""} {
		t.Run(later, func(t *testing.T) {
			a := newSignedIn(t)
			b := &world{t: t, home: a.home, record: filepath.Join(filepath.Dir(a.record), "b.json"), spec: a.spec}
			b.spec.Root = filepath.Join(filepath.Dir(a.record), "b")
			b.spec.Folders = append([]profiles.OverlayFolder{}, a.spec.Folders...)
			require.NoError(t, Make(b.spec, b.record))
			tick()
			steps := []func(){func() { require.NoError(t, os.Remove(a.path(linked))) }, func() { a.write("b/.agent/creds", "refreshed") }}
			if later == "signs out" {
				steps[0], steps[1] = steps[1], steps[0]
			}
			for _, step := range steps {
				step()
				tick()
			}
			require.Empty(t, a.settle())
			require.Empty(t, b.settle())
			if want == "" {
				require.NoFileExists(t, a.path(inHome))
			} else {
				a.has(inHome, want)
			}
		})
	}
}

// TestWithoutWitnesses: without second names of the links, as on a file system without hard
// links to symbolic links, no file of the home is removed. A file of the home that changed
// since the overlay was made is not replaced.
func TestWithoutWitnesses(t *testing.T) {
	for name, removesOnly := range map[string]bool{"out": true, "out and in": false} {
		t.Run(name, func(t *testing.T) {
			w := newSignedIn(t)
			require.NoError(t, os.RemoveAll(w.path("o/"+witnesses)))
			w.write(linked, "refreshed")
			tick()
			require.NoError(t, os.Remove(w.path(linked)))
			want := []string(nil)
			if !removesOnly {
				w.write(linked, "new")
				want = []string{w.path(inHome + ".lifeloop-1")}
			}
			require.Equal(t, want, w.settle())
			w.has(inHome, "refreshed")
		})
	}
}
