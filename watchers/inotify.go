package watchers

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An inotify is the one instance that serves all folders. It is read by the
// goroutine that reads the files: to hand events from one goroutine to another
// takes about as long as all else between a write and its line.
//
// The kernel knows a folder by its inode: two names of one folder share a
// watch, and each is told what happens there.
type inotify struct {
	file *os.File // for reading, with deadlines
	fd   int
	dirs map[int32][]string // by watch
	wds  map[string]int32   // by folder
	buf  []byte
}

// An event says what may have changed in a watched folder.
type event struct {
	path    string // of the entry, or of the folder itself
	what    uint32 // the kernel's flags
	ofDir   bool   // the folder itself is meant
	tooMany bool   // events were thrown away: anything may have changed
}

// of the folder's entries, and of the folder itself
const (
	entryEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_MOVED_FROM
	dirEvents   = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init", err)
	}
	return &inotify{file: os.NewFile(uintptr(fd), "inotify"), fd: fd, dirs: map[int32][]string{}, wds: map[string]int32{}, buf: make([]byte, 64<<10)}, nil
}

func (n *inotify) add(dir string) error {
	wd, err := unix.InotifyAddWatch(n.fd, dir, entryEvents|dirEvents|unix.IN_ONLYDIR)
	if err != nil {
		return &os.PathError{Op: "inotify_add_watch", Path: dir, Err: err}
	}
	n.remove(dir) // if it was another folder until now
	n.dirs[int32(wd)] = append(n.dirs[int32(wd)], dir)
	n.wds[dir] = int32(wd)
	return nil
}

// remove lets a folder go. It is no error that it is not there any more.
func (n *inotify) remove(dir string) {
	wd, ok := n.wds[dir]
	if !ok {
		return
	}
	delete(n.wds, dir)
	n.dirs[wd] = slices.DeleteFunc(n.dirs[wd], func(o string) bool { return o == dir })
	if len(n.dirs[wd]) == 0 {
		delete(n.dirs, wd)
		unix.InotifyRmWatch(n.fd, uint32(wd))
	}
}

// wait reads events until the deadline, zero for none. It returns none when
// the deadline, also one set by somebody else meanwhile, has passed.
func (n *inotify) wait() ([]event, error) {
	m, err := n.file.Read(n.buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return n.parse(n.buf[:m]), nil
}

// waiting reads the events that are there already.
func (n *inotify) waiting() ([]event, error) {
	for {
		m, err := unix.Read(n.fd, n.buf)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return nil, nil
		case err != nil:
			return nil, os.NewSyscallError("read inotify", err)
		default:
			return n.parse(n.buf[:m]), nil
		}
	}
}

// parse reads the kernel's records. It leaves out what nobody asked for.
func (n *inotify) parse(b []byte) (events []event) {
	for len(b) >= unix.SizeofInotifyEvent {
		raw := (*unix.InotifyEvent)(unsafe.Pointer(&b[0])) // the kernel aligns them
		end := min(unix.SizeofInotifyEvent+int(raw.Len), len(b))
		name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
		b = b[end:]
		if raw.Mask&unix.IN_Q_OVERFLOW != 0 {
			events = append(events, event{tooMany: true})
			continue
		}
		gone := raw.Mask&(unix.IN_IGNORED|unix.IN_UNMOUNT|dirEvents) != 0
		for _, dir := range n.dirs[raw.Wd] {
			switch {
			case gone:
				events = append(events, event{path: dir, what: raw.Mask, ofDir: true})
			case name != "":
				events = append(events, event{path: filepath.Join(dir, name), what: raw.Mask})
			}
		}
		if gone {
			for _, dir := range n.dirs[raw.Wd] {
				delete(n.wds, dir)
			}
			delete(n.dirs, raw.Wd)
			if raw.Mask&unix.IN_MOVE_SELF != 0 {
				unix.InotifyRmWatch(n.fd, uint32(raw.Wd)) // it lives on under a name that we do not know
			}
		}
	}
	return events
}

// interrupt makes a wait return, the present one or the next.
func (n *inotify) interrupt() { n.file.SetReadDeadline(time.Unix(1, 0)) }

func (n *inotify) close() { n.file.Close() } // it was only read
