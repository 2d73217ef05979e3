package overlay

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
)

// a world is a home and an overlay of it.
type world struct {
	t            *testing.T
	home, record string
	spec         profiles.Overlay
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	w := &world{t: t, home: filepath.Join(dir, "home"), record: filepath.Join(dir, "overlay.json")}
	w.write("home/notes", "mine")
	w.write("home/.agent/settings.json", `{"theme":"dark"}`)
	w.write("home/.agent/projects.json", `{"projects":{"/a":"a"}}`)
	w.write("home/.agent/extensions/theirs/x.json", "{}")
	before := time.Now().Add(-time.Hour)
	for _, name := range []string{"settings.json", "projects.json"} {
		require.NoError(t, os.Chtimes(filepath.Join(w.home, ".agent", name), before, before))
	}
	w.spec = profiles.Overlay{Root: filepath.Join(dir, "o"), Merge: []string{"projects.json"}, Folders: []profiles.OverlayFolder{
		{Path: ".", Real: w.home},
		{Path: ".agent", Real: filepath.Join(w.home, ".agent"), Files: []string{"history"}, Dirs: []string{"tmp"}},
		{Path: ".agent/extensions", Real: filepath.Join(w.home, ".agent/extensions"), Ours: []string{"lifeloop"}},
	}}
	require.NoError(t, Make(w.spec, w.record))
	w.write("o/.agent/extensions/lifeloop/hooks.json", "{}")
	return w
}

func (w *world) path(name string) string { return filepath.Join(filepath.Dir(w.record), name) }

func (w *world) write(name, text string) {
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *world) has(name, text string) {
	w.t.Helper()
	data, err := os.ReadFile(w.path(name))
	require.NoError(w.t, err)
	require.Equal(w.t, text, string(data), name)
}

func (w *world) settle() (kept []string) {
	w.t.Helper()
	kept, err := Settle(w.record)
	require.NoError(w.t, err)
	require.NoDirExists(w.t, w.spec.Root)
	require.NoFileExists(w.t, w.record)
	require.NoDirExists(w.t, w.path("home/.agent/extensions/lifeloop"), "ours stays out of the home")
	again, err := Settle(w.record)
	require.NoError(w.t, err, "a second call does nothing")
	require.Empty(w.t, again)
	return kept
}

func TestWritesGoThroughTheLinks(t *testing.T) {
	w := newWorld(t)
	w.has("o/notes", "mine")
	w.has("o/.agent/extensions/theirs/x.json", "{}")
	w.write("o/.agent/settings.json", `{"theme":"light"}`)
	w.has("home/.agent/settings.json", `{"theme":"light"}`)
	w.write("o/.agent/history", "line") // this file did not exist in the home
	w.has("home/.agent/history", "line")
	w.write("o/.agent/tmp/chat", "hello")
	w.has("home/.agent/tmp/chat", "hello")
	require.Empty(t, w.settle())
	w.has("home/notes", "mine")
}

// replace writes a file as many programs do: to a temporary file that is then
// renamed.
func (w *world) replace(name, text string) {
	w.write(name+".tmp", text)
	require.NoError(w.t, os.Rename(w.path(name+".tmp"), w.path(name)))
}

func TestWhatWasReplacedIsGivenBack(t *testing.T) {
	w := newWorld(t)
	w.replace("o/.agent/settings.json", `{"theme":"light"}`)
	w.replace("o/.agent/projects.json", `{"projects":{"/a":"other","/b":"b"}}`)
	w.write("home/.agent/projects.json", `{"projects":{"/a":"a","/c":"c"}}`) // meanwhile another process changes the real file
	w.write("o/.agent/extensions/new/e.json", "{}")
	w.write("o/.agent/made", "here")
	require.Empty(t, w.settle())
	w.has("home/.agent/settings.json", `{"theme":"light"}`)
	w.has("home/.agent/projects.json", "{\n  \"projects\": {\n    \"/a\": \"a\",\n    \"/b\": \"b\",\n    \"/c\": \"c\"\n  }\n}")
	w.has("home/.agent/extensions/new/e.json", "{}")
	w.has("home/.agent/made", "here")
}

func TestNothingThatChangedMeanwhileIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.replace("o/.agent/settings.json", "ours")
	w.write("home/.agent/settings.json", "theirs")
	require.Equal(t, []string{w.path("home/.agent/settings.json.lifeloop-1")}, w.settle())
	w.has("home/.agent/settings.json", "theirs")
	w.has("home/.agent/settings.json.lifeloop-1", "ours")
}

// A crash may happen after the record was written and before any link, or after
// any step of Settle.
func TestAnUnfinishedOverlayIsSettled(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.RemoveAll(w.path("o/.agent")))
	w.settle()
	w.has("home/.agent/settings.json", `{"theme":"dark"}`)
}

func TestAHomeWithoutTheFolder(t *testing.T) {
	dir := t.TempDir()
	w := &world{t: t, home: filepath.Join(dir, "home"), record: filepath.Join(dir, "overlay.json")}
	require.NoError(t, os.Mkdir(w.home, 0o700))
	w.spec = profiles.Overlay{Root: filepath.Join(dir, "o"), Folders: []profiles.OverlayFolder{{Path: ".", Real: w.home}, {Path: ".agent", Real: filepath.Join(w.home, ".agent")}}}
	require.NoError(t, Make(w.spec, w.record))
	w.write("o/.agent/settings.json", "{}")
	w.settle()
	w.has("home/.agent/settings.json", "{}")
}
