package kernel

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"lifeloop/canon"
	"lifeloop/lifeloop"
)

// This file is the index of idempotency keys (DECISIONS L7). A key is a client's
// own name for one delivery. It is valid only in the harness session in which it
// was used, because delivered payloads are lost with the context of that session.
// A harness session has several scopes (scopes.go) if another launch continues it, or
// if the harness returns to it. The newest maxKeys keys of each client are kept.

const maxKeys = 1000

// keyed is a recorded use of an idempotency key: the payload that used it, and the
// payload's outcome.
type keyed struct {
	Content   canon.Digest
	Call      string
	Index     int             // index of the payload in the client's answer
	Of        int             // the number of payloads in the same answer; 0 if the answered call gets no receipt
	Status    lifeloop.Status // empty while the payload waits for a slot
	Placement lifeloop.PayloadPlacement
	Receipt   *ReceiptIssued // the receipt of Call; nil until it is issued
}

// protects reports whether the key must not be used again, because its payload was
// delivered or still waits. A payload that was not delivered may be sent again with
// its key.
func (u *keyed) protects() bool { return u.Status == "" || u.Status == lifeloop.Delivered }

// keyOf returns the use of a key that counts for a call: the oldest use that protects
// the key, or else the newest use; nil if the key was not used. scopes are the scopes to
// search, oldest first: those that share the model's context with the call.
func (r *router) keyOf(c *call, key *string, scopes []int) (first *keyed) {
	if key == nil {
		return nil
	}
	for _, scope := range scopes {
		u := r.hard.Keys[keyName(c, scope, *key)]
		if u != nil && u.protects() {
			return u
		}
		first = cmp.Or(u, first)
	}
	return first
}

func keyName(c *call, scope int, key string) string {
	return fmt.Sprint(scope, "\x00", c.Adapter, "\x00", c.Client, "\x00", key)
}

// use records that a payload uses its key. It does nothing if an earlier payload used
// the key for other content, or still protects the key.
func (r *router) use(c *call, i int, scopes []int) {
	p, h := c.Answer.Payloads[i], &r.hard
	first := r.keyOf(c, p.Key, scopes)
	if p.Key == nil || first != nil && (first.Content != p.Content || first.protects()) {
		return
	}
	name := keyName(c, c.Scope, *p.Key)
	if h.Keys[name] == nil {
		h.KeysIn[c.Client] = append(h.KeysIn[c.Client], name)
	}
	h.Keys[name] = &keyed{Content: p.Content, Call: c.ID, Index: i}
	if c.Event != lifeloop.ReceiptEmitted {
		h.Keys[name].Of = len(c.Answer.Payloads)
	}
	c.Uses = append(c.Uses, h.Keys[name])
	if in := h.KeysIn[c.Client]; len(in) > maxKeys {
		delete(h.Keys, in[0])
		h.KeysIn[c.Client] = in[1:]
	}
}

// repeats returns the earlier call whose answer this answer repeats: each payload
// has the same key and the same content. It returns "" if the answer repeats none.
func (r *router) repeats(c *call, a Answered, scopes []int) (first string) {
	if a.Status == lifeloop.Failed || c.Event == lifeloop.ReceiptEmitted { // a failed answer places nothing, and receipt.emitted has no receipt
		return ""
	}
	for i, p := range a.Payloads {
		u := r.keyOf(c, p.Key, scopes)
		if u == nil || u.Content != p.Content || !u.protects() || u.Index != i || u.Of != len(a.Payloads) || i > 0 && u.Call != first {
			return ""
		}
		first = u.Call
	}
	return first
}

// again ends a call whose answer repeated a delivery. It issues the receipt of
// the first call again. No payload is placed again.
func (r *router) again(s *step, c *call) {
	first := c.First.Receipt
	s.record(ReceiptIssued{Receipt: first.Receipt, Call: c.ID, Scope: c.Scope, Frame: first.Frame, Replay: true})
	r.announce(s, c, first.Receipt)
}

// settleKeyed settles a payload whose key was used before, in an answer that
// repeats no earlier answer as a whole. It reports whether it settled the payload.
// No payload is placed twice; the same key with other content is a conflict.
func (r *router) settleKeyed(s *step, c *call, i int) bool {
	f := r.usedBefore(s, c, i)
	if f != nil {
		s.record(*f)
	}
	return f != nil
}

// usedBefore returns the outcome of a payload whose key another payload has used
// before; nil if none has.
func (r *router) usedBefore(s *step, c *call, i int) *PayloadSettled {
	fact := c.Answer.Payloads[i]
	first := r.keyOf(c, fact.Key, s.scopes.context(c.Scope))
	if first == nil || first.Call == c.ID && first.Index == i {
		return nil
	}
	f := &PayloadSettled{Call: c.ID, Index: i, Placement: fact.First}
	switch {
	case first.Content != fact.Content:
		f.Status, f.Failure, f.Why = lifeloop.Failed, lifeloop.StateConflict, "duplicate_id_conflict"
	case first.Status == lifeloop.Delivered:
		f.Status, f.Placement, f.Why = lifeloop.Delivered, first.Placement, "replayed"
	default:
		f.Status, f.Why = lifeloop.Skipped, "the same payload already waits for delivery"
	}
	return f
}

// key returns the idempotency key for a call's receipt: the client's own key if the
// payloads of its answer use exactly one key. If they use no key or several, the result
// is the kernel's key of the call.
func (c *call) key() string {
	own := ""
	if c.Answer != nil {
		for _, p := range c.Answer.Payloads {
			switch {
			case p.Key == nil:
			case own != "" && own != *p.Key:
				return c.Idempotency
			default:
				own = *p.Key
			}
		}
	}
	if own == "" {
		own = c.Idempotency
	}
	return own
}

// contentOf returns the digest of a payload's content. Two uses of one idempotency
// key are the same request if their digests are equal. A body that is not in the
// payload is known only by its reference, and by the size and the digest that the
// client gives.
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
	} else {
		parts = append(parts, "size", strconv.FormatInt(p.ByteSize, 10))
		if p.ContentDigest != nil {
			parts = append(parts, "digest", *p.ContentDigest)
		}
	}
	return canon.Sum([]byte(strings.Join(parts, "\x00")))
}
