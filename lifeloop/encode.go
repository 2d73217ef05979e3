package lifeloop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Only the functions of this file write payload bodies. An [Opaque] marshals as
// its size, so that no log line or ledger entry contains a body by accident.

// Encode writes the envelope with its body, verbatim as a JSON string.
func (p PayloadEnvelope) Encode() ([]byte, error) {
	w, err := p.wire()
	if err != nil {
		return nil, err
	}
	return marshal(w)
}

// Encode writes the one document that a client reads, on one line and without
// a line end.
func (d DispatchEnvelope) Encode() ([]byte, error) {
	payloads, err := wirePayloads(d.Payloads)
	if err != nil {
		return nil, err
	}
	return marshal(struct {
		SchemaVersion string          `json:"schema_version"`
		Request       CallbackRequest `json:"request"`
		Payloads      []wirePayload   `json:"payloads,omitempty"`
	}{d.SchemaVersion, d.Request, payloads})
}

// Encode writes the answer with the bodies of its payloads.
func (r CallbackResponse) Encode() ([]byte, error) {
	payloads, err := wirePayloads(r.ClientPayloads)
	if err != nil {
		return nil, err
	}
	return marshal(struct {
		SchemaVersion  string        `json:"schema_version,omitempty"`
		Status         Status        `json:"status"`
		ClientPayloads []wirePayload `json:"client_payloads,omitempty"`
		ReceiptRefs    []string      `json:"receipt_refs,omitempty"`
		Warnings       []string      `json:"warnings,omitempty"`
		FailureClass   *FailureClass `json:"failure_class,omitempty"`
		RetryClass     *RetryClass   `json:"retry_class,omitempty"`
	}{r.SchemaVersion, r.Status, payloads, r.ReceiptRefs, r.Warnings, r.FailureClass, r.RetryClass})
}

// RenderPayloads renders the transport envelope for a harness that has a
// single slot of additional context: one object per payload, in input order,
// with its id, its kind, and its body as a verbatim JSON string or its
// body_ref, which is not followed. A payload that has neither is left out. The
// same payloads give the same bytes.
func RenderPayloads(ps []PayloadEnvelope) Opaque {
	type rendered struct {
		PayloadID   string  `json:"payload_id"`
		PayloadKind string  `json:"payload_kind"`
		Body        *string `json:"body,omitempty"`
		BodyRef     *string `json:"body_ref,omitempty"`
	}
	payloads := make([]rendered, 0, len(ps))
	for _, p := range ps {
		switch {
		case p.Body != nil:
			body := p.Body.Reveal()
			payloads = append(payloads, rendered{p.PayloadID, p.PayloadKind, &body, nil})
		case p.BodyRef != nil:
			payloads = append(payloads, rendered{p.PayloadID, p.PayloadKind, nil, p.BodyRef})
		}
	}
	// Strings alone cannot fail to marshal.
	doc, _ := marshal(struct {
		Payloads []rendered `json:"payloads"`
	}{payloads})
	return Opaque{doc}
}

// wirePayload is PayloadEnvelope, member for member, with the body revealed.
type wirePayload struct {
	SchemaVersion        int                   `json:"schema_version"`
	PayloadID            string                `json:"payload_id"`
	ClientID             string                `json:"client_id"`
	PayloadKind          string                `json:"payload_kind"`
	Format               string                `json:"format"`
	ContentEncoding      string                `json:"content_encoding"`
	Body                 *string               `json:"body"`
	BodyRef              *string               `json:"body_ref"`
	ByteSize             int64                 `json:"byte_size"`
	ContentDigest        *string               `json:"content_digest,omitempty"`
	AcceptablePlacements []AcceptablePlacement `json:"acceptable_placements"`
	IdempotencyKey       *string               `json:"idempotency_key,omitempty"`
	ExpiresAtEpochS      *int64                `json:"expires_at_epoch_s"`
	Redaction            string                `json:"redaction"`
	Metadata             map[string]any        `json:"metadata"`
}

func (p PayloadEnvelope) wire() (wirePayload, error) {
	w := wirePayload{
		p.SchemaVersion, p.PayloadID, p.ClientID, p.PayloadKind, p.Format, p.ContentEncoding,
		nil, p.BodyRef, p.ByteSize, p.ContentDigest, filled(p.AcceptablePlacements),
		p.IdempotencyKey, p.ExpiresAtEpochS, p.Redaction, filledMap(p.Metadata),
	}
	if p.Body == nil {
		return w, nil
	}
	body := p.Body.Reveal()
	// encoding/json would replace bytes that are not UTF-8 with U+FFFD, and the
	// client would read another body.
	if !utf8.ValidString(body) {
		return w, fmt.Errorf("encode payload %s: its body is not UTF-8; send it as base64", show(p.PayloadID))
	}
	w.Body = &body
	return w, nil
}

func wirePayloads(ps []PayloadEnvelope) ([]wirePayload, error) {
	wired := make([]wirePayload, len(ps))
	for i, p := range ps {
		w, err := p.wire()
		if err != nil {
			return nil, err
		}
		wired[i] = w
	}
	return wired, nil
}

// MarshalJSON writes an empty list as [] and never as null.
func (r CallbackRequest) MarshalJSON() ([]byte, error) {
	type plain CallbackRequest
	r.PayloadRefs = filled(r.PayloadRefs)
	return marshal(plain(r))
}

// MarshalJSON writes every member that the contract requires: an unknown value
// as null, an empty one as [] or {}.
func (r Receipt) MarshalJSON() ([]byte, error) {
	type plain Receipt
	r.PayloadReceipts = filled(r.PayloadReceipts)
	r.TelemetrySummary = filledMap(r.TelemetrySummary)
	r.CapabilityDegradations = filled(r.CapabilityDegradations)
	r.Warnings = filled(r.Warnings)
	return marshal(plain(r))
}

// MarshalJSON writes an empty list as [] and an empty object as {}.
func (r EventRecord) MarshalJSON() ([]byte, error) {
	type plain EventRecord
	r.Evidence = filled(r.Evidence)
	r.Data = filledMap(r.Data)
	return marshal(plain(r))
}

// MarshalJSON writes an empty list as [] and never as null.
func (c EventClaim) MarshalJSON() ([]byte, error) {
	type plain EventClaim
	c.Modes = filled(c.Modes)
	return marshal(plain(c))
}

func filled[E any](s []E) []E {
	if s == nil {
		return []E{}
	}
	return s
}

func filledMap(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// marshal is json.Marshal without the escapes for HTML, which would make a body
// longer than its byte_size.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
