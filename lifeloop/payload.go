package lifeloop

import "slices"

// A Requirement says how strongly a client needs a capability or placement.
type Requirement string

const (
	Required  Requirement = "required"
	Preferred Requirement = "preferred"
	Optional  Requirement = "optional"
)

// requirements lists the requirement levels, strictest first.
func requirements() []Requirement { return []Requirement{Required, Preferred, Optional} }

func (Requirement) words() []string { return texts(requirements()...) }

// Valid reports whether r is one of the contract's requirement levels.
func (r Requirement) Valid() bool { return slices.Contains(requirements(), r) }

// A PayloadPlacement is a place where a client asks to put a payload.
type PayloadPlacement string

const (
	DeveloperEquivalentFrame PayloadPlacement = "developer_equivalent_frame"
	PrePromptFrame           PayloadPlacement = "pre_prompt_frame"
	SideChannelContext       PayloadPlacement = "side_channel_context"
	ReceiptOnly              PayloadPlacement = "receipt_only"
)

// PayloadPlacements lists the payload placements, in the contract's order.
func PayloadPlacements() []PayloadPlacement {
	return []PayloadPlacement{DeveloperEquivalentFrame, PrePromptFrame, SideChannelContext, ReceiptOnly}
}

func (PayloadPlacement) words() []string { return texts(PayloadPlacements()...) }

// Valid reports whether p is one of the contract's payload placements.
func (p PayloadPlacement) Valid() bool { return slices.Contains(PayloadPlacements(), p) }

// An AcceptablePlacement is one of the placements that a client accepts. A
// payload lists them in the client's order of preference.
type AcceptablePlacement struct {
	Placement   PayloadPlacement `json:"placement"`
	Requirement Requirement      `json:"requirement"`
}

// A PayloadEnvelope is client-owned data to be placed at a lifecycle moment
// (DECISIONS L13). Lifeloop handles transport and placement only.
type PayloadEnvelope struct {
	SchemaVersion        int                   `json:"schema_version" wire:"version"`
	PayloadID            string                `json:"payload_id" wire:"id"`
	ClientID             string                `json:"client_id" wire:"id"`
	PayloadKind          string                `json:"payload_kind" wire:"id"`
	Format               string                `json:"format" wire:"id"`
	ContentEncoding      string                `json:"content_encoding"`
	Body                 *Opaque               `json:"body" wire:"optional"`
	BodyRef              *string               `json:"body_ref" wire:"optional"`
	ByteSize             int64                 `json:"byte_size" wire:"size"`
	ContentDigest        *string               `json:"content_digest,omitempty" wire:"digest"`
	AcceptablePlacements []AcceptablePlacement `json:"acceptable_placements"`
	IdempotencyKey       *string               `json:"idempotency_key,omitempty" wire:"id"`
	ExpiresAtEpochS      *int64                `json:"expires_at_epoch_s" wire:"optional"`
	Redaction            string                `json:"redaction" wire:"text"`
	Metadata             map[string]any        `json:"metadata"`
}

// Expired reports whether the payload must no longer be delivered. epoch is the time of
// the delivery, in Unix seconds. An expired document is still valid, so [Validate] does
// not check the expiry.
func (p PayloadEnvelope) Expired(epoch int64) bool {
	return p.ExpiresAtEpochS != nil && epoch >= *p.ExpiresAtEpochS
}
