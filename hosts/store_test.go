//go:build unix

package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/profiles"
)

const applyEnv = "HOSTS_TEST_APPLY"

// TestMain lets the test start its own binary several times, as programs that
// call Apply at the same time.
func TestMain(m *testing.M) {
	if dir := os.Getenv(applyEnv); dir != "" {
		if _, err := At(filepath.Join(dir, os.Getenv(applyEnv+"_STORE"))).Apply(in(dir), false); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	// By default, test each law with a thousand random files.
	if err := flag.Set("rapid.checks", "1000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// in returns the installation of withConsent with its files in the folder dir.
func in(dir string) profiles.Installation {
	in := withConsent()
	in.Path = filepath.Join(dir, "home", "settings.json")
	in.Trust.Path = filepath.Join(dir, "home", "config.toml")
	return in
}

// A place is a folder with a home and a store.
type place struct {
	*testing.T
	dir   string
	in    profiles.Installation
	store *Store
}

func newPlace(t *testing.T) *place {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "home"), 0o755))
	return &place{t, dir, in(dir), At(filepath.Join(dir, "store"))}
}

func (p *place) write(path, text string, perm fs.FileMode) {
	p.Helper()
	require.NoError(p, os.WriteFile(path, []byte(text), perm))
	require.NoError(p, os.Chmod(path, perm))
}

func (p *place) read(path string) string {
	p.Helper()
	data, err := os.ReadFile(path)
	require.NoError(p, err)
	return string(data)
}

func (p *place) apply() []Change {
	p.Helper()
	changes, err := p.store.Apply(p.in, false)
	require.NoError(p, err)
	return changes
}

func (p *place) remove() []Change {
	p.Helper()
	changes, err := p.store.Remove(p.in, false)
	require.NoError(p, err)
	return changes
}

func (p *place) state() string {
	p.Helper()
	r, err := p.store.Status(p.in)
	require.NoError(p, err)
	return r.State
}

