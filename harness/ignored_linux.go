package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A sigset is a set of signals: bit n-1 is signal n, as in /proc.
type sigset uint64

func setOf(signals ...syscall.Signal) (s sigset) {
	for _, sig := range signals {
		s |= 1 << (sig - 1)
	}
	return s
}

func (s sigset) has(sig syscall.Signal) bool { return s&setOf(sig) != 0 }

// notPassedOn are signals that a guard must not ignore: it needs SIGCHLD to wait for
// its children, and Go's runtime needs the others.
func notPassedOn() sigset {
	return setOf(unix.SIGCHLD, unix.SIGURG, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, unix.SIGPROF)
}

// ignore makes this process, and the programs that it starts, ignore the signals of s,
// except those of notPassedOn.
func (s sigset) ignore() {
	for sig := syscall.Signal(1); sig <= 31; sig++ {
		if (s &^ notPassedOn()).has(sig) {
			signal.Ignore(sig)
		}
	}
}

// Notify is signal.Notify, but this process continues to ignore all signals that were
// ignored when it started: the user chose that, for example with nohup. Go's runtime has
// installed its own handler for some of them, such as SIGTERM and SIGQUIT.
func Notify(c chan<- os.Signal, signals ...os.Signal) {
	ignored := startedIgnoring()
	ignored.ignore()
	for _, sig := range signals {
		if !ignored.has(sig.(syscall.Signal)) {
			signal.Notify(c, sig)
		}
	}
}

// startedIgnoring returns the signals that were ignored when this process started.
// Only the first call, which may take a millisecond, looks them up.
func startedIgnoring() sigset { return atStart()() }

// atStart looks up the signals that this process ignores, and returns a function. That
// function returns these signals and the result of replaced(). Call atStart before
// signal.Notify: after Notify, a signal is no longer ignored. Then only replaced() can
// find the signal, and replaced() needs a symbol table.
var atStart = sync.OnceValue(func() func() sigset {
	now := nowIgnored()
	return sync.OnceValue(func() sigset { return now | replaced() })
})

// nowIgnored returns the signals that this process ignores. Go's runtime leaves
// SIGHUP, SIGINT and the stop signals as it finds them.
func nowIgnored() sigset {
	raw, err := readSystemFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(raw, []byte("\nSigIgn:"))
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	n, _ := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return sigset(n)
}

// replaced returns the signals for which Go's runtime has installed a handler in the
// place of SIG_IGN, before any code of this program runs. A program that this one
// starts would get the default action instead. The actions that the runtime found are
// only in its own table, whose address is in the program's symbol table. Without a
// symbol table (go build -ldflags=-s) the result is empty.
func replaced() (found sigset) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return 0
	}
	defer exe.Close()
	info, err := exe.Stat()
	if err != nil {
		return 0
	}
	// Reading the tables of the program would double the memory of a wrapper.
	file, err := unix.Mmap(fdOf(exe), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return 0
	}
	defer unix.Munmap(file)
	head, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return 0
	}
	const signals, word = 65, 8 // the table has a uintptr for each signal
	table := make([]byte, signals*word)
	at, ok := symbol(file, head, "runtime.fwdSig", len(table))
	if !ok {
		return 0
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0
	}
	defer mem.Close()
	if _, err := mem.ReadAt(table, int64(at+slide(head))); err != nil {
		return 0
	}
	for sig := syscall.Signal(1); sig < signals; sig++ {
		const sigIgn = 1
		if binary.NativeEndian.Uint64(table[sig*word:]) == sigIgn {
			found |= setOf(sig)
		}
	}
	return found
}

// symbol returns the address of the variable that has the name and the size in bytes. It
// reads the symbols from the end, where the variables are, and compares the sizes first:
// comparing all names would read a megabyte more of the file.
func symbol(file []byte, head *elf.File, name string, size int) (at uint64, ok bool) {
	symbols, names := head.Section(".symtab"), head.Section(".strtab")
	if head.Class != elf.ELFCLASS64 || symbols == nil || names == nil || max(symbols.Offset+symbols.Size, names.Offset+names.Size) > uint64(len(file)) {
		return 0, false
	}
	text := file[names.Offset:][:names.Size]
	table := file[symbols.Offset:][:symbols.Size-symbols.Size%elf.Sym64Size]
	for rest := len(table); rest > 0; rest -= elf.Sym64Size {
		entry := table[rest-elf.Sym64Size : rest]
		if binary.NativeEndian.Uint64(entry[16:]) != uint64(size) {
			continue
		}
		if at := binary.NativeEndian.Uint32(entry); uint64(at) < names.Size && bytes.HasPrefix(text[at:], []byte(name+"\x00")) {
			return binary.NativeEndian.Uint64(entry[8:]), true
		}
	}
	return 0, false
}

// slide returns the difference between the addresses at which the program was
// loaded and the addresses in its file.
func slide(head *elf.File) uint64 {
	const entryPoint = 9 // AT_ENTRY
	raw, _ := readSystemFile("/proc/self/auxv")
	for ; len(raw) >= 16; raw = raw[16:] {
		if binary.NativeEndian.Uint64(raw) == entryPoint {
			return binary.NativeEndian.Uint64(raw[8:]) - head.Entry
		}
	}
	return 0
}
