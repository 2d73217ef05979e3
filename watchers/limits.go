package watchers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// limits is where the kernel shows how many instances and watches a user may
// have.
const limits = "/proc/sys/fs/inotify"

// Limits are the kernel's limits on watching, by their names; none where it
// shows none.
func Limits() map[string]string {
	told := map[string]string{}
	for _, name := range []string{"max_user_instances", "max_user_watches"} {
		if text, err := os.ReadFile(filepath.Join(limits, name)); err == nil {
			told[name] = strings.TrimSpace(string(text))
		}
	}
	return told
}

// Try asks the kernel for what watching a folder takes, and gives it back. When
// it refuses, files are polled; limit is the one that is then used up.
func Try(dir string) (limit string, err error) {
	n, err := newInotify()
	if err == nil {
		defer n.file.Close()
		err = n.add(dir)
	}
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, unix.ENOSPC):
		return "max_user_watches", err
	}
	return "max_user_instances", err
}
