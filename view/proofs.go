package view

import (
	"slices"

	"lifeloop/kernel"
)

// Proofs are the capabilities that worked in a session with versions of harnesses
// that we have not tested. Its zero value is ready for use.
type Proofs struct {
	list   []Proof
	before []string // capabilities that earlier sessions have proven for the version of the newest launch
	early  []string // the harness's events in the newest launch that were not in p.before when they occurred; an event is named like its capability
}

// A Proof lists the capabilities that worked with one version.
type Proof struct {
	Adapter, Version string
	Capabilities     []string
}

// All lists one Proof for each report of an untested version, in order.
func (p *Proofs) All() []Proof { return p.list }

// Apply adds one fact.
func (p *Proofs) Apply(e kernel.Entry) {
	switch f := e.Fact.(type) {
	case kernel.Launching:
		p.before, p.early = nil, nil // a new launch, whose version is not known yet
	case kernel.VersionSeen:
		if len(f.Unproven)+len(f.Before)+len(f.Here) > 0 {
			worked := slices.DeleteFunc(slices.Clone(f.Before), func(c string) bool { return !slices.Contains(p.early, c) })
			p.list = append(p.list, Proof{Adapter: f.Adapter, Version: f.Version, Capabilities: append(worked, f.Here...)})
		}
		p.before = f.Before
	case kernel.CapabilityProven:
		p.add(f.Capability)
	case kernel.Observed:
		c := string(f.Record.Event)
		switch {
		case !f.ByHarness():
		case slices.Contains(p.before, c):
			p.add(c)
		case !slices.Contains(p.early, c):
			p.early = append(p.early, c)
		}
	}
}

func (p *Proofs) add(capability string) {
	if n := len(p.list); n > 0 && !slices.Contains(p.list[n-1].Capabilities, capability) {
		p.list[n-1].Capabilities = append(p.list[n-1].Capabilities, capability)
	}
}
