package harness

import (
	"bytes"
	"sync"
)

const (
	// tapSize is the limit of bytes that wait for the sink. At the same time, the sink
	// may be processing up to tapSize other bytes.
	tapSize = 1 << 20
	// tapPiece is the largest number of bytes that a sink gets in one call.
	tapPiece = 64 << 10
)

// A tap queues a child's output for the sink, in the order in which it was read.
// The pumps never wait: if the sink is too slow, the oldest bytes of all streams are
// dropped, up to the end of a line, and the sink gets their number.
type tap struct {
	wake chan struct{} // has a buffer of 1; full if there is something to take

	mu      sync.Mutex // guards the fields below; not held while the sink is called
	waiting []segment
	size    int // the bytes of all queued segments
	lost    loss
	// gaps gets an entry for a stream when drop drops bytes of the stream. mend removes
	// the entry when it finds or inserts a '\n' after these bytes. The value is the
	// number of bytes without a '\n' that mend has dropped after them so far.
	gaps map[int]int
}

// A segment is a stretch of output of one stream, without output of another
// stream in between.
type segment struct {
	stream int
	text   []byte
}

// A loss is what a slow sink did not get.
type loss struct{ bytes, lines int64 }

func newTap() *tap { return &tap{wake: make(chan struct{}, 1), gaps: map[int]int{}} }

// put adds the next bytes of a stream. The stream's pump calls it.
func (t *tap) put(stream int, b []byte) {
	t.mu.Lock()
	t.append(segment{stream, b})
	for t.size > tapSize { // drop half of the limit, so that most calls need not drop anything
		t.drop(t.size - tapSize/2)
	}
	t.mu.Unlock()
	nudge(t.wake)
}

func (t *tap) append(s segment) {
	if s = t.mend(s); len(s.text) == 0 {
		return
	}
	t.size += len(s.text)
	if n := len(t.waiting); n > 0 && t.waiting[n-1].stream == s.stream {
		t.waiting[n-1].text = append(t.waiting[n-1].text, s.text...)
		return
	}
	t.waiting = append(t.waiting, segment{s.stream, bytes.Clone(s.text)})
}

// drop drops the oldest n bytes, and the rest of each line that this would cut.
func (t *tap) drop(n int) {
	old := t.waiting
	t.waiting, t.size = nil, 0
	for _, s := range old {
		if cut := min(n, len(s.text)); cut > 0 {
			t.lose(s.text[:cut])
			n -= cut
			s.text = s.text[cut:]
			t.gaps[s.stream] = 0
		}
		if len(s.text) > 0 {
			t.append(s)
		}
	}
}

// mend drops the bytes of a stream after a gap, up to the next '\n', so that the text
// before the gap and the text after the gap do not become one line. If no '\n' comes
// within tapPiece bytes, mend inserts a '\n'.
func (t *tap) mend(s segment) segment {
	lost, gap := t.gaps[s.stream]
	if !gap {
		return s
	}
	switch end := bytes.IndexByte(s.text, '\n'); {
	case end >= 0:
		t.lose(s.text[:end])
		s.text = s.text[end:]
	case lost+len(s.text) <= tapPiece:
		t.lose(s.text)
		t.gaps[s.stream] += len(s.text)
		s.text = nil
		return s
	default:
		s.text = append([]byte{'\n'}, s.text...)
	}
	delete(t.gaps, s.stream)
	return s
}

func (t *tap) lose(b []byte) {
	t.lost.bytes += int64(len(b))
	t.lost.lines += int64(bytes.Count(b, []byte{'\n'}))
}

// take returns all queued output, and how much was dropped before it.
func (t *tap) take() (text []segment, lost loss) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, lost = t.waiting, t.lost
	t.waiting, t.size, t.lost = nil, 0, loss{}
	return text, lost
}

// read passes the child's output to the sink, so that no pump waits for the
// sink.
func (c *Child) read(quiet <-chan struct{}) {
	for last := false; !last; {
		select {
		case <-c.tap.wake:
		case <-quiet:
			last = true
		}
		segments, lost := c.tap.take()
		if lost.bytes > 0 {
			c.sink.TextLost(lost.bytes, lost.lines)
		}
		total := c.total.Load()
		for _, s := range segments {
			for text := s.text; len(text) > 0; {
				n := min(len(text), tapPiece)
				c.sink.Text(s.stream, text[:n:n], total)
				text = text[n:]
			}
		}
	}
}
