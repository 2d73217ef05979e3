package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lifeloop/canon"
	"lifeloop/internal/durable"
)

// Options configure a ledger's writer. The zero value means the defaults.
type Options struct {
	// SegmentBytes is the largest size of a segment in bytes; 64 MiB if 0. A segment
	// may be larger only if a single Append wrote all its entries.
	SegmentBytes int64

	// The calls to the file system; tests replace them to inject failures.
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

// A Log is a ledger open for writing. One goroutine owns it. Readers use Read and
// Follow, in any goroutine or process.
type Log struct {
	dir  string
	o    Options
	lock *durable.FileLock

	file    segmentFile
	segment int
	size    int64 // the size of the current segment
	dirty   bool  // something was written since the last sync

	named chan error // the result of syncNames for a new ledger; nil once it was received

	last   link
	buf    []byte // the lines of one Append
	broken error  // the first failure, or fs.ErrClosed after Close; if set, nothing is written
}

// A Recovery is what Open or Recover found and cut off.
type Recovery struct {
	Entries   uint64       // intact entries
	Segments  int          // the number of segments
	Last      canon.Digest // the digest of the last entry; Genesis if there is none
	Segment   string       // the last segment's name
	TornBytes int64        // the length of the unfinished last line, which was cut off; 0 if there was none
}

// Create creates a ledger in dir, and the folder (0700) if it does not exist. If a
// ledger exists already, the error is fs.ErrExist; if another process has it open,
// *durable.LockedError.
//
// The disk needs some time to store the names of the new folder and file. Create does
// not wait for it: [Log.Named] does, and so does the first Append before it writes.
func Create(dir string, o Options) (*Log, error) {
	l := &Log{dir: dir, o: o.withDefaults(), last: genesis}
	if err := l.create(); err != nil {
		l.release()
		return nil, fmt.Errorf("create ledger %s: %w", dir, err)
	}
	return l, nil
}

func (l *Log) create() error {
	if err := durable.MkdirUnsynced(l.dir); err != nil {
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
		return fmt.Errorf("%s: %w", segmentName(there[0]), fs.ErrExist)
	}
	if err := l.begin(1); err != nil {
		return err
	}
	l.named = make(chan error, 1)
	go func() { l.named <- l.syncNames() }()
	return nil
}

// Named waits until the names of a new ledger's folder and file are durable. After an
// error the log cannot be used: see [ErrBroken].
func (l *Log) Named() error {
	if l.broken != nil {
		return l.brokenError()
	}
	if err := l.awaitNames(); err != nil {
		return l.breakWith(err)
	}
	return nil
}

// syncNames makes the names of the folder and of the segments in it durable.
func (l *Log) syncNames() error {
	return cmp.Or(l.o.syncDir(filepath.Dir(l.dir)), l.o.syncDir(l.dir))
}

// awaitNames waits until the names of a new ledger are durable.
func (l *Log) awaitNames() error {
	if l.named == nil {
		return nil
	}
	err := <-l.named
	l.named = nil
	return err
}

// Open opens the ledger in dir to append after the last whole entry. It reads and
// checks all entries; [Recovery] reports what it cut off. If the ledger is damaged,
// the error is *[CorruptError] and nothing is changed. If there is no ledger, the
// error is fs.ErrNotExist; if another process has it open, *durable.LockedError.
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
	// The process that wrote the last entries may have died before it synced them.
	// The caller acts on them, so they must be durable now.
	if err := l.file.Datasync(); err != nil {
		return rec, err
	}
	return rec, l.syncNames()
}

// Recover cuts an unfinished last line off the ledger in dir, like Open, and leaves
// the ledger closed. It does not repair any other damage: the *[CorruptError] names
// the place and the last intact entry, and Read still yields the intact entries.
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

// recoverTail reads the ledger and cuts off a torn tail. Afterwards the walker is
// at the end of the last segment.
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
	f, err := durable.Open(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// Last returns the last entry's seq and digest: 0 and Genesis if there is none.
func (l *Log) Last() (seq uint64, digest canon.Digest) { return l.last.seq, l.last.digest }

// Append writes the records in one write and returns the entries that a reader of the
// ledger will get. With sync, these and all earlier entries are durable when Append returns.
// A body in canonical form (canon.Marshal) costs the least, and its entry shares
// the body's memory.
//
// If a record is invalid (for example, its body is not a JSON object), Append writes
// nothing, and the log stays usable. After a failed write or sync the log cannot be
// used: see [ErrBroken].
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
	if err := l.awaitNames(); err != nil {
		return err
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

// roll closes the segment and creates the next segment. The old segment is durable before
// the new segment exists, so a reader of a segment can rely on all earlier segments.
func (l *Log) roll() error {
	if err := l.datasync(); err != nil {
		return err
	}
	file := l.file
	l.file = nil
	if err := file.Close(); err != nil {
		return err
	}
	if err := l.begin(l.segment + 1); err != nil {
		return err
	}
	return l.o.syncDir(l.dir)
}

func (l *Log) begin(segment int) error {
	file, err := l.o.open(segmentPath(l.dir, segment), os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	l.file, l.segment, l.size = file, segment, 0
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

// Close syncs, closes the file and unlocks the folder. Afterwards every Append and
// Close returns an error.
func (l *Log) Close() error {
	var err error
	if l.broken == nil {
		err = cmp.Or(l.awaitNames(), l.datasync())
	} else if errors.Is(l.broken, fs.ErrClosed) {
		return l.brokenError()
	}
	l.broken = fs.ErrClosed
	if err = cmp.Or(err, l.release()); err != nil {
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

// acquireExisting locks the folder. If the folder has no ledger, it returns an error
// and creates no lock file.
func (l *Log) acquireExisting() error {
	there, err := segments(l.dir)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return fmt.Errorf("no %s: %w", segmentName(1), fs.ErrNotExist)
	}
	return l.acquire()
}

// release closes the file and unlocks the folder, if they were acquired.
func (l *Log) release() error {
	var closed, unlocked error
	if l.file != nil {
		closed, l.file = l.file.Close(), nil
	}
	if l.lock != nil {
		unlocked, l.lock = l.lock.Unlock(), nil
	}
	return cmp.Or(closed, unlocked)
}
