package ledger

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/internal/durable"
)

// A badDisk calls the real disk until trip names an operation. That operation fails,
// before or after its work.
type badDisk struct {
	trip string
	ops  []string // the operations called after the fault
	bad  bool
}

func (d *badDisk) options() Options {
	return Options{
		SegmentBytes: 1000,
		open: func(path string, flag int) (segmentFile, error) {
			f, err := faulty(d, "open", func() (segmentFile, error) { return openSegment(path, flag) })
			if err != nil {
				return nil, err
			}
			return &badFile{f, d}, nil
		},
		syncDir: func(dir string) error {
			_, err := faulty(d, "syncdir", func() (struct{}, error) { return struct{}{}, durable.SyncDir(dir) })
			return err
		},
	}
}

// faulty calls work. If trip names op, it fails before or after work.
func faulty[T any](d *badDisk, op string, work func() (T, error)) (T, error) {
	var none T
	if d.bad {
		d.ops = append(d.ops, op)
	}
	switch d.trip {
	case op + " not done":
		d.bad = true
		return none, syscall.EIO
	case op + " done":
		d.bad = true
		if done, err := work(); err != nil {
			return done, err
		}
		return none, syscall.EIO
	}
	return work()
}

type badFile struct {
	segmentFile
	d *badDisk
}

func (f *badFile) Write(b []byte) (int, error) {
	switch f.d.trip {
	case "write part":
		f.d.bad = true
		n, _ := f.segmentFile.Write(b[:len(b)*2/3])
		return n, syscall.ENOSPC
	case "write short":
		f.d.bad = true
		n, _ := f.segmentFile.Write(b[:len(b)*2/3])
		return n, nil
	}
	return faulty(f.d, "write", func() (int, error) { return f.segmentFile.Write(b) })
}

func (f *badFile) Datasync() error {
	_, err := faulty(f.d, "sync", func() (struct{}, error) { return struct{}{}, f.segmentFile.Datasync() })
	return err
}

func (f *badFile) Close() error {
	if f.d.bad {
		return f.segmentFile.Close() // close the file even if the log is broken
	}
	_, err := faulty(f.d, "close", func() (struct{}, error) { return struct{}{}, f.segmentFile.Close() })
	return err
}

// TestFaultsInPairs checks that the log writes nothing after a failure, and that a
// new Open finds all acknowledged entries. Open may also find entries that were not
// acknowledged, but no part of an entry.
func TestFaultsInPairs(t *testing.T) {
	const acknowledged = 3
	for _, c := range []struct {
		trip    string
		roll    bool // the failing Append creates a segment
		entries uint64
		torn    bool
	}{
		{trip: "write not done", entries: 3},
		{trip: "write done", entries: 5},
		{trip: "write part", entries: 4, torn: true},
		{trip: "write short", entries: 4, torn: true},
		{trip: "sync not done", entries: 5},
		{trip: "sync done", entries: 5},
		{trip: "sync not done", roll: true, entries: 3},
		{trip: "sync done", roll: true, entries: 3},
		{trip: "close not done", roll: true, entries: 3},
		{trip: "close done", roll: true, entries: 3},
		{trip: "open not done", roll: true, entries: 3},
		{trip: "open done", roll: true, entries: 3},
		{trip: "syncdir not done", roll: true, entries: 3},
		{trip: "syncdir done", roll: true, entries: 3},
		{trip: "write part", roll: true, entries: 4, torn: true},
	} {
		t.Run(fmt.Sprintf("%s, roll %v", c.trip, c.roll), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "l")
			disk := &badDisk{}
			log := create(t, dir, disk.options())
			grow(t, log, acknowledged)

			if !c.roll {
				log.o.SegmentBytes = 1 << 20
			}
			records := []Record{record("uncertain", 4), record("uncertain", 5)}
			_, last := log.Last()
			disk.trip = c.trip
			_, err := log.Append(records, true)
			require.ErrorIs(t, err, ErrBroken)
			cause := err
			for range 2 {
				_, err := log.Append([]Record{record("after", 9)}, true)
				require.EqualError(t, err, cause.Error())
			}
			require.EqualError(t, syncs(log), cause.Error())
			if len(disk.ops) != 0 {
				t.Errorf("operations after the failure: %v", disk.ops)
			}
			if seq, digest := log.Last(); seq != acknowledged || digest != last {
				t.Errorf("Last() = %d %s after the failure, want the last acknowledged entry", seq, digest)
			}
			require.NoError(t, log.Close())

			log, rec := open(t, dir)
			if rec.Entries != c.entries || (rec.TornBytes > 0) != c.torn {
				t.Errorf("recovered %+v, want %d entries, torn %v", rec, c.entries, c.torn)
			}
			grow(t, log, 1)
			require.NoError(t, log.Close())
			report, err := Verify(dir)
			require.NoError(t, err)
			if report.Entries != c.entries+1 || report.TornBytes != 0 {
				t.Errorf("afterwards %+v", report)
			}
		})
	}
}

