package lifeloop

import "slices"

// A FailureClass says what went wrong. Clients decide about a retry by the class,
// because the contract says: "Clients must not text-parse adapter errors for retry
// posture".
type FailureClass string

const (
	AdapterUnavailable    FailureClass = "adapter_unavailable"
	CapabilityUnsupported FailureClass = "capability_unsupported"
	// DegradedCapability is the failure class capability_degraded. The event with
	// the same name is [CapabilityDegraded].
	DegradedCapability   FailureClass = "capability_degraded"
	PlacementUnavailable FailureClass = "placement_unavailable"
	PayloadTooLarge      FailureClass = "payload_too_large"
	PayloadRejected      FailureClass = "payload_rejected"
	IdentityUnavailable  FailureClass = "identity_unavailable"
	TransportError       FailureClass = "transport_error"
	Timeout              FailureClass = "timeout"
	OperatorRequired     FailureClass = "operator_required"
	StateConflict        FailureClass = "state_conflict"
	InvalidRequest       FailureClass = "invalid_request"
	InternalError        FailureClass = "internal_error"
)

// words lists every failure class, in the contract's order.
func (FailureClass) words() []string {
	return texts(
		AdapterUnavailable, CapabilityUnsupported, DegradedCapability, PlacementUnavailable,
		PayloadTooLarge, PayloadRejected, IdentityUnavailable, TransportError, Timeout,
		OperatorRequired, StateConflict, InvalidRequest, InternalError,
	)
}

// A RetryClass says what must change before the same request may be repeated.
type RetryClass string

// The retry classes. The first permits a retry most freely, the last forbids
// it.
const (
	SafeRetry             RetryClass = "safe_retry"
	RetryAfterReread      RetryClass = "retry_after_reread"
	RetryAfterReconfigure RetryClass = "retry_after_reconfigure"
	RetryAfterOperator    RetryClass = "retry_after_operator"
	DoNotRetry            RetryClass = "do_not_retry"
)

// words lists every retry class, from the most permissive to the most
// restrictive (DECISIONS L11).
func (RetryClass) words() []string {
	return texts(SafeRetry, RetryAfterReread, RetryAfterReconfigure, RetryAfterOperator, DoNotRetry)
}

// Valid reports whether c is one of the contract's failure classes.
func (c FailureClass) Valid() bool { return slices.Contains(c.words(), string(c)) }

// Valid reports whether c is one of the contract's retry classes.
func (c RetryClass) Valid() bool { return slices.Contains(c.words(), string(c)) }

// Tighter reports whether c is more restrictive than d. "Adapters may tighten
// retry posture for known unsafe operations, but they must not loosen it."
func (c RetryClass) Tighter(d RetryClass) bool {
	return slices.Index(c.words(), string(c)) > slices.Index(c.words(), string(d))
}

// DefaultRetry returns the retry class that the contract's table gives for c. The
// result is empty if c is not a valid failure class.
func (c FailureClass) DefaultRetry() RetryClass {
	switch c {
	case CapabilityUnsupported, PayloadTooLarge, InvalidRequest:
		return DoNotRetry
	case AdapterUnavailable, PlacementUnavailable, PayloadRejected, IdentityUnavailable:
		return RetryAfterReconfigure
	case DegradedCapability, StateConflict, InternalError:
		return RetryAfterReread
	case TransportError, Timeout:
		return SafeRetry
	case OperatorRequired:
		return RetryAfterOperator
	}
	return ""
}
