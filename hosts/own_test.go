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

// newOwnPlace is a place whose installation is a whole file, two folders deep.
func newOwnPlace(t *testing.T) *place {
	p := newPlace(t)
	p.in = profiles.Installation{Path: filepath.Join(p.dir, "home", "conf", "plugin", "ours.js"), Whole: "OURS 2\n",
		Mark: "OURS ", Ours: func(text string) bool { return strings.HasPrefix(text, "OURS ") && !strings.Contains(text, "mine") }}
	return p
}

func TestAFileOfOurOwn(t *testing.T) {
	p := newOwnPlace(t)
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
	require.Empty(t, p.names(filepath.Join(p.dir, "home")), "the folders were made for it")
}

func TestAFolderThatOthersUse(t *testing.T) {
	p := newOwnPlace(t)
	dir := filepath.Dir(p.in.Path)
	p.apply()
	p.write(filepath.Join(dir, "mine.js"), "mine", 0o600)
	p.remove()
	require.Equal(t, []string{"mine.js"}, p.names(dir))
	p.apply()
	p.remove()
	require.Equal(t, []string{"mine.js"}, p.names(dir))
	require.Equal(t, NotInstalled, p.state())

	// A store that was lost costs the folders and nothing else.
	p.apply()
	require.NoError(t, os.RemoveAll(p.store.dir))
	require.Equal(t, Installed, p.state())
	p.remove()
	require.Equal(t, []string{"mine.js"}, p.names(dir))
}

// Ours with somebody's changes is neither written over nor taken away.
func TestOursWasEdited(t *testing.T) {
	p := newOwnPlace(t)
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

// A file that is not ours, or not any more, is nobody's to touch.
func TestSomebodyElsesFileOfThatName(t *testing.T) {
	p := newOwnPlace(t)
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
