package lifeloop

import "slices"

// A Status is the outcome a receipt, or a client's answer, reports.
type Status string

const (
	Observed  Status = "observed"
	Delivered Status = "delivered"
	Skipped   Status = "skipped"
	Degraded  Status = "degraded"
	Failed    Status = "failed"
)

func (Status) all() []Status { return []Status{Observed, Delivered, Skipped, Degraded, Failed} }

// Valid reports whether s is one of the contract's receipt statuses.
func (s Status) Valid() bool { return slices.Contains(s.all(), s) }

// A PayloadReceipt says where one payload went.
type PayloadReceipt struct {
	PayloadID     string           `json:"payload_id"`
	PayloadKind   string           `json:"payload_kind"`
	Placement     PayloadPlacement `json:"placement"`
	Status        Status           `json:"status"`
	ByteSize      int64            `json:"byte_size"`
	ContentDigest *string          `json:"content_digest,omitempty"` // only when the payload carried one
}

// A Degradation is a capability whose support changed during the session.
// CurrentSupport may be the stronger one: a recovery is reported too (DECISIONS
// L8).
type Degradation struct {
	Event            Event      `json:"event"` // always capability.degraded
	Capability       string     `json:"capability"`
	PreviousSupport  Support    `json:"previous_support"`
	CurrentSupport   Support    `json:"current_support"`
	ObservedAtEpochS int64      `json:"observed_at_epoch_s"`
	Evidence         string     `json:"evidence"`
	RetryClass       RetryClass `json:"retry_class"`
}

// A Receipt is bounded evidence of one lifecycle operation. Required nullable
// members are pointers without omitempty: the key is always written.
type Receipt struct {
	SchemaVersion          int              `json:"schema_version"`
	ReceiptID              string           `json:"receipt_id"`
	IdempotencyKey         *string          `json:"idempotency_key"`
	ClientID               string           `json:"client_id"`
	AdapterID              string           `json:"adapter_id"`
	InvocationID           string           `json:"invocation_id"`
	Event                  Event            `json:"event"`
	EventID                string           `json:"event_id"`
	Sequence               *int64           `json:"sequence"`
	ParentReceiptID        *string          `json:"parent_receipt_id"`
	IntegrationMode        IntegrationMode  `json:"integration_mode"`
	Status                 Status           `json:"status"`
	AtEpochS               int64            `json:"at_epoch_s"`
	HarnessSessionID       *string          `json:"harness_session_id"`
	HarnessRunID           *string          `json:"harness_run_id"`
	HarnessTaskID          *string          `json:"harness_task_id"`
	PayloadReceipts        []PayloadReceipt `json:"payload_receipts"`
	TelemetrySummary       map[string]any   `json:"telemetry_summary"`
	CapabilityDegradations []Degradation    `json:"capability_degradations"`
	FailureClass           *FailureClass    `json:"failure_class"`
	RetryClass             *RetryClass      `json:"retry_class"`
	Warnings               []string         `json:"warnings"`
}
