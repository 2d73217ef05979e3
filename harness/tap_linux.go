package harness

import (
	"bytes"
	"sync"
)

const (
	// tapSize bounds what waits for a sink that reads. As much again may be on
	// its way to it.
	tapSize = 1 << 20
	// tapLine is how much of a line without an end is kept back, where two
	// streams are read.
	tapLine = 64 << 10
	// tapPiece is how much a sink is given at once.
	tapPiece = 64 << 10
)

// A tap keeps what a child writes for a sink that reads it. The pumps wait for
// nobody: when the sink cannot follow, the oldest that waits is dropped, to a
// line's end, and the sink is told how much.
//
// One stream is given as it came. Of two the lines are told one after another,
// each whole: a piece of one and a piece of the other make no line.
type tap struct {
	wake chan struct{} // has room for one: there is something to take

	mu      sync.Mutex // guards what follows; held for a copy at most
	waiting []byte
	lost    int64
	lines   bool // there are two streams
}

func newTap(streams int) *tap { return &tap{wake: make(chan struct{}, 1), lines: streams > 1} }

// put takes what one stream wrote next. It is called by its pump.
func (t *tap) put(s *source, b []byte) {
	t.mu.Lock()
	if !t.lines {
		t.append(b)
	} else {
		s.line = append(s.line, b...)
		if end := bytes.LastIndexByte(s.line, '\n') + 1; end > 0 {
			t.append(s.line[:end])
			s.line = append(s.line[:0], s.line[end:]...)
		}
		if len(s.line) > tapLine {
			t.append(append(s.line, '\n'))
			s.line = s.line[:0]
		}
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *tap) append(b []byte) {
	t.waiting = append(t.waiting, b...)
	if len(t.waiting) <= tapSize {
		return
	}
	drop := len(t.waiting) - tapSize/2 // so that not each chunk has to move the rest
	if end := bytes.IndexByte(t.waiting[drop:], '\n'); end >= 0 {
		drop += end
	}
	t.lost += int64(drop)
	t.waiting = append(t.waiting[:0], t.waiting[drop:]...)
}

// take gives out all that waits, and how much was dropped before it.
func (t *tap) take() (text []byte, lost int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, lost = t.waiting, t.lost
	t.waiting, t.lost = nil, 0
	if lost > 0 && (len(text) == 0 || text[0] != '\n') {
		// What came before the gap and what comes after it never were one line.
		text = append([]byte{'\n'}, text...)
	}
	return text, lost
}

// end gives up the lines that have no end: nothing more is written.
func (t *tap) end(sources []*source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range sources {
		if len(s.line) > 0 {
			t.append(append(s.line, '\n'))
			s.line = nil
		}
	}
}

// read tells the sink what the child has written, in its own time. Text that is
// kept back is told to have come.
func (c *Child) read(quiet <-chan struct{}) {
	told := int64(0)
	for last := false; !last; {
		select {
		case <-c.tap.wake:
		case <-quiet:
			last = true
		}
		text, lost := c.tap.take()
		if lost > 0 {
			c.sink.TextLost(lost)
		}
		total := c.total.Load()
		if len(text) == 0 && total != told {
			c.sink.Text(text, total)
		}
		for len(text) > 0 {
			n := min(len(text), tapPiece)
			c.sink.Text(text[:n:n], total)
			text = text[n:]
		}
		told = total
	}
}
