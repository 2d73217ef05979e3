package kernel

import (
	"slices"

	"lifeloop/canon"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
)

// This file moves a payload from a client's answer to the slot by which it
// reaches the model (DECISIONS L6, L13, L19; place.go decides which slots it
// can still reach). Bodies are only in soft state, so a crash loses them; a
// receipt then reports the loss.

const (
	maxWaiting      = 64      // the largest number of waiting payloads per client
	maxWaitingBytes = 1 << 20 // the largest total size of a client's waiting payloads, in bytes
)

// A parcel is a payload that waits for a slot, or is in the answer of a hook.
type parcel struct {
	call   string
	index  int
	client string
	scope  int
	frame  string // frame of the event that the payload answers; empty if the event has none
	// after is the number of prompts before the answered event if the event is
	// frame.ending or frame.ended; pre_prompt_frame then means the next prompt. For
	// every other event, after is -1.
	after   int
	payload lifeloop.PayloadEnvelope
	choices []negotiate.Candidate // the possible placements, in the client's order
	// receiptOnly means that the client accepts receipt_only if no slot opens.
	receiptOnly bool
	required    bool
	expires     *int64
	hook        string // the hook whose answer contains the payload; empty while the payload waits
	permit      permission
	chosen      negotiate.Candidate
	claimed     lifeloop.Support // support that the launch claims for the chosen slot
}

type (
	// A PayloadFact is the part of a payload that the ledger may contain. This part
	// never includes the body.
	PayloadFact struct {
		ID          string  `json:"payload_id"`
		PayloadKind string  `json:"payload_kind"`
		Size        int64   `json:"byte_size"`
		Digest      *string `json:"content_digest,omitempty"`
		Required    bool    `json:"required,omitempty"`
		// Key is the client's idempotency key, and Content the digest of the
		// content for which it was used. Both are empty without a key.
		Key     *string      `json:"idempotency_key,omitempty"`
		Content canon.Digest `json:"content,omitempty"`
		// First is the placement that the receipt names if the payload is not placed.
		First lifeloop.PayloadPlacement `json:"first_placement"`
	}
	// PayloadSettled records the outcome of one payload.
	PayloadSettled struct {
		Call      string                    `json:"call"`
		Index     int                       `json:"index"`
		Placement lifeloop.PayloadPlacement `json:"placement"`
		Status    lifeloop.Status           `json:"status"`
		Class     lifeloop.Placement        `json:"class,omitempty"`   // the slot that delivered the payload; empty if no slot did
		Support   lifeloop.Support          `json:"support,omitempty"` // how well the slot supports the payload's placement
		// Claimed is the support that the launch claims for the slot, if Support is
		// weaker.
		Claimed lifeloop.Support      `json:"claimed,omitempty"`
		Failure lifeloop.FailureClass `json:"failure,omitempty"`
		Why     string                `json:"why,omitempty"`
	}
)

func (PayloadSettled) key() (string, bool) { return "payload_settled", false }
func (f PayloadSettled) apply(k *Kernel) {
	k.router.settled(f)
}

func payloadFact(p lifeloop.PayloadEnvelope) PayloadFact {
	f := PayloadFact{ID: p.PayloadID, PayloadKind: p.PayloadKind, Size: p.ByteSize, Digest: p.ContentDigest}
	for _, a := range p.AcceptablePlacements {
		f.Required = f.Required || a.Requirement == lifeloop.Required
	}
	if len(p.AcceptablePlacements) > 0 {
		f.First = p.AcceptablePlacements[0].Placement
	}
	if p.IdempotencyKey != nil {
		f.Key, f.Content = p.IdempotencyKey, contentOf(p)
	}
	return f
}

