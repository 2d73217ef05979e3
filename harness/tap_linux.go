package harness

import (
	"bytes"
	"sync"
)

const (
	// tapSize is the limit of bytes that wait for the sink. The sink may be
	// processing as many.
	tapSize = 1 << 20
	// tapLine is the limit of a line that waits for its end, if there are two
	// streams.
	tapLine = 64 << 10
	// tapPiece is the most that a sink gets at once.
	tapPiece = 64 << 10
)

// A tap queues a child's output for the sink. The pumps never wait: if the sink
// is too slow, the oldest bytes are dropped up to the end of a line, and the sink
// gets their number.
//
// One stream is passed on as it comes. Two streams are passed on in whole lines,
// so that no line mixes them.
type tap struct {
	wake chan struct{} // buffered, 1: there is something to take

	mu      sync.Mutex // guards the fields below; held for a copy at most
	waiting []byte
	lost    int64
	lines   bool // there are two streams
}

func newTap(streams int) *tap { return &tap{wake: make(chan struct{}, 1), lines: streams > 1} }

// put adds the next bytes of one stream. The stream's pump calls it.
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
	nudge(t.wake)
}

func (t *tap) append(b []byte) {
	t.waiting = append(t.waiting, b...)
	if len(t.waiting) <= tapSize {
		return
	}
	drop := len(t.waiting) - tapSize/2 // half of it, so that most calls move nothing
	if end := bytes.IndexByte(t.waiting[drop:], '\n'); end >= 0 {
		drop += end
	}
	t.lost += int64(drop)
	t.waiting = append(t.waiting[:0], t.waiting[drop:]...)
}

// take returns all that waits, and how many bytes were dropped before it.
func (t *tap) take() (text []byte, lost int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, lost = t.waiting, t.lost
	t.waiting, t.lost = nil, 0
	if lost > 0 && (len(text) == 0 || text[0] != '\n') {
		// The bytes before and after the gap do not form a line.
		text = append([]byte{'\n'}, text...)
	}
	return text, lost
}

// end passes on the incomplete lines: no stream writes any more.
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

// read passes the child's output to the sink, so that no pump waits for the
// sink. It reports incomplete lines that wait by an empty text.
func (c *Child) read(quiet <-chan struct{}) {
	reported := int64(0)
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
		if len(text) == 0 && total != reported {
			c.sink.Text(text, total)
		}
		for len(text) > 0 {
			n := min(len(text), tapPiece)
			c.sink.Text(text[:n:n], total)
			text = text[n:]
		}
		reported = total
	}
}
