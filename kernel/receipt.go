package kernel

import (
	"cmp"
	"slices"

	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/session"
)

// This file issues the receipts of the router's calls.

// ReceiptIssued records a receipt exactly as clients read it.
type ReceiptIssued struct {
	Receipt lifeloop.Receipt `json:"receipt"`
	Call    string           `json:"call,omitempty"`
	Scope   int              `json:"scope"`
	// Frame is the frame of the event. The contract's receipt has no member for it.
	Frame *lifeloop.FrameContext `json:"frame_context,omitempty"`
	// Replay is set if the call repeated the delivery of an earlier call, whose
	// receipt is issued again.
	Replay bool `json:"replay,omitempty"`
	// Skipped is set on the receipt for a run of consecutive events that the client
	// did not receive. The rest of the receipt describes the last of these events.
	// Before is the client's next call, which this receipt precedes. It is empty if
	// no call has followed.
	Skipped *SkippedRun `json:"skipped,omitempty"`
	Before  string      `json:"before,omitempty"`
	// Renewal is set on a receipt for a step of a renewal. Its parent is the receipt
	// of the previous step.
	Renewal string `json:"renewal,omitempty"`
}

func (ReceiptIssued) key() (string, bool) { return "receipt_issued", true }
func (f ReceiptIssued) apply(k *Kernel) {
	h, r := &k.router.hard, f.Receipt
	if c := h.Calls[f.Call]; c != nil {
		for _, u := range c.Uses {
			u.Receipt = &f
		}
		k.router.forget(c)
	}
	if f.Skipped != nil {
		k.router.skipIssued(f)
	}
	if f.Replay {
		return
	}
	k.renewals.issued(f)
	if r.Sequence != nil {
		k.scopes.receipt(f.Scope, r.HarnessSessionID, *r.Sequence)
	}
	k.router.issued(r.ClientID, parent{r.InvocationID, r.ReceiptID})
}

// issued stores the newest receipt of a client.
func (r *router) issued(client string, p parent) { r.hard.Parents[client] = p }

// A parent is the newest receipt of a client, with its invocation. The client's
// next receipt names it as parent if both are of the same invocation. A receipt of a
// renewal names the receipt of the renewal's previous step instead.
type parent struct{ Invocation, Receipt string }

// An outcome says how a call ended.
type outcome struct {
	status   lifeloop.Status
	failure  lifeloop.FailureClass
	retry    lifeloop.RetryClass // empty means the default of the failure class
	warnings []string
}

// warn adds a warning to the next receipt of a client, or of every client if client
// is empty.
func (r *router) warn(s *step, client, why string) {
	for _, c := range s.cfg.receivers() {
		if client == "" || client == c.ID {
			r.soft.warnings[c.ID] = bounded(append(r.soft.warnings[c.ID], why))
		}
	}
}

// receipt issues the receipt of a call. No call gets a second one.
func (r *router) receipt(s *step, k *call, o outcome) {
	if more := r.soft.warnings[k.Client]; len(more) > 0 {
		delete(r.soft.warnings, k.Client)
		o.warnings = append(append([]string(nil), o.warnings...), more...)
		if o.status == lifeloop.Observed || o.status == lifeloop.Delivered {
			o.status = lifeloop.Degraded
		}
	}
	if class := s.unmet(k); class != "" && o.failure == "" { // the receipt must show that a capability is weaker than the client requires
		o.failure = class
		if o.status != lifeloop.Skipped {
			o.status = lifeloop.Degraded
		}
	}
	doc := r.document(s, k, o)
	s.record(ReceiptIssued{Receipt: doc, Call: k.ID, Scope: k.Scope, Frame: k.Frame})
	r.announce(s, k, doc)
}

// announce emits receipt.emitted for a receipt, if a client subscribed to this event.
// The event names the launch and the harness session that the receipt names. A receipt
// that is issued again is unchanged. It has no session id if the id was unknown when the
// receipt was first issued.
func (r *router) announce(s *step, k *call, doc lifeloop.Receipt) {
	if s.session.is(session.Pending) {
		return // a session that is refused has no events (DECISIONS H5)
	}
	if slices.ContainsFunc(s.cfg.Clients, func(c setup.Client) bool { return c.Events[lifeloop.ReceiptEmitted] }) {
		data := map[string]any{"receipt_id": doc.ReceiptID, "client_id": doc.ClientID, "event": string(doc.Event), "status": string(doc.Status)}
		if k.First != nil {
			data["replay"] = true
		}
		if k.Skips != nil { // the receipt is that of a run of skipped events
			data["skipped"] = k.Skips.Events
		}
		about := k.origin
		about.Run, about.Session = doc.HarnessRunID, doc.HarnessSessionID
		s.emit(emission{event: lifeloop.ReceiptEmitted, scope: k.Scope, mode: k.Mode, evidence: own("receipt"), data: data, about: &about})
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
	if s.cfg.Ledger && !s.session.ledgerLost() && s.scopes.of(k.Scope) != nil {
		doc.Sequence = new(s.scopes.nextReceipt(k.Scope, k.Session))
	}
	if p := r.hard.Parents[k.Client]; p.Receipt != "" && p.Invocation == k.Invocation {
		doc.ParentReceiptID = &p.Receipt
	}
	if k.Pressure != "" {
		doc.TelemetrySummary["context_pressure"] = k.Pressure
	}
	doc.CapabilityDegradations = append(doc.CapabilityDegradations, k.degradations()...)
	doc.CapabilityDegradations = append(doc.CapabilityDegradations, s.weakVoices(k)...)
	if o.failure != "" {
		o.retry = cmp.Or(o.retry, o.failure.DefaultRetry())
		doc.FailureClass = &o.failure
	}
	if o.retry != "" {
		doc.RetryClass = &o.retry
	}
	return doc
}
