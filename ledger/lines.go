package ledger

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"strconv"

	"lifeloop/internal/durable"
)

// A Line is an entry before it is checked. Kind and Text are valid until the next
// line is read.
type Line struct {
	Seq  uint64
	Kind []byte
	Text []byte // without its LF
}

// Entry parses the line and checks its form and digest, as Read does, but not
// its link to the previous entry.
func (l Line) Entry() (Entry, error) {
	e, why := parse(l.Text)
	if why != "" {
		return Entry{}, fmt.Errorf("entry %d: %s", l.Seq, why)
	}
	return e, nil
}

// Lines yields the lines of the ledger in dir, in order. It is for a reader that
// looks for few entries by their text. It parses only the end of each line. It
// checks that no number and no segment is missing, but checks no links and
// digests. Read takes many times as long. An unfinished last line is left out.
func Lines(dir string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		all, err := segments(dir)
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("no %s: %w", segmentName(1), fs.ErrNotExist)
		}
		w := newWalker(dir)
		more := true
		for i := 0; i < len(all) && more && err == nil; i++ {
			w.segment, w.line, w.offset = i+1, 0, 0
			if all[i] != w.segment {
				err = w.corruptSegment("the segment is missing")
				break
			}
			more, err = w.lines(func(l Line) bool { return yield(l, nil) })
		}
		if err != nil {
			yield(Line{}, fmt.Errorf("read ledger %s: %w", dir, err))
		}
	}
}

// lines yields the lines of the current segment until yield returns false. more is
// true if yield never returned false.
func (w *walker) lines(yield func(Line) bool) (more bool, err error) {
	f, err := durable.Open(segmentPath(w.dir, w.segment), os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	w.buf = bufio.NewReaderSize(f, 256<<10)
	for {
		line, err := w.next()
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		rest := backward{line: line[:len(line)-1]}
		end := rest.lineEnd()
		seq, err := strconv.ParseUint(string(end.seq), 10, 64)
		if rest.bad || err != nil {
			return false, w.corruptLine("not a ledger entry")
		}
		if why := w.last.next(seq); why != "" {
			return false, w.corruptLine(why)
		}
		if !yield(Line{seq, end.kind, line[:len(line)-1]}) {
			return false, nil
		}
		w.line++
		w.offset += int64(len(line))
		w.last.seq = seq
	}
}
