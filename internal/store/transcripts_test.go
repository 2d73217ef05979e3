package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Copying a path again replaces its copy. Two files with the same name have two
// copies.
func TestCopyTranscript(t *testing.T) {
	dir, folder := t.TempDir(), Folder(t.TempDir())
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	one, two := write("a/t.jsonl", "one\n"), write("b/t.jsonl", "two\n")
	first, second := folder.CopyTranscript(one), folder.CopyTranscript(two)
	require.NotEqual(t, first.File, second.File)
	require.Equal(t, int64(4), second.Bytes)
	require.Equal(t, "sha256:27dd8ed44a83ff94d557f9fd0412ed5a8cbca69ea04922d88c01184a07300a5a", second.Digest)
	write("b/t.jsonl", "two and more\n")
	again := folder.CopyTranscript(two)
	require.Equal(t, second.File, again.File)
	require.NotEqual(t, second.Digest, again.Digest)
	text, err := os.ReadFile(filepath.Join(string(folder), again.File))
	require.NoError(t, err)
	require.Equal(t, "two and more\n", string(text))
	info, err := os.Stat(filepath.Join(string(folder), again.File))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	entries, err := os.ReadDir(filepath.Join(string(folder), transcriptsDir))
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

// A path that is not a regular file is not copied, and does not make the
// session wait.
func TestNoTranscript(t *testing.T) {
	dir, folder := t.TempDir(), Folder(t.TempDir())
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	require.NoError(t, os.Symlink(fifo, link))
	huge, err := os.Create(filepath.Join(dir, "huge"))
	require.NoError(t, err)
	require.NoError(t, huge.Truncate(maxTranscript+1)) // a sparse file
	require.NoError(t, huge.Close())
	for _, path := range []string{fifo, link, dir, huge.Name(), filepath.Join(dir, "none")} {
		kept := folder.CopyTranscript(path)
		require.NotEmpty(t, kept.Why, path)
		require.Empty(t, kept.File, path)
	}
	require.NoDirExists(t, filepath.Join(string(folder), transcriptsDir))
}