// names lists the entries of a folder.
func (p *place) names(dir string) []string {
	p.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(p, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

const theirs = "{\n  \"model\": \"opus\",\n  \"hooks\": {\"Stop\": [ ], \"End\": null}\n}"

func TestThereAndBack(t *testing.T) {
	p := newPlace(t)
	p.write(p.in.Path, theirs, 0o640)
	p.write(p.in.Trust.Path, "model = 1", 0o600)

	changes := p.apply()
	require.Len(t, changes, 2)
	for _, c := range changes {
		if got := p.read(c.Backup); got != *c.Before {
			t.Errorf("the backup of %s is %q", c.Path, got)
		}
		info, err := os.Stat(c.Backup)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the backup has mode %v, %v", info.Mode(), err)
		}
	}
	require.Equal(t, Installed, p.state())
	if info, _ := os.Stat(p.in.Path); info.Mode().Perm() != 0o640 {
		t.Errorf("its mode became %v", info.Mode())
	}
	if changes := p.apply(); len(changes) != 0 {
		t.Errorf("a second Apply changed %v", changes)
	}

	p.remove()
	require.Equal(t, theirs, p.read(p.in.Path))
	require.Equal(t, "model = 1", p.read(p.in.Trust.Path))
	require.Equal(t, []string{"config.toml", "settings.json"}, p.names(filepath.Join(p.dir, "home")), "nothing else is left")
	if changes := p.remove(); len(changes) != 0 {
		t.Errorf("a second Remove changed %v", changes)
	}
	require.Equal(t, []string{"backup", "lock"}, p.names(filepath.Join(p.dir, "store")), "no note is left")
}

func TestNewFiles(t *testing.T) {
	p := newPlace(t)
	deep := filepath.Join(p.dir, "home", "a", "b")
	p.in.Path = filepath.Join(deep, "settings.json")
	require.Equal(t, NotInstalled, p.state())
	require.Empty(t, p.remove())
	if _, err := os.Stat(filepath.Join(p.dir, "store")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Status and an empty Remove created the store")
	}

	p.apply()
	info, err := os.Stat(p.in.Path)
	require.NoError(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	p.remove()
	require.Empty(t, p.names(filepath.Join(p.dir, "home")), "files and folders are removed")

	p.in.Shared = true
	p.apply()
	info, _ = os.Stat(p.in.Path)
	folder, _ := os.Stat(deep)
	if info.Mode().Perm() != 0o644 || folder.Mode().Perm()&0o700 != 0o700 {
		t.Errorf("in a project: %v, its folder %v", info.Mode(), folder.Mode())
	}
	// If the user has added a member, the file stays.
	p.write(p.in.Path, strings.Replace(p.read(p.in.Path), "{", "{\n  \"theirs\": 1,", 1), 0o644)
	p.remove()
	require.Equal(t, "{\n  \"theirs\": 1\n}\n", p.read(p.in.Path))
}

// The folders of the settings file and of the file with the consents are in two trees. If
// one of them has other files, the empty folders of the other are removed all the same.
func TestFoldersOfTwoTrees(t *testing.T) {
	for _, kept := range []string{"a", "b"} {
		p := newPlace(t)
		home := filepath.Join(p.dir, "home")
		p.in.Path = filepath.Join(home, "a", "deep", "settings.json")
		p.in.Trust.Path = filepath.Join(home, "b", "deep", "config.toml")
		p.apply()
		p.write(filepath.Join(home, kept, "deep", "theirs"), "", 0o600)
		p.remove()
		require.Equal(t, []string{kept}, p.names(home))
		require.Equal(t, []string{"theirs"}, p.names(filepath.Join(home, kept, "deep")))
	}
}

// If the user replaces a folder that we created, the replacement stays.
func TestFolderThatWasReplaced(t *testing.T) {
	p := newPlace(t)
	home := filepath.Join(p.dir, "home")
	made, moved := filepath.Join(home, "made"), filepath.Join(home, "moved")
	p.in.Path = filepath.Join(made, "deep", "settings.json")
	p.apply()
	require.NoError(t, os.Rename(made, moved))
	require.NoError(t, os.Symlink(moved, made))
	p.remove()
	require.Equal(t, []string{"made", "moved"}, p.names(home))
}

// Once the user has removed our hooks by hand the file is the user's. It stays
// even if it is empty.
func TestRemovedByHand(t *testing.T) {
	p := newPlace(t)
	p.apply()
	p.write(p.in.Path, "{}", 0o600)
	require.Equal(t, NotInstalled, p.state())
	p.apply()
	p.remove()
	require.Equal(t, "{}", p.read(p.in.Path))
	require.Equal(t, []string{"settings.json"}, p.names(filepath.Join(p.dir, "home")))
}

// A harness that saves a setting rewrites its whole file in its own format.
func TestHarnessRewritesItsSettings(t *testing.T) {
	p := newPlace(t)
	p.write(p.in.Path, `{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]}]}}`, 0o600)
	p.apply()
	anew := func(text string) string {
		var b bytes.Buffer
		require.NoError(t, json.Indent(&b, []byte(text), "", "   "))
		return strings.Replace(b.String(), "opus", "sonnet", 1)
	}
	p.write(p.in.Path, anew(p.read(p.in.Path)), 0o600)
	require.Equal(t, Installed, p.state())
	require.Empty(t, p.apply())
	p.remove()
	require.Equal(t, anew(`{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]}]}}`), p.read(p.in.Path))
}

// A consent is for a hook at one place of a list. If the user adds a group before our
// hook, the hook moves to a place without consent.
func TestOurHookMoves(t *testing.T) {
	p := newPlace(t)
	p.write(p.in.Path, `{"hooks":{"Stop":[]}}`, 0o600)
	p.apply()
	p.write(p.in.Path, strings.Replace(p.read(p.in.Path), `"Stop":[`, `"Stop":[{"hooks":[]},`, 1), 0o600)
	r, err := p.store.Status(p.in)
	require.NoError(t, err)
	require.Equal(t, Report{Partly, []string{"trust Stop"}, []string{}}, r)
	p.apply()
	require.Equal(t, Installed, p.state())
	if got := p.read(p.in.Trust.Path); strings.Contains(got, "stop:0:0") || !strings.Contains(got, "stop:1:0") {
		t.Errorf("the trust file is\n%s", got)
	}
	p.remove()
	require.Equal(t, `{"hooks":{"Stop":[{"hooks":[]}]}}`, p.read(p.in.Path))
}

// If the store was lost, our hooks and records are recognised by their form.
func TestWithoutANote(t *testing.T) {
	p := newPlace(t)
	p.write(p.in.Path, "{\n\t\"a\": 1\n}", 0o600)
	p.write(p.in.Trust.Path, "model = 1\n", 0o600)
	p.apply()
	p.store = At(filepath.Join(p.dir, "another"))
	require.Equal(t, Installed, p.state())
	p.remove()
	require.Equal(t, "{\n\t\"a\": 1\n}", p.read(p.in.Path))
	require.Equal(t, "model = 1\n", p.read(p.in.Trust.Path))
}

func TestLinks(t *testing.T) {
	p := newPlace(t)
	dotfiles := filepath.Join(p.dir, "dotfiles")
	require.NoError(t, os.Mkdir(dotfiles, 0o755))
	target := filepath.Join(dotfiles, "settings")
	p.write(target, theirs, 0o600)
	require.NoError(t, os.Symlink("../dotfiles/link", p.in.Path))
	require.NoError(t, os.Symlink("settings", filepath.Join(dotfiles, "link")))
	// This link leads to a file that does not exist yet.
	require.NoError(t, os.Symlink(filepath.Join(dotfiles, "config"), p.in.Trust.Path))

	p.apply()
	for _, path := range []string{p.in.Path, p.in.Trust.Path} {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is no longer a link", path)
		}
	}
	require.NotEqual(t, theirs, p.read(target))
	require.Equal(t, Installed, p.state())
	p.remove()
	require.Equal(t, theirs, p.read(target))
	require.Equal(t, []string{"link", "settings"}, p.names(dotfiles))

	require.NoError(t, os.Remove(p.in.Path))
	require.NoError(t, os.Symlink("settings.json", p.in.Path))
	if _, err := p.store.Apply(p.in, false); err == nil || !strings.Contains(err.Error(), "links") {
		t.Errorf("a link to itself: %v", err)
	}
}

func TestInvalidFilesAreNotTouched(t *testing.T) {
	for name, c := range map[string]struct{ settings, trust, want string }{
		"settings":            {"{\n  \"a\": 1 // one\n}\n", "", "settings.json:2:10: comments are not allowed in JSON"},
		"trust":               {"{}", "a = 1\nb\n", "config.toml:2:2: expected '=' after key"},
		"a closed table":      {"{}", "hooks = {}\n", "config.toml:1:1: cannot add to hooks, because it is an inline value"},
		"hooks are not lists": {`{"hooks": {"Stop": 1}}`, "", "settings.json:1:20: the hooks for Stop must be a list"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.write(p.in.Path, c.settings, 0o600)
			p.write(p.in.Trust.Path, c.trust, 0o600)
			for _, dry := range []bool{true, false} {
				_, err := p.store.Apply(p.in, dry)
				var flaw *Flaw
				if !errors.As(err, &flaw) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("dry %v: %v", dry, err)
				}
			}
			require.Equal(t, c.settings, p.read(p.in.Path))
			require.Equal(t, c.trust, p.read(p.in.Trust.Path))
			if _, err := os.Stat(filepath.Join(p.dir, "store")); !errors.Is(err, fs.ErrNotExist) {
				t.Error("Apply created the store")
			}
		})
	}
}

