package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
)

const name = ".project.yaml"

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A record applies to one path and one content.
func TestRecords(t *testing.T) {
	dir := resolved(t.TempDir())
	project, other := write(t, filepath.Join(dir, "a", name), "one"), write(t, filepath.Join(dir, "b", name), "one")
	s := Open(filepath.Join(dir, "state"))
	why := func(path string) string {
		if r := s.Check(path); r != nil {
			return r.Why
		}
		return ""
	}
	list, err := s.List()
	require.NoError(t, err)
	require.Empty(t, list)
	require.Equal(t, "it is not trusted", why(project))

	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r, err := s.Add(project, []byte("one"), now)
	require.NoError(t, err)
	require.Equal(t, Record{project, canon.Sum([]byte("one")), now}, r)
	require.Equal(t, File{Path: project, Data: []byte("one")}, s.Find(filepath.Dir(project), "/home", name))
	require.Equal(t, "it is not trusted", why(other), "the same content elsewhere")
	write(t, project, "two")
	require.Equal(t, "it has changed since it was trusted", why(project))
	require.Equal(t, File{Path: project, Refused: &Refusal{project, "it has changed since it was trusted", true}}, s.Find(filepath.Dir(project), "/home", name))
	_, err = s.Add(project, []byte("two"), now)
	require.NoError(t, err)
	require.Empty(t, why(project))
	require.NoError(t, os.Rename(s.file(project), s.file(other)))
	require.Equal(t, "it is not trusted", why(other), "a record that was moved")
	list, err = s.List()
	require.NoError(t, err)
	require.Empty(t, list)
	require.NoError(t, os.Rename(s.file(other), s.file(project)))

	require.NoError(t, os.Chmod(s.file(project), 0o620))
	require.Contains(t, why(project), "its trust record cannot be used: ")
	require.NoError(t, os.Chmod(s.file(project), 0o600))
	write(t, s.file(project), "{")
	require.Contains(t, why(project), "its trust record cannot be used: ")
	_, err = s.Add("/project\xff/"+name, []byte("two"), now)
	require.ErrorContains(t, err, "not valid UTF-8")
	require.NoError(t, s.Remove(project))
	require.ErrorIs(t, s.Remove(project), fs.ErrNotExist)
	require.Equal(t, "it is not trusted", why(project))
}

// A record counts only if no other user could have put it where it is.
func TestRecordsOfOthers(t *testing.T) {
	dir := resolved(t.TempDir())
	project := write(t, filepath.Join(dir, "a", name), "one")
	s := Open(filepath.Join(dir, "state"))
	add := func() error {
		_, err := s.Add(project, []byte("one"), time.Now())
		return err
	}
	require.NoError(t, add())
	require.Nil(t, s.Check(project))
	for _, folder := range []string{s.dir, filepath.Dir(s.dir), dir} {
		require.NoError(t, os.Chmod(folder, 0o777))
		refused := s.Check(project)
		require.NotNil(t, refused, folder)
		require.Contains(t, refused.Why, "its trust record cannot be used: folder "+s.dir+" must be private: ")
		require.False(t, refused.Unknown, "trusting it again does not help")
		_, err := s.List()
		require.ErrorContains(t, err, "must be private: ")
		require.ErrorContains(t, add(), "must be private: ")
		require.NoError(t, os.Chmod(folder, 0o700))
	}
	require.Nil(t, s.Check(project))

	elsewhere := filepath.Join(dir, "a", "record.json")
	require.NoError(t, os.Rename(s.file(project), elsewhere))
	require.NoError(t, os.Symlink(elsewhere, s.file(project)))
	refused := s.Check(project)
	require.NotNil(t, refused)
	require.Contains(t, refused.Why, "its trust record cannot be used: ")
}

// Only a regular file that belongs to the user or root and that others cannot
// write to is accepted. For a link, the target is checked.
func TestExamine(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "file"), "text")
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for at, to := range map[string]string{"link": file, "to-fifo": fifo, "to-device": "/dev/zero", "gone": "nowhere"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, at)))
	}
	large := write(t, filepath.Join(dir, "large"), string(make([]byte, MaxFile+1)))
	for path, want := range map[string]string{
		file: "", filepath.Join(dir, "link"): "", fifo: "not a regular file", filepath.Join(dir, "to-fifo"): "not a regular file",
		filepath.Join(dir, "to-device"): "not a regular file", dir: "not a regular file", filepath.Join(dir, "gone"): "cannot be read: no such file or directory",
		large: "too large for a configuration file (limit: 64 KiB)",
	} {
		data, refused := Examine(path)
		if want == "" {
			require.Nil(t, refused, path)
			require.Equal(t, "text", string(data))
			continue
		}
		require.Equal(t, &Refusal{Path: path, Why: want}, refused)
	}
	for _, mode := range []fs.FileMode{0o620, 0o602, 0o666} {
		require.NoError(t, os.Chmod(file, mode))
		_, refused := Examine(filepath.Join(dir, "link"))
		require.NotNil(t, refused, mode)
		require.Contains(t, refused.Why, "others can write to it")
	}
	for _, c := range []struct {
		owner, user int
		want        string
	}{{1000, 1000, ""}, {0, 1000, ""}, {1001, 1000, "it belongs to another user (uid 1001)"}, {1000, 0, "it belongs to another user (uid 1000)"}} {
		if got := unsafe(0o644, c.owner, c.user); got != c.want {
			t.Errorf("a file of %d for user %d: %q, want %q", c.owner, c.user, got, c.want)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	require.NoError(t, os.Chmod(file, 0o644))
	require.NoError(t, os.Chown(file, 4242, -1))
	_, refused := Examine(file)
	require.Equal(t, "it belongs to another user (uid 4242)", refused.Why)
}

// The search ends at the home folder, or at a folder with another owner.
func TestNearest(t *testing.T) {
	dir := resolved(t.TempDir())
	deep := filepath.Join(dir, "home", "project", "deep")
	require.NoError(t, os.MkdirAll(deep, 0o700))
	above, home := write(t, filepath.Join(dir, name), ""), filepath.Join(dir, "home")
	owners := map[string]int{}
	find := func(from, home string) string {
		return nearest(from, home, name, func(dir string) (int, error) {
			if owners[dir] < 0 {
				return 0, errors.New("unknown")
			}
			return owners[dir], nil
		})
	}
	require.Equal(t, above, find(deep, "/elsewhere"))
	require.Empty(t, find(deep, home), "nothing above the home folder counts")
	owners[dir] = 1
	require.Empty(t, find(deep, "/elsewhere"), "nor above another owner's folder")
	owners[dir] = -1
	require.Empty(t, find(deep, "/elsewhere"))
	inHome := write(t, filepath.Join(home, name), "")
	require.Equal(t, inHome, find(deep, home), "the home folder itself counts")
	inProject := filepath.Join(home, "project", name)
	require.NoError(t, os.Symlink("nowhere", inProject))
	require.Equal(t, inHome, find(deep, home), "a link to nothing is not a file")
	require.NoError(t, os.Remove(inProject))
	require.NoError(t, os.Mkdir(inProject, 0o700))
	require.Equal(t, inProject, find(deep, home), "what is not a file hides those above it")

	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(deep, link))
	require.Equal(t, inProject, Nearest(link, home, name), "a file has one path")
	require.Equal(t, filepath.Join(deep, name), Name(filepath.Join(link, name)))
}
