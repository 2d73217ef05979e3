package harness

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A page is the memory that wrapper and guards share. It holds what the guard must
// do to the outer terminal if the wrapper dies. The wrapper writes the unused one
// of two slots and then changes the index. A reader therefore never sees half a
// change, even if the wrapper is killed between two instructions. Wrapper and
// guard are the same program, so they share the compiler's memory layout.
type page struct {
	valid atomic.Uint32 // index of the valid slot
	look  atomic.Bool   // the look of text differs from the default, so the guard must reset the look
	slots [2]struct {
		guard       uint32
		saved, ours unix.Termios
		hasAttrs    bool
		size        uint32 // length of the undo string
		undo        [maxUndo]byte
	}
}

const (
	pageSize = unsafe.Sizeof(page{})
	maxUndo  = 3 << 10 // an undo string has a few hundred bytes
)

// word is the content of one slot.
type word struct {
	guard    uint32       // pid of the guard that restores the terminal; 0 if nothing must be restored
	saved    unix.Termios // the attributes to restore
	ours     unix.Termios // the attributes that the wrapper has set
	modes    string       // the undo string: the sequences that reset the terminal's modes
	hasAttrs bool
}

// newPage creates a page and the file that a guard maps.
func newPage() (*page, *os.File, error) {
	fd, err := unix.MemfdCreate("lifeloop-terminal", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("create shared memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "shared memory")
	if err := unix.Ftruncate(fd, int64(pageSize)); err != nil {
		file.Close()
		if errors.Is(err, unix.EFBIG) {
			err = fmt.Errorf("a file of %d bytes is over the limit (see ulimit -f): %w", pageSize, err)
		}
		return nil, nil, fmt.Errorf("set the size of the shared memory: %w", err)
	}
	p, err := mapPage(fd)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return p, file, nil
}

func mapPage(fd int) (*page, error) {
	mem, err := unix.MmapPtr(fd, 0, nil, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map shared memory: %w", err)
	}
	return (*page)(mem), nil
}

// put publishes w. Calls must not overlap.
func (p *page) put(w word) {
	next := p.valid.Load() ^ 1
	s := &p.slots[next]
	if len(w.modes) > maxUndo {
		w.modes = "" // does not happen: an undo string is much shorter
	}
	s.guard, s.saved, s.ours, s.hasAttrs = w.guard, w.saved, w.ours, w.hasAttrs
	s.size = uint32(copy(s.undo[:], w.modes))
	p.valid.Store(next)
}

// get reads what was last published.
func (p *page) get() word {
	s := &p.slots[p.valid.Load()]
	return word{guard: s.guard, saved: s.saved, ours: s.ours, hasAttrs: s.hasAttrs, modes: string(s.undo[:min(s.size, maxUndo)])}
}

func (p *page) unmap() { unix.MunmapPtr(unsafe.Pointer(p), pageSize) }
