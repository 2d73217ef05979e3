package negotiate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/lifeloop"
)

// TestCounts checks every level, and an unknown one, with every outcome.
func TestCounts(t *testing.T) {
	type cell struct {
		level lifeloop.Requirement
		came  Outcome
	}
	cells := map[cell]Outcome{
		{required, Satisfied}:        Satisfied,
		{required, Degraded}:         Degraded,
		{required, RequiresOperator}: RequiresOperator,
		{required, Unsupported}:      Unsupported,

		{preferred, Satisfied}:        Satisfied,
		{preferred, Degraded}:         Degraded,
		{preferred, RequiresOperator}: Degraded,
		{preferred, Unsupported}:      Degraded,

		{optional, Satisfied}:        Satisfied,
		{optional, Degraded}:         Satisfied,
		{optional, RequiresOperator}: Satisfied,
		{optional, Unsupported}:      Satisfied,

		{"mandatory", Satisfied}:        Satisfied,
		{"mandatory", Degraded}:         Degraded,
		{"mandatory", RequiresOperator}: RequiresOperator,
		{"mandatory", Unsupported}:      Unsupported,
	}
	for c, want := range cells {
		if got := counts(c.level, c.came); got != want {
			t.Errorf("%s and %s counts as %s, want %s", c.level, c.came, got, want)
		}
	}
	if want := (len(requirements()) + 1) * len(Outcomes()); len(cells) != want {
		t.Errorf("the table has %d cells of %d", len(cells), want)
	}
}

// threeSlots returns a manifest with three placement classes: a native one with
// a small size limit, a partial one, and a manual one.
func threeSlots() lifeloop.Manifest {
	small := int64(8)
	return lifeloop.Manifest{Placement: map[lifeloop.Placement]lifeloop.PlacementClaim{
		lifeloop.PreSession:       {Support: native, MaxBytes: &small},
		lifeloop.PreFrameTrailing: {Support: partial},
		lifeloop.ManualOperator:   {Support: manual},
	}}
}

func asking(body string, alternatives ...any) lifeloop.PayloadEnvelope {
	b := lifeloop.NewOpaque(body)
	p := lifeloop.PayloadEnvelope{PayloadID: "p", Body: &b, ByteSize: int64(len(body))}
	for i := 0; i < len(alternatives); i += 2 {
		p.AcceptablePlacements = append(p.AcceptablePlacements, lifeloop.AcceptablePlacement{
			Placement: alternatives[i].(lifeloop.PayloadPlacement), Requirement: alternatives[i+1].(lifeloop.Requirement)})
	}
	return p
}

func TestAgainst(t *testing.T) {
	const (
		now     = 1_800_000_000
		frame   = lifeloop.DeveloperEquivalentFrame // its slot is native and has a small size limit
		prompt  = lifeloop.PrePromptFrame           // its slot is partial
		side    = lifeloop.SideChannelContext       // no class provides this placement
		receipt = lifeloop.ReceiptOnly
	)
	gone := func(p lifeloop.PayloadEnvelope) lifeloop.PayloadEnvelope {
		at := int64(now)
		p.ExpiresAtEpochS = &at
		return p
	}
	settled := func(placement lifeloop.PayloadPlacement, s lifeloop.Status, f lifeloop.FailureClass) []Settlement {
		return []Settlement{{PayloadID: "p", Placement: placement, Status: s, Failure: f}}
	}
	for _, c := range []struct {
		name    string
		wants   []Want
		payload []lifeloop.PayloadEnvelope
		outcome Outcome
		settled []Settlement
		failure lifeloop.FailureClass
	}{
		{name: "nothing asked", outcome: Satisfied},
		{name: "required and there", wants: []Want{{Capability: "placement.pre_session", Level: required}}, outcome: Satisfied},
		{name: "required and partial", wants: []Want{{Capability: "placement.pre_frame_trailing", Level: required}},
			outcome: Degraded, failure: lifeloop.CapabilityUnsupported},
		{name: "required and by hand", wants: []Want{{Capability: "placement.manual_operator", Level: required}},
			outcome: RequiresOperator, failure: lifeloop.OperatorRequired},
		{name: "preferred and missing", wants: []Want{{Capability: "frame.opening", Level: preferred}}, outcome: Degraded},
		{name: "optional and missing", wants: []Want{{Capability: "frame.opening", Level: optional}}, outcome: Satisfied},
		{name: "the worst of several", wants: []Want{
			{Capability: "placement.pre_session", Level: required},
			{Capability: "frame.opening", Level: required},
			{Capability: "placement.manual_operator", Level: required},
		}, outcome: Unsupported, failure: lifeloop.CapabilityUnsupported},

		{name: "a slot for it", payload: []lifeloop.PayloadEnvelope{asking("note", frame, required)},
			outcome: Satisfied, settled: settled(frame, lifeloop.Delivered, "")},
		{name: "the second choice", payload: []lifeloop.PayloadEnvelope{asking("note", side, optional, frame, required)},
			outcome: Satisfied, settled: settled(frame, lifeloop.Delivered, "")},
		{name: "the second choice where the first was preferred", payload: []lifeloop.PayloadEnvelope{asking("note", side, preferred, frame, required)},
			outcome: Degraded, settled: settled(frame, lifeloop.Delivered, "")},
		{name: "too large for the first choice", payload: []lifeloop.PayloadEnvelope{asking("a long note", frame, required, receipt, optional)},
			outcome: Degraded, settled: settled(receipt, lifeloop.Delivered, "")},
		{name: "a partial slot", payload: []lifeloop.PayloadEnvelope{asking("note", prompt, required)},
			outcome: Degraded, settled: settled(prompt, lifeloop.Delivered, "")},
		{name: "a partial slot that is optional", payload: []lifeloop.PayloadEnvelope{asking("note", prompt, optional)},
			outcome: Satisfied, settled: settled(prompt, lifeloop.Delivered, "")},
		{name: "a partial slot that is accepted", payload: []lifeloop.PayloadEnvelope{asking("note", prompt, required)},
			wants:   []Want{{Capability: "placement.pre_frame_trailing", Level: preferred, AcceptPartial: true}},
			outcome: Satisfied, settled: settled(prompt, lifeloop.Delivered, "")},
		{name: "required and nowhere", payload: []lifeloop.PayloadEnvelope{asking("note", side, required)},
			outcome: Unsupported, settled: settled("", lifeloop.Failed, lifeloop.PlacementUnavailable), failure: lifeloop.PlacementUnavailable},
		{name: "required and too large", payload: []lifeloop.PayloadEnvelope{asking("a long note", frame, required)},
			outcome: Unsupported, settled: settled("", lifeloop.Failed, lifeloop.PayloadTooLarge), failure: lifeloop.PayloadTooLarge},
		{name: "required and expired", payload: []lifeloop.PayloadEnvelope{gone(asking("note", frame, required))},
			outcome: Unsupported, settled: settled("", lifeloop.Failed, lifeloop.PayloadRejected), failure: lifeloop.PayloadRejected},
		{name: "preferred and nowhere", payload: []lifeloop.PayloadEnvelope{asking("note", side, preferred)},
			outcome: Degraded, settled: settled("", lifeloop.Skipped, lifeloop.PlacementUnavailable)},
		{name: "preferred and expired", payload: []lifeloop.PayloadEnvelope{gone(asking("note", frame, preferred))},
			outcome: Degraded, settled: settled("", lifeloop.Skipped, lifeloop.PayloadRejected)},
		{name: "optional and nowhere", payload: []lifeloop.PayloadEnvelope{asking("note", side, optional)},
			outcome: Satisfied, settled: settled("", lifeloop.Skipped, lifeloop.PlacementUnavailable)},
		{name: "the tightest failure class wins", wants: []Want{{Capability: "placement.manual_operator", Level: required}},
			payload: []lifeloop.PayloadEnvelope{asking("a long note", frame, required)},
			outcome: Unsupported, settled: settled("", lifeloop.Failed, lifeloop.PayloadTooLarge), failure: lifeloop.PayloadTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := threeSlots()
			want := Answer{Outcome: c.outcome, Capabilities: Capabilities(m, c.wants), Placements: c.settled, Failure: c.failure}
			if want.Placements == nil {
				want.Placements = []Settlement{}
			}
			require.Equal(t, want, Request{Capabilities: c.wants, Payloads: c.payload}.Against(m, now))
		})
	}
}