func TestDryRun(t *testing.T) {
	p := newPlace(t)
	p.write(p.in.Path, theirs, 0o600)
	changes, err := p.store.Apply(p.in, true)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	if d := changes[0].Diff(); !strings.HasPrefix(d, "--- /dev/null\n+++ "+p.in.Trust.Path+"\n@@ -0,0 +1,5 @@\n+[hooks.state") {
		t.Errorf("of a new file:\n%s", d)
	}
	require.Equal(t, theirs, p.read(p.in.Path))
	require.Equal(t, []string{"home"}, p.names(p.dir))
}

// Another program writes between our read and our write, or right after it. Its
// change is kept, and our hooks are added to it.
func TestAnotherProgramWrites(t *testing.T) {
	const late = "{\n  \"late\": true\n}\n"
	for _, after := range []bool{false, true} {
		p := newPlace(t)
		p.write(p.in.Path, theirs, 0o600)
		once := false
		p.store.testOnlyWrite = func(path string, done bool) {
			if path == p.in.Path && done == after && !once {
				once = true
				p.write(path, late, 0o600)
			}
		}
		p.apply()
		require.True(t, once)
		require.Equal(t, Installed, p.state())
		p.remove()
		if got := p.read(p.in.Path); got != late {
			t.Errorf("after our write %v: the other program's text became %q", after, got)
		}
	}
}