// accept handles the payload with index i of a client's answer: it is settled at
// once, or waits for a slot. A failed answer places nothing.
func (l *slots) accept(s *step, k *call, i int, p lifeloop.PayloadEnvelope) {
	fact := k.Answer.Payloads[i]
	if k.Answer.Status == lifeloop.Failed {
		s.record(PayloadSettled{Call: k.ID, Index: i, Placement: fact.First, Status: lifeloop.Skipped, Why: "the answer has the status failed"})
		return
	}
	if s.router.settleKeyed(s, k, i) {
		return
	}
	placed := negotiate.Placement(s.health.placing(s), p)
	class, why := l.refusal(s, k, p, placed)
	switch {
	case p.Expired(s.now.Unix()):
		class, why = lifeloop.PayloadRejected, expired
	case placed.ReceiptOnly && (why != "" || len(placed.Candidates) == 0): // a receipt_only payload needs no slot
		s.record(PayloadSettled{Call: k.ID, Index: i, Placement: lifeloop.ReceiptOnly, Status: lifeloop.Delivered, Why: why})
		return
	}
	if why != "" {
		st := lifeloop.Skipped
		if fact.Required {
			st = lifeloop.Failed
		}
		s.record(PayloadSettled{Call: k.ID, Index: i, Placement: fact.First, Status: st, Failure: class, Why: why})
		return
	}
	w := &parcel{call: k.ID, index: i, client: k.Client, scope: k.Scope, after: -1, payload: p, choices: placed.Candidates,
		receiptOnly: placed.ReceiptOnly, required: fact.Required, expires: p.ExpiresAtEpochS}
	if k.Frame != nil {
		w.frame = k.Frame.FrameID
	}
	if k.Event == lifeloop.FrameEnding || k.Event == lifeloop.FrameEnded {
		w.after = k.Prompts
	}
	l.soft.waiting = append(l.soft.waiting, w)
}

// stage queues the continuation of a renewal for a slot of the harness session that
// begins.
func (l *slots) stage(s *step, renewal string, p lifeloop.PayloadEnvelope, choices []negotiate.Candidate) {
	l.soft.waiting = append(l.soft.waiting, &parcel{call: renewal, client: p.ClientID, scope: s.scopes.number(), after: -1, payload: p,
		choices: choices, required: true})
}

// expired is the reason in the outcome of an expired payload. An expired payload does not
// count as delivered, even if the client accepts receipt_only.
const expired = "expired"

// refusal returns the reason why a payload cannot wait for a slot; empty if it can,
// or if it needs none (receipt_only). Unless the wrapper only observes, a payload for a
// harness session that has ended cannot wait.
func (l *slots) refusal(s *step, k *call, p lifeloop.PayloadEnvelope, placed negotiate.Placed) (lifeloop.FailureClass, string) {
	hs := s.scopes.of(k.Scope)
	switch {
	case !s.cfg.Observing && (hs == nil || hs.Ended || s.attempts.exit() != nil):
		return lifeloop.PayloadRejected, "the harness session is over"
	case placed.Failure != "":
		return placed.Failure, "no acceptable placement"
	case len(placed.Candidates) == 0:
		return "", ""
	case s.session.ledgerLost():
		return lifeloop.PayloadRejected, ledgerLost
	}
	n, bytes := 1, size(p)
	for _, w := range l.soft.waiting {
		if w.client == k.Client {
			n, bytes = n+1, bytes+size(w.payload)
		}
	}
	if n > maxWaiting || bytes > maxWaitingBytes {
		return lifeloop.PayloadRejected, "too many payloads of this client wait for delivery, or their total size is too large"
	}
	return "", ""
}

// fill adds waiting payloads to the answer of a hook, oldest first: those that the
// hook's slot can carry and that fit into the answer.
func (l *slots) fill(s *step, h *hook) {
	for _, p := range l.soft.waiting {
		choice, ok := l.choose(s, p, h)
		if !ok {
			continue
		}
		try := append(h.envelopes[:len(h.envelopes):len(h.envelopes)], p.payload)
		if h.call.Capacity > 0 && lifeloop.RenderPayloads(try).Len() > h.call.Capacity {
			continue // a smaller payload may fit
		}
		h.envelopes = try
		p.hook, p.chosen, p.claimed = h.id, choice, s.claims().Placement[choice.Class].Support
		h.parcels = append(h.parcels, p)
	}
}

// settle records the outcome of a waiting payload. If it was the last one of its
// call, the receipt of the call is issued.
func (l *slots) settle(s *step, p *parcel, st lifeloop.Status, class lifeloop.FailureClass, why string) {
	f := PayloadSettled{Call: p.call, Index: p.index, Status: st, Failure: class, Why: why}
	k := s.router.call(p.call)
	if st == lifeloop.Delivered {
		f.Placement, f.Class, f.Support = p.chosen.Payload, p.chosen.Class, p.chosen.Support
		if p.claimed.Stronger(f.Support) {
			f.Claimed = p.claimed
		}
	} else if k != nil {
		f.Placement = k.Answer.Payloads[p.index].First
	} else {
		f.Placement = p.payload.AcceptablePlacements[0].Placement // the continuation of a renewal is in no client's answer, so use its own first placement
	}
	l.soft.waiting = slices.DeleteFunc(slices.Clone(l.soft.waiting), func(w *parcel) bool { return w == p })
	s.record(f)
	if k != nil {
		s.router.close(s, k)
	}
	if s.renewals.staged(p.call) {
		s.renewals.settled(s, p, st, class, why)
	}
}

