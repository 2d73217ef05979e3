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

// Programs that start often are built, because this binary starts more slowly, and each
// is built once for all tests.

// besides builds the programs that run beside lifeloop-wrap in a session, and puts them in
// the folder with the copies of this binary, which is the first of PATH. The harnesses
// there are replaced. The result is that folder.
var besides = sync.OnceValues(func() (string, error) {
	wrap, err := exec.LookPath("lifeloop-wrap")
	if err != nil {
		return "", err
	}
	bin := filepath.Dir(wrap)
	made := filepath.Join(filepath.Dir(bin), "besides") // testscript removes its parent
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
