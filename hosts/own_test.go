//go:build unix

package hosts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
)

// newWholePlace returns a place whose installation is a whole file in a folder
// that, like its parent, does not exist yet.
func newWholePlace(t *testing.T) *place {
	p := newPlace(t)
	p.in = profiles.Installation{Path: filepath.Join(p.dir, "home", "conf", "plugin", "ours.js"), Whole: "OURS 2\n",
		Mark: "OURS ", Ours: func(text string) bool { return strings.HasPrefix(text, "OURS ") && !strings.Contains(text, "mine") }}
	return p
}

func TestWholeFile(t *testing.T) {
	p := newWholePlace(t)
	require.Equal(t, NotInstalled, p.state())
	require.Empty(t, p.remove())

	changes, err := p.store.Apply(p.in, true)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Contains(t, changes[0].Diff(), "+OURS 2\n")
	require.Empty(t, p.names(filepath.Join(p.dir, "home")), "a dry run")

	p.apply()
	require.Equal(t, Installed, p.state())
	require.Equal(t, "OURS 2\n", p.read(p.in.Path))
	require.Empty(t, p.apply(), "a second time")

	p.write(p.in.Path, "OURS 1\n", 0o600)
	require.Equal(t, Outdated, p.state())
	changes = p.apply()
	require.Equal(t, "OURS 1\n", p.read(changes[0].Backup))
	require.Equal(t, Installed, p.state())

	p.remove()
	require.Empty(t, p.names(filepath.Join(p.dir, "home")), "the folders were created for it")
}

func TestSharedFolder(t *testing.T) {
	p := newWholePlace(t)
	dir := filepath.Dir(p.in.Path)
	p.apply()
	p.write(filepath.Join(dir, "mine.js"), "mine", 0o600)
	p.remove()
	require.Equal(t, []string{"mine.js"}, p.names(dir))
	p.apply()
	p.remove()
	require.Equal(t, []string{"mine.js"}, p.names(dir))
	require.Equal(t, NotInstalled, p.state())

	// If the store was lost, our file is still removed, and the user's file stays.
	p.apply()
	require.NoError(t, os.RemoveAll(p.store.dir))
	require.Equal(t, Installed, p.state())
	p.remove()
	require.Equal(t, []string{"mine.js"}, p.names(dir))
}

// Our file with changes by the user is neither replaced nor removed.
func TestOurFileWasEdited(t *testing.T) {
	p := newWholePlace(t)
	p.apply()
	const text = "OURS 2\n// mine\n"
	p.write(p.in.Path, text, 0o600)
	require.Equal(t, Outdated, p.state())
	for _, edit := range []func(profiles.Installation, bool) ([]Change, error){p.store.Apply, p.store.Remove} {
		var flaw *Flaw
		_, err := edit(p.in, false)
		require.ErrorAs(t, err, &flaw)
		require.Contains(t, flaw.Text, "changed since")
		require.Equal(t, text, p.read(p.in.Path))
	}
}

// A file of the same name that is not ours is not touched.
func TestForeignFileOfOurName(t *testing.T) {
	p := newWholePlace(t)
	p.apply()
	for _, text := range []string{"theirs\n", "", "// OURS 2\n"} {
		p.write(p.in.Path, text, 0o600)
		require.Equal(t, NotInstalled, p.state())
		for _, dry := range []bool{true, false} {
			var flaw *Flaw
			if _, err := p.store.Apply(p.in, dry); !errors.As(err, &flaw) || flaw.Path != p.in.Path {
				t.Errorf("%q: %v", text, err)
			}
		}
		require.Empty(t, p.remove())
		require.Equal(t, text, p.read(p.in.Path))
	}
}
