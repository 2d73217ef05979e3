package ledger

import (
	"bytes"
	"fmt"
	"io/fs"
	"strconv"

	"lifeloop/canon"
	"lifeloop/internal/durable"
)

// An Extent is the size and the end of a ledger, measured without reading its entries.
// If two measurements of a ledger are equal, its entries did not change between them:
// every write to a segment, at any place in it, sets the time of its last change.
type Extent struct {
	Segments int          `json:"segments"`
	Size     int64        `json:"size"`    // the size of all segments, in bytes
	Changed  int64        `json:"changed"` // the last change of any segment's file (ctime), in nanoseconds
	Seq      uint64       `json:"seq"`     // the number of the last entry, or 0 if the ledger ends with something else, such as an unfinished line
	Last     canon.Digest `json:"last"`    // the digest that the last entry contains, not checked; if Seq is 0, the digest of the last bytes
}

// longestTail is more bytes than a line can have from its digest to its end.
const longestTail = 512

// Measure returns the extent of the ledger in dir. It reads only the end of the last
// segment, and checks no digest.
func Measure(dir string) (Extent, error) {
	all, err := segments(dir)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("no %s: %w", segmentName(1), fs.ErrNotExist)
	}
	var x Extent
	if err == nil {
		x, err = measure(dir, len(all))
	}
	if err != nil {
		return Extent{}, fmt.Errorf("measure ledger %s: %w", dir, err)
	}
	return x, nil
}

// Fits reports whether the ledger in dir still has the extent x.
func (x Extent) Fits(dir string) bool {
	if x.Segments < 1 {
		return false
	}
	if now, err := measure(dir, x.Segments); err != nil || now != x {
		return false
	}
	_, err := durable.StampOf(segmentPath(dir, x.Segments+1))
	return err != nil
}

func measure(dir string, segments int) (Extent, error) {
	x := Extent{Segments: segments}
	add := func(s durable.Stamp) {
		x.Size += s.Size
		x.Changed = max(x.Changed, s.Changed)
	}
	for n := range segments - 1 {
		s, err := durable.StampOf(segmentPath(dir, n+1))
		if err != nil {
			return x, err
		}
		add(s)
	}
	var buf [longestTail]byte
	end, s, err := durable.ReadTail(segmentPath(dir, segments), buf[:])
	if err != nil {
		return x, err
	}
	add(s)
	x.Last = canon.Sum(end)
	if seq, digest, ok := lastEntry(end); ok {
		x.Seq, x.Last = seq, digest
	}
	return x, nil
}

// lastEntry returns the number and the digest of the entry that ends a segment. It
// returns false if the segment ends with something else.
func lastEntry(end []byte) (seq uint64, digest canon.Digest, ok bool) {
	line, whole := bytes.CutSuffix(end, []byte("\n"))
	if !whole {
		return 0, "", false
	}
	rest := backward{line: line}
	t := rest.lineEnd()
	rest.word(`",`)
	digest = canon.Digest(rest.take(canon.DigestLen))
	rest.word(digestPiece)
	seq, err := strconv.ParseUint(string(t.seq), 10, 64)
	return seq, digest, !rest.bad && err == nil
}
