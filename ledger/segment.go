package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"lifeloop/internal/durable"
)

// lockName does not contain "ledger", so that a pattern such as ledger* does not
// match it.
const lockName = "lock"

func segmentName(n int) string { return fmt.Sprintf("ledger-%06d.jsonl", n) }

func segmentPath(dir string, n int) string { return filepath.Join(dir, segmentName(n)) }

// segments lists the numbers of the segments in dir, in order. It ignores files of
// any other name.
func segments(dir string) ([]int, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, f := range files {
		var n int
		if _, err := fmt.Sscanf(f.Name(), "ledger-%d.jsonl", &n); err == nil && n > 0 && f.Name() == segmentName(n) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// Locked reports whether a writer has the ledger in dir open. It creates no file.
func Locked(dir string) bool { return durable.Locked(filepath.Join(dir, lockName)) }

// AwaitWriter waits until no process has the ledger in dir open for writing: until the
// writer has closed the ledger or has died. It cannot be interrupted.
func AwaitWriter(dir string) error { return durable.AwaitUnlock(filepath.Join(dir, lockName)) }

// Hold locks dir against writers until release is called. If a writer has it open,
// the error is *durable.LockedError.
func Hold(dir string) (release func(), err error) {
	lock, err := durable.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Unlock() }, nil
}

// Settle makes the present entries of the ledger in dir durable. A reader must call
// Settle before passing entries on. Entries can be read before their writer syncs
// them, and a crash of the machine could remove entries that were already passed
// on. Settle changes nothing and waits for no lock.
//
// Settle syncs only the last segment, because a writer syncs each segment before
// creating the next segment.
func Settle(dir string) error {
	if err := settle(dir); err != nil {
		return fmt.Errorf("sync ledger %s: %w", dir, err)
	}
	return nil
}

func settle(dir string) error {
	all, err := segments(dir)
	if err != nil || len(all) == 0 {
		return err
	}
	f, err := durable.Open(segmentPath(dir, all[len(all)-1]), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return durable.Datasync(f)
}

// A segmentFile is the segment being written. Tests replace it by one that fails.
type segmentFile interface {
	Write([]byte) (int, error)
	Datasync() error
	Close() error
}

type diskFile struct{ *os.File }

func (f diskFile) Datasync() error { return durable.Datasync(f.File) }

func openSegment(path string, flag int) (segmentFile, error) {
	f, err := durable.Open(path, os.O_WRONLY|os.O_APPEND|flag, 0o600)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}
