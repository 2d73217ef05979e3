//go:build unix

package durable

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const stranger = 65533 // a user that is neither root nor noNumber

// give changes a file's owner to another user, which only root can do.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	require.NoError(t, os.Lchown(path, stranger, stranger))
}

func mkdir(t *testing.T, mode fs.FileMode, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, mode))
	return dir
}

type privateCase struct {
	name string
	make func(t *testing.T, root string) (dir string)
	want string // the text of the error, with the command that fixes it; empty if no error is expected
}

func privateModes() []privateCase {
	return []privateCase{
		{"it is created", func(_ *testing.T, root string) string { return filepath.Join(root, "a", "b") }, ""},
		{"it exists", func(t *testing.T, root string) string { return mkdir(t, 0o700, root, "a") }, ""},
		{"others can read it", func(t *testing.T, root string) string { return mkdir(t, 0o755, root, "a") }, "has mode 0755 and must have 0700 (chmod 700 '"},
		{"it belongs to another user", func(t *testing.T, root string) string {
			dir := mkdir(t, 0o700, root, "a")
			give(t, dir)
			return dir
		}, "belongs to user 65533 (choose another folder, or: sudo chown "},
		{"others can write its parent", func(t *testing.T, root string) string {
			return filepath.Join(mkdir(t, 0o777, root, "open"), "a")
		}, "which has mode 0777 (choose another folder, or: chmod o-w '"},
		{"its parent is a file that others can write", func(t *testing.T, root string) string {
			file := filepath.Join(root, "file")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			require.NoError(t, os.Chmod(file, 0o666))
			return filepath.Join(file, "a")
		}, "file is not a folder"},
		{"others can write a parent further up", func(t *testing.T, root string) string {
			return mkdir(t, 0o700, mkdir(t, 0o700, mkdir(t, 0o777, root, "open"), "b"), "a")
		}, "which has mode 0777"},
		{"a group can write its parent", func(t *testing.T, root string) string {
			open := mkdir(t, 0o775, root, "open")
			if os.Geteuid() != 0 {
				t.Skip("only root can give a folder to another group")
			}
			require.NoError(t, os.Chown(open, -1, stranger))
			return filepath.Join(open, "a")
		}, "the users of group 65533 can write "},
		{"the user's own group can write its parent", func(t *testing.T, root string) string {
			if os.Getegid() != 0 {
				t.Skip("this user may share its group")
			}
			return filepath.Join(mkdir(t, 0o775, root, "open"), "a")
		}, ""},
	}
}

func privateLinks() []privateCase {
	return []privateCase{
		{"its parent is sticky", func(t *testing.T, root string) string {
			return filepath.Join(mkdir(t, 0o777|fs.ModeSticky, root, "tmp"), "a")
		}, ""},
		{"its parent belongs to another user", func(t *testing.T, root string) string {
			theirs := mkdir(t, 0o755, root, "theirs")
			dir := mkdir(t, 0o700, theirs, "a")
			give(t, theirs)
			return dir
		}, "who can replace its content"},
		{"a link of the user's leads to it", func(t *testing.T, root string) string {
			mkdir(t, 0o700, root, "real")
			require.NoError(t, os.Symlink("real", filepath.Join(root, "link")))
			return filepath.Join(root, "link", "a")
		}, ""},
		{"a link leads to a folder that others can write", func(t *testing.T, root string) string {
			mkdir(t, 0o777, root, "open")
			mkdir(t, 0o700, root, "b")
			require.NoError(t, os.Symlink("../open/new", filepath.Join(root, "b", "link")))
			return filepath.Join(root, "b", "link")
		}, "/open, which has mode 0777"},
		{"a link of another user leads to it", func(t *testing.T, root string) string {
			tmp := mkdir(t, 0o777|fs.ModeSticky, root, "tmp")
			mkdir(t, 0o700, root, "mine")
			require.NoError(t, os.Symlink("../mine", filepath.Join(tmp, "a")))
			give(t, filepath.Join(tmp, "a"))
			return filepath.Join(tmp, "a")
		}, "belongs to user 65533, who can change it"},
		{"a link leads to itself", func(t *testing.T, root string) string {
			require.NoError(t, os.Symlink("a", filepath.Join(root, "a")))
			return filepath.Join(root, "a")
		}, "more than 40 links"},
		{"it is a file", func(t *testing.T, root string) string {
			require.NoError(t, os.WriteFile(filepath.Join(root, "a"), nil, 0o600))
			return filepath.Join(root, "a")
		}, "a file has this name"},
	}
}

func TestPrivate(t *testing.T) {
	for _, c := range slices.Concat(privateModes(), privateLinks()) {
		t.Run(c.name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			dir := c.make(t, root)
			err = Private(dir)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				require.ErrorContains(t, err, dir)
				return
			}
			require.NoError(t, err)
			info, err := os.Stat(dir)
			require.NoError(t, err)
			require.Equal(t, fs.ModeDir|0o700, info.Mode())
		})
	}
}

// A file of a session that is not a regular file is refused at once, with an error
// that names the file. Nothing waits for the other end of a FIFO, and only ReadLinked
// follows a link.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	make := map[string]func(path string) error{
		"a FIFO":          func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":        func(path string) error { return os.Mkdir(path, 0o700) },
		"a symbolic link": func(path string) error { return os.Symlink("/etc/hostname", path) },
		"a device":        func(path string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|3) }, // only root can create a device
	}
	uses := map[string]func(path string) error{
		"read":   func(path string) error { _, err := ReadFile(path); return err },
		"write":  func(path string) error { return PutFile(path, []byte("x")) },
		"append": func(path string) error { _, err := Open(path, os.O_WRONLY|os.O_APPEND, 0); return err },
		"lock":   func(path string) error { _, err := Lock(path); return err },
		"await":  AwaitUnlock,
	}
	linked := func(path string) error { _, err := ReadLinked(path, 1<<10); return err }
	for what, create := range make {
		if uses["read linked"] = linked; what == "a symbolic link" {
			delete(uses, "read linked") // this function follows links
		}
		for use, do := range uses {
			path := filepath.Join(t.TempDir(), "lock")
			if err := create(path); err != nil {
				t.Logf("cannot make %s here: %v", what, err)
				continue
			}
			err := do(path)
			if err == nil || !strings.Contains(err.Error(), path+" is "+what+" and not a regular file") {
				t.Errorf("%s %s: %v", use, what, err)
			}
			if Locked(path) {
				t.Errorf("%s is reported as locked", what)
			}
		}
	}

	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, PutFile(path, []byte("longer")))
	require.NoError(t, PutFile(path, []byte("text")))
	text, err := ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	require.NoError(t, os.Truncate(path, 1<<30)) // sparse: it takes no space
	_, err = ReadFile(path)
	require.ErrorContains(t, err, path+" has more than 268435456 bytes")
	_, err = ReadLinked(path, 1<<10)
	require.ErrorContains(t, err, path+" has more than 1024 bytes")
	require.NoError(t, os.Truncate(path, 4))
	_, err = ReadFile(path + "2")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.Symlink(path, path+"2"))
	text, err = ReadLinked(path+"2", 4)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	_, err = ReadLinked(path+"2", 3)
	require.ErrorContains(t, err, "has more than 3 bytes")
}
