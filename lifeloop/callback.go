package lifeloop

// A PayloadRef names a payload without carrying it (DECISIONS L12).
type PayloadRef struct {
	PayloadID     string  `json:"payload_id"`
	PayloadKind   string  `json:"payload_kind"`
	ContentDigest *string `json:"content_digest,omitempty"`
	ByteSize      *int64  `json:"byte_size,omitempty"`
}

// A CallbackRequest reports one lifecycle event to a client.
type CallbackRequest struct {
	SchemaVersion         string          `json:"schema_version"`
	Event                 Event           `json:"event"`
	EventID               string          `json:"event_id"`
	AdapterID             string          `json:"adapter_id"`
	AdapterVersion        string          `json:"adapter_version"`
	IntegrationMode       IntegrationMode `json:"integration_mode"`
	InvocationID          string          `json:"invocation_id"`
	HarnessSessionID      *string         `json:"harness_session_id,omitempty"`
	HarnessRunID          *string         `json:"harness_run_id,omitempty"`
	HarnessTaskID         *string         `json:"harness_task_id,omitempty"`
	FrameContext          *FrameContext   `json:"frame_context,omitempty"`
	CapabilitySnapshotRef *string         `json:"capability_snapshot_ref,omitempty"`
	PayloadRefs           []PayloadRef    `json:"payload_refs"`
	Sequence              *int64          `json:"sequence,omitempty"`
	IdempotencyKey        *string         `json:"idempotency_key,omitempty"`
	// EventData is the event's data as `events` prints it, so that a client
	// does not need the ledger.
	EventData map[string]any `json:"event_data,omitempty"`
}

// A CallbackResponse is a client's answer (DECISIONS L11).
type CallbackResponse struct {
	SchemaVersion  string            `json:"schema_version,omitempty" wire:"nonempty"`
	Status         Status            `json:"status"`
	ClientPayloads []PayloadEnvelope `json:"client_payloads,omitempty"`
	ReceiptRefs    []string          `json:"receipt_refs,omitempty"`
	Warnings       []string          `json:"warnings,omitempty"`
	FailureClass   *FailureClass     `json:"failure_class,omitempty"`
	RetryClass     *RetryClass       `json:"retry_class,omitempty"`
}

// A DispatchEnvelope is the one document a client reads on stdin. The key
// payloads is left out when there are none.
type DispatchEnvelope struct {
	SchemaVersion string            `json:"schema_version"`
	Request       CallbackRequest   `json:"request"`
	Payloads      []PayloadEnvelope `json:"payloads,omitempty"`
}
