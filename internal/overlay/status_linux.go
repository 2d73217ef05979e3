package overlay

import (
	"io/fs"
	"syscall"
	"time"
)

// status returns when a file was changed last, in any way, and how many names it has. No
// program can set that time.
func status(info fs.FileInfo) (changed time.Time, names uint64, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}, 0, false
	}
	return time.Unix(st.Ctim.Unix()), uint64(st.Nlink), true
}
