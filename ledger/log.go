package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lifeloop/canon"
	"lifeloop/internal/durable"
)

// Options say how a ledger is written. The zero value is right.
type Options struct {
	// SegmentBytes is the size at which a new segment is begun; 64 MiB if 0.
	// A segment is larger than that only if its first Append was.
	SegmentBytes int64

	// The disk, for tests of its failures.
	open    func(path string, flag int) (segmentFile, error)
	syncDir func(dir string) error
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.open == nil {
		o.open = openSegment
	}
	if o.syncDir == nil {
		o.syncDir = durable.SyncDir
	}
	return o
}

// A Log is a ledger open for writing. It belongs to one goroutine; readers use
// Read and Follow, from wherever they are.
type Log struct {
	dir  string
	o    Options
	lock *durable.FileLock

	file    segmentFile
	segment int
	size    int64 // of the segment
	dirty   bool  // something was written since the last sync

	last   link
	buf    []byte // the lines of one Append
	broken error  // the first failure; nothing is written after it
}

// A Recovery says what Open or Recover found and what they cut off.
type Recovery struct {
	Entries   uint64       // whole, sound entries
	Segments  int          // files
	Last      canon.Digest // of the last entry; Genesis if there is none
	Segment   string       // the last segment's name
	TornBytes int64        // cut off the end of Segment: a line that a crash left unfinished
}

// Create begins a ledger in dir, creating the folder (0700) if need be. Where
// a ledger is already, the error is fs.ErrExist; where another process is at
// work, *durable.LockedError.
func Create(dir string, o Options) (*Log, error) {
	l := &Log{dir: dir, o: o.withDefaults(), last: genesis}
	if err := l.create(); err != nil {
		l.release()
		return nil, fmt.Errorf("create ledger %s: %w", dir, err)
	}
	return l, nil
}

func (l *Log) create() error {
	if err := durable.Mkdir(l.dir); err != nil {
		return err
	}
	if err := l.acquire(); err != nil {
		return err
	}
	there, err := segments(l.dir)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%s is there: %w", segmentName(there[0]), fs.ErrExist)
	}
	return l.begin(1)
}

// Open continues the ledger in dir, after the last whole entry. It reads and
// checks all of it; see [Recovery] for what it cut off. Damage is refused with
// *[CorruptError], and nothing is changed then. Where there is no ledger, the
// error is fs.ErrNotExist; where another process is at work,
// *durable.LockedError.
func Open(dir string, o Options) (*Log, Recovery, error) {
	l := &Log{dir: dir, o: o.withDefaults()}
	rec, err := l.reopen()
	if err != nil {
		l.release()
		return nil, rec, fmt.Errorf("open ledger %s: %w", dir, err)
	}
	return l, rec, nil
}

func (l *Log) reopen() (Recovery, error) {
	if err := l.acquireExisting(); err != nil {
		return Recovery{}, err
	}
	w, rec, err := recoverTail(l.dir)
	if err != nil {
		return rec, err
	}
	l.segment, l.size, l.last = w.segment, w.offset, w.last
	if l.file, err = l.o.open(segmentPath(l.dir, l.segment), 0); err != nil {
		return rec, err
	}
	// The process that wrote the last entries may have died before it synced
	// them. Whoever opens the ledger acts on them, so they must be durable now.
	if err := l.file.Datasync(); err != nil {
		return rec, err
	}
	return rec, l.o.syncDir(l.dir)
}

// Recover does to the ledger in dir what Open would, and leaves it closed: it
// cuts off an unfinished last line. A broken link or other damage it does not
// touch; the *[CorruptError] says where it is and how far the entries are
// sound, and Read still yields those.
func Recover(dir string) (Recovery, error) {
	l := &Log{dir: dir}
	defer l.release()
	if err := l.acquireExisting(); err != nil {
		return Recovery{}, fmt.Errorf("recover ledger %s: %w", dir, err)
	}
	_, rec, err := recoverTail(dir)
	if err != nil {
		return rec, fmt.Errorf("recover ledger %s: %w", dir, err)
	}
	return rec, nil
}

// recoverTail reads the ledger and cuts a torn tail. The walker stands at the
// end of the last segment afterwards.
func recoverTail(dir string) (*walker, Recovery, error) {
	w := newWalker(dir)
	err := w.run(nil, func(Entry) bool { return true })
	rec := Recovery{Entries: w.last.seq, Segments: w.read, Last: w.last.digest, Segment: segmentName(w.segment)}
	if errors.Is(err, ErrTornTail) {
		rec.TornBytes = w.torn
		err = truncate(segmentPath(dir, w.segment), w.offset)
	}
	return w, rec, err
}

