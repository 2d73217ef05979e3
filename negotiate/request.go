package negotiate

import (
	"slices"

	"lifeloop/lifeloop"
)

// A Request holds all capabilities and placements that a client requests from
// an adapter at once.
type Request struct {
	Capabilities []Want
	Payloads     []lifeloop.PayloadEnvelope
	// Profiles are the host integration profiles that the client requests. A claim
	// that needs a profile applies only if the profile is listed.
	Profiles []string
}

// An Answer is the result of a request, by want and by payload.
type Answer struct {
	// Outcome is the overall outcome; see [Request.Against].
	Outcome      Outcome
	Capabilities []Result
	Placements   []Settlement
	// Failure is the reason why the operation is rejected before anything is
	// dispatched. It is empty if everything required is satisfied.
	Failure lifeloop.FailureClass
}

// A Settlement is the expected result for one payload. The slot for its
// placement need not be open yet.
type Settlement struct {
	PayloadID string
	Placement lifeloop.PayloadPlacement // empty if the payload cannot be placed
	// Status is the status of the payload's receipt: delivered if it can be placed;
	// if not, failed when one of its placements is required, else skipped.
	Status  lifeloop.Status
	Failure lifeloop.FailureClass // the reason why the payload cannot be placed
}

// Against compares the request with a manifest. epoch, in Unix seconds, decides
// which payloads have expired.
//
// The overall outcome is the worst of these, in the order of [Outcomes]:
//
//   - a required want counts with its own outcome;
//   - a preferred want that is not satisfied counts as degraded: the operation
//     continues, with a warning;
//   - an optional want that is not satisfied does not count;
//   - a payload that cannot be placed counts as unsupported if one of its placements
//     is required. Otherwise it counts as degraded, without a warning, if one is
//     preferred;
//   - if a payload can be placed, each placement before the chosen one counts as
//     degraded, except an optional one. A chosen placement with only partial support
//     counts in the same way, unless a want for its class accepts partial support.
//
// Stronger support in the manifest never makes the outcome worse, and never makes
// Against reject an operation that it accepts with weaker support. If all wants are
// valid, a rejected operation never has the outcome satisfied, and an operation with
// the outcome unsupported or requires_operator is always rejected.
func (r Request) Against(m lifeloop.Manifest, epoch int64) Answer {
	a := Answer{Outcome: Satisfied, Capabilities: Capabilities(m, r.Capabilities, r.Profiles...), Placements: make([]Settlement, len(r.Payloads))}
	a.Failure, _ = Refused(a.Capabilities)
	for _, c := range a.Capabilities {
		a.Outcome = worse(a.Outcome, counts(c.Want.Level, c.Outcome))
	}
	for i, p := range r.Payloads {
		placed := Placement(m, p)
		if p.Expired(epoch) {
			placed = Placed{Required: placed.Required, Failure: lifeloop.PayloadRejected}
		}
		s, outcome := r.settle(p, placed)
		a.Placements[i], a.Outcome = s, worse(a.Outcome, outcome)
		if s.Status == lifeloop.Failed {
			a.Failure = tighter(a.Failure, s.Failure)
		}
	}
	return a
}

// settle returns the settlement of one payload and its effect on the overall
// outcome.
func (r Request) settle(p lifeloop.PayloadEnvelope, placed Placed) (Settlement, Outcome) {
	s := Settlement{PayloadID: p.PayloadID, Status: lifeloop.Delivered, Failure: placed.Failure}
	switch {
	case placed.Failure != "" && placed.Required:
		s.Status = lifeloop.Failed
		return s, counts(lifeloop.Required, Unsupported)
	case placed.Failure != "":
		s.Status = lifeloop.Skipped
		return s, counts(payloadLevel(p), Unsupported)
	case len(placed.Candidates) == 0:
		s.Placement = lifeloop.ReceiptOnly
	default:
		s.Placement = placed.Candidates[0].Payload
	}
	outcome := Satisfied
	for _, a := range p.AcceptablePlacements {
		if !r.satisfies(placed, a.Placement) {
			outcome = worse(outcome, counts(a.Requirement, Degraded))
		}
		if a.Placement == s.Placement {
			break // alternatives after the chosen one do not count
		}
	}
	return s, outcome
}

// satisfies reports whether one of the slots that provide the placement has the
// support that the request accepts.
func (r Request) satisfies(placed Placed, p lifeloop.PayloadPlacement) bool {
	return p == lifeloop.ReceiptOnly || slices.ContainsFunc(placed.Candidates, func(c Candidate) bool {
		return c.Payload == p && (c.Support.Stronger(lifeloop.Partial) || r.acceptsPartial(c.Class))
	})
}

// payloadLevel returns the requirement level of a payload that has no required
// placement.
func payloadLevel(p lifeloop.PayloadEnvelope) lifeloop.Requirement {
	if slices.ContainsFunc(p.AcceptablePlacements, func(a lifeloop.AcceptablePlacement) bool { return a.Requirement != lifeloop.Optional }) {
		return lifeloop.Preferred
	}
	return lifeloop.Optional
}

func (r Request) acceptsPartial(class lifeloop.Placement) bool {
	return slices.ContainsFunc(r.Capabilities, func(w Want) bool {
		return w.AcceptPartial && w.Capability == placementPrefix+string(class)
	})
}

// counts returns the effect of one outcome on the overall outcome, by
// requirement level. As in [Capabilities], an unknown level counts as required.
func counts(level lifeloop.Requirement, o Outcome) Outcome {
	switch {
	case o == Satisfied || level == lifeloop.Optional:
		return Satisfied
	case level == lifeloop.Preferred:
		return Degraded
	default:
		return o
	}
}

func worse(a, b Outcome) Outcome {
	if slices.Index(Outcomes(), b) > slices.Index(Outcomes(), a) {
		return b
	}
	return a
}
