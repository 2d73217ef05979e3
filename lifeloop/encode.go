package lifeloop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Only the functions of this file write payload bodies. An [Opaque] marshals as
// its size, so that no log line or ledger entry contains a body by accident.

// Encode writes the envelope with its body. The body is a JSON string with the unchanged
// text.
func (p PayloadEnvelope) Encode() ([]byte, error) {
	payloads, err := revealed([]PayloadEnvelope{p})
	if err != nil {
		return nil, err
	}
	return marshal(payloads[0])
}

// Encode writes the one document that a client reads for a call, on one line and
// without a line end.
func (d DispatchEnvelope) Encode() (_ []byte, err error) {
	if d.Payloads, err = revealed(d.Payloads); err != nil {
		return nil, err
	}
	return marshal(d)
}

// Encode writes the answer with the bodies of its payloads.
func (r CallbackResponse) Encode() (_ []byte, err error) {
	if r.ClientPayloads, err = revealed(r.ClientPayloads); err != nil {
		return nil, err
	}
	return marshal(r)
}

// RenderPayloads renders the transport envelope, the text that is put into a hook's
// single slot of additional context. The envelope has one object per payload, in input
// order. Each object has the payload's id and kind, and either the body as a verbatim
// JSON string or the unchanged body_ref. A payload without body and body_ref is left
// out. The same payloads always give the same bytes.
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
	// A struct that contains only strings always marshals.
	doc, _ := marshal(struct {
		Payloads []rendered `json:"payloads"`
	}{payloads})
	return Opaque{b: doc}
}

// revealed returns copies of payloads whose JSON contains the bodies and every
// member that the contract requires.
func revealed(ps []PayloadEnvelope) ([]PayloadEnvelope, error) {
	ps = slices.Clone(ps)
	for i := range ps {
		p := &ps[i]
		p.AcceptablePlacements, p.Metadata = filled(p.AcceptablePlacements), filledMap(p.Metadata)
		if p.Body == nil {
			continue
		}
		// encoding/json would replace bytes that are not UTF-8 with U+FFFD, and the
		// client would read another body.
		if !utf8.Valid(p.Body.b) {
			return nil, fmt.Errorf("encode payload %s: its body is not UTF-8; send it as base64", show(p.PayloadID))
		}
		p.Body = &Opaque{b: p.Body.b, revealed: true}
	}
	return ps, nil
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

// marshal is json.Marshal without the escapes for HTML, which a body does not need.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
