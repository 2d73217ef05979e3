package durable

import (
	"os"
	"path/filepath"
	"strings"
)

// Beginning returns the paths of the entries of dir whose names begin with prefix, in no
// order. If reading dir fails, Beginning returns the paths that were read before the error.
//
// It is for folders that may have very many entries, such as the system's folder for
// temporary files: unlike filepath.Glob, it does not sort the names.
func Beginning(dir, prefix string) (paths []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths
}
