package kernel

import (
	"slices"
	"time"

	"lifeloop/lifeloop"
)

// This file asks the gate about each payload before the answer of a hook passes the
// payload to the model (DECISIONS G1). The gate evaluates the owner's policy (package
// gate). Under a policy, a payload is delivered only if the gate has allowed it.

// A permission is the state of the gate's decision about delivering a payload in the
// answer of one hook.
type permission int

const (
	unasked permission = iota
	asking
	granted
)

// askTime is the time between the end of a hook's wait for clients and the hook's limit.
// During askTime the gate can be asked about the payloads of the clients.
const askTime = 500 * time.Millisecond

// submit asks the gate about the payloads in a hook's answer, and reports whether the
// hook must wait for decisions. At the time limit of the hook it is too late to ask, so
// a payload about which the gate was not asked waits for the answer to a later hook.
func (l *slots) submit(s *step, h *hook) (waits bool) {
	if !s.cfg.guarded() {
		return false
	}
	for _, p := range slices.Clone(h.parcels) {
		switch {
		case p.permit != unasked:
		case s.due(h.limit):
			l.release(h, p)
		default:
			p.permit = asking
			h.asking++
			s.guards.deliver(s, h, p)
		}
	}
	return h.asking > 0
}

// permitted handles the gate's decision about one payload of a hook.
func (l *slots) permitted(s *step, p pending, f GateAnswered) {
	h := l.soft.hooks[p.hook]
	if h == nil || h.answered {
		return
	}
	h.asking--
	switch {
	case p.parcel.permit != asking: // the payload was taken back
	case !f.Allowed():
		l.refuse(s, h, p.parcel, lifeloop.OperatorRequired, f.refusal())
	case p.parcel.expires != nil && s.due(time.Unix(*p.parcel.expires, 0)):
		l.refuse(s, h, p.parcel, lifeloop.PayloadRejected, expired)
	default:
		p.parcel.permit = granted
	}
	if h.asking == 0 {
		l.answer(s, h)
	}
}

// refuse removes a payload from the answer of a hook and settles it as not delivered.
func (l *slots) refuse(s *step, h *hook, p *parcel, class lifeloop.FailureClass, why string) {
	l.release(h, p)
	st := lifeloop.Skipped
	if p.required {
		st = lifeloop.Failed
	}
	l.settle(s, p, st, class, why)
}

// release removes a payload from the answer of a hook.
func (l *slots) release(h *hook, p *parcel) {
	i := slices.Index(h.parcels, p)
	h.parcels = slices.Delete(slices.Clone(h.parcels), i, i+1)
	h.envelopes = slices.Delete(slices.Clone(h.envelopes), i, i+1)
	p.hook, p.permit = "", unasked
}

// takeBack removes a payload from the answer of a hook, if an answer contains the
// payload. takeBack reports false, and removes nothing, if that answer was already sent.
func (l *slots) takeBack(p *parcel) bool {
	if h := l.soft.hooks[p.hook]; h != nil && !h.answered {
		l.release(h, p)
	}
	return p.hook == ""
}

// strike refuses the payloads in a hook's answer that have no permission, because the
// answer is sent now and the gate cannot be asked any more.
func (l *slots) strike(s *step, h *hook, why string) {
	if !s.cfg.guarded() {
		return
	}
	for _, p := range slices.Clone(h.parcels) {
		if p.permit != granted {
			l.refuse(s, h, p, lifeloop.PayloadRejected, why)
		}
	}
}
