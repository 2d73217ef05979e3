package harness

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A page is the memory that wrapper and guards share. It holds what the guard
// must do to the outer terminal if the wrapper dies. The wrapper writes the unused
// one of two slots and then changes the index. A reader therefore never sees half
// a change, even if the wrapper is killed between two instructions.
//
//	0      index of the valid slot (uint32, atomic)
//	64     slot 0
//	4096   slot 1
//
// A slot is: pid of the guard in charge (uint32, 0: nothing to do), length of the
// undo string (uint32), the terminal attributes to restore, the attributes that
// the wrapper has set, the undo string.
type page struct {
	mem []byte
}

const (
	pageSize  = 8192
	slotSize  = 4032
	termiosAt = 8
)

var termiosSize = int(unsafe.Sizeof(unix.Termios{}))

// word is the content of one slot.
type word struct {
	guard    uint32
	saved    unix.Termios
	ours     unix.Termios
	modes    string
	hasAttrs bool
}

// newPage creates a page and the file that a guard maps.
func newPage() (*page, *os.File, error) {
	fd, err := unix.MemfdCreate("lifeloop-terminal", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("create shared memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "shared memory")
	if err := unix.Ftruncate(fd, pageSize); err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("size shared memory: %w", err)
	}
	p, err := mapPage(fd)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return p, file, nil
}

func mapPage(fd int) (*page, error) {
	mem, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map shared memory: %w", err)
	}
	return &page{mem}, nil
}

func (p *page) index() *uint32 { return (*uint32)(unsafe.Pointer(&p.mem[0])) }

func (p *page) slot(i uint32) []byte {
	at := 64
	if i == 1 {
		at = pageSize / 2
	}
	return p.mem[at : at+slotSize]
}

// put publishes w. Calls must not overlap.
func (p *page) put(w word) {
	next := atomic.LoadUint32(p.index()) ^ 1
	s := p.slot(next)
	modes := w.modes
	modesAt := termiosAt + 2*termiosSize + 8
	if len(modes) > slotSize-modesAt {
		modes = "" // does not happen: an undo string has a few hundred bytes
	}
	binary.NativeEndian.PutUint32(s, w.guard)
	binary.NativeEndian.PutUint32(s[4:], uint32(len(modes)))
	copy(s[termiosAt:], termiosBytes(&w.saved))
	copy(s[termiosAt+termiosSize:], termiosBytes(&w.ours))
	s[modesAt-8] = 0
	if w.hasAttrs {
		s[modesAt-8] = 1
	}
	copy(s[modesAt:], modes)
	atomic.StoreUint32(p.index(), next)
}

// get reads what was last published.
func (p *page) get() word {
	s := p.slot(atomic.LoadUint32(p.index()))
	modesAt := termiosAt + 2*termiosSize + 8
	w := word{guard: binary.NativeEndian.Uint32(s), hasAttrs: s[modesAt-8] == 1}
	copy(termiosBytes(&w.saved), s[termiosAt:])
	copy(termiosBytes(&w.ours), s[termiosAt+termiosSize:])
	n := min(int(binary.NativeEndian.Uint32(s[4:])), slotSize-modesAt)
	w.modes = string(s[modesAt : modesAt+n])
	return w
}

func (p *page) unmap() { unix.Munmap(p.mem) }

func termiosBytes(t *unix.Termios) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(t)), termiosSize)
}
