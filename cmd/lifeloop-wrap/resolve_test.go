package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestResolved checks that resolved follows a link before it applies a ".." after the
// link, as the kernel does.
func TestResolved(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"ws/sub", "outside/sub"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link": "../outside/sub", "new": "link/../new", "loop": "loop", "abs": filepath.Join(root, "outside")} {
		if err := os.Symlink(to, filepath.Join(root, "ws", name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"ws/sub/../a":    "ws/a",
		"ws/link/../a":   "outside/a",
		"ws/link/a":      "outside/sub/a",
		"ws/new":         "outside/new",
		"ws/abs/sub/..":  "outside",
		"ws/loop/a":      "ws/loop/a",
		"ws/none/../a//": "ws/a",
	} {
		if got := resolved(root + "/" + path); got != filepath.Join(root, want) {
			t.Errorf("%s leads to %s, want %s", path, got, want)
		}
	}
}
