package ledger

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"
	"sort"

	"lifeloop/internal/durable"
)

// ReadFrom is like Read, but yields only the entries from seq on. It finds them by a
// binary search over the segments and their lines. It needs no index, because each
// line contains its seq. It checks each entry that it yields, and the links between
// these entries. ReadFrom also checks some entries just before seq, but not all
// earlier entries; Verify checks all.
func ReadFrom(dir string, seq uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := newWalker(dir)
		w.seek(seq)
		if err := w.run(nil, func(e Entry) bool { return e.Seq < seq || yield(e, nil) }); err != nil {
			yield(Entry{}, fmt.Errorf("read ledger %s: %w", dir, err))
		}
	}
}

// near is how many bytes before the wanted line a search may stop.
const near = 64 << 10

// seek moves to a line at or a little before seq. If it cannot read a part of the
// ledger, it stops before that part; run then starts there and reports the error.
func (w *walker) seek(seq uint64) {
	all, err := segments(w.dir)
	if err != nil {
		return
	}
	after := sort.Search(len(all), func(i int) bool {
		f, err := durable.Open(segmentPath(w.dir, all[i]), os.O_RDONLY, 0)
		if err != nil {
			return true
		}
		defer f.Close()
		_, first, ok := lineFrom(f, 0)
		return !ok || first > seq
	})
	if after == 0 {
		return
	}
	f, err := durable.Open(segmentPath(w.dir, all[after-1]), os.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return
	}
	place := int64(0) // the offset of a line at or before seq
	for end := size; end-place > near; {
		middle := place + (end-place)/2
		start, found, ok := lineFrom(f, middle)
		switch {
		case ok && found <= seq:
			place = start
		case ok || start >= end: // the line that was found is after seq, or not in the search range
			end = middle
		default:
			// The line that was found is damaged, or is the unfinished last one. End
			// the search.
			end = place
		}
	}
	w.segment, w.offset, w.skipped, w.adrift = all[after-1], place, place, all[after-1] > 1 || place > 0
}

// lineFrom finds the first line that begins at or after offset in a segment. It returns
// the start and the seq of the line, and whether the line is an entry.
func lineFrom(f *os.File, offset int64) (start int64, seq uint64, ok bool) {
	r := bufio.NewReader(io.NewSectionReader(f, max(offset-1, 0), 2*maxLine))
	start = offset
	if offset > 0 { // skip the rest of the line that contains the byte before offset
		skipped, err := discardLine(r)
		if start = offset - 1 + skipped; err != nil {
			return start, 0, false
		}
	}
	line, err := r.ReadBytes('\n')
	if err != nil {
		return start, 0, false
	}
	e, why := parse(line[:len(line)-1])
	return start, e.Seq, why == ""
}

// discardLine reads to the next LF and returns how many bytes that took.
func discardLine(r *bufio.Reader) (n int64, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		if n += int64(len(piece)); err != bufio.ErrBufferFull {
			return n, err
		}
	}
}

// linesBefore counts the lines that seek skipped at the beginning of the segment.
func (w *walker) linesBefore() (n int) {
	f, err := durable.Open(segmentPath(w.dir, w.segment), os.O_RDONLY, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	r, buf := io.LimitReader(f, w.skipped), make([]byte, near)
	for {
		read, err := r.Read(buf)
		n += bytes.Count(buf[:read], []byte("\n"))
		if err != nil {
			return n
		}
	}
}
