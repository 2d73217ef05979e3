package negotiate

import (
	"slices"

	"lifeloop/lifeloop"
)

// A Candidate is one way to place a payload: a placement that the client accepts,
// and the manifest's placement class that provides it.
type Candidate struct {
	Payload lifeloop.PayloadPlacement `json:"placement"`
	Class   lifeloop.Placement        `json:"class"`
	Support lifeloop.Support          `json:"support"`
}

// Placed lists the ways in which a payload can be placed.
type Placed struct {
	// Candidates are in the client's order of placements. If several classes of the
	// manifest provide a placement, the best class is first. A payload waits for the first
	// placement for which a slot (see the package comment) can still open.
	Candidates []Candidate `json:"candidates,omitempty"`
	// ReceiptOnly is true if the client accepts receipt_only after the candidates.
	// receipt_only needs no slot.
	ReceiptOnly bool `json:"receipt_only,omitempty"`
	// Failure is the reason why the payload cannot be placed. It is empty if there
	// is a candidate or receipt_only is accepted.
	Failure lifeloop.FailureClass `json:"failure_class,omitempty"`
	// Required is true if a placement is required. A payload that cannot be placed
	// then fails the operation; otherwise it is skipped.
	Required bool `json:"required,omitempty"`
}

// classes lists the manifest classes that provide a payload placement, best first
// (DECISIONS L6). pre_prompt_frame is "prepended before the next user or task
// prompt", which is what the class pre_frame_leading provides; the trailing class is
// used if no leading slot is open.
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

// gives returns how well a class with this claim supports the requested placement. This
// is the claimed support, except for a developer frame: text that the model sees as
// written by the developer or the system. If the claim does not say that the model sees
// text in this way, only the class pre_session supports a developer frame. Its support
// is the claimed one, but at most partial if the model sees the text as the user's.
func gives(claim lifeloop.PlacementClaim, class lifeloop.Placement, asked lifeloop.PayloadPlacement) lifeloop.Support {
	switch {
	case asked != lifeloop.DeveloperEquivalentFrame, claim.SeenAs == lifeloop.SeenAsDeveloper, claim.SeenAs == lifeloop.SeenAsSystem:
		return claim.Support
	case class != lifeloop.PreSession:
		return lifeloop.Unavailable
	case claim.SeenAs == lifeloop.SeenAsUser && places(claim.Support):
		return lifeloop.Partial
	}
	return claim.Support
}

// Placement returns all ways in which the manifest can place the payload. This
// includes classes with partial support, but not those with manual support,
// because no user inserts payloads.
func Placement(m lifeloop.Manifest, p lifeloop.PayloadEnvelope) Placed {
	placed := Placed{
		Required: slices.ContainsFunc(p.AcceptablePlacements, func(a lifeloop.AcceptablePlacement) bool {
			return a.Requirement == lifeloop.Required
		}),
	}
	size, tooLarge := carried(p), false
	for _, a := range p.AcceptablePlacements {
		if a.Placement == lifeloop.ReceiptOnly {
			// receipt_only can always be satisfied, so later placements are never
			// chosen.
			placed.ReceiptOnly = true
			break
		}
		for _, class := range classes(a.Placement) {
			claim := m.Placement[class]
			support := gives(claim, class, a.Placement)
			switch {
			case !places(support):
			case claim.MaxBytes != nil && size > *claim.MaxBytes:
				tooLarge = true
			default:
				placed.Candidates = append(placed.Candidates, Candidate{a.Placement, class, support})
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

// carried returns how many bytes of the payload are placed: its encoded body, or
// only the reference to it, which is not resolved.
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
