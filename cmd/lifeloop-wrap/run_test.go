//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// lifeloop-hook is used only if it is an executable file.
func TestHookWords(t *testing.T) {
	for name, c := range map[string]struct {
		lay   func(path string) error
		small bool
	}{
		"a program":  {func(path string) error { return os.WriteFile(path, nil, 0o755) }, true},
		"nothing":    {func(string) error { return nil }, false},
		"a document": {func(path string) error { return os.WriteFile(path, nil, 0o644) }, false},
		"a folder":   {func(path string) error { return os.Mkdir(path, 0o755) }, false},
		"a link":     {func(path string) error { return os.Symlink("/bin/sh", path) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			exe, small := filepath.Join(dir, "lifeloop-wrap"), filepath.Join(dir, "lifeloop-hook")
			require.NoError(t, c.lay(small))
			want := []string{exe, "hook"}
			if c.small {
				want = []string{small}
			}
			require.Equal(t, want, hookWords(exe))
		})
	}
}
