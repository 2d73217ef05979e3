package ledger

import (
	"errors"
	"fmt"
)

// ErrBroken is what every Append and Sync returns after the first that
// failed: what is on the disk is unknown, so nothing may be built on it. It
// comes wrapped together with the cause.
var ErrBroken = errors.New("ledger is broken")

// ErrTornTail ends a Read whose last line is unfinished: a crash left it so,
// or a writer is at work this moment. All entries before it were yielded.
var ErrTornTail = errors.New("ledger ends in mid-line")

// A CorruptError says where a ledger stops being what was written. Everything
// before that place fits together and can be read.
type CorruptError struct {
	Segment  string // file name, such as ledger-000001.jsonl
	Line     int    // of the segment, from 1; 0 when the segment as a whole is meant
	Offset   int64  // of the line's first byte in the segment
	Why      string
	Readable uint64 // seq of the last entry before the place; 0 if there is none
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
