// Package negotiate compares what clients request with what an adapter's manifest
// claims, before anything is dispatched: capabilities by level and support, and
// payload placements in the client's order.
//
// Its functions are pure: the same manifest and request give the same answer. Only
// [DropExpired] changes its argument. The package does not know the state of a
// session, whether a slot is open, or the content of a payload. A slot is a place in a
// hook's answer where the harness accepts text for the model. For a capability that
// degraded in a session, the caller passes a manifest with a weaker claim.
//
//	results := negotiate.Capabilities(manifest, wants)
//	if class, refused := negotiate.Refused(results); refused {
//		// dispatch nothing; the receipt says class
//	}
//	placed := negotiate.Placement(manifest, payload)
package negotiate

import (
	"fmt"
	"slices"
	"strings"

	"lifeloop/lifeloop"
)

// A Want is one capability that a client requests.
type Want struct {
	Capability string               `json:"capability"` // the capability's name, see [Support]
	Level      lifeloop.Requirement `json:"level"`
	// Support is the weakest support that satisfies the want: native or synthesized.
	// An empty Support means synthesized.
	Support lifeloop.Support `json:"support,omitempty"`
	// AcceptPartial is true if partial or stronger support satisfies the want, whatever
	// Support says.
	AcceptPartial bool `json:"accept_partial,omitempty"`
}

// Validate returns an error for a want that is invalid in a configuration or a
// request.
func (w Want) Validate() error {
	switch {
	case !Known(w.Capability):
		return fmt.Errorf("capability %q: unknown name; use an event name, placement.<class>, context_pressure, receipts.…, session_identity.…, renewal.…, continuation_store or telemetry.<source>", w.Capability)
	case !w.Level.Valid():
		return fmt.Errorf("capability %s: level %q: want required, preferred or optional", w.Capability, w.Level)
	case !slices.Contains(Nameable(), w.Support):
		return fmt.Errorf("capability %s: support %q: want native or synthesized; leave support out to accept both, and set accept_partial to accept partial support too", w.Capability, w.Support)
	}
	return nil
}

// Nameable lists the valid values of [Want.Support]. A want cannot ask for weaker
// support by name: AcceptPartial accepts partial support, and manual support always
// requires an operator.
func Nameable() []lifeloop.Support {
	return []lifeloop.Support{"", lifeloop.Synthesized, lifeloop.Native}
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
	Have    lifeloop.Support `json:"have"` // the support that the manifest claims
	// Failure is set if the operation is rejected because of this want: it is
	// required and not satisfied, or it is invalid.
	Failure lifeloop.FailureClass `json:"failure_class,omitempty"`
	// Warning is set for a preferred capability that is not satisfied.
	Warning string `json:"warning,omitempty"`
}

// Capabilities returns the result of each want, in order. profiles are the
// requested host integration profiles: a claim that needs another profile does
// not apply.
func Capabilities(m lifeloop.Manifest, wants []Want, profiles ...string) []Result {
	m = Within(m, profiles...)
	results := make([]Result, len(wants))
	for i, w := range wants {
		results[i] = Evaluate(w, Support(m, w.Capability))
	}
	return results
}

// Within returns the manifest without the claims that list profiles if none of these
// profiles is active. In the contract, only the claim renewal lists profiles.
func Within(m lifeloop.Manifest, profiles ...string) lifeloop.Manifest {
	scoped := m.Renewal != nil && len(m.Renewal.Profiles) > 0
	if scoped && !slices.ContainsFunc(m.Renewal.Profiles, func(id string) bool { return slices.Contains(profiles, id) }) {
		m.Renewal = nil
	}
	return m
}

// Evaluate returns the result of a want, given the support of its capability.
func Evaluate(w Want, have lifeloop.Support) Result {
	r := Result{Want: w, Have: have, Outcome: outcome(w, have)}
	if !slices.Contains(Nameable(), w.Support) {
		r.Outcome, r.Failure = Unsupported, lifeloop.InvalidRequest
		return r
	}
	if r.Outcome == Satisfied {
		return r
	}
	switch w.Level {
	case lifeloop.Optional:
		// The contract says about an optional capability: "Lifeloop may omit the
		// capability without warning".
	case lifeloop.Preferred:
		r.Warning = fmt.Sprintf("preferred capability %s is %s, so the outcome is %s", w.Capability, have, r.Outcome)
	default:
		// An unknown level counts as required: the user notices a rejected operation, but
		// might not notice a missing capability.
		switch {
		case r.Outcome == RequiresOperator:
			r.Failure = lifeloop.OperatorRequired
		case strings.HasPrefix(w.Capability, "session_identity."):
			r.Failure = lifeloop.IdentityUnavailable
		default:
			r.Failure = lifeloop.CapabilityUnsupported
		}
	}
	return r
}

// outcome returns how well support satisfies a want. Stronger support never
// gives a worse outcome (DECISIONS L5).
func outcome(w Want, have lifeloop.Support) Outcome {
	least := lifeloop.Synthesized
	switch {
	case w.AcceptPartial:
		// "Clients must explicitly accept partial support before Lifeloop
		// treats it as satisfied; otherwise it degrades."
		least = lifeloop.Partial
	case w.Support == lifeloop.Native:
		least = lifeloop.Native
	}
	switch {
	case have == least, have.Stronger(least):
		return Satisfied
	case have.Stronger(lifeloop.Manual):
		return Degraded
	case have == lifeloop.Manual:
		return RequiresOperator
	}
	return Unsupported
}

// Refused reports whether the operation is rejected because of a want (see
// [Result.Failure]), and the failure class. If there are several classes, Refused
// returns the one that restricts retries most: a retry is useless while one required
// capability is permanently missing, even if an operator provides the others.
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
