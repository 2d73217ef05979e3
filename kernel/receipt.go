package kernel

import (
	"cmp"
	"slices"

	"lifeloop/lifeloop"
	"lifeloop/session"
)

// This file issues the receipts of the router.

// ReceiptIssued records a receipt exactly as clients read it.
type ReceiptIssued struct {
	Receipt lifeloop.Receipt `json:"receipt"`
	Call    string           `json:"call,omitempty"`
	Scope   int              `json:"scope"`
	// Frame is that of the event. The contract's receipt has no member for it.
	Frame *lifeloop.FrameContext `json:"frame_context,omitempty"`
	// Replay says that the call repeated the delivery of an earlier one, whose
	// receipt this is.
	Replay bool `json:"replay,omitempty"`
}

func (ReceiptIssued) key() (string, bool) { return "receipt_issued", true }
func (f ReceiptIssued) apply(k *Kernel) {
	h, r := &k.router.hard, f.Receipt
	if c := h.Calls[f.Call]; c != nil {
		for _, u := range c.Uses {
			u.Receipt = &f
		}
		h.Open[c.Client] = slices.DeleteFunc(h.Open[c.Client], func(id string) bool { return id == f.Call })
		delete(h.Calls, f.Call)
	}
	if f.Replay {
		return
	}
	if r.Sequence != nil {
		k.scopes.receipt(f.Scope, *r.Sequence)
	}
	// A parent is needed only while its step may issue more receipts to the
	// same client.
	key := r.ClientID + "\x00" + r.InvocationID
	h.Parents[key] = r.ReceiptID
	if len(h.Parents) > 4*pastLimit {
		h.Parents = map[string]string{key: r.ReceiptID}
	}
}

// An outcome is how a call ended.
type outcome struct {
	status   lifeloop.Status
	failure  lifeloop.FailureClass
	retry    lifeloop.RetryClass // empty: that of the failure
	warnings []string
}

// warn adds a warning to the next receipt of a client, or of every client
// where it names none.
func (r *router) warn(s *step, client, why string) {
	for _, c := range s.cfg.receivers() {
		if client == "" || client == c.ID {
			r.soft.warnings[c.ID] = bounded(append(r.soft.warnings[c.ID], why))
		}
	}
}

// receipt issues the one receipt of a call.
func (r *router) receipt(s *step, k *call, o outcome) {
	if more := r.soft.warnings[k.Client]; len(more) > 0 {
		delete(r.soft.warnings, k.Client)
		o.warnings = append(append([]string(nil), o.warnings...), more...)
		if o.status == lifeloop.Observed || o.status == lifeloop.Delivered {
			o.status = lifeloop.Degraded
		}
	}
	if class := s.unmet(k); class != "" && o.failure == "" { // "must not silently downgrade a required capability"
		o.failure = class
		if o.status != lifeloop.Skipped {
			o.status = lifeloop.Degraded
		}
	}
	doc := r.document(s, k, o)
	s.record(ReceiptIssued{Receipt: doc, Call: k.ID, Scope: k.Scope, Frame: k.Frame})
	r.announce(s, k, doc)
}

// announce emits receipt.emitted, which belongs to the launch and the harness
// session of its receipt.
func (r *router) announce(s *step, k *call, doc lifeloop.Receipt) {
	if s.session.is(session.Pending) {
		return // a session that is refused has no events (DECISIONS H5)
	}
	if slices.ContainsFunc(s.cfg.Clients, func(c Client) bool { return c.Events[lifeloop.ReceiptEmitted] }) {
		data := map[string]any{"receipt_id": doc.ReceiptID, "client_id": doc.ClientID, "event": string(doc.Event), "status": string(doc.Status)}
		if k.First != nil {
			data["replay"] = true
		}
		s.emit(emission{event: lifeloop.ReceiptEmitted, scope: k.Scope, mode: k.Mode, evidence: own("receipt"), data: data, about: &k.origin})
	}
}

func (r *router) document(s *step, k *call, o outcome) lifeloop.Receipt {
	doc := lifeloop.Receipt{
		SchemaVersion: 1, ReceiptID: s.cfg.NewID("lfr_"), ClientID: k.Client, AdapterID: k.Adapter,
		InvocationID: k.Invocation, Event: k.Event, EventID: k.EventID, IntegrationMode: k.Mode, Status: o.status,
		HarnessSessionID: k.Session, HarnessRunID: k.Run, HarnessTaskID: s.task(),
		AtEpochS: s.now.Unix(), PayloadReceipts: payloadReceipts(k), TelemetrySummary: map[string]any{},
		CapabilityDegradations: []lifeloop.Degradation{}, Warnings: append([]string{}, bounded(o.warnings)...),
	}
	if key := k.key(); key != "" {
		doc.IdempotencyKey = &key
	}
	if hs := s.scopes.of(k.Scope); s.cfg.Ledger && !s.session.ledgerLost() && hs != nil {
		doc.Sequence = new(s.scopes.nextReceipt(hs))
	}
	if p := r.hard.Parents[k.Client+"\x00"+k.Invocation]; p != "" {
		doc.ParentReceiptID = &p
	}
	if k.Pressure != "" {
		doc.TelemetrySummary["context_pressure"] = k.Pressure
	}
	doc.CapabilityDegradations = append(doc.CapabilityDegradations, k.degradations()...)
	doc.CapabilityDegradations = append(doc.CapabilityDegradations, s.weakPlacements(k)...)
	if o.failure != "" {
		o.retry = cmp.Or(o.retry, o.failure.DefaultRetry())
		doc.FailureClass = &o.failure
	}
	if o.retry != "" {
		doc.RetryClass = &o.retry
	}
	return doc
}
