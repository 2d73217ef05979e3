package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"lifeloop/canon"
	"lifeloop/internal/durable"
)

// Read yields the entries of the ledger in dir, in order, each checked. It may run
// while this or another process writes, and yields entries whether synced or not. At
// an unfinished last line it ends with [ErrTornTail], at damage with
// *[CorruptError].
func Read(dir string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := newWalker(dir)
		if err := w.run(nil, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, fmt.Errorf("read ledger %s: %w", dir, err))
		}
	}
}

// A Report is what Verify found.
type Report struct {
	Entries     uint64 // intact entries
	Segments    int    // the number of segments, up to the damage if there is any
	First, Last canon.Digest
	TornBytes   int64 // length of an unfinished last line
}

// Verify reads the whole ledger in dir and computes every digest again. A torn tail
// is reported but is not an error, because Open cuts it off. With an error, the
// report covers the intact entries before the damage.
func Verify(dir string) (Report, error) {
	var report Report
	w := newWalker(dir)
	err := w.run(nil, func(e Entry) bool {
		if report.Entries == 0 {
			report.First = e.Digest
		}
		report.Entries, report.Last = e.Seq, e.Digest
		return true
	})
	report.Segments = w.read
	if errors.Is(err, ErrTornTail) {
		report.TornBytes = w.torn
		return report, nil
	}
	if err != nil {
		return report, fmt.Errorf("verify ledger %s: %w", dir, err)
	}
	return report, nil
}

// Follow yields the entries of the ledger in dir from seq on and waits for more,
// until the caller breaks out of the loop or ctx ends; neither is an error. An
// unfinished last line is yielded once it is whole; damage is a *[CorruptError].
// The folder must exist, the ledger need not exist yet.
//
// Like ReadFrom, Follow also checks some entries just before seq, but not all earlier
// entries.
func Follow(ctx context.Context, dir string, seq uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		// The watch starts before the first read, so that each later write causes an
		// event.
		news, err := watch(dir)
		if err != nil {
			yield(Entry{}, fmt.Errorf("follow ledger %s: %w", dir, err))
			return
		}
		defer news.close()
		w := newWalker(dir)
		w.seek(seq)
		err = w.run(
			func() bool { return news.wait(ctx) },
			func(e Entry) bool { return ctx.Err() == nil && (e.Seq < seq || yield(e, nil)) },
		)
		if err != nil {
			yield(Entry{}, fmt.Errorf("follow ledger %s: %w", dir, err))
		}
	}
}

// A walker reads the segments of a ledger and checks each line against the
// previous line.
type walker struct {
	dir string

	segment int   // the number of the current segment
	skipped int64 // the offset at which reading of the segment began
	line    int   // lines of the segment that were read
	offset  int64 // the offset at which the next line begins
	last    link
	adrift  bool // last is unknown, so the next entry is accepted without a check of its link

	read int   // the highest number among the opened segments; 0 before the first is opened
	torn int64 // bytes after the last LF at the last read
	buf  *bufio.Reader
	long []byte // a line that buf could not hold
}

func newWalker(dir string) *walker {
	return &walker{dir: dir, segment: 1, last: genesis, buf: bufio.NewReaderSize(nil, 64<<10)}
}

// errStop ends a pass because yield returned false.
var errStop = errors.New("stop")

// run yields all entries. At the end it calls wait, which returns true when there may
// be more entries; with a nil wait, run returns at the end.
func (w *walker) run(wait func() bool, yield func(Entry) bool) error {
	retried := false
	for {
		// The list is read first: every segment in it except the last was complete
		// at that time.
		all, err := segments(w.dir)
		if err != nil {
			return err
		}
		switch {
		case slices.Contains(all, w.segment):
		case len(all) > 0 || w.read > 0:
			return w.corruptSegment("the segment is missing")
		case wait == nil:
			return fmt.Errorf("no %s: %w", segmentName(w.segment), fs.ErrNotExist)
		case !wait():
			return nil
		default:
			continue
		}

		err = w.pass(yield)
		var corrupt *CorruptError
		switch {
		case err == errStop:
			return nil
		case errors.As(err, &corrupt) && wait != nil && !retried:
			// A torn tail may have been cut off and overwritten during the read. So the
			// segment is read once more; real damage is then found again.
			retried = true
			continue
		case err != nil:
			return err
		}
		retried = false

		if w.segment != all[len(all)-1] {
			if w.torn > 0 {
				return w.corruptLine("the line is unfinished, but a segment follows it")
			}
			if w.line == 0 {
				return w.corruptSegment("the segment is empty, but another one follows it")
			}
			w.segment, w.skipped, w.line, w.offset = w.segment+1, 0, 0, 0
			continue
		}
		if wait == nil && w.torn > 0 {
			return fmt.Errorf("%w: %s has %d bytes after its last whole line", ErrTornTail, segmentName(w.segment), w.torn)
		}
		if wait == nil || !wait() {
			return nil
		}
	}
}

