package lifeloop

// A Status is the outcome that a receipt or a client's answer reports.
type Status string

const (
	Observed  Status = "observed"
	Delivered Status = "delivered"
	Skipped   Status = "skipped"
	Degraded  Status = "degraded"
	Failed    Status = "failed"
)

func (Status) words() []string { return texts(Observed, Delivered, Skipped, Degraded, Failed) }

// A PayloadReceipt says where one payload went.
type PayloadReceipt struct {
	PayloadID     string           `json:"payload_id" wire:"id"`
	PayloadKind   string           `json:"payload_kind" wire:"id"`
	Placement     PayloadPlacement `json:"placement"`
	Status        Status           `json:"status"`
	ByteSize      int64            `json:"byte_size" wire:"size"`
	ContentDigest *string          `json:"content_digest,omitempty" wire:"digest"` // set only if the payload has one
}

// A Degradation is a capability whose support changed during the session.
// CurrentSupport may be stronger than PreviousSupport, because a recovery is
// reported too (DECISIONS L8).
type Degradation struct {
	Event            Event      `json:"event" wire:"own"` // always capability.degraded
	Capability       string     `json:"capability" wire:"id"`
	PreviousSupport  Support    `json:"previous_support"`
	CurrentSupport   Support    `json:"current_support"`
	ObservedAtEpochS int64      `json:"observed_at_epoch_s" wire:"size"`
	Evidence         string     `json:"evidence" wire:"text"` // may contain the ids of records and of transcripts
	RetryClass       RetryClass `json:"retry_class"`
}

// A Receipt is the evidence of one lifecycle operation. The size of a receipt is
// limited. Required nullable members are pointers without omitempty, so that the key
// is always written.
type Receipt struct {
	SchemaVersion          int              `json:"schema_version" wire:"version"`
	ReceiptID              string           `json:"receipt_id" wire:"id"`
	IdempotencyKey         *string          `json:"idempotency_key" wire:"id"`
	ClientID               string           `json:"client_id" wire:"id"`
	AdapterID              string           `json:"adapter_id" wire:"id"`
	InvocationID           string           `json:"invocation_id" wire:"id"`
	Event                  Event            `json:"event"`
	EventID                string           `json:"event_id" wire:"id"`
	Sequence               *int64           `json:"sequence" wire:"size"`
	ParentReceiptID        *string          `json:"parent_receipt_id" wire:"id"`
	IntegrationMode        IntegrationMode  `json:"integration_mode"`
	Status                 Status           `json:"status"`
	AtEpochS               int64            `json:"at_epoch_s" wire:"size"`
	HarnessSessionID       *string          `json:"harness_session_id" wire:"id"`
	HarnessRunID           *string          `json:"harness_run_id" wire:"id"`
	HarnessTaskID          *string          `json:"harness_task_id" wire:"id"`
	PayloadReceipts        []PayloadReceipt `json:"payload_receipts"`
	TelemetrySummary       map[string]any   `json:"telemetry_summary"`
	CapabilityDegradations []Degradation    `json:"capability_degradations"`
	FailureClass           *FailureClass    `json:"failure_class"`
	RetryClass             *RetryClass      `json:"retry_class"`
	Warnings               []string         `json:"warnings"`
}
