package main

import (
	"os"
	"path/filepath"
	"syscall"
)

// guarded reports whether a path and every folder above it belong to root and are
// writable only by root.
func guarded(path string) bool {
	for {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&os.ModeSymlink != 0 || info.Mode().Perm()&0o022 != 0 {
			return false
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
		path = filepath.Dir(path)
	}
}

// guardedAs returns a function like guarded for a check without a session, when runDir
// does not exist. In a session, runDir would be a folder below stateDir. So for runDir,
// the returned function checks stateDir, or the nearest folder above it that exists.
func guardedAs(runDir, stateDir string) func(path string) bool {
	return func(path string) bool {
		if path == runDir {
			path = existing(stateDir)
		}
		return guarded(path)
	}
}
