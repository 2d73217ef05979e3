package kernel

import (
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
)

// This file issues the receipts of a renewal: prepare, reset, observation and
// delivery. Each has its own event id, and its parent is the previous receipt. If
// the renewal ends early, the first step that was not reached gets a failed receipt
// (DECISIONS R6, R11).

// A renewalStep is a step of a renewal for which a receipt is issued.
type renewalStep struct {
	event   lifeloop.Event
	scope   int
	failure lifeloop.FailureClass
	why     string
	parcel  *parcel // the delivered continuation
}

// receipt issues the receipt of a step, for the client that owns the continuation,
// or for the wrapper if the profile names no client.
func (r *renewals) receipt(s *step, of renewalStep) {
	client := r.rules(s).Client
	if client == "" {
		client = selfClient
	}
	k := &call{Client: client, origin: origin{Event: of.event, EventID: s.cfg.NewID("evt_"), Invocation: s.invocationID(), Mode: s.modeOf(nil), Scope: of.scope,
		Adapter: s.cfg.Manifest.AdapterID, Version: s.cfg.Manifest.AdapterVersion, Run: s.attempts.id(), Session: s.scopes.id(of.scope), Pressure: s.pressure.level()}}
	doc := s.router.document(s, k, of.outcome())
	doc.ParentReceiptID = nil
	if parent := r.hard.Receipt; parent != "" {
		doc.ParentReceiptID = &parent
	}
	if p := of.parcel; p != nil {
		doc.PayloadReceipts = append(doc.PayloadReceipts, lifeloop.PayloadReceipt{PayloadID: p.payload.PayloadID, PayloadKind: p.payload.PayloadKind,
			Placement: p.chosen.Payload, Status: lifeloop.Delivered, ByteSize: p.payload.ByteSize, ContentDigest: p.payload.ContentDigest})
	}
	doc.TelemetrySummary["renewal"] = r.hard.ID
	if of.event == lifeloop.SessionEnded && of.failure == "" {
		// resumable says whether the harness can resume the session harness_session_id. A
		// harness that is reset by a hook keeps this id after it has emptied its context,
		// so the id does not lead back to the old session.
		doc.TelemetrySummary["resumable"] = s.cfg.Resumes && r.hard.OldID != "" && !(r.hard.Typed && s.byHook())
	}
	s.record(ReceiptIssued{Receipt: doc, Scope: of.scope, Renewal: r.hard.ID})
	s.router.announce(s, k, doc)
}

func (of renewalStep) outcome() outcome {
	switch {
	case of.failure != "":
		return outcome{status: lifeloop.Failed, failure: of.failure, warnings: []string{of.why}}
	case of.parcel != nil:
		return outcome{status: lifeloop.Delivered}
	}
	return outcome{status: lifeloop.Observed}
}

// payload returns the continuation as one payload of the client that owns it, or of the
// wrapper if the profile names no client.
func (r *renewals) payload(s *step, in input.RenewalContinued) lifeloop.PayloadEnvelope {
	client := r.rules(s).Client
	if client == "" {
		client = selfClient
	}
	return renewal.Payload(s.cfg.NewID("pay_"), client, in.Text, in.Digest)
}
