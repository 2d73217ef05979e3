package lifeloop

// A PayloadRef identifies a payload and does not contain its body (DECISIONS L12).
type PayloadRef struct {
	PayloadID     string  `json:"payload_id" wire:"id"`
	PayloadKind   string  `json:"payload_kind" wire:"id"`
	ContentDigest *string `json:"content_digest,omitempty" wire:"digest"`
	ByteSize      *int64  `json:"byte_size,omitempty" wire:"size"`
}

// A CallbackRequest reports one lifecycle event to a client.
type CallbackRequest struct {
	SchemaVersion         string          `json:"schema_version" wire:"version"`
	Event                 Event           `json:"event"`
	EventID               string          `json:"event_id" wire:"id"`
	AdapterID             string          `json:"adapter_id" wire:"id"`
	AdapterVersion        string          `json:"adapter_version" wire:"id"`
	IntegrationMode       IntegrationMode `json:"integration_mode"`
	InvocationID          string          `json:"invocation_id" wire:"id"`
	HarnessSessionID      *string         `json:"harness_session_id,omitempty" wire:"id"`
	HarnessRunID          *string         `json:"harness_run_id,omitempty" wire:"id"`
	HarnessTaskID         *string         `json:"harness_task_id,omitempty" wire:"id"`
	FrameContext          *FrameContext   `json:"frame_context,omitempty"`
	CapabilitySnapshotRef *string         `json:"capability_snapshot_ref,omitempty" wire:"id"`
	PayloadRefs           []PayloadRef    `json:"payload_refs"`
	Sequence              *int64          `json:"sequence,omitempty" wire:"size"`
	IdempotencyKey        *string         `json:"idempotency_key,omitempty" wire:"id"`
	// EventData is the event's data as `events` prints it, so that a client
	// does not need the ledger.
	EventData map[string]any `json:"event_data,omitempty"`
}

// A CallbackResponse is a client's answer (DECISIONS L11).
type CallbackResponse struct {
	SchemaVersion  string            `json:"schema_version,omitempty" wire:"version"`
	Status         Status            `json:"status"`
	ClientPayloads []PayloadEnvelope `json:"client_payloads,omitempty"`
	ReceiptRefs    []string          `json:"receipt_refs,omitempty" wire:"id"`
	Warnings       []string          `json:"warnings,omitempty"`
	FailureClass   *FailureClass     `json:"failure_class,omitempty" wire:"own"`
	RetryClass     *RetryClass       `json:"retry_class,omitempty"`
}

// A DispatchEnvelope is the one document that a client reads for a call. The member
// "payloads" is left out if there are no payloads.
type DispatchEnvelope struct {
	SchemaVersion string            `json:"schema_version" wire:"version"`
	Request       CallbackRequest   `json:"request"`
	Payloads      []PayloadEnvelope `json:"payloads,omitempty"`
}
