package negotiate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/lifeloop"
)

const (
	developer = lifeloop.DeveloperEquivalentFrame
	prompt    = lifeloop.PrePromptFrame
	side      = lifeloop.SideChannelContext
	receipt   = lifeloop.ReceiptOnly

	session  = lifeloop.PreSession
	leading  = lifeloop.PreFrameLeading
	trailing = lifeloop.PreFrameTrailing
	tool     = lifeloop.ToolResult
	person   = lifeloop.ManualOperator
)

// slots holds the placement claims of a manifest.
type slots map[lifeloop.Placement]lifeloop.PlacementClaim

func slot(s lifeloop.Support, seen lifeloop.SeenAs) lifeloop.PlacementClaim {
	limit := int64(100)
	return lifeloop.PlacementClaim{Support: s, MaxBytes: &limit, SeenAs: seen}
}

// The claims of three harnesses. In the first, the model sees context from
// hooks as developer text; in the second, as user text; the third has no hooks.
var (
	asDeveloper = slots{session: slot(native, "developer"), trailing: slot(native, "developer"), tool: slot(native, "developer")}
	asUser      = slots{session: slot(native, "user"), trailing: slot(partial, "user"), tool: slot(native, "user")}
	nothing     = slots{person: slot(manual, "")}
)

func payload(size int, acceptable ...lifeloop.AcceptablePlacement) lifeloop.PayloadEnvelope {
	body := lifeloop.NewOpaque(strings.Repeat("x", size))
	return lifeloop.PayloadEnvelope{Body: &body, ByteSize: int64(size), AcceptablePlacements: acceptable}
}

func ask(p lifeloop.PayloadPlacement, r lifeloop.Requirement) lifeloop.AcceptablePlacement {
	return lifeloop.AcceptablePlacement{Placement: p, Requirement: r}
}

func TestPlacement(t *testing.T) {
	reference := "blob:a-large-thing"
	byReference := payload(0, ask(prompt, required))
	byReference.Body, byReference.BodyRef, byReference.ByteSize = nil, &reference, 1<<30

	for _, c := range []struct {
		name    string
		slots   slots
		payload lifeloop.PayloadEnvelope
		want    Placed
	}{
		{"a developer frame, where every hook speaks as the developer",
			asDeveloper, payload(100, ask(developer, required)),
			Placed{Required: true, Candidates: []Candidate{{developer, session, native}, {developer, trailing, native}, {developer, tool, native}}}},
		{"a developer frame, where the session's start is the user's text",
			asUser, payload(100, ask(developer, preferred)),
			Placed{Candidates: []Candidate{{developer, session, partial}}}},
		{"before the prompt: the leading edge first, the trailing one else",
			slots{leading: slot(synthesized, ""), trailing: slot(native, "")}, payload(1, ask(prompt, required)),
			Placed{Required: true, Candidates: []Candidate{{prompt, leading, synthesized}, {prompt, trailing, native}}}},
		{"before the prompt, on a partial slot: it places all the same",
			asUser, payload(1, ask(prompt, required)),
			Placed{Required: true, Candidates: []Candidate{{prompt, trailing, partial}}}},
		{"a side channel",
			asUser, payload(1, ask(side, optional)),
			Placed{Candidates: []Candidate{{side, tool, native}}}},
		{"the client's order, not ours",
			asDeveloper, payload(1, ask(side, optional), ask(prompt, required)),
			Placed{Required: true, Candidates: []Candidate{{side, tool, native}, {prompt, trailing, native}}}},
		{"an unavailable alternative is passed over, though it was the required one",
			slots{tool: slot(native, "")}, payload(1, ask(prompt, required), ask(side, optional)),
			Placed{Required: true, Candidates: []Candidate{{side, tool, native}}}},
		{"receipt_only needs no slot",
			nothing, payload(1, ask(receipt, required)),
			Placed{Required: true, ReceiptOnly: true}},
		{"receipt_only after a slot that will never open",
			nothing, payload(1, ask(prompt, preferred), ask(receipt, optional)),
			Placed{ReceiptOnly: true}},
		{"receipt_only first: nothing behind it is ever chosen",
			asDeveloper, payload(1, ask(receipt, optional), ask(prompt, required)),
			Placed{Required: true, ReceiptOnly: true}},
		{"nowhere, and it was required",
			nothing, payload(1, ask(prompt, required), ask(developer, preferred)),
			Placed{Required: true, Failure: lifeloop.PlacementUnavailable}},
		{"no placement, and none is required",
			nothing, payload(1, ask(side, optional)),
			Placed{Failure: lifeloop.PlacementUnavailable}},
		{"a person's surface takes no payload of itself",
			slots{session: slot(manual, ""), trailing: slot(manual, ""), person: slot(native, "")}, payload(1, ask(developer, required), ask(prompt, required)),
			Placed{Required: true, Failure: lifeloop.PlacementUnavailable}},
		{"just too large",
			asDeveloper, payload(101, ask(prompt, required)),
			Placed{Required: true, Failure: lifeloop.PayloadTooLarge}},
		{"too large for one class and not for the next",
			slots{leading: slot(native, ""), trailing: {Support: native}}, payload(101, ask(prompt, required)),
			Placed{Required: true, Candidates: []Candidate{{prompt, trailing, native}}}},
		{"a reference is as large as itself",
			asDeveloper, byReference,
			Placed{Required: true, Candidates: []Candidate{{prompt, trailing, native}}}},
		{"no acceptable placement at all",
			asDeveloper, payload(1),
			Placed{Failure: lifeloop.PlacementUnavailable}},
		{"a manifest that says nothing",
			nil, payload(1, ask(developer, required)),
			Placed{Required: true, Failure: lifeloop.PlacementUnavailable}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, Placement(lifeloop.Manifest{Placement: c.slots}, c.payload))
		})
	}
}

