package harness

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A proc is one process as /proc tells it. The start time makes it one process
// for ever: numbers are used again, the pair of number and start time is not.
type proc struct {
	pid, ppid, pgrp, session int
	state                    byte
	start                    uint64 // in clock ticks since boot
}

// readProc reads /proc/pid/stat.
func readProc(pid int) (proc, error) {
	// One bare read: this is done for every process of the machine.
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

// Runs says whether a process still runs: the one that began at start, in clock
// ticks since boot, or, when start is 0, any of that number.
func Runs(pid int, start uint64) bool {
	p, err := readProc(pid)
	return err == nil && !p.dead() && (start == 0 || p.start == start)
}

var errStat = errors.New("unreadable process status")

// parseStat reads the line "pid (name) state ppid pgrp session ...". The name
// may hold blanks and brackets, so what counts begins after the last bracket.
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
	var err1, err2, err3, err4 error
	p.ppid, err1 = strconv.Atoi(string(fields[1]))
	p.pgrp, err2 = strconv.Atoi(string(fields[2]))
	p.session, err3 = strconv.Atoi(string(fields[3]))
	p.start, err4 = strconv.ParseUint(string(fields[19]), 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return proc{}, errStat
	}
	return p, nil
}

// dead tells a process that only waits to be reaped.
func (p proc) dead() bool { return p.state == 'Z' || p.state == 'X' }

// allProcs reads every process that can be seen.
func allProcs() []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	procs := make([]proc, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProc(pid); err == nil {
			procs = append(procs, p)
		}
	}
	return procs
}

// descendants returns the processes below root, without those that leave out
// refuses and what is below them.
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
		delete(children, pid) // a snapshot that is not atomic may hold a circle
	}
	return found
}

func alive(procs []proc) []proc {
	var live []proc
	for _, p := range procs {
		if !p.dead() {
			live = append(live, p)
		}
	}
	return live
}

// kill signals p if it still is the process that was found. With a pidfd there
// is no moment between the check and the signal; kernels without one leave a
// moment of microseconds.
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

// terminate asks each process to end; a stopped one is continued, or it would
// not hear the question.
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

// An owned process is one the wrapper started for itself, with its own process
// group if it leads one.
type owned struct {
	pid, pgrp, session int
	start              uint64
}

// members returns the processes that belong to o among procs: the process that
// was registered and, if it led a group, that group. A number that has come to
// mean another process in the meantime matches nothing.
func (o owned) members(procs []proc) []proc {
	var found []proc
	for _, p := range procs {
		if p.pid == o.pid && p.start != o.start {
			return nil
		}
		registered := p.pid == o.pid
		inGroup := o.pgrp == o.pid && p.pgrp == o.pgrp && p.session == o.session && p.start >= o.start
		if registered || inGroup {
			found = append(found, p)
		}
	}
	return found
}
