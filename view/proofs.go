package view

import (
	"slices"

	"lifeloop/kernel"
)

// Proofs are the capabilities that a session saw working with versions of harnesses
// that were not tested. Its zero value is ready for use.
type Proofs struct {
	list   []Proof
	before []string // capabilities of the current version
}

// A Proof lists what was seen working with one version.
type Proof struct {
	Adapter, Version string
	Capabilities     []string
}

// All lists the versions in the order of their appearance.
func (p *Proofs) All() []Proof { return p.list }

// Apply folds one fact.
func (p *Proofs) Apply(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.Launching:
		p.before = nil // until its version is known
	case kernel.VersionSeen:
		if len(f.Unproven) > 0 || len(f.Before) > 0 {
			p.list = append(p.list, Proof{Adapter: f.Adapter, Version: f.Version})
		}
		p.before = f.Before
	case kernel.CapabilityProven:
		p.add(f.Capability)
	case kernel.Observed:
		if c := string(f.Record.Event); f.ByHarness() && slices.Contains(p.before, c) {
			p.add(c)
		}
	}
}

func (p *Proofs) add(capability string) {
	if n := len(p.list); n > 0 && !slices.Contains(p.list[n-1].Capabilities, capability) {
		p.list[n-1].Capabilities = append(p.list[n-1].Capabilities, capability)
	}
}