// pass reads the current segment from the end of the last pass to the end of the
// file. It does not keep an unfinished line, because a writer that recovers from a
// crash may replace that line.
func (w *walker) pass(yield func(Entry) bool) error {
	f, err := durable.Open(segmentPath(w.dir, w.segment), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(w.offset, io.SeekStart); err != nil {
		return err
	}
	w.read = max(w.read, w.segment)
	w.buf.Reset(f)
	w.torn = 0
	for {
		line, err := w.next()
		if err == io.EOF {
			return w.end(line)
		}
		if err != nil {
			return err
		}
		e, why := parse(line[:len(line)-1])
		if why == "" && !w.adrift {
			why = w.last.follows(e)
		}
		if why != "" {
			return w.corruptLine(why)
		}
		w.line++
		w.offset += int64(len(line))
		w.last, w.adrift = link{e.Seq, e.Digest}, false
		if !yield(e) {
			return errStop
		}
	}
}

// next reads one line with its LF, or an unfinished line and io.EOF.
func (w *walker) next() ([]byte, error) {
	line, err := w.buf.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	w.long = w.long[:0]
	for {
		w.long = append(w.long, line...)
		if len(w.long) > maxLine+1 {
			return nil, w.corruptLine(fmt.Sprintf("the line is longer than %d bytes", maxLine))
		}
		if err != bufio.ErrBufferFull {
			return w.long, err
		}
		line, err = w.buf.ReadSlice('\n')
	}
}

// end checks the bytes after the last LF. After a crash they are only a part of an
// entry. If they are a whole entry and one more byte, that byte was the LF and was
// changed.
func (w *walker) end(rest []byte) error {
	w.torn = int64(len(rest))
	if len(rest) == 0 {
		return nil
	}
	if _, why := parse(rest[:len(rest)-1]); why == "" {
		return w.corruptLine("the newline at the end of the line was changed after it was written")
	}
	return nil
}

func (w *walker) corruptLine(why string) error {
	return &CorruptError{Segment: segmentName(w.segment), Line: w.linesBefore() + w.line + 1, Offset: w.offset, Why: why, Readable: w.last.seq}
}

func (w *walker) corruptSegment(why string) error {
	return &CorruptError{Segment: segmentName(w.segment), Why: why, Readable: w.last.seq}
}

// Checking a ledger that did not change costs a few microseconds. Some file systems
// do not report changes by other machines, so the ledger is checked at intervals of
// recheck even without an event. If the system has no watch left, the ledger is
// checked at intervals of poll.
const (
	recheck = 2 * time.Second
	poll    = 100 * time.Millisecond
)

// news reports when a ledger may have grown.
type news struct {
	watcher *fsnotify.Watcher // nil if the system has no watch left
	recheck time.Duration     // how long to wait for an event before the next check
}

func watch(dir string) (news, error) {
	if _, err := os.Stat(dir); err != nil {
		return news{}, err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return news{}, nil
	}
	if err := watcher.Add(dir); err != nil {
		watcher.Close()
		return news{}, nil
	}
	return news{watcher, recheck}, nil
}

func (n news) close() {
	if n.watcher != nil {
		n.watcher.Close()
	}
}

// wait returns true when it is time to check the ledger again, and false when
// ctx has ended.
func (n news) wait(ctx context.Context) bool {
	pause := poll
	var events chan fsnotify.Event
	var errs chan error
	if n.watcher != nil {
		pause, events, errs = n.recheck, n.watcher.Events, n.watcher.Errors
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-errs: // the event queue has overflowed and events were lost, so check the ledger
			return true
		case e := <-events:
			if strings.HasPrefix(filepath.Base(e.Name), "ledger-") {
				return true
			}
		}
	}
}
