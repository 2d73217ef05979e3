package proven

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/durable"
)

var day = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// Sessions that end at the same time are all counted.
func TestSessionsAreCounted(t *testing.T) {
	dir := t.TempDir()
	var sessions sync.WaitGroup
	const many = 8
	for i := range many {
		sessions.Go(func() {
			if err := Add(dir, day.Add(time.Duration(i)*time.Hour), "claude", "9.9.9", []string{"frame.opened"}); err != nil {
				t.Error(err)
			}
		})
	}
	sessions.Wait()
	require.NoError(t, Add(dir, day, "claude", "9.9.9", []string{"frame.ended", "frame.opened"}))
	require.NoError(t, Add(dir, day, "claude", "9.9.9", nil))
	got := Read(dir)
	require.Equal(t, many+1, got["claude"]["9.9.9"]["frame.opened"].Sessions)
	require.Equal(t, Seen{1, day.Truncate(time.Second), day.Truncate(time.Second)}, got["claude"]["9.9.9"]["frame.ended"])
	require.Equal(t, map[string][]string{"9.9.9": {"frame.ended", "frame.opened"}}, got.Of("claude"))
	require.Empty(t, got.Of("codex"))
	info, err := os.Stat(filepath.Join(dir, fileName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// The most recently used versions are kept.
func TestOldVersionsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	for i := range maxVersions + 3 {
		require.NoError(t, Add(dir, day.Add(time.Duration(i)*time.Hour), "claude", fmt.Sprint(i), []string{"frame.opened"}))
	}
	require.NoError(t, Add(dir, day, "codex", "0", []string{"frame.opened"}))
	got := Read(dir)
	require.Len(t, got["claude"], maxVersions)
	require.NotContains(t, got["claude"], "2")
	require.Contains(t, got["claude"], "3")
	require.Contains(t, got["codex"], "0")
}

// A file that cannot be read counts as empty, and does not make a session wait.
func TestAnUnreadableFile(t *testing.T) {
	for name, write := range map[string]func(path string) error{
		"nonsense": func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"types":    func(path string) error { return os.WriteFile(path, []byte(`{"claude":{"1":{"c":[]}}}`), 0o600) },
		"large":    func(path string) error { return os.WriteFile(path, make([]byte, maxFile+1), 0o600) },
		"folder":   func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, write(filepath.Join(dir, fileName)))
			require.Empty(t, Read(dir))
		})
	}
}

// A session waits only a limited time for another session that was stopped by a
// signal while it holds the lock.
func TestTheLockIsHeld(t *testing.T) {
	dir := t.TempDir()
	held, err := durable.Lock(filepath.Join(dir, lockName))
	require.NoError(t, err)
	defer held.Unlock()
	require.ErrorContains(t, Add(dir, day, "claude", "9.9.9", []string{"frame.opened"}), "is locked by pid")
	require.Empty(t, Read(dir))
}
