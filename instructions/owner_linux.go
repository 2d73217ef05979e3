package instructions

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

func checkSystem() error {
	_, err := os.Stat("/proc/net/tcp")
	return err
}

// owner returns which process has the connection between two addresses: pid or a
// process below it. It returns 0 if none of them has it.
func owner(pid int, from, to netip.AddrPort) int {
	socket := socketOf(from, to)
	if socket == "" {
		return 0
	}
	for next := []int{pid}; len(next) > 0; {
		var below []int
		for _, p := range next {
			if holds(p, socket) {
				return p
			}
			below = append(below, children(p)...)
		}
		next = below
	}
	return 0
}

// owns reports whether a process has the connection.
func owns(pid int, from, to netip.AddrPort) bool {
	socket := socketOf(from, to)
	return socket != "" && holds(pid, socket)
}

// socketOf returns the name of the connection's socket in /proc/PID/fd. It returns
// "" if the current user has no such connection.
func socketOf(from, to netip.AddrPort) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	ends := []string{inTable(from), inTable(to)}
	for line := range strings.Lines(string(table)) {
		// sl local_address rem_address st queues timer retransmits uid timeout inode
		f := strings.Fields(line)
		if len(f) > 9 && slices.Equal(f[1:3], ends) && f[7] == strconv.Itoa(os.Geteuid()) {
			return "socket:[" + f[9] + "]"
		}
	}
	return ""
}

// inTable returns an IPv4 address as /proc/net/tcp writes it: in hexadecimal, with
// the address in the byte order of this machine.
func inTable(a netip.AddrPort) string {
	ip := a.Addr().Unmap().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), a.Port())
}

// holds reports whether a process has a socket.
func holds(pid int, socket string) bool {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false // the process has ended
	}
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
		target, err := os.Readlink(dir + fd.Name())
		return err == nil && target == socket
	})
}

// children returns the processes that a process started.
func children(pid int) (out []int) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for word := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(word); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