// Placement returns a failure exactly if there is neither a candidate nor receipt_only.
// Every candidate occurs in the client's list and in the manifest.
func TestPlacementIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := slots{}
		for _, class := range lifeloop.Placements() {
			if rapid.Bool().Draw(t, "claimed") {
				claims[class] = slot(rapid.SampledFrom(lifeloop.Supports()).Draw(t, "support"), rapid.SampledFrom([]lifeloop.SeenAs{"", "user", "system", "developer"}).Draw(t, "voice"))
			}
		}
		var acceptable []lifeloop.AcceptablePlacement
		for _, p := range rapid.Permutation(lifeloop.PayloadPlacements()).Draw(t, "order")[:rapid.IntRange(0, 4).Draw(t, "count")] {
			acceptable = append(acceptable, ask(p, rapid.SampledFrom(requirements()).Draw(t, "requirement")))
		}
		p := payload(rapid.IntRange(0, 200).Draw(t, "size"), acceptable...)
		placed := Placement(lifeloop.Manifest{Placement: claims}, p)

		if way := len(placed.Candidates) > 0 || placed.ReceiptOnly; way == (placed.Failure != "") {
			t.Fatalf("both a candidate and a failure, or neither: %+v", placed)
		}
		turn := 0
		for _, c := range placed.Candidates {
			for turn < len(acceptable) && acceptable[turn].Placement != c.Payload {
				turn++
			}
			if turn == len(acceptable) {
				t.Fatalf("%s is not in the client's order %v", c.Payload, acceptable)
			}
			claim := claims[c.Class]
			want := claim.Support
			if c.Payload == developer && claim.SeenAs == lifeloop.SeenAsUser { // user text supports a developer frame only partially
				want = partial
			}
			if want != c.Support || c.Support == manual || c.Support == unavailable || int64(p.Body.Len()) > *claim.MaxBytes {
				t.Fatalf("%+v is not what the manifest claims: %+v", c, claim)
			}
		}
	})
}
