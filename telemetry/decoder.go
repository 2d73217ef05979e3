package telemetry

import (
	"maps"

	"lifeloop/telemetry/scan"
)

// Waits is embedded by the decoders and dialects whose format says that the
// harness waits for the user.
type Waits struct{}

// ReportsWaiting is what the function of that name looks for.
func (Waits) ReportsWaiting() {}

// ReportsWaiting says whether a Decoder or a Dialect knows from its format that
// the harness waits for the user.
func ReportsWaiting(source any) bool {
	_, ok := source.(interface{ ReportsWaiting() })
	return ok
}

// A tally counts, by type, the records that a decoder passed over without
// knowing them. Types come from outside, so their number is bounded.
type Tally struct {
	seen map[string]int
	all  int
}

const (
	Malformed  = "malformed" // not a record of this format at all
	otherTypes = "other"     // what came after the first maxTypes types
	MaxTypes   = 64
)

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

// join is what was told by one thing, then by the other; mostly one of them is
// nothing.
func Join(first, then []Signal) []Signal {
	if len(first) == 0 {
		return then
	}
	return append(first, then...)
}
