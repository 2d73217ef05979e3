package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"lifeloop/internal/durable"
)

// lockName does not contain "ledger", so that no pattern for segments matches it.
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

// A segmentFile is the segment being written. Tests replace it by one that fails.
type segmentFile interface {
	Write([]byte) (int, error)
	Datasync() error
	Close() error
}

type diskFile struct{ *os.File }

func (f diskFile) Datasync() error { return durable.Datasync(f.File) }

func openSegment(path string, flag int) (segmentFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|flag, 0o600)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}
