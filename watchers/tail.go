package watchers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// headSize is how many of a file's first bytes identify it.
const headSize = 1024

// todo says what a tail has to do at its next turn.
type todo uint8

const (
	toRead todo = 1 << iota // the open file may have grown
	toLook                  // the path may lead to another file
)

// identity identifies a file or folder. While a file is open, the system does not
// give its inode to another file.
type identity struct{ dev, ino uint64 }

// tail is one followed file, or one folder of a pattern.
type tail struct {
	Spec
	points []point // the folder entries watched for its path; empty if watching failed
	todo   todo
	polled bool
	behind bool // the previous turn did not reach the end of the file
	last   bool // this is the final turn: read everything, watch nothing

	placed bool // From and AtEnd were applied
	failed bool // Unreadable was reported
	away   bool // Deleted was reported; the path no longer leads to the open file

	reading
	values
}

// reading is the open file and the position in it.
type reading struct {
	file    *os.File
	id      identity
	off     int64  // end of the last line or value delivered or skipped; the size of a Whole or Stamp file
	pending int64  // number of bytes after off that were read and belong to a partial line or value
	tooLong bool   // LineTooLong was reported for the line at off
	head    []byte // the file's first min(headSize, off) bytes
	end     string // Position.Last
	prefix  string // digest of head, empty if not computed yet; for a Whole file, the digest of the last content; for a Stamp file, its time
}

// values holds the state that only the form Values needs.
type values struct {
	scan  valueScan // the scan of the pending bytes
	lost  bool      // Broken was reported; look for the next line that begins a value
	quiet int64     // values that end at or before this offset are not delivered, because they existed when the Spec was added
}

func newTail(s Spec) *tail {
	if s.From != nil {
		from := *s.From // copied, because the caller may change its Position
		s.From = &from
	}
	return &tail{Spec: s}
}

func (t *tail) close() {
	if t.file != nil {
		t.file.Close() // the file was open for reading only
		t.file = nil
	}
}

// restart moves the position to the start of the file.
func (t *tail) restart() {
	t.off, t.pending, t.tooLong = 0, 0, false
	t.lost, t.quiet = false, 0
	t.head, t.prefix, t.end = t.head[:0], "", ""
}

func (t *tail) pos() Position {
	if t.prefix == "" && len(t.head) > 0 {
		t.prefix = digest(t.head)
	}
	return Position{Path: t.Path, Dev: t.id.dev, Ino: t.id.ino, Prefix: t.prefix, Offset: t.off, Last: t.end}
}

// digest returns the number of bytes and half of their SHA-256. It distinguishes
// files, but does not resist forgery.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return strconv.Itoa(len(b)) + ":" + hex.EncodeToString(sum[:16])
}

// look resolves the path again and reads new content. It reports whether the tail
// needs another turn.
func (w *Watcher) look(t *tail) bool {
	var unwatched error
	if !t.last {
		unwatched = w.watch(t)
	}
	more, err := w.readPath(t)
	if exhausted(err) {
		unwatched = err
	}
	if !t.last {
		w.setPolled(t, unwatched)
	}
	return more
}

// readPath reads the file that the path leads to now. An error that it returns
// was already reported.
func (w *Watcher) readPath(t *tail) (bool, error) {
	switch {
	case t.Pattern != "":
		return false, w.find(t)
	case t.Form == Stamp:
		return false, w.readStamp(t)
	case t.Form == Whole:
		return false, w.readWhole(t)
	}
	if t.file != nil && t.current() {
		w.recover(t)
		return w.read(t, t.last), nil
	}
	file, id, err := open(t.Path)
	switch {
	case err == nil:
		w.replace(t, file, id)
		return w.read(t, t.last), nil
	case !missing(err):
		w.unreadable(t, err)
		return false, err
	case t.file == nil:
		if !t.placed && t.From == nil { // no file exists, so AtEnd skips nothing in a file that is created later
			t.placed = true
			w.placed(t)
		}
	default:
		w.read(t, true)
		if !t.away {
			w.setAway(t, true)
			w.report(t, Deleted, nil)
		}
	}
	return false, nil
}

