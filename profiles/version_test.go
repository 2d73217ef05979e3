package profiles

import (
	"io/fs"
	"testing"
)

func TestPackageVersion(t *testing.T) {
	gemini, _ := For("gemini")
	files := map[string]string{
		"/n/@google/gemini-cli/package.json":        `{"name": "@google/gemini-cli", "version": "0.62.0-nightly.1"}`,
		"/n/@google/gemini-cli/bundle/package.json": `{"type": "module"}`,
		"/other/package.json":                       `{"name": "other", "version": "1.0.0"}`,
		"/hostile/package.json":                     `{"name": "@google/gemini-cli", "version": "1\u001b[2J"}`,
		"/damaged/package.json":                     `{"name": "@google/gemini-cli"`,
	}
	read := func(path string) ([]byte, error) {
		if data, ok := files[path]; ok {
			return []byte(data), nil
		}
		return nil, fs.ErrNotExist
	}
	for program, want := range map[string]string{
		"/n/@google/gemini-cli/bundle/gemini.js":  "0.62.0-nightly.1",
		"/n/@google/gemini-cli/a/b/c/d/gemini.js": "",
		"/other/bin/gemini":                       "",
		"/hostile/gemini":                         "",
		"/damaged/gemini":                         "",
		"/usr/bin/gemini":                         "",
	} {
		if got := gemini.PackageVersion(program, read); got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
	if claude, _ := For("claude"); claude.PackageVersion("/n/@google/gemini-cli/bundle/gemini.js", read) != "" {
		t.Error("a profile without a package has a version")
	}
}
