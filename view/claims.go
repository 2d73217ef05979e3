package view

import (
	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// Claims collects what one session has shown about the events and capabilities that
// its adapter claims. The zero value of Claims is ready for use.
type Claims struct {
	// Reported has each kind of event that the harness has caused. Events that the
	// wrapper or a client caused are not counted.
	Reported map[lifeloop.Event]bool `json:"reported,omitempty"`
	// Changed holds the capabilities whose support changed in the newest launch.
	Changed map[string]Change `json:"changed,omitempty"`
}

// A Change describes the changes of a capability's support in one launch. Before is
// the support before the first change and Now the support after the last change.
// Evidence is the reason of the last change.
type Change struct {
	Before   lifeloop.Support `json:"before"`
	Now      lifeloop.Support `json:"now"`
	Evidence string           `json:"evidence"`
}

// Apply adds one fact.
func (c *Claims) Apply(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.Launching:
		c.Changed = nil // at a new launch, each capability has the support in the adapter's manifest
	case kernel.CapabilityProven:
		c.change(f.Capability, lifeloop.Partial, f.Support, f.Source)
	case kernel.Observed:
		if f.ByHarness() {
			if c.Reported == nil {
				c.Reported = map[lifeloop.Event]bool{}
			}
			c.Reported[f.Record.Event] = true
		}
		if d := f.Degradation; d != nil {
			c.change(d.Capability, d.PreviousSupport, d.CurrentSupport, d.Evidence)
			for _, also := range f.Also {
				c.change(also.Capability, also.PreviousSupport, also.CurrentSupport, d.Evidence)
			}
		}
	}
}

func (c *Claims) change(capability string, before, now lifeloop.Support, evidence string) {
	if c.Changed == nil {
		c.Changed = map[string]Change{}
	}
	if known, changed := c.Changed[capability]; changed {
		before = known.Before
	}
	c.Changed[capability] = Change{before, now, evidence}
}
