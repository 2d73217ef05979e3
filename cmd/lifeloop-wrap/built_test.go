//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The tests start some programs often. These programs are built, because the test binary
// starts more slowly than they do. Each program is built once for all tests.

// besides builds the programs that run beside lifeloop-wrap in a session, and moves them
// to the folder of lifeloop-wrap, which it returns. That folder is the first in PATH and
// has copies of the test binary. The built programs replace the copies that have the same
// names.
var besides = sync.OnceValues(func() (string, error) {
	wrap, err := exec.LookPath("lifeloop-wrap")
	if err != nil {
		return "", err
	}
	bin := filepath.Dir(wrap)
	made := filepath.Join(filepath.Dir(bin), "besides") // at the end testscript removes the parent of this folder
	if err := build(made, "lifeloop/cmd/lifeloop-hook", "lifeloop/testdata/fakeharness", "lifeloop/testdata/fakeclient"); err != nil {
		return "", err
	}
	for _, name := range []string{"claude", "codex"} {
		if err := os.Link(filepath.Join(made, "fakeharness"), filepath.Join(made, name)); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"lifeloop-hook", "fakeharness", "fakeclient", "claude", "codex"} {
		if err := os.Rename(filepath.Join(made, name), filepath.Join(bin, name)); err != nil {
			return "", err
		}
	}
	return bin, nil
})

// product builds lifeloop-wrap as the Makefile does.
var product = sync.OnceValues(func() (string, error) {
	wrap, err := exec.LookPath("lifeloop-wrap")
	if err != nil {
		return "", err
	}
	made := filepath.Join(filepath.Dir(filepath.Dir(wrap)), "product")
	return filepath.Join(made, "lifeloop-wrap"), build(made, "lifeloop/cmd/lifeloop-wrap")
})

func build(folder string, packages ...string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	build := exec.Command("go", append([]string{"build", "-trimpath", "-o", folder}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// built returns the result of [besides] or [product].
func built(t testing.TB, once func() (string, error)) string {
	t.Helper()
	path, err := once()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