func TestAnotherProgramKeepsWriting(t *testing.T) {
	p := newPlace(t)
	n := 0
	p.store.testOnlyWrite = func(path string, done bool) {
		if path == p.in.Path && !done {
			n++
			p.write(path, strings.Repeat(" ", n)+"{}", 0o600)
		}
	}
	_, err := p.store.Apply(p.in, false)
	var conflict *ConflictError
	if !errors.As(err, &conflict) || n != attempts {
		t.Errorf("%v after %d", err, n)
	}
	require.Equal(t, strings.Repeat(" ", n)+"{}", p.read(p.in.Path))
	require.Equal(t, []string{"settings.json"}, p.names(filepath.Join(p.dir, "home")), "the consent is removed again")
}

// If the second of two files cannot be written, the first is restored.
func TestAllOrNothing(t *testing.T) {
	p := newPlace(t)
	p.write(p.in.Trust.Path, "model = 1\n", 0o640)
	p.store.testOnlyWrite = func(path string, done bool) {
		if path == p.in.Path && !done {
			require.NoError(t, os.Mkdir(path, 0o700))
		}
	}
	_, err := p.store.Apply(p.in, false)
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v", err)
	}
	require.Equal(t, "model = 1\n", p.read(p.in.Trust.Path))
	if info, _ := os.Stat(p.in.Trust.Path); info.Mode().Perm() != 0o640 {
		t.Errorf("its mode became %v", info.Mode())
	}
}

// Several programs call Apply at the same time, with one store and with four.
func TestConcurrentApply(t *testing.T) {
	for _, stores := range []string{"s", "stuv"} {
		p := newPlace(t)
		p.write(p.in.Path, theirs, 0o600)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), applyEnv+"="+p.dir, applyEnv+"_STORE="+stores[i%len(stores):i%len(stores)+1])
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		wg.Wait()
		p.store = At(filepath.Join(p.dir, "s"))
		require.Equal(t, Installed, p.state())
		require.Equal(t, []string{"config.toml", "settings.json"}, p.names(filepath.Join(p.dir, "home")))
		if len(stores) == 1 {
			p.remove()
			require.Equal(t, theirs, p.read(p.in.Path))
		}
	}
}

func TestDiff(t *testing.T) {
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		before, after *string
		want          string
	}{
		"nothing":         {text("a\n"), text("a\n"), ""},
		"a file goes":     {text("a\n"), nil, "--- f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"},
		"one line":        {text("a\nb\nc\n"), text("a\nx\nc\n"), "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		"no line end":     {text("a"), text("a\n"), "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		"far apart":       {text("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), text("x\n2\n3\n4\n5\n6\n7\n8\ny\n"), "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n"},
		"near each other": {text("1\n2\n3\n4\n"), text("x\n2\n3\ny\n"), "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n-4\n+y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Change{Path: "f", Before: c.before, After: c.after}).Diff(); got != c.want {
				t.Errorf("got\n%s", got)
			}
		})
	}
}
