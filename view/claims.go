package view

import (
	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// Claims collects the evidence of one session about the claims of its adapter. Its
// zero value is ready for use.
type Claims struct {
	// Reported holds the events that the harness caused, and not the wrapper or a client.
	Reported map[lifeloop.Event]bool `json:"reported,omitempty"`
	// Changed holds the capabilities whose support changed in the newest launch.
	Changed map[string]Change `json:"changed,omitempty"`
}

// A Change has the support of a capability before its first change and after its
// last one, and the reason.
type Change struct {
	Before   lifeloop.Support `json:"before"`
	Now      lifeloop.Support `json:"now"`
	Evidence string           `json:"evidence"`
}

// Apply adds one fact.
func (c *Claims) Apply(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.Launching:
		c.Changed = nil // a new launch starts with the support in its manifest
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