// giveUp ends the wait of a payload for which no slot opened. class is the
// failure class if the payload is required.
func (l *slots) giveUp(s *step, p *parcel, class lifeloop.FailureClass, why string) {
	switch {
	case p.receiptOnly && why != expired:
		p.chosen, p.claimed = negotiate.Candidate{Payload: lifeloop.ReceiptOnly}, "" // replaces a slot that fill may have chosen
		l.settle(s, p, lifeloop.Delivered, "", why)
	case p.required:
		l.settle(s, p, lifeloop.Failed, class, why)
	default:
		l.settle(s, p, lifeloop.Skipped, "", why)
	}
}

// bound is called when the id of the current scope becomes known. It settles waiting
// payloads whose keys were used before in the harness session with that id.
func (l *slots) bound(s *step) {
	for _, p := range l.soft.waiting { // settle replaces this slice while it is iterated
		k := s.router.call(p.call)
		if k == nil || p.scope != s.scopes.number() {
			continue
		}
		if f := s.router.usedBefore(s, k, p.index); f != nil && l.takeBack(p) {
			p.chosen, p.claimed = negotiate.Candidate{Payload: f.Placement}, ""
			l.settle(s, p, f.Status, f.Failure, f.Why)
		}
	}
}

// giveUpScope ends the wait of every payload for a harness session that has
// ended.
func (l *slots) giveUpScope(s *step, scope int, why string) {
	l.giveUpIf(s, why, func(p *parcel) bool { return p.scope == scope })
}

func (l *slots) giveUpCall(s *step, call, why string) {
	l.giveUpIf(s, why, func(p *parcel) bool { return p.call == call })
}

func (l *slots) giveUpIf(s *step, why string, which func(*parcel) bool) {
	for _, p := range l.soft.waiting { // settle replaces this slice while it is iterated
		if which(p) && l.takeBack(p) {
			l.giveUp(s, p, lifeloop.PayloadRejected, why)
		}
	}
}

// payloadReceipts returns the payload receipts of a receipt.
func payloadReceipts(k *call) []lifeloop.PayloadReceipt {
	out := []lifeloop.PayloadReceipt{}
	if k.Answer == nil {
		return out
	}
	for i, p := range k.Answer.Payloads {
		r := lifeloop.PayloadReceipt{PayloadID: p.ID, PayloadKind: p.PayloadKind, Placement: p.First, Status: lifeloop.Skipped,
			ByteSize: p.Size, ContentDigest: p.Digest}
		if i < len(k.Settled) && k.Settled[i] != nil {
			r.Placement, r.Status = k.Settled[i].Placement, k.Settled[i].Status
		}
		out = append(out, r)
	}
	return out
}

// weakVoices returns degradations for the receipt of a call: one for each placement in
// which a payload was delivered with weaker support than the launch claims for the slot.
// The support is weaker if the text looks to the model like text from the user. It is
// not a degradation if the launch itself claims only this weaker support.
func (s *step) weakVoices(k *call) []lifeloop.Degradation {
	var out []lifeloop.Degradation
	for _, p := range k.Settled {
		if p == nil || p.Claimed == "" {
			continue
		}
		name := "placement." + string(p.Placement)
		if slices.ContainsFunc(out, func(d lifeloop.Degradation) bool { return d.Capability == name }) {
			continue
		}
		out = append(out, lifeloop.Degradation{Event: lifeloop.CapabilityDegraded, Capability: name,
			PreviousSupport: p.Claimed, CurrentSupport: p.Support, ObservedAtEpochS: s.now.Unix(),
			Evidence: "to the model, text placed as " + string(p.Placement) + " looks like text from the user", RetryClass: lifeloop.DegradedCapability.DefaultRetry()})
	}
	return out
}

// size returns the number of bytes that a payload counts toward maxWaitingBytes.
func size(p lifeloop.PayloadEnvelope) int {
	if p.Body == nil {
		return 0
	}
	return p.Body.Len()
}
