package ledger

import (
	"errors"
	"fmt"
)

// ErrBroken is returned by an Append whose write or sync failed, and by every later
// Append, because the content of the disk is unknown. An Append after Close returns
// ErrBroken too. The returned error also wraps the cause: after Close, fs.ErrClosed.
var ErrBroken = errors.New("ledger can no longer be written")

// ErrTornTail is the error with which Read ends at an unfinished last line, which a
// crash or a write in progress leaves. All entries before that line were yielded.
var ErrTornTail = errors.New("ledger ends with an unfinished line")

// A CorruptError names the first damaged place of a ledger. The entries before it
// are intact and can be read.
type CorruptError struct {
	Segment  string // file name, such as ledger-000001.jsonl
	Line     int    // the number of the line in the segment, from 1; 0 for the segment as a whole
	Offset   int64  // the offset of the line's first byte in the segment
	Why      string
	Readable uint64 // seq of the last intact entry; 0 if there is none
}

func (e *CorruptError) Error() string {
	where := e.Segment
	if e.Line > 0 {
		where = fmt.Sprintf("%s line %d (offset %d)", e.Segment, e.Line, e.Offset)
	}
	if e.Readable == 0 {
		return fmt.Sprintf("%s: %s; no entry before it", where, e.Why)
	}
	return fmt.Sprintf("%s: %s; entries up to %d are readable", where, e.Why, e.Readable)
}
