package watchers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// limits is the folder in which Linux shows how many inotify instances and
// watches a user may have.
const limits = "/proc/sys/fs/inotify"

// Limits returns the kernel's limits on watching, by name. The map is empty if
// the kernel shows no limits.
func Limits() map[string]string {
	values := map[string]string{}
	for _, name := range []string{"max_user_instances", "max_user_watches"} {
		if text, err := os.ReadFile(filepath.Join(limits, name)); err == nil {
			values[name] = strings.TrimSpace(string(text))
		}
	}
	return values
}

// Try watches dir briefly, to test whether watching works. If Try fails, a Watcher
// polls files. limit names the entry of Limits that is exhausted. It is empty for another
// error, such as a missing dir, and if the kernel shows no limits.
func Try(dir string) (limit string, err error) {
	n, err := newNotifier()
	if err == nil {
		defer n.close()
		err = n.add(dir)
	}
	switch {
	case err == nil, len(Limits()) == 0:
		return "", err
	case errors.Is(err, syscall.ENOSPC):
		return "max_user_watches", err
	case errors.Is(err, syscall.EMFILE):
		return "max_user_instances", err
	}
	return "", err
}
