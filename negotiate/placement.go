package negotiate

import (
	"slices"

	"lifeloop/lifeloop"
)

// A Candidate is one way to place a payload: the placement that the client
// accepts and the manifest class that gives it.
type Candidate struct {
	Payload lifeloop.PayloadPlacement `json:"placement"`
	Class   lifeloop.Placement        `json:"class"`
	Support lifeloop.Support          `json:"support"`
}

// Placed says where a payload can go.
type Placed struct {
	// Candidates are in the client's order: the first whose slot is open takes
	// the payload.
	Candidates []Candidate `json:"candidates,omitempty"`
	// ReceiptOnly says that the client accepts receipt_only after the
	// candidates; it needs no slot.
	ReceiptOnly bool `json:"receipt_only,omitempty"`
	// Failure says why the payload can go nowhere. It is empty where there is
	// a candidate or receipt_only will do.
	Failure lifeloop.FailureClass `json:"failure_class,omitempty"`
	// Required says that an acceptable placement was required, so that going
	// nowhere fails the operation and is not merely skipped.
	Required bool `json:"required,omitempty"`
}

// classes lists the manifest classes that give a payload placement, best first
// (DECISIONS L6). pre_prompt_frame is "prepended before the next user or task
// prompt", which is the leading edge; where there is only a trailing one the
// evidence of the receipt says so.
func classes(p lifeloop.PayloadPlacement) []lifeloop.Placement {
	switch p {
	case lifeloop.DeveloperEquivalentFrame:
		return []lifeloop.Placement{lifeloop.PreSession, lifeloop.PreFrameLeading, lifeloop.PreFrameTrailing, lifeloop.ToolResult}
	case lifeloop.PrePromptFrame:
		return []lifeloop.Placement{lifeloop.PreFrameLeading, lifeloop.PreFrameTrailing}
	case lifeloop.SideChannelContext:
		return []lifeloop.Placement{lifeloop.ToolResult}
	}
	return nil
}

// gives reports whether a class, by its claim, gives the payload placement:
// every later class stands in for a developer frame only where the model sees
// what is put there as developer or system text.
func gives(claim lifeloop.PlacementClaim, class lifeloop.Placement, asked lifeloop.PayloadPlacement) bool {
	if asked != lifeloop.DeveloperEquivalentFrame || class == lifeloop.PreSession {
		return true
	}
	return claim.SeenAs == lifeloop.SeenAsDeveloper || claim.SeenAs == lifeloop.SeenAsSystem
}

// Placement finds the ways in which the manifest can ever place the payload.
// Partial support places: the receipt names the weaker support. Manual support
// does not: nobody is there to carry the payload in.
func Placement(m lifeloop.Manifest, p lifeloop.PayloadEnvelope) Placed {
	placed := Placed{
		Required: slices.ContainsFunc(p.AcceptablePlacements, func(a lifeloop.AcceptablePlacement) bool {
			return a.Requirement == lifeloop.Required
		}),
	}
	size, tooLarge := carried(p), false
	for _, a := range p.AcceptablePlacements {
		if a.Placement == lifeloop.ReceiptOnly {
			// Always satisfiable, so nothing behind it is ever chosen.
			placed.ReceiptOnly = true
			break
		}
		for _, class := range classes(a.Placement) {
			claim := m.Placement[class]
			switch {
			case !gives(claim, class, a.Placement) || !places(claim.Support):
			case claim.MaxBytes != nil && size > *claim.MaxBytes:
				tooLarge = true
			default:
				placed.Candidates = append(placed.Candidates, Candidate{a.Placement, class, claim.Support})
			}
		}
	}
	switch {
	case len(placed.Candidates) > 0 || placed.ReceiptOnly:
	case tooLarge:
		placed.Failure = lifeloop.PayloadTooLarge
	default:
		placed.Failure = lifeloop.PlacementUnavailable
	}
	return placed
}

func places(s lifeloop.Support) bool {
	return s == lifeloop.Native || s == lifeloop.Synthesized || s == lifeloop.Partial
}

// carried is how many bytes of the payload lie in the slot: its body as it
// travels, or only the reference to it, which nobody follows.
func carried(p lifeloop.PayloadEnvelope) int64 {
	switch {
	case p.Body != nil:
		return int64(p.Body.Len())
	case p.BodyRef != nil:
		return int64(len(*p.BodyRef))
	default:
		return p.ByteSize
	}
}
