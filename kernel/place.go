package kernel

import (
	"slices"
	"strings"
	"time"

	"lifeloop/canon"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
)

// This file takes a payload from a client's answer to the slot that carries it
// to the model (DECISIONS L6, L13, L19). Bodies live in soft state alone: a
// crash loses them, and says so.

const (
	maxWaiting      = 64      // payloads waiting per client
	maxWaitingBytes = 1 << 20 // and their bytes
)

// A parcel is a payload that waits for a slot, or lies in one that is being
// answered.
type parcel struct {
	call    string
	index   int
	client  string
	scope   int
	payload lifeloop.PayloadEnvelope
	choices []negotiate.Candidate
	// receiptOnly says that the client accepts receipt_only when no slot opens.
	receiptOnly bool
	required    bool
	expires     *int64
	hook        string // set while it lies in that hook's answer
	chosen      negotiate.Candidate
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

// contentOf is the digest by which two uses of one idempotency key are the
// same request or two different ones.
func contentOf(p lifeloop.PayloadEnvelope) canon.Digest {
	parts := []string{p.PayloadKind, p.Format, p.ContentEncoding, p.Redaction}
	for _, a := range p.AcceptablePlacements {
		parts = append(parts, string(a.Placement), string(a.Requirement))
	}
	if p.BodyRef != nil {
		parts = append(parts, "ref", *p.BodyRef)
	}
	if p.Body != nil {
		parts = append(parts, "body", p.Body.Reveal())
	}
	return canon.Sum([]byte(strings.Join(parts, "\x00")))
}

// replay settles a payload whose idempotency key was used before (DECISIONS
// L7): the same content is not delivered twice, other content is a conflict.
func (s *step) replay(k *call, i int) bool {
	fact := k.Answer.Payloads[i]
	first := s.hard.keyOf(k.Client, fact.Key)
	if first == nil || first.Call == k.ID && first.Index == i {
		return false
	}
	f := PayloadSettled{Call: k.ID, Index: i, Placement: fact.First}
	switch {
	case first.Content != fact.Content:
		f.Status, f.Failure, f.Why = lifeloop.Failed, lifeloop.StateConflict, "duplicate_id_conflict"
	case first.Status == lifeloop.Delivered:
		f.Status, f.Placement, f.Why = lifeloop.Delivered, first.Placement, "replayed"
	default:
		f.Status, f.Why = lifeloop.Skipped, "the same payload waits for a slot already"
	}
	s.record(f)
	return true
}

// accept takes one payload of an answer: it is settled at once, or waits.
func (s *step) accept(k *call, i int, p lifeloop.PayloadEnvelope) {
	if s.replay(k, i) {
		return
	}
	fact := k.Answer.Payloads[i]
	giveUp := func(class lifeloop.FailureClass, why string) {
		st := lifeloop.Skipped
		if fact.Required {
			st = lifeloop.Failed
		}
		s.record(PayloadSettled{Call: k.ID, Index: i, Placement: fact.First, Status: st, Failure: class, Why: why})
	}
	if p.Expired(s.now.Unix()) {
		giveUp(lifeloop.PayloadRejected, "expired")
		return
	}
	placed := negotiate.Placement(s.manifest(), p)
	switch {
	case placed.Failure != "":
		giveUp(placed.Failure, "no acceptable placement")
		return
	case len(placed.Candidates) == 0: // receipt_only needs no slot
		s.record(PayloadSettled{Call: k.ID, Index: i, Placement: lifeloop.ReceiptOnly, Status: lifeloop.Delivered})
		return
	}
	if s.soft.lame {
		giveUp(lifeloop.PayloadRejected, "the ledger is lost")
		return
	}
	hs := s.hard.Sessions[k.Scope]
	if hs == nil || hs.Ended || s.hard.Exit != nil {
		giveUp(lifeloop.PayloadRejected, "the harness session is over")
		return
	}
	n, bytes := 1, size(p)
	for _, w := range s.soft.waiting {
		if w.client == k.Client {
			n, bytes = n+1, bytes+size(w.payload)
		}
	}
	if n > maxWaiting || bytes > maxWaitingBytes {
		giveUp(lifeloop.PayloadRejected, "too many payloads wait")
		return
	}
	// It waits for the first placement that can be satisfied at all, even
	// where the slot of a later one is open (DECISIONS L19).
	first := placed.Candidates[0].Payload
	choices := slices.DeleteFunc(placed.Candidates, func(c negotiate.Candidate) bool { return c.Payload != first })
	s.soft.waiting = append(s.soft.waiting, &parcel{call: k.ID, index: i, client: k.Client, scope: k.Scope, payload: p,
		choices: choices, receiptOnly: placed.ReceiptOnly, required: fact.Required, expires: p.ExpiresAtEpochS})
}

// fill takes from the waiting payloads, oldest first, those that the slot
// carries and that fit into it.
func (s *step) fill(h *hook) []*parcel {
	var in []*parcel
	var envelopes []lifeloop.PayloadEnvelope
	for _, p := range s.soft.waiting {
		if p.hook != "" || p.scope != s.hard.Scope {
			continue
		}
		choice, ok := p.choice(lifeloop.Placement(h.call.Slot))
		if !ok {
			continue
		}
		try := append(envelopes[:len(envelopes):len(envelopes)], p.payload)
		if h.call.Capacity > 0 && lifeloop.RenderPayloads(try).Len() > h.call.Capacity {
			continue // the next slot may have room
		}
		envelopes = try
		p.hook, p.chosen = h.id, choice
		in = append(in, p)
	}
	h.envelopes = envelopes
	return in
}

// choice is the client's first candidate that the slot satisfies.
func (p *parcel) choice(slot lifeloop.Placement) (negotiate.Candidate, bool) {
	for _, c := range p.choices {
		if c.Class == slot {
			return c, true
		}
	}
	return negotiate.Candidate{}, false
}

// settle says what became of a waiting payload and issues the receipt of its
// call if that was the last one.
func (s *step) settle(p *parcel, st lifeloop.Status, class lifeloop.FailureClass, why string) {
	f := PayloadSettled{Call: p.call, Index: p.index, Status: st, Failure: class, Why: why}
	k := s.hard.Calls[p.call]
	if st == lifeloop.Delivered {
		f.Placement, f.Class, f.Support = p.chosen.Payload, p.chosen.Class, p.chosen.Support
	} else if k != nil {
		f.Placement = k.Answer.Payloads[p.index].First
	}
	for i, w := range s.soft.waiting {
		if w == p {
			s.soft.waiting = append(s.soft.waiting[:i:i], s.soft.waiting[i+1:]...)
			break
		}
	}
	s.record(f)
	if k != nil {
		s.closeCall(k)
	}
}

// giveUp ends the wait of a payload that found no slot.
func (s *step) giveUp(p *parcel, why string) {
	if p.receiptOnly {
		p.chosen = negotiate.Candidate{Payload: lifeloop.ReceiptOnly}
		s.settle(p, lifeloop.Delivered, "", why)
		return
	}
	if p.required {
		s.settle(p, lifeloop.Failed, lifeloop.PayloadRejected, why)
		return
	}
	s.settle(p, lifeloop.Skipped, "", why)
}

// giveUpScope ends the wait of everything that was meant for a harness session
// that is over.
func (s *step) giveUpScope(scope int, why string) {
	for _, p := range append([]*parcel(nil), s.soft.waiting...) {
		if p.scope == scope && p.hook == "" {
			s.giveUp(p, why)
		}
	}
}

func (s *step) expirePayloads() {
	for _, p := range append([]*parcel(nil), s.soft.waiting...) {
		if p.hook == "" && p.expires != nil && !s.now.Before(time.Unix(*p.expires, 0)) {
			s.giveUp(p, "expired")
		}
	}
}

// payloadReceipts are the parts of a receipt that say where payloads went.
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

// weakPlacements are the degradations of a receipt whose payloads were
// delivered through slots weaker than native: placed is `delivered` whatever
// the slot's support, and the weaker support stands here.
func (s *step) weakPlacements(k *call) []lifeloop.Degradation {
	var out []lifeloop.Degradation
	for _, p := range k.Settled {
		if p == nil || p.Status != lifeloop.Delivered || p.Support == "" || p.Support == lifeloop.Native {
			continue
		}
		out = append(out, lifeloop.Degradation{Event: lifeloop.CapabilityDegraded, Capability: "placement." + string(p.Class),
			PreviousSupport: lifeloop.Native, CurrentSupport: p.Support, ObservedAtEpochS: s.now.Unix(),
			Evidence: "the slot that took the payload is " + string(p.Support), RetryClass: lifeloop.DegradedCapability.DefaultRetry()})
	}
	return out
}

// size is what a payload weighs while it waits.
func size(p lifeloop.PayloadEnvelope) int {
	if p.Body == nil {
		return 0
	}
	return p.Body.Len()
}
