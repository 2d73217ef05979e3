package harness

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A proc is one process as /proc describes it. The pair of pid and start time
// identifies it: the system reuses pids.
type proc struct {
	pid, ppid, pgrp, session int
	state                    byte
	threads                  int
	start                    uint64 // in clock ticks since boot
}

// readProc reads /proc/pid/stat.
func readProc(pid int) (proc, error) {
	// Not os.ReadFile, which is slower: allProcs calls readProc for every process.
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return proc{}, err
	}
	defer unix.Close(fd)
	var buf [1024]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return proc{}, err
	}
	return parseStat(pid, buf[:n])
}

// readSystemFile does for a file in /proc what os.ReadFile does. It needs half as many system
// calls, because it does not ask whether the file can be polled.
func readSystemFile(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var content []byte
	for buf := make([]byte, 4096); ; {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return content, err
		}
		content = append(content, buf[:n]...)
	}
}

// Runs reports whether the process with this pid runs. It compares the start
// time, in clock ticks since boot, unless start is 0.
func Runs(pid int, start uint64) bool {
	p, err := readProc(pid)
	return err == nil && !p.dead() && (start == 0 || p.start == start)
}

var errStat = errors.New("unreadable process status")

// parseStat reads the line "pid (name) state ppid pgrp session ...". The name may
// contain spaces and brackets, so the fields start after the last bracket.
func parseStat(pid int, line []byte) (proc, error) {
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return proc{}, errStat
	}
	fields := bytes.Fields(line[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return proc{}, errStat
	}
	p := proc{pid: pid, state: fields[0][0]}
	var err1, err2, err3, err4, err5 error
	p.ppid, err1 = strconv.Atoi(string(fields[1]))
	p.pgrp, err2 = strconv.Atoi(string(fields[2]))
	p.session, err3 = strconv.Atoi(string(fields[3]))
	p.threads, err4 = strconv.Atoi(string(fields[17]))
	p.start, err5 = strconv.ParseUint(string(fields[19]), 10, 64)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return proc{}, errStat
	}
	return p, nil
}

// dead reports whether the process has ended and only waits to be reaped.
// p.state is the state of the first thread; a process whose first thread has
// exited runs as long as another thread does.
func (p proc) dead() bool { return (p.state == 'Z' || p.state == 'X') && p.threads <= 1 }

// listings limits how often allProcs lists /proc on a machine where processes start
// faster than it can list them.
const listings = 10

// allProcs reads every visible process. It lists /proc again until it finds no new
// process: a process in the list may start a child and end before allProcs reads it,
// and the child is not in that list.
func allProcs() []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	var procs []proc
	seen := make(map[int]bool)
	for round, found := 0, true; found && round < listings; round++ {
		found = false
		dir.Seek(0, io.SeekStart)
		names, _ := dir.Readdirnames(-1)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || seen[pid] {
				continue
			}
			seen[pid], found = true, true
			if p, err := readProc(pid); err == nil {
				procs = append(procs, p)
			}
		}
	}
	return procs
}

// descendants returns the processes below root, except those for which leaveOut
// returns true and their descendants.
func descendants(procs []proc, root int, leaveOut func(proc) bool) []proc {
	children := make(map[int][]proc, len(procs))
	for _, p := range procs {
		children[p.ppid] = append(children[p.ppid], p)
	}
	var found []proc
	for next := []int{root}; len(next) > 0; {
		pid := next[len(next)-1]
		next = next[:len(next)-1]
		for _, p := range children[pid] {
			if leaveOut != nil && leaveOut(p) {
				continue
			}
			found = append(found, p)
			next = append(next, p.pid)
		}
		delete(children, pid) // procs is not an atomic snapshot and may contain a cycle
	}
	return found
}

// alive removes from procs the processes that have ended.
func alive(procs []proc) []proc { return slices.DeleteFunc(procs, proc.dead) }

// kill signals p if the pid still belongs to the same process. With a pidfd the signal
// cannot reach another process. Without a pidfd the pid could be reused in the
// microseconds between the check and the signal.
func (p proc) kill(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if errors.Is(err, unix.ESRCH) {
		return err
	}
	now, statErr := readProc(p.pid)
	if statErr != nil || now.start != p.start {
		return unix.ESRCH
	}
	if err == nil {
		if err = unix.PidfdSendSignal(fd, sig, nil, 0); !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	return unix.Kill(p.pid, sig)
}

// terminate sends SIGTERM to each process, and SIGCONT because a stopped process
// would not handle it.
func terminate(procs []proc) {
	for _, p := range procs {
		if p.kill(unix.SIGTERM) == nil {
			p.kill(unix.SIGCONT)
		}
	}
}

func killAll(procs []proc) {
	for _, p := range procs {
		p.kill(unix.SIGKILL)
	}
}

// readName returns the name of a process. The process may have chosen it, so
// unprintable characters are replaced.
func readName(pid int) string {
	raw, err := readSystemFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return "?"
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.TrimSuffix(string(raw), "\n"))
}

// kills are the processes that got SIGKILL, by pid with their start times.
type kills map[int]uint64

// add kills procs and returns those that it had not killed before.
func (k kills) add(procs []proc) (added []KilledProcess) {
	for _, p := range procs {
		name := readName(p.pid) // read before the process ends and its name becomes unreadable
		if p.kill(unix.SIGKILL) == nil && k[p.pid] != p.start {
			k[p.pid] = p.start
			added = append(added, KilledProcess{PID: p.pid, Name: name})
		}
	}
	return added
}

// An owned process is one that the wrapper started for itself, or adopted. It may
// lead a process group.
type owned struct {
	pid, pgrp, session int
	start              uint64
	adopted            bool // a client left this process behind
}

// members returns those of procs that belong to o: the owned process with its
// descendants and, if o led a group, that group. A reused pid matches nothing.
func (o owned) members(procs []proc) []proc {
	var found []proc
	for _, p := range procs {
		switch {
		case p.pid == o.pid && p.start != o.start:
			return nil
		case p.pid == o.pid:
			found = append(append(found, p), descendants(procs, o.pid, nil)...)
		case o.pgrp == o.pid && p.pgrp == o.pgrp && p.session == o.session && p.start >= o.start:
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b proc) int { return a.pid - b.pid })
	return slices.CompactFunc(found, func(a, b proc) bool { return a.pid == b.pid })
}