// For any request the outcome and the failure agree as documented for Against. A larger
// request never gets a better outcome, if no want accepts partial support.
func TestAgainstIsTotal(t *testing.T) {
	levels := append(requirements(), "mandatory")
	rapid.Check(t, func(t *rapid.T) {
		m := threeSlots()
		var r Request
		best := Satisfied
		for range rapid.IntRange(0, 4).Draw(t, "asked") {
			if rapid.Bool().Draw(t, "want") {
				r.Capabilities = append(r.Capabilities, Want{
					Capability:    rapid.SampledFrom(Names(m)).Draw(t, "capability"),
					Level:         rapid.SampledFrom(levels).Draw(t, "level"),
					AcceptPartial: rapid.Bool().Draw(t, "accept partial"),
				})
			} else {
				var alternatives []any
				for range rapid.IntRange(0, 3).Draw(t, "alternatives") {
					alternatives = append(alternatives, rapid.SampledFrom(lifeloop.PayloadPlacements()).Draw(t, "placement"),
						rapid.SampledFrom(requirements()).Draw(t, "requirement"))
				}
				p := asking(rapid.StringN(0, 12, 12).Draw(t, "body"), alternatives...)
				if rapid.Bool().Draw(t, "expires") {
					at := rapid.Int64Range(0, 2).Draw(t, "expiry")
					p.ExpiresAtEpochS = &at
				}
				r.Payloads = append(r.Payloads, p)
			}
			a := r.Against(m, 1)
			if len(a.Capabilities) != len(r.Capabilities) || len(a.Placements) != len(r.Payloads) {
				t.Fatalf("%d and %d answers to %d wants and %d payloads", len(a.Capabilities), len(a.Placements), len(r.Capabilities), len(r.Payloads))
			}
			switch refused := a.Failure != ""; {
			case refused && a.Outcome == Satisfied, !refused && (a.Outcome == Unsupported || a.Outcome == RequiresOperator):
				t.Fatalf("outcome %s with refusal %q", a.Outcome, a.Failure)
			}
			for _, s := range a.Placements {
				if nowhere := s.Placement == ""; nowhere != (s.Failure != "") || nowhere != (s.Status != lifeloop.Delivered) {
					t.Fatalf("inconsistent settlement: %+v", s)
				}
			}
			if accepts := slices.ContainsFunc(r.Capabilities, func(w Want) bool { return w.AcceptPartial }); !accepts {
				if worse(best, a.Outcome) != a.Outcome {
					t.Fatalf("a larger request changed %s to %s", best, a.Outcome)
				}
				best = a.Outcome
			}
		}
	})
}
