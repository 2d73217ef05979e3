package overlay

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
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

// copied copies an entry of the overlay to the home, and returns the modes of the copied
// files and folders. It calls copyTo, which replaces a rename if the home is on another
// file system.
func (w *world) copied(name string) map[string]fs.FileMode {
	w.t.Helper()
	require.NoError(w.t, copyTo(w.path("o/"+name), w.path("home/"+name)))
	modes := make(map[string]fs.FileMode)
	require.NoError(w.t, fs.WalkDir(os.DirFS(w.home), name, func(path string, d fs.DirEntry, err error) error {
		if path == name && err != nil { // copyTo has not copied the entry
			return nil
		}
		info, err := os.Lstat(filepath.Join(w.home, path))
		require.NoError(w.t, err)
		modes[path] = info.Mode()
		return nil
	}))
	return modes
}

// special creates a FIFO, a socket and a link to a file in a folder of the overlay.
func (w *world) special(dir string) {
	require.NoError(w.t, syscall.Mkfifo(w.path(dir+"/fifo"), 0o600))
	w.t.Chdir(w.path(dir)) // the name of a socket must be short
	l, err := net.Listen("unix", "socket")
	require.NoError(w.t, err)
	w.t.Cleanup(func() { l.Close() })
	w.write(dir+"/target", "text")
	require.NoError(w.t, os.Symlink("target", w.path(dir+"/link")))
}

func TestEveryKindOfEntryIsCopied(t *testing.T) {
	w := newWorld(t)
	w.special("o")
	require.Empty(t, w.copied("fifo"))
	require.Empty(t, w.copied("socket"))
	require.Equal(t, map[string]fs.FileMode{"target": 0o600}, w.copied("target"))
	require.Equal(t, map[string]fs.FileMode{"link": fs.ModeSymlink | 0o777}, w.copied("link"))
	w.has("home/link", "text")
}

func TestAFolderIsCopiedWithItsModes(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.MkdirAll(w.path("o/new/inner"), 0o700))
	w.special("o/new/inner")
	require.NoError(t, os.Chmod(w.path("o/new"), 0o750))
	require.NoError(t, os.Mkdir(w.path("home/new.lifeloop-part"), 0o700), "of a copy that a crash has interrupted")
	require.Equal(t, map[string]fs.FileMode{
		"new":              fs.ModeDir | 0o750,
		"new/inner":        fs.ModeDir | 0o700,
		"new/inner/target": 0o600,
		"new/inner/link":   fs.ModeSymlink | 0o777,
	}, w.copied("new"))
	w.has("home/new/inner/link", "text")
	require.NoDirExists(t, w.path("home/new.lifeloop-part"))
}

// A crash between the copy of an entry and the removal of the overlay leaves the entry
// both in the overlay and in the home.
func TestWhatWasCopiedIsNotGivenBackAgain(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.Mkdir(w.path("o/new"), 0o700))
	w.special("o/new")
	w.copied("new")
	require.NoError(t, syscall.Mkfifo(w.path("home/new/fifo"), 0o600))
	require.Empty(t, w.settle())
	entries, err := os.ReadDir(w.path("home/new"))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"fifo", "link", "socket", "target"}, names)
}
