package harness

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// manyTasks is a number of processes and threads that normal use does not reach. If
// the user's limit is at least as high, TaskRoom ignores this limit and does not count
// the user's processes and threads.
const manyTasks = 4096

// groupsFolder is where the control groups of version 2 are mounted.
const groupsFolder = "/sys/fs/cgroup"

// TaskRoom returns how many more processes and threads may be started. It considers the
// limit of the user (RLIMIT_NPROC), unless the limit is at least manyTasks or the user is
// root, and the limits of the control groups of this process (pids.max). limited is false if
// there is no limit.
func TaskRoom() (room int, limited bool) {
	room, limited = userRoom()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return room, limited
	}
	if group, ok := groupRoom(groupsFolder, unifiedPath(own)); ok && (!limited || group < room) {
		return group, true
	}
	return room, limited
}

// userRoom is TaskRoom for the limit of the user.
func userRoom() (room int, limited bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil || limit.Cur >= manyTasks || os.Geteuid() == 0 {
		return 0, false
	}
	room = int(limit.Cur)
	folders, _ := filepath.Glob("/proc/[0-9]*/task")
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err != nil {
			continue // the process has ended
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) == os.Getuid() {
			room -= int(s.Nlink) - 2 // the folder has two links, and one more for each thread
		}
	}
	return max(room, 0), true
}

// groupRoom is TaskRoom for the limits of control groups: the group at path, which is
// relative to the folder top, and the groups above it up to top. A container may show
// only a part of the groups. Then top is the group of the container, and possibly there
// is no folder at path below top.
func groupRoom(top, path string) (room int, limited bool) {
	for dir := filepath.Join("/", path); ; dir = filepath.Dir(dir) {
		most, errMost := readCount(filepath.Join(top, dir, "pids.max")) // the word max, an error here, means no limit
		current, errCurrent := readCount(filepath.Join(top, dir, "pids.current"))
		if free := max(most-current, 0); errMost == nil && errCurrent == nil && (!limited || free < room) {
			room, limited = free, true
		}
		if dir == "/" {
			return room, limited
		}
	}
}

// readCount reads a file with one number.
func readCount(path string) (int, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(raw)))
}
