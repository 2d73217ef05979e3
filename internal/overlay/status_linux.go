package overlay

import (
	"io/fs"
	"syscall"
	"time"
)

// status returns the time of a file's last change of any kind (ctime), and the number of
// its names (hard links). Programs cannot choose the ctime.
func status(info fs.FileInfo) (changed time.Time, names uint64, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}, 0, false
	}
	return time.Unix(st.Ctim.Unix()), uint64(st.Nlink), true
}
