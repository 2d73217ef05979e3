package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A containment is a control group for everything that a wrapper starts, so that no
// process is left when wrapper and guard are killed together. The system does not end
// such a group by itself. A third process, the warden, waits until wrapper and guards
// have ended, and then kills what is left in the group. The warden reads a pipe whose
// write end, the lifeline, is open only in wrapper and guards: when they have ended,
// the read ends too.
type containment struct {
	group    *os.File // the group's folder
	lifeline *os.File // write end of the warden's pipe, open in the wrapper and its guards
	warden   int      // pid of the warden
}

// The file descriptors that are open when a warden starts.
const (
	wardenPipe = 3 + iota
	wardenGroup
)

// Contain puts the guards and what they start into a control group, and prepares the
// first guard. Clients are to be started in this group too, see Cgroup.
func (t *Terminal) Contain(guard []string) error {
	group, err := newGroup()
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.contained, err = contain(group, guard); err != nil {
		group.Close()
		os.Remove(group.Name())
		return err
	}
	if err := t.prepare(guard); err != nil { // starts a guard, so that Contain fails if the system refuses a process in the new group
		t.contained.close()
		t.ending = append(t.ending, reaping(t.contained.warden)) // the warden exits, because no guard started
		t.contained = nil
		return err
	}
	return nil
}

// close closes the wrapper's end of the lifeline, so that the warden waits for
// the guards only.
func (c *containment) close() {
	c.group.Close()
	c.lifeline.Close()
}

// Cgroup is the folder of the control group that processes of the wrapper are to
// start in; nil without Contain.
func (t *Terminal) Cgroup() *os.File {
	if t.contained == nil {
		return nil
	}
	return t.contained.group
}

// Containable returns the folder in which Contain would create a group, or why it
// could not.
func Containable() (string, error) {
	group, err := newGroup()
	if err != nil {
		return "", err
	}
	group.Close()
	return filepath.Dir(group.Name()), os.Remove(group.Name())
}

// RemoveEmptyGroups removes the empty groups that Contain created for wrappers that
// have ended. Such a group remains if its warden was killed.
// Contain and Containable remove these groups too.
func RemoveEmptyGroups() {
	if parent, err := parentGroup(); err == nil {
		removeEmptyIn(parent)
	}
}

func removeEmptyIn(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, groupPrefix+"[0-9]*"))
	for _, dir := range left {
		owner, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), groupPrefix))
		if err != nil || owner != os.Getpid() && Runs(owner, 0) {
			continue
		}
		removeEmptyIn(dir) // the groups of other wrappers that ran within the group dir
		_ = os.Remove(dir) // the system refuses the removal while the group has a process
	}
}

// A group's name is groupPrefix followed by the wrapper's pid.
const groupPrefix = "lifeloop-"

// newGroup creates a group below the one of this process.
func newGroup() (*os.File, error) {
	parent, err := parentGroup()
	if err != nil {
		return nil, err
	}
	removeEmptyIn(parent)
	return newGroupIn(parent)
}

// parentGroup is the folder of this process's group.
func parentGroup() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the control group of this process: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find the control groups: %w", err)
	}
	return groupFolder(own, mounts)
}

// groupFolder returns the folder of this process's group of version 2, from
// /proc/self/cgroup and /proc/self/mountinfo.
func groupFolder(own, mounts []byte) (string, error) {
	path := unifiedPath(own)
	for line := range bytes.Lines(mounts) {
		// The fields of the line are:
		// id parent device root folder options [tags] - type source options
		about, kind, _ := strings.Cut(string(line), " - ")
		fields := strings.Fields(about)
		if !strings.HasPrefix(kind, "cgroup2 ") || len(fields) < 5 || path == "" {
			continue
		}
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/")); ok && !strings.HasPrefix(below, "/..") {
			return filepath.Join(fields[4], below), nil
		}
	}
	return "", errors.New("this process is in no control group of version 2")
}

// unifiedPath returns the path of this process's group of version 2, from
// /proc/self/cgroup. Without such a group the path is empty.
func unifiedPath(own []byte) (path string) {
	for line := range bytes.Lines(own) {
		if rest, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			path = string(bytes.TrimSuffix(rest, []byte("\n")))
		}
	}
	return path
}

// newGroupIn creates a group in a folder and opens it.
func newGroupIn(parent string) (*os.File, error) {
	dir := filepath.Join(parent, groupPrefix+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create a control group: %w", err)
	}
	group, err := os.Open(dir)
	if err == nil {
		if _, err = os.Stat(filepath.Join(dir, "cgroup.kill")); err == nil {
			return group, nil
		}
		group.Close()
	}
	os.Remove(dir)
	return nil, fmt.Errorf("the control group cannot be killed as a whole (cgroup.kill needs Linux 5.14 or newer): %w", err)
}

// contain starts the warden of a group.
func contain(group *os.File, guard []string) (*containment, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("create a pipe: %w", err)
	}
	theirs, lifeline := os.NewFile(uintptr(fds[0]), "lifeline"), os.NewFile(uintptr(fds[1]), "lifeline")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		lifeline.Close()
		return nil, err
	}
	defer null.Close()
	if len(guard) == 0 {
		guard = defaultGuard
	}
	pid, err := startGuard(append(guard[:len(guard):len(guard)], wardenWord), guardEnv, []*os.File{null, null, null, theirs, group}, nil)
	if err != nil {
		lifeline.Close()
		return nil, fmt.Errorf("start the warden, the process that kills the control group: %w", err)
	}
	return &containment{group: group, lifeline: lifeline, warden: pid}, nil
}

// wardenWord is the argument that makes a guard a warden.
const wardenWord = "warden"

// wardenMain waits for the end of the wrapper and its guards, kills what is left of
// the group, and removes it.
func wardenMain() int {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(wardenGroup, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		fmt.Fprintln(os.Stderr, "guard: only the wrapper can start a warden")
		return 125
	}
	signal.Ignore(guardIgnores...)
	var b [1]byte
	for {
		n, err := unix.Read(wardenPipe, b[:])
		if n == 0 && err == nil {
			break
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 125
		}
	}
	dir, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(wardenGroup))
	if err != nil {
		return 125
	}
	// The group remains until all its processes are dead. The pauses between
	// attempts grow.
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); errors.Is(err, os.ErrNotExist) {
			return 0 // the group was removed
		}
		if os.Remove(dir) == nil {
			return 0
		}
		time.Sleep(pause)
	}
}
