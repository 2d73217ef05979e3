// Package minimum ends a program at its start if the limit of open files or of the
// address space is too low. A program imports it only for that effect; it exports
// nothing.
//
//	import _ "lifeloop/internal/minimum"
//
// A check in main would be too late: if the runtime cannot create its poller or get memory, it ends
// the program with a trace and exit code 2, and some packages open a file while they are
// initialized. Packages are initialized in the order of their import paths, each after its own
// imports. This package imports only syscall, so it is initialized before package os and before
// every package that opens a file. It must import nothing else.
package minimum

import "syscall"

// files is the number of open files that a session needs: the standard three, those
// of the runtime, the terminal, the guard, the ledger, the socket, and some for a
// client.
const files = 32

// space is the least address space in bytes. The runtime reserves most of it. With less
// than 740 MiB (1.3 GiB in a program with cgo), and sometimes with up to 810 MiB, the
// runtime ends the program before this package is initialized.
const space = 900 << 20

const (
	refused = 125 // the exit code of a wrapper that refuses to run
	denied  = 2   // the exit code of a hook that makes its harness refuse a tool
)

func init() {
	// Check the soft limit, although package os later raises it to the hard limit:
	// the guard process starts with the soft limit again, and with files that are
	// already open.
	require(syscall.RLIMIT_NOFILE, files, "lifeloop-wrap: the limit of open files is too low for this process: it needs 32\n"+
		"hint: ulimit -n shows the limit; ulimit -n 1024 raises it\n")
	require(syscall.RLIMIT_AS, space, "lifeloop-wrap: this process has too little address space: it needs 900 MiB\n"+
		"hint: ulimit -v shows the limit; ulimit -v unlimited removes it\n")
}

// require ends the program with a message if a limit is below least.
func require(resource int, least uint64, message string) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(resource, &limit); err != nil || limit.Cur >= least {
		return
	}
	code := refused
	switch hook, guards := isHook(); {
	case guards:
		code = denied
		message += "lifeloop-wrap: the gate was not asked, so this tool call is denied\n"
	case hook:
		syscall.Exit(0) // a failing hook must not stop its harness
	}
	_, _ = syscall.Write(syscall.Stderr, []byte(message))
	syscall.Exit(code)
}

// isHook reports whether the first argument is hook, and whether that hook asks if a
// tool may run. It reads the arguments from a file, because they are not yet in os.Args.
// It first closes stdin, because the process may have no free file descriptor. The
// caller ends the process and needs no stdin.
func isHook() (hook, guards bool) {
	_ = syscall.Close(syscall.Stdin)
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false, false
	}
	var line [4096]byte
	n, _ := syscall.Read(fd, line[:])
	const flag = "--guard="
	for i, start := 0, 0; start < n; i++ {
		end := start
		for end < n && line[end] != 0 {
			end++
		}
		word := string(line[start:end])
		switch {
		case i == 1 && word != "hook":
			return false, false
		case i == 1:
			hook = true
		case i > 1 && len(word) > len(flag) && word[:len(flag)] == flag:
			guards = true
		}
		start = end + 1
	}
	return hook, guards
}
