package negotiate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lifeloop/lifeloop"
)

// Stronger support of a capability never makes an outcome worse: of a capability, of a
// payload, or of the whole answer. Stronger support never causes a rejection
// (DECISIONS L5).
func TestStrongerSupportNeverHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, r := drawClaims(t), drawRequest(t)
		was := r.Against(m, 1)
		for _, name := range drawn() {
			for _, to := range lifeloop.Supports()[:slices.Index(lifeloop.Supports(), Support(m, name))] {
				noWorse(t, name+" "+string(to), was, r.Against(Weaken(m, name, to), 1))
			}
		}
	})
}

func noWorse(t *rapid.T, change string, was, is Answer) {
	if worse(was.Outcome, is.Outcome) != was.Outcome {
		t.Errorf("%s: overall %s became %s", change, was.Outcome, is.Outcome)
	}
	if was.Failure == "" && is.Failure != "" {
		t.Errorf("%s: rejected with %s", change, is.Failure)
	}
	for i, c := range is.Capabilities {
		if before := was.Capabilities[i].Outcome; worse(before, c.Outcome) != before {
			t.Errorf("%s: %+v: %s became %s", change, c.Want, before, c.Outcome)
		}
	}
	order := []lifeloop.Status{lifeloop.Failed, lifeloop.Skipped, lifeloop.Delivered}
	for i, p := range is.Placements {
		if before := was.Placements[i].Status; slices.Index(order, p.Status) < slices.Index(order, before) {
			t.Errorf("%s: payload %d: %s became %s", change, i, before, p.Status)
		}
	}
}

// drawClaims returns a manifest with random support for every capability.
func drawClaims(t *rapid.T) lifeloop.Manifest {
	support := func(of string) lifeloop.Support { return rapid.SampledFrom(lifeloop.Supports()).Draw(t, of) }
	m := full()
	m.LifecycleEvents = map[lifeloop.Event]lifeloop.EventClaim{lifeloop.SessionStarting: {Support: support("event")}}
	m.Placement = map[lifeloop.Placement]lifeloop.PlacementClaim{}
	for _, p := range lifeloop.Placements() {
		m.Placement[p] = slot(support(string(p)), rapid.SampledFrom([]lifeloop.SeenAs{"user", "developer"}).Draw(t, "seen as"))
	}
	m.Renewal = new(*m.Renewal)
	m.Renewal.Reset.Native = support("reset")
	m.Renewal.Profiles = rapid.SliceOfN(rapid.SampledFrom([]string{"handoff", "mirror"}), 0, 2).Draw(t, "profiles of the claim")
	return m
}

// drawn returns the capabilities that random requests name. They are few, so
// that requests often name the same ones.
func drawn() []string {
	names := []string{"renewal.reset.native", string(lifeloop.SessionStarting)}
	for _, p := range lifeloop.Placements()[:4] {
		names = append(names, placementPrefix+string(p))
	}
	return names
}

func drawRequest(t *rapid.T) (r Request) {
	for range rapid.IntRange(0, 4).Draw(t, "wants") {
		r.Capabilities = append(r.Capabilities, Want{
			Capability: rapid.SampledFrom(drawn()).Draw(t, "capability"), Level: rapid.SampledFrom(requirements()).Draw(t, "level"),
			Support: rapid.SampledFrom(Nameable()).Draw(t, "support"), AcceptPartial: rapid.Bool().Draw(t, "accept partial")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "payloads") {
		var acceptable []lifeloop.AcceptablePlacement
		for _, p := range rapid.Permutation(lifeloop.PayloadPlacements()).Draw(t, "order")[:rapid.IntRange(1, 4).Draw(t, "count")] {
			acceptable = append(acceptable, ask(p, rapid.SampledFrom(requirements()).Draw(t, "requirement")))
		}
		r.Payloads = append(r.Payloads, payload(rapid.IntRange(0, 120).Draw(t, "size"), acceptable...))
	}
	r.Profiles = rapid.SliceOfN(rapid.SampledFrom([]string{"handoff", "other"}), 0, 1).Draw(t, "profiles requested")
	return r
}
