// Package negotiate holds what clients want against what an adapter's manifest
// claims, before anything is dispatched: capabilities by level and support, and
// payload placements by the client's order.
//
// Its functions are total and remember nothing: the same manifest and the same
// wishes give the same answer. It does not know what happens in a session (a
// capability that degraded there is a weaker claim in the manifest it is
// handed), whether a slot is open just now, or what a payload says.
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

// A Want is one capability that a client asks for.
type Want struct {
	Capability string               `json:"capability"` // by name, see [Support]
	Level      lifeloop.Requirement `json:"level"`
	// Support is the weakest support that will do; empty leaves it to the
	// contract, by which what is synthesized is as good as what is native.
	Support lifeloop.Support `json:"support,omitempty"`
	// AcceptPartial is the client's explicit word that partial support will do.
	AcceptPartial bool `json:"accept_partial,omitempty"`
}

// Validate reports what is wrong with a want as written in a configuration or
// a request.
func (w Want) Validate() error {
	switch {
	case !Known(w.Capability):
		return fmt.Errorf("capability %q: no such name; use an event name, placement.<class>, context_pressure, receipts.…, session_identity.…, renewal.… or telemetry.<source>", w.Capability)
	case !w.Level.Valid():
		return fmt.Errorf("capability %s: level %q: want required, preferred or optional", w.Capability, w.Level)
	case w.Support != "" && !w.Support.Valid():
		return fmt.Errorf("capability %s: support %q: want native, synthesized, manual or partial", w.Capability, w.Support)
	}
	return nil
}

// An Outcome is what negotiating one want came to.
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
	// Failure is set where the want refuses the operation: a required
	// capability that is not satisfied.
	Failure lifeloop.FailureClass `json:"failure_class,omitempty"`
	// Warning is set for a preferred capability that is not satisfied.
	Warning string `json:"warning,omitempty"`
}

// Capabilities answers every want, in order.
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
		// A level nobody knows is taken for the strict one: a refusal is seen
		// and mended, a capability quietly left out is not.
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

// Refused reports whether a required want is not satisfied, and by which
// failure class the operation is then refused. Of several classes the one with
// the tightest retry posture is told: an operator's help is no use where
// something else is missing for good.
func Refused(results []Result) (lifeloop.FailureClass, bool) {
	var worst lifeloop.FailureClass
	for _, r := range results {
		worst = tighter(worst, r.Failure)
	}
	return worst, worst != ""
}

// tighter is the one of two failure classes that asks for more before a retry,
// the first where they ask for the same. No class asks for nothing.
func tighter(a, b lifeloop.FailureClass) lifeloop.FailureClass {
	if a == "" || b != "" && b.DefaultRetry().Tighter(a.DefaultRetry()) {
		return b
	}
	return a
}
