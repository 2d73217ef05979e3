package telemetry

import (
	"maps"
	"time"

	"lifeloop/canon"
	"lifeloop/telemetry/scan"
)

// This file holds what the decoders of all harnesses share.

// A Tally counts, by type, the records that a decoder skipped because it does
// not know them. The types come from the harness's files, so their number must
// be limited.
type Tally struct {
	seen map[string]int
	all  int
}

const (
	// Malformed is the type that counts the records that do not have the source's
	// format.
	Malformed = "malformed"
	// MaxTypes bounds the types that a Tally counts separately.
	MaxTypes = 64

	otherTypes = "other" // counts all types after the first MaxTypes
)

// Miss counts a record of this type. A type that is not a word counts as Malformed.
func (t *Tally) Miss(kind string) {
	if t.seen == nil {
		t.seen = make(map[string]int)
	}
	if !scan.IsWord(kind) {
		kind = Malformed
	}
	if _, ok := t.seen[kind]; !ok && len(t.seen) >= MaxTypes {
		kind = otherTypes
	}
	t.seen[kind]++
	t.all++
}

// Missed implements Decoder.
func (t *Tally) Missed() int { return t.all }

// Unknown implements Decoder.
func (t *Tally) Unknown() map[string]int { return maps.Clone(t.seen) }

// Join appends one list of signals to another; usually one of them is empty.
func Join(first, then []Signal) []Signal {
	if len(first) == 0 {
		return then
	}
	return append(first, then...)
}

// Waits is embedded by the decoders and dialects whose format reports when the
// harness waits for the user.
type Waits struct{}

// ReportsWaiting marks the type for the function ReportsWaiting.
func (Waits) ReportsWaiting() {}

// ReportsWaiting reports whether the format of a Decoder or a Dialect shows
// when the harness waits for the user.
func ReportsWaiting(source any) bool {
	_, ok := source.(interface{ ReportsWaiting() })
	return ok
}

// Digesting makes a decoder report the digest and the size of a tool's arguments
// and results, as Args and Result, from the bytes that the source holds. Other decoders
// step over these bytes, which is faster. Digesting has no effect on a decoder whose
// source does not have these bytes.
func Digesting(d Decoder) Decoder {
	if s, ok := d.(interface{ digestTools() }); ok {
		s.digestTools()
	}
	return d
}

// Digests is embedded by the decoders that can report digests. Digesting turns the
// digests on.
type Digests struct{ wanted bool }

func (d *Digests) digestTools() { d.wanted = true }

// Sized returns SizedOf(text) if digests are wanted, else nil.
func (d *Digests) Sized(text []byte) *Sized {
	if !d.wanted {
		return nil
	}
	return SizedOf(text)
}

// SizedOf returns the digest and the size of a JSON value, computed from the bytes
// in the source. It returns nil for an absent value and for null.
func SizedOf(val []byte) *Sized {
	if len(val) == 0 || scan.IsNull(val) {
		return nil
	}
	return &Sized{Digest: string(canon.Sum(val)), Size: int64(len(val))}
}

// The values of Signal.ToolError, which the ledger stores. The words are those of the
// protocol L0 (docs/contract/l0.md).
const (
	ToolNotFound = "NOT_FOUND"
	ToolFailed   = "EXECUTION_ERROR"  // also used if the source does not report the kind of failure
	ToolRefused  = "VALIDATION_ERROR" // the tool does not accept these arguments
)

// ToolErrorOf returns the error of a call whose source reports only whether it
// failed.
func ToolErrorOf(failed bool) string {
	if failed {
		return ToolFailed
	}
	return ""
}

// A file decodes the changes of an activity file: a file of the harness whose
// changes show that the harness is alive. A record is the time of a change. The
// file's content is never read.
type file struct{ Tally }

// File returns a decoder of an activity file's modification times.
func File() Decoder { return new(file) }

func (d *file) Decode(record []byte) []Signal {
	at, err := time.Parse(time.RFC3339Nano, string(record))
	if err != nil {
		d.Miss(Malformed)
		return nil
	}
	return []Signal{{Kind: Alive, Source: "file", Detail: "changed", At: scan.InRange(at.UTC())}}
}