func truncate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// Last returns the place of the last entry: 0 and Genesis while there is none.
func (l *Log) Last() (seq uint64, digest canon.Digest) { return l.last.seq, l.last.digest }

// Append writes records in one write and returns them as entries, as a reader
// will get them. With sync they are durable when it returns, together with all
// that was appended before. A body that is canonical already (canon.Marshal)
// costs least, and the entry then shares its memory.
//
// A record that cannot be kept (its body is no JSON object, for instance) is
// refused before anything is written, and the log goes on. A write or a sync
// that fails breaks the log: see [ErrBroken].
func (l *Log) Append(records []Record, sync bool) ([]Entry, error) {
	if l.broken != nil {
		return nil, l.brokenError()
	}
	buf, last := l.buf[:0], l.last
	entries := make([]Entry, len(records))
	for i, r := range records {
		var err error
		if buf, entries[i], err = appendEntry(buf, last, r); err != nil {
			return nil, fmt.Errorf("append to ledger %s: record %d (%.80s): %w", l.dir, i, r.Kind, err)
		}
		last = link{entries[i].Seq, entries[i].Digest}
	}
	l.buf = buf
	if err := l.write(buf); err != nil {
		return nil, l.breakWith(err)
	}
	if sync {
		if err := l.datasync(); err != nil {
			return nil, l.breakWith(err)
		}
	}
	l.last = last
	return entries, nil
}

func (l *Log) write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	if l.size > 0 && l.size+int64(len(lines)) > l.o.SegmentBytes {
		if err := l.roll(); err != nil {
			return fmt.Errorf("begin %s: %w", segmentName(l.segment+1), err)
		}
	}
	l.dirty = true
	n, err := l.file.Write(lines)
	if err == nil && n < len(lines) {
		err = fmt.Errorf("%d of %d bytes written", n, len(lines))
	}
	l.size += int64(n)
	return err
}

// roll ends the segment and begins the next one. The old one is durable before
// the new name exists: a reader that finds a segment may rely on all before.
func (l *Log) roll() error {
	if err := l.datasync(); err != nil {
		return err
	}
	file := l.file
	l.file = nil
	if err := file.Close(); err != nil {
		return err
	}
	return l.begin(l.segment + 1)
}

func (l *Log) begin(segment int) error {
	file, err := l.o.open(segmentPath(l.dir, segment), os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	l.file, l.segment, l.size = file, segment, 0
	return l.o.syncDir(l.dir)
}

// Sync makes durable what was appended so far.
func (l *Log) Sync() error {
	if l.broken != nil {
		return l.brokenError()
	}
	if err := l.datasync(); err != nil {
		return l.breakWith(err)
	}
	return nil
}

func (l *Log) datasync() error {
	if !l.dirty {
		return nil
	}
	if err := l.file.Datasync(); err != nil {
		return err
	}
	l.dirty = false
	return nil
}

// Close syncs, closes the file and lets others have the folder. The log is
// broken afterwards; so is a second Close.
func (l *Log) Close() error {
	var err error
	if l.broken == nil {
		err = l.datasync()
	} else if errors.Is(l.broken, fs.ErrClosed) {
		return l.brokenError()
	}
	l.broken = fs.ErrClosed
	if rerr := l.release(); err == nil {
		err = rerr
	}
	if err != nil {
		return fmt.Errorf("close ledger %s: %w", l.dir, err)
	}
	return nil
}

func (l *Log) breakWith(cause error) error {
	l.broken = cause
	return l.brokenError()
}

func (l *Log) brokenError() error {
	return fmt.Errorf("ledger %s: %w: %w", l.dir, ErrBroken, l.broken)
}

func (l *Log) acquire() (err error) {
	l.lock, err = durable.Lock(filepath.Join(l.dir, lockName))
	return err
}

// acquireExisting leaves a folder alone that holds no ledger.
func (l *Log) acquireExisting() error {
	there, err := segments(l.dir)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return fmt.Errorf("there is no %s: %w", segmentName(1), fs.ErrNotExist)
	}
	return l.acquire()
}

// release gives back what the log holds, however far it came.
func (l *Log) release() error {
	var err error
	if l.file != nil {
		err = l.file.Close()
		l.file = nil
	}
	if l.lock != nil {
		if uerr := l.lock.Unlock(); err == nil {
			err = uerr
		}
		l.lock = nil
	}
	return err
}
