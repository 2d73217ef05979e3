// Package negotiate compares what clients request with what an adapter's manifest
// claims, before anything is dispatched: capabilities by level and support, and
// payload placements in the client's order.
//
// Its functions are pure and accept any input: the same manifest and request give
// the same answer. It does not know the state of a session, whether a slot is open,
// or the content of a payload. A capability that degraded in a session is a weaker
// claim in the manifest that is passed in.
//
//	results := negotiate.Capabilities(manifest, wants)
//	if class, refused := negotiate.Refused(results); refused {
//		// dispatch nothing; the receipt says class
//	}
//	placed := negotiate.Placement(manifest, payload)
package negotiate

import (
	"fmt"

	"lifeloop/lifeloop"
)

// A Want is one capability that a client requests.
type Want struct {
	Capability string               `json:"capability"` // by name, see [Support]
	Level      lifeloop.Requirement `json:"level"`
	// Support is the weakest acceptable support. If it is empty, the contract's rule
	// applies: synthesized is as good as native.
	Support lifeloop.Support `json:"support,omitempty"`
	// AcceptPartial is true if the client explicitly accepts partial support.
	AcceptPartial bool `json:"accept_partial,omitempty"`
}

// Validate returns an error for a want that is invalid in a configuration or a
// request.
func (w Want) Validate() error {
	switch {
	case !Known(w.Capability):
		return fmt.Errorf("capability %q: unknown name; use an event name, placement.<class>, context_pressure, receipts.…, session_identity.…, renewal.… or telemetry.<source>", w.Capability)
	case !w.Level.Valid():
		return fmt.Errorf("capability %s: level %q: want required, preferred or optional", w.Capability, w.Level)
	case w.Support != "" && !w.Support.Valid():
		return fmt.Errorf("capability %s: support %q: want native, synthesized, manual or partial", w.Capability, w.Support)
	}
	return nil
}

// An Outcome is the result of negotiating one want.
type Outcome string

// The outcomes, from the best to the worst.
const (
	Satisfied        Outcome = "satisfied"
	Degraded         Outcome = "degraded"
	RequiresOperator Outcome = "requires_operator"
	Unsupported      Outcome = "unsupported"
)

// Outcomes lists the outcomes, from the best to the worst.
func Outcomes() []Outcome { return []Outcome{Satisfied, Degraded, RequiresOperator, Unsupported} }

// A Result answers one want.
type Result struct {
	Want    Want             `json:"want"`
	Outcome Outcome          `json:"outcome"`
	Have    lifeloop.Support `json:"have"` // what the manifest claims
	// Failure is set if the want rejects the operation: a required capability is not
	// satisfied.
	Failure lifeloop.FailureClass `json:"failure_class,omitempty"`
	// Warning is set for a preferred capability that is not satisfied.
	Warning string `json:"warning,omitempty"`
}

// Capabilities returns the result of each want, in order.
func Capabilities(m lifeloop.Manifest, wants []Want) []Result {
	results := make([]Result, len(wants))
	for i, w := range wants {
		results[i] = capability(w, Support(m, w.Capability))
	}
	return results
}

func capability(w Want, have lifeloop.Support) Result {
	r := Result{Want: w, Have: have, Outcome: outcome(w, have)}
	if r.Outcome == Satisfied {
		return r
	}
	switch w.Level {
	case lifeloop.Optional:
		// "Lifeloop may omit the capability without warning."
	case lifeloop.Preferred:
		r.Warning = fmt.Sprintf("%s is %s: %s", w.Capability, have, r.Outcome)
	default:
		// An unknown level counts as required: the user notices a rejected operation,
		// but not a capability that is silently missing.
		r.Failure = lifeloop.CapabilityUnsupported
		if r.Outcome == RequiresOperator {
			r.Failure = lifeloop.OperatorRequired
		}
	}
	return r
}

func outcome(w Want, have lifeloop.Support) Outcome {
	switch have {
	case lifeloop.Native:
		return Satisfied
	case lifeloop.Synthesized:
		if w.Support == lifeloop.Native {
			return Degraded
		}
		return Satisfied
	case lifeloop.Manual:
		return RequiresOperator
	case lifeloop.Partial:
		// "Clients must explicitly accept partial support before Lifeloop
		// treats it as satisfied; otherwise it degrades."
		if w.AcceptPartial {
			return Satisfied
		}
		return Degraded
	default:
		return Unsupported
	}
}

// Refused reports whether a required want is not satisfied, and the failure class
// of the rejected operation. Of several classes it returns the one that restricts
// retries most: an operator cannot help if another capability is missing for good.
func Refused(results []Result) (lifeloop.FailureClass, bool) {
	var worst lifeloop.FailureClass
	for _, r := range results {
		worst = tighter(worst, r.Failure)
	}
	return worst, worst != ""
}

// tighter returns the failure class that restricts retries more, or a if both are
// equal. An empty class restricts nothing.
func tighter(a, b lifeloop.FailureClass) lifeloop.FailureClass {
	if a == "" || b != "" && b.DefaultRetry().Tighter(a.DefaultRetry()) {
		return b
	}
	return a
}
