package kernel

import (
	"time"

	"lifeloop/synth"
	"lifeloop/telemetry"
)

// books add up the model calls of the session. A change is recorded at once at
// the end of a turn and of the session, else once a second:
//
//	usage signals ──► meter ──► usage_counted
type books struct {
	hard struct{ Usage synth.Usage } // as it was recorded last
	soft struct {
		meter   synth.Meter
		base    synth.Usage // counted before the wrapper was restarted
		changed bool        // since it was recorded last
		savedAt time.Time
		// recalled says that the meter has counted what it had before a restart.
		recalled bool
	}
}

type (
	// UsageCounted records the sum of the session's model calls so far.
	UsageCounted struct{ synth.Usage }
	// UnknownCounted counts, by type, the records of a source so far that its
	// decoder does not know.
	UnknownCounted struct {
		Source string         `json:"source"`
		Types  map[string]int `json:"types"`
	}
)

func (UsageCounted) key() (string, bool)   { return "usage_counted", false }
func (f UsageCounted) apply(k *Kernel)     { k.books.hard.Usage = f.Usage }
func (UnknownCounted) key() (string, bool) { return "unknown_counted", false }
func (UnknownCounted) apply(*Kernel)       {}

// saveEvery bounds how often a position or a sum is recorded for its own sake.
const saveEvery = time.Second

// count adds a model call, if it was made for a session of this run.
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

// recovered continues the sum of the previous wrapper. What the meter has recalled
// of it is not counted twice.
func (b *books) recovered() {
	b.soft.base = b.hard.Usage
	if b.soft.recalled {
		total := b.soft.meter.Total()
		b.soft.base = b.hard.Usage.Less(total)
		b.soft.changed = b.soft.base.Plus(total) != b.hard.Usage // the last sum was not recorded
	}
}

// next is due during a long tool call too, so that its usage is on the books
// before it ends.
func (b *books) next(*Kernel) (at time.Time) {
	if b.soft.changed {
		at = b.soft.savedAt.Add(saveEvery)
	}
	return at
}

func (b *books) wake(s *step) { b.save(s) }

// recall takes over the meter. Calls of records that could not be read again stay
// in the base.
func (b *books) recall(past *books) {
	b.soft.meter, b.soft.changed, b.soft.savedAt, b.soft.recalled = past.soft.meter, past.soft.changed, past.soft.savedAt, true
}
