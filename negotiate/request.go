package negotiate

import (
	"slices"

	"lifeloop/lifeloop"
)

// A Request is all that a client wants of an adapter at once.
type Request struct {
	Capabilities []Want
	Payloads     []lifeloop.PayloadEnvelope
}

// An Answer says what a request comes to, want by want and payload by payload.
type Answer struct {
	// Outcome is the worst of what matters, see [Request.Against].
	Outcome      Outcome
	Capabilities []Result
	Placements   []Settlement
	// Failure is why the operation is refused before anything is dispatched:
	// something required is not satisfied. It is empty where nothing is refused.
	Failure lifeloop.FailureClass
}

// A Settlement says what would become of one payload. A placement need not be
// open just now; a session waits for it.
type Settlement struct {
	PayloadID string
	Placement lifeloop.PayloadPlacement // empty when the payload goes nowhere
	// Status is what the payload's receipt would say: delivered, or, for a
	// payload that goes nowhere, failed when a placement was required and
	// skipped otherwise.
	Status  lifeloop.Status
	Failure lifeloop.FailureClass // why it goes nowhere
}

// Against holds the request against a manifest at a moment in seconds since
// the epoch, by which payloads may have expired.
//
// The overall outcome is the worst of these, in the order of [Outcomes]:
//
//   - what is required counts as it came out; a required placement that cannot
//     be had is unsupported;
//   - what is preferred and not satisfied counts as degraded, however badly it
//     came out: the operation goes on, with a warning;
//   - what is optional and not satisfied does not count;
//   - a payload whose slot has only partial support counts as degraded, unless
//     a want for that placement class accepts partial support.
//
// So an operation that is refused never has the outcome satisfied, and one
// whose outcome is unsupported or requires_operator is always refused.
func (r Request) Against(m lifeloop.Manifest, epoch int64) Answer {
	a := Answer{Outcome: Satisfied, Capabilities: Capabilities(m, r.Capabilities), Placements: make([]Settlement, len(r.Payloads))}
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

// settle says where one payload goes and how much that counts.
func (r Request) settle(p lifeloop.PayloadEnvelope, placed Placed) (Settlement, Outcome) {
	s := Settlement{PayloadID: p.PayloadID, Status: lifeloop.Delivered, Failure: placed.Failure}
	switch {
	case placed.Failure != "" && placed.Required:
		s.Status = lifeloop.Failed
		return s, counts(lifeloop.Required, Unsupported)
	case placed.Failure != "":
		s.Status = lifeloop.Skipped
		return s, counts(wish(p), Unsupported)
	case len(placed.Candidates) == 0:
		s.Placement = lifeloop.ReceiptOnly
		return s, Satisfied
	}
	first := placed.Candidates[0]
	s.Placement = first.Payload
	if first.Support == lifeloop.Partial && !r.acceptsPartial(first.Class) {
		return s, Degraded
	}
	return s, Satisfied
}

// wish is the requirement level of a payload none of whose placements is
// required.
func wish(p lifeloop.PayloadEnvelope) lifeloop.Requirement {
	for _, a := range p.AcceptablePlacements {
		if a.Requirement != lifeloop.Optional {
			return lifeloop.Preferred
		}
	}
	return lifeloop.Optional
}

func (r Request) acceptsPartial(class lifeloop.Placement) bool {
	return slices.ContainsFunc(r.Capabilities, func(w Want) bool {
		return w.AcceptPartial && w.Capability == placementPrefix+string(class)
	})
}

// counts is how much an outcome matters at a requirement level. As in
// [Capabilities], a level nobody knows is taken for the strict one.
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
