package profiles

import (
	"encoding/json"
	"path/filepath"
	"strings"
)

// packageDepth is how many folders above a program are searched for its package.json.
const packageDepth = 4

// isVersion reports whether text can be the version of a package.
func isVersion(text string) bool {
	return text != "" && len(text) <= 64 && '0' <= text[0] && text[0] <= '9' && strings.Trim(text, versionLetters) == ""
}

const versionLetters = "0123456789.+-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// PackageVersion returns the version of the npm package p.Package that contains a program.
// It reads the package.json and does not start the program. program is an absolute path
// without symbolic links, and read reads a file. The version is empty if p.Package is
// empty, or if the program is not in that package, for example a script that starts the
// harness.
func (p Profile) PackageVersion(program string, read func(path string) ([]byte, error)) string {
	if p.Package == "" {
		return ""
	}
	for dir, depth := filepath.Dir(program), 0; depth < packageDepth && dir != filepath.Dir(dir); dir, depth = filepath.Dir(dir), depth+1 {
		data, err := read(filepath.Join(dir, "package.json"))
		var is struct{ Name, Version string }
		if err == nil && json.Unmarshal(data, &is) == nil && is.Name == p.Package && isVersion(is.Version) {
			return is.Version
		}
	}
	return ""
}
