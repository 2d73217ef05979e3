package harness

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// manyTasks is a number of processes and threads that normal use does not reach. If
// the user's limit is at least as high, TaskRoom counts nothing.
const manyTasks = 4096

// TaskRoom returns how many processes and threads the user may still start. limited is
// false if the limit is at least manyTasks, or does not apply because the user is root.
func TaskRoom() (room int, limited bool) {
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