// The name of a new ledger's folder is in the folder above, and the name of its file in the
// folder itself. Create returns before the two are synced; Named, Append and Close wait.
func TestTheNamesOfANewLedger(t *testing.T) {
	for name, wait := range map[string]func(*Log) error{
		"Named":  (*Log).Named,
		"Append": func(l *Log) error { _, err := l.Append([]Record{record("first", 1)}, false); return err },
		"Close":  (*Log).Close,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "l")
			var synced []string
			release := make(chan struct{})
			log, err := Create(dir, Options{syncDir: func(of string) error {
				<-release
				synced = append(synced, of)
				return durable.SyncDir(of)
			}})
			require.NoError(t, err)
			close(release) // Create has returned, although no folder is synced yet
			require.NoError(t, wait(log))
			require.Equal(t, []string{filepath.Dir(dir), dir}, synced)
			_ = log.Close()
		})
		t.Run(name+" after a failure", func(t *testing.T) {
			log, err := Create(t.TempDir(), (&badDisk{trip: "syncdir not done"}).options())
			require.NoError(t, err)
			require.ErrorIs(t, wait(log), syscall.EIO)
			_ = log.Close()
		})
	}
	dir := filepath.Join(t.TempDir(), "l")
	require.NoError(t, create(t, dir, Options{}).Close())
	var synced []string
	log, _, err := Open(dir, Options{syncDir: func(of string) error { synced = append(synced, of); return nil }})
	require.NoError(t, err)
	require.NoError(t, log.Close())
	require.Equal(t, []string{filepath.Dir(dir), dir}, synced, "the process that created the ledger may have died before it synced")
}

func TestFaultsOfOpening(t *testing.T) {
	for _, trip := range []string{"open not done", "open done", "syncdir not done", "syncdir done"} {
		t.Run("create, "+trip, func(t *testing.T) {
			dir := t.TempDir()
			log, err := Create(dir, (&badDisk{trip: trip}).options())
			if err == nil { // the first Append waits for the sync of the folders
				_, err = log.Append([]Record{record("first", 1)}, false)
				require.ErrorIs(t, err, ErrBroken)
				require.NoError(t, log.Close())
				read, err := readAll(dir)
				require.NoError(t, err)
				require.Empty(t, read, "no entry was written")
			}
			require.ErrorIs(t, err, syscall.EIO)
			if Locked(dir) {
				t.Error("the lock is still held")
			}
			// Create succeeds now if no ledger was left, otherwise Open does.
			log, err = Create(dir, Options{})
			if err != nil {
				log, _, err = Open(dir, Options{})
			}
			require.NoError(t, err)
			grow(t, log, 1)
			require.NoError(t, log.Close())
		})
	}
	for _, trip := range []string{"open not done", "open done", "sync not done", "sync done", "syncdir not done", "syncdir done"} {
		t.Run("open, "+trip, func(t *testing.T) {
			dir := t.TempDir()
			log := create(t, dir, Options{})
			want := grow(t, log, 2)
			require.NoError(t, log.Close())
			_, _, err := Open(dir, (&badDisk{trip: trip}).options())
			require.ErrorIs(t, err, syscall.EIO)
			if errors.Is(err, ErrBroken) || Locked(dir) {
				t.Errorf("got %v, locked %v", err, Locked(dir))
			}
			read, err := readAll(dir)
			require.NoError(t, err)
			require.Equal(t, want, read)
		})
	}
}

// syncs makes all appended entries durable.
func syncs(log *Log) error {
	_, err := log.Append(nil, true)
	return err
}

func TestSyncFails(t *testing.T) {
	disk := &badDisk{}
	log := create(t, t.TempDir(), disk.options())
	grow(t, log, 1)
	disk.trip = "sync not done"
	require.ErrorIs(t, syncs(log), ErrBroken)
	disk.trip = ""
	_, err := log.Append([]Record{record("after", 2)}, false)
	require.ErrorIs(t, err, ErrBroken)
	require.ErrorIs(t, err, syscall.EIO)
}

func TestSyncOnlyIfDirty(t *testing.T) {
	disk := &badDisk{}
	log := create(t, t.TempDir(), disk.options())
	grow(t, log, 1)
	require.NoError(t, syncs(log))
	disk.trip = "sync not done"
	require.NoError(t, syncs(log), "nothing to sync")
	grow(t, log, 1)
	err := log.Close()
	require.ErrorIs(t, err, syscall.EIO, "Close must sync what Append did not")
}
