package harness

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Locked returns the sorted names of the files in dir on which the harness, or a process
// below it, holds a write lock. Locks of other processes do not count.
func (c *Child) Locked(dir string) (names []string) {
	dir, err := filepath.EvalSymlinks(dir) // the system shows paths without links
	if err != nil {
		return nil
	}
	for _, p := range append(descendants(allProcs(), c.pid, nil), proc{pid: c.pid}) {
		names = append(names, p.locked(dir)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p proc) locked(dir string) (names []string) {
	at := "/proc/" + strconv.Itoa(p.pid)
	fds, err := os.ReadDir(at + "/fd")
	if err != nil {
		return nil // it has ended
	}
	for _, fd := range fds {
		path, err := os.Readlink(at + "/fd/" + fd.Name())
		if err != nil || filepath.Dir(path) != dir {
			continue
		}
		// A line of a lock is "lock:\t1: FLOCK  ADVISORY  WRITE PID DEVICE:INODE FROM TO".
		info, _ := os.ReadFile(at + "/fdinfo/" + fd.Name())
		for line := range strings.Lines(string(info)) {
			if strings.HasPrefix(line, "lock:") && slices.Contains(strings.Fields(line), "WRITE") {
				names = append(names, filepath.Base(path))
			}
		}
	}
	return names
}