// open opens a regular file; any other file is an error. O_NONBLOCK is set because the
// open of a pipe would otherwise block the Watcher's only goroutine.
func open(path string) (*os.File, identity, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, identity{}, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(file.Fd()), &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, identity{}, err
	}
	return file, identify(&st), nil
}

func identify(st *unix.Stat_t) identity { return identity{uint64(st.Dev), uint64(st.Ino)} }

// readAt reads with one pread. os.File.ReadAt calls pread until b is full or the file
// ends, which would delay the lines that the first pread has read.
func readAt(file *os.File, b []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(int(file.Fd()), b, off)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// current reports whether the path still leads to the open file. The path must be
// checked: if a folder above the file's folder was renamed, the watch on the file's
// folder still reports events under the old path.
func (t *tail) current() bool {
	var st unix.Stat_t
	return unix.Stat(t.Path, &st) == nil && identify(&st) == t.id
}

// replace delivers the rest of the old file, and follows file from then on.
func (w *Watcher) replace(t *tail, file *os.File, id identity) {
	if t.file == nil {
		t.file, t.id = file, id
		w.recover(t)
		w.place(t)
		return
	}
	w.read(t, true)
	t.close()
	t.restart()
	t.file, t.id = file, id
	if !t.away {
		w.report(t, Replaced, nil)
	}
	w.recover(t)
}

// recover reports that a file can be read again, after Deleted or Unreadable was
// reported.
func (w *Watcher) recover(t *tail) {
	if t.away || t.failed {
		w.report(t, Recovered, nil)
	}
	w.setAway(t, false)
	t.failed = false
}

func (w *Watcher) setAway(t *tail, away bool) {
	switch {
	case away && !t.away:
		w.away = append(w.away, t)
	case !away && t.away:
		w.away = slices.DeleteFunc(w.away, func(o *tail) bool { return o == t })
	}
	t.away = away
}

func (w *Watcher) unreadable(t *tail, err error) {
	if !t.failed {
		t.failed = true
		w.report(t, Unreadable, err)
	}
}

// place sets the position at which reading begins in the first file that is found at
// the path. It has no effect on files that replace this file later.
func (w *Watcher) place(t *tail) {
	if t.placed {
		return
	}
	t.placed = true
	info, err := t.file.Stat()
	if err != nil {
		return // reading fails too and reports the error
	}
	if t.From == nil {
		defer w.placed(t)
	}
	switch from := t.From; {
	case from == nil && t.AtEnd && t.Form == Values:
		t.quiet = info.Size() // t.off stays 0, because only a scan from the start finds where the last whole value ends
	case from == nil && t.AtEnd:
		t.off = w.lastLine(t.file, info.Size())
		t.head = w.readHead(t, min(t.off, headSize))
		w.ends(t, readEnd(t.file, t.off, min(t.off, headSize)))
	case from == nil || from.Offset <= 0:
	default:
		head := w.readHead(t, min(from.Offset, headSize))
		if what := from.changed(t.file, t.id, info.Size(), head); what != "" {
			w.report(t, what, nil)
			return
		}
		t.off, t.head, t.prefix, t.end = from.Offset, head, from.Prefix, from.Last
	}
}

// placed calls Config.Placed with the position at which the reading of a file
// begins.
func (w *Watcher) placed(t *tail) {
	if w.cfg.Placed != nil && t.Form != Whole && t.Form != Stamp {
		w.cfg.Placed(t.Source, t.pos())
	}
}

// ends stores the digest of the last bytes before the position, if Config.Ends is
// set.
func (w *Watcher) ends(t *tail, b []byte) {
	if w.cfg.Ends {
		t.end = digest(b[max(0, len(b)-headSize):])
	}
}

// readEnd returns the n bytes before an offset, or fewer after an error.
func readEnd(file *os.File, off, n int64) []byte {
	b := make([]byte, n)
	got, _ := file.ReadAt(b, off-n)
	return b[:got]
}

// changed returns how a file differs from the file of the stored position; empty if
// it is the same file.
func (p Position) changed(file *os.File, id identity, size int64, head []byte) TroubleKind {
	switch {
	case id != identity{p.Dev, p.Ino}:
		return Replaced
	case size < p.Offset:
		return Truncated
	case digest(head) != p.Prefix:
		return Replaced
	}
	count, _, _ := strings.Cut(p.Last, ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err == nil && (n < 0 || n > min(p.Offset, headSize) || digest(readEnd(file, p.Offset, n)) != p.Last) {
		return Replaced
	}
	return ""
}

// Changed returns what happened to the file since the position was stored: Deleted,
// Unreadable, Truncated or Replaced; empty if reading can resume there.
func (p Position) Changed() TroubleKind {
	file, id, err := open(p.Path)
	if missing(err) && p.Ino == 0 {
		return "" // the file does not exist, and did not exist when the position was stored
	}
	if missing(err) {
		return Deleted
	}
	if err != nil {
		return Unreadable
	}
	defer file.Close()
	if p.Offset <= 0 {
		return ""
	}
	info, err := file.Stat()
	if err != nil {
		return Unreadable
	}
	head := make([]byte, min(p.Offset, headSize))
	n, _ := file.ReadAt(head, 0) // an error shortens the head, so that its digest differs from p.Prefix
	return p.changed(file, id, info.Size(), head[:n])
}

// readHead returns the first n bytes of the open file, or fewer after an error, in a new
// slice.
func (w *Watcher) readHead(t *tail, n int64) []byte {
	n2, _ := t.file.ReadAt(w.headBuf[:n], 0) // an error shortens the head, so that its digest differs from a stored one
	return bytes.Clone(w.headBuf[:n2])
}

// lastLine returns the end of the last whole line before size. A partial line at
// the end is delivered when it is whole.
func (w *Watcher) lastLine(file *os.File, size int64) int64 {
	w.makeBuffer()
	for end := size; end > 0; {
		start := max(0, end-int64(len(w.buf)))
		n, _ := file.ReadAt(w.buf[:end-start], start)
		if i := bytes.LastIndexByte(w.buf[:n], '\n'); i >= 0 {
			return start + int64(i) + 1
		}
		end = start
	}
	return 0
}

func (w *Watcher) makeBuffer() {
	if w.buf == nil {
		w.buf = make([]byte, chunk)
	}
}

// read delivers the whole lines between the position and the end of the open
// file. It reports whether it stopped before the end, because its turn is over.
// If all is set, it reads to the present end of the file in one turn.
//
// A partial line is not stored. It is read again together with its rest, so that
// a delivered line was in the file as a whole at one time, even if its writer
// changed the partial line. If a partial line fills half of the buffer, read first
// looks for its end, so that a long line is not read again for each of its pieces.
func (w *Watcher) read(t *tail, all bool) bool {
	w.makeBuffer()
	until := t.off + ahead
	if t.behind {
		until = t.off + turn
	}
	if all {
		info, err := t.file.Stat()
		if err != nil {
			w.unreadable(t, err)
			return false
		}
		until = info.Size()
		t.pending = 0 // read all of the partial line again, in case it has changed
	}
	for first := true; ; first = false {
		if t.pending > int64(len(w.buf)/2) {
			search := w.search
			if t.Form == Values {
				search = w.searchValue
			}
			if found, more := search(t, until); !found {
				return more && !all
			}
		}
		n, err := readAt(t.file, w.buf, t.off)
		if err != nil {
			w.unreadable(t, err)
			return false
		}
		// This is the end of the file: only the known partial line is left.
		if !first && int64(n) <= t.pending {
			return false
		}
		// Check after the read: a check before it would miss a change between the two.
		if !w.same(t, int64(n)) {
			continue
		}
		if n == 0 {
			return false
		}
		if t.Form == Values {
			w.splitValues(t, w.buf[:n])
		} else {
			w.split(t, w.buf[:n])
		}
		// Deliver may have made another goroutine ready to run. Gosched lets that
		// goroutine run at once; otherwise it would wait for another thread.
		runtime.Gosched()
		if t.off+t.pending >= until {
			return !all
		}
	}
}

// search reads a long partial line up to its newline, and makes the buffer large
// enough for the whole line. A line longer than the limit is skipped. If found is true,
// Watcher.read continues at the position. If more is true, the turn ended before the
// newline.
func (w *Watcher) search(t *tail, until int64) (found, more bool) {
	for {
		n, changed := w.readPending(t)
		if n == 0 {
			return changed, false
		}
		if i := bytes.IndexByte(w.buf[:n], '\n'); i >= 0 {
			size := t.pending + int64(i) + 1
			if size-1 > int64(w.cfg.MaxLine) {
				w.reportTooLong(t)
				w.skip(t, size)
				return true, false
			}
			if size > int64(len(w.buf)) {
				w.buf = make([]byte, size)
			}
			t.pending = 0
			return true, false
		}
		t.pending += int64(n)
		if t.pending > int64(w.cfg.MaxLine) {
			w.reportTooLong(t)
		}
		if t.off+t.pending >= until {
			return false, true
		}
	}
}

// readPending reads the bytes after the pending ones. It returns 0 at the end and
// after an error; changed means that the file became shorter or was replaced.
func (w *Watcher) readPending(t *tail) (n int, changed bool) {
	n, err := readAt(t.file, w.buf, t.off+t.pending)
	if err != nil {
		w.unreadable(t, err)
		return 0, false
	}
	if n > 0 {
		return n, false
	}
	was := t.pending
	same := w.same(t, 0)
	return 0, !same || t.pending != was
}

// reportTooLong reports once that the line at the position is skipped.
func (w *Watcher) reportTooLong(t *tail) {
	if t.tooLong {
		return
	}
	t.tooLong = true
	if t.Form == Whole {
		w.report(t, LineTooLong, fmt.Errorf("the content is longer than %d bytes", w.cfg.MaxLine))
		return
	}
	what, at := "line", t.off
	if t.Form == Values {
		what, at = "value", t.off+t.scan.start
	}
	w.report(t, LineTooLong, fmt.Errorf("the %s at byte %d is longer than %d bytes", what, at, w.cfg.MaxLine))
}

// same checks the open file after n bytes were read at the position. If the file became
// shorter than the position, or its first bytes changed, same reports the trouble, moves
// the position to the start of the file and returns false. If only a partial line was
// cut off, same reports that the file became shorter, and keeps the position.
func (w *Watcher) same(t *tail, n int64) bool {
	if n == 0 || n < t.pending {
		info, err := t.file.Stat()
		if err == nil && info.Size() < t.off {
			w.report(t, Truncated, nil)
			t.restart()
			return false
		}
		if err == nil && info.Size() < t.off+t.pending {
			w.report(t, Truncated, nil)
			t.pending, t.tooLong = 0, false
		}
	}
	if len(t.head) == 0 {
		return true
	}
	m, err := readAt(t.file, w.headBuf[:len(t.head)], 0)
	if err != nil || bytes.Equal(w.headBuf[:m], t.head) {
		return true
	}
	w.report(t, Replaced, nil)
	t.restart()
	return false
}

// split delivers the whole lines of b, the bytes of the file from t.off on, and
// moves t.off to the end of these lines.
func (w *Watcher) split(t *tail, b []byte) {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		if free := headSize - len(t.head); free > 0 {
			t.head = append(t.head, b[:min(i+1, free)]...)
			t.prefix = ""
		}
		if i > w.cfg.MaxLine {
			w.reportTooLong(t)
			t.off += int64(i) + 1
		} else {
			t.off += int64(i) + 1
			w.ends(t, b[:i+1])
			w.cfg.Deliver(Line{Source: t.Source, Path: t.Path, Text: b[:i:i], Pos: t.pos()})
		}
		t.tooLong = false
		b = b[i+1:]
	}
	t.pending = int64(len(b))
	if len(b) > w.cfg.MaxLine {
		w.reportTooLong(t)
	}
}

// readWhole delivers the content of a Whole file, if it differs from the last
// content. It opens the file each time, because most writers replace it.
func (w *Watcher) readWhole(t *tail) error {
	first := !t.placed
	t.placed = true
	if first && t.From != nil {
		t.prefix = t.From.Prefix
	}
	file, id, err := open(t.Path)
	if missing(err) {
		w.gone(t)
		return nil
	}
	if err != nil {
		w.unreadable(t, err)
		return err
	}
	defer file.Close()
	w.makeBuffer()
	n, err := w.readAll(file)
	if err != nil {
		w.unreadable(t, err)
		return err
	}
	w.recover(t)
	if n > w.cfg.MaxLine {
		w.reportTooLong(t)
		return nil
	}
	t.tooLong = false
	text := w.buf[:n]
	if !complete(text) {
		return nil // the writer has not finished; after its next write the file is read again
	}
	prefix := digest(text)
	if prefix == t.prefix {
		return nil
	}
	t.id, t.off, t.prefix = id, int64(n), prefix
	if first && t.AtEnd && t.From == nil {
		return nil
	}
	w.cfg.Deliver(Line{Source: t.Source, Path: t.Path, Text: text, Pos: t.pos()})
	return nil
}

// readStamp delivers the time of a file's last change, if the time, the size or the
// identity of the file differs from the stored one. It does not open the file: the
// content is private.
func (w *Watcher) readStamp(t *tail) error {
	first := !t.placed
	t.placed = true
	if first && t.From != nil {
		t.id, t.off, t.prefix = identity{t.From.Dev, t.From.Ino}, t.From.Offset, t.From.Prefix
	}
	var st unix.Stat_t
	err := unix.Stat(t.Path, &st)
	if missing(err) {
		w.gone(t)
		return nil
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fmt.Errorf("%s is not a regular file", t.Path)
	}
	if err != nil {
		w.unreadable(t, err)
		return err
	}
	w.recover(t)
	at := time.Unix(st.Mtim.Unix()).UTC().Format(time.RFC3339Nano)
	id, size := identify(&st), st.Size
	if at == t.prefix && size == t.off && id == t.id {
		return nil
	}
	t.id, t.off, t.prefix = id, size, at
	if first && t.AtEnd && t.From == nil {
		return nil
	}
	w.cfg.Deliver(Line{Source: t.Source, Path: t.Path, Text: []byte(at), Pos: t.pos()})
	return nil
}

// gone delivers, once, that a Whole or Stamp file was removed. It does nothing if the
// watcher has not seen the complete file before.
func (w *Watcher) gone(t *tail) {
	if t.prefix == "" {
		return
	}
	t.restart()
	w.cfg.Deliver(Line{Source: t.Source, Path: t.Path, Pos: Position{Path: t.Path}, Gone: true})
}

// readAll reads a file into the buffer. It may stop before the end once it has read
// more than MaxLine.
func (w *Watcher) readAll(file *os.File) (int, error) {
	for n := 0; ; {
		m, err := file.ReadAt(w.buf[n:], int64(n))
		n += m
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if n > w.cfg.MaxLine {
			return n, nil
		}
		w.buf = append(w.buf, make([]byte, len(w.buf))...)
	}
}

// complete reports whether content looks complete: it is not empty, and if it
// begins like a JSON object or array, it is valid JSON.
func complete(text []byte) bool {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return false
	}
	if text[0] != '{' && text[0] != '[' {
		return true
	}
	return json.Valid(text)
}
