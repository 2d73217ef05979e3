package kernel

import (
	"time"

	"lifeloop/synth"
	"lifeloop/telemetry"
)

// books hold the number of the session's model calls and the sum of their tokens. A
// changed sum is recorded at once at the end of a turn and of the session, and otherwise
// once a second:
//
//	usage signals ──► meter ──► usage_counted
type books struct {
	hard struct{ Usage synth.Usage } // the sum in the newest fact
	soft struct {
		meter   synth.Meter
		base    synth.Usage // the sum that earlier wrappers recorded, without the calls in meter
		changed bool        // the sum has changed since it was last recorded
		savedAt time.Time
		// recalled means that the meter was restored after a restart, with its
		// earlier counts.
		recalled bool
	}
}

type (
	// UsageCounted records the number of the session's model calls so far, and the sum
	// of their tokens.
	UsageCounted struct{ synth.Usage }
	// UnknownCounted records, for each type of record that a source's decoder does
	// not know, the number of such records so far.
	UnknownCounted struct {
		Source string         `json:"source"`
		Types  map[string]int `json:"types"`
	}
)

func (UsageCounted) key() (string, bool)   { return "usage_counted", false }
func (f UsageCounted) apply(k *Kernel)     { k.books.hard.Usage = f.Usage }
func (UnknownCounted) key() (string, bool) { return "unknown_counted", false }
func (UnknownCounted) apply(*Kernel)       {}

// saveEvery is the shortest time between two facts that record only a position or a
// sum.
const saveEvery = time.Second

// count adds the model call of a usage signal, if one of this session's harness
// sessions made it.
func (b *books) count(s *step, sig telemetry.Signal) {
	if sig.Kind == telemetry.UsageSeen && (sig.Session == "" || s.scopes.known(sig.Session)) && b.soft.meter.See(sig) {
		b.soft.changed = true
	}
}

func (b *books) save(s *step) {
	if b.soft.changed {
		b.soft.changed, b.soft.savedAt = false, s.now
		s.record(UsageCounted{b.soft.base.Plus(b.soft.meter.Total())})
	}
}

// recovered continues the sum of the previous wrapper. If the meter was restored (see
// recall), the calls in it are not counted twice.
func (b *books) recovered() {
	b.soft.base = b.hard.Usage
	if b.soft.recalled {
		total := b.soft.meter.Total()
		b.soft.base = b.hard.Usage.Less(total)
		b.soft.changed = b.soft.base.Plus(total) != b.hard.Usage // true if the last sum was not recorded
	}
}

// next returns the time at which a changed sum must be recorded; zero if the sum has
// not changed. The sum does not wait for the end of the turn, which a long tool call may
// delay.
func (b *books) next(*Kernel) (at time.Time) {
	if b.soft.changed {
		at = b.soft.savedAt.Add(saveEvery)
	}
	return at
}

func (b *books) wake(s *step) { b.save(s) }

// recall takes over the meter of past. After a crash, past was given the earlier
// records a second time (Kernel.Rehearsal). Calls whose records could not be read
// again are still counted in base.
func (b *books) recall(past *books) {
	b.soft.meter, b.soft.changed, b.soft.savedAt, b.soft.recalled = past.soft.meter, past.soft.changed, past.soft.savedAt, true
}
