package kernel

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"lifeloop/gate"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// slots are the hooks of the harness that wait for an answer, and the payloads
// that wait for a slot (payload.go). A slot is a place in the model's context that the
// answer to a hook fills. A hook with a slot waits, until its
// deadline, for the clients that are called about its events. A hook that asks
// whether a tool may run waits for the gate, and the hook at the end of a turn may
// wait for a renewal (renewal_hook.go). Any other hook is answered at once. A hook
// fails open: the harness continues, and a receipt reports what was lost. But a tool
// is refused if the gate does not decide about it in time.
//
//	called ─┬────────────┬─► answered with payloads or a reset ─► closed: delivered or not
//	        └─► waiting ─┴─► answered without these, which ends the hook
type slots struct {
	soft struct {
		hooks   map[string]*hook
		order   []string  // ids of hooks, oldest first
		waiting []*parcel // payloads, oldest first
		// begun is the number of the newest harness session whose slot pre_session is
		// over: a hook with this slot was answered, or a hook with a later slot was called.
		begun int
	}
}

// A hook is one call of a harness's hook that has not ended yet.
type hook struct {
	id       string
	call     telemetry.HookCall
	deadline time.Time // until when the hook waits for the clients that are called about its events
	limit    time.Time // when the hook must be answered; it waits beyond deadline only for the gate or a renewal
	// scope is the number of the harness session whose model reads the answer. It is 0 if
	// no harness session has begun, or if the hook is of a harness started by this harness.
	scope int
	// waitsFor maps the id of each call that the hook waits for to the time at which the
	// hook stops waiting for it. While the client is busy with earlier calls, this is the
	// time in the field patience. Otherwise it is zero, which means that the hook waits
	// until deadline.
	waitsFor  map[string]time.Time
	patience  time.Time // when the hook stops waiting for clients that are busy with earlier calls
	answered  bool
	guarded   bool                // the hook asks whether a tool may run
	ends      bool                // a renewal can reset the harness by the answer to the hook
	verdict   *effect.HookVerdict // the answer about the tool; nil until the gate has decided
	asking    int                 // the number of payloads about which the gate is being asked
	envelopes []lifeloop.PayloadEnvelope
	parcels   []*parcel
	opens     string // the frame that is opened when the hook is over
}

type (
	// HookAnswered records one call of a harness's hook and how it was answered.
	HookAnswered struct {
		Hook      string `json:"hook"`
		Event     string `json:"event"`
		Session   string `json:"session,omitempty"`
		Turn      string `json:"turn,omitempty"`
		Payloads  int    `json:"payloads"`
		Delivered bool   `json:"delivered"`
		// Decision is the answer to a hook that asks whether a tool may run.
		Decision telemetry.Decision `json:"decision,omitempty"`
	}
	// Placing records that payloads are about to be written into a hook's slot.
	Placing struct {
		Hook  string      `json:"hook"`
		Event string      `json:"event"`
		Slot  string      `json:"slot"`
		Frame string      `json:"frame,omitempty"` // the frame in which the model reads the payloads; empty at the start of a harness session
		Bytes int         `json:"bytes"`           // the size of the whole text for the slot
		Items []placedRef `json:"items"`
	}
	// placedRef is one payload in a slot.
	placedRef struct {
		Call      string                    `json:"call"`
		Index     int                       `json:"index"`
		PayloadID string                    `json:"payload_id"`
		Placement lifeloop.PayloadPlacement `json:"placement"`
		Support   lifeloop.Support          `json:"support"`
	}
)

func (f HookAnswered) key() (string, bool) { return "hook_heard", f.Payloads > 0 }
func (HookAnswered) apply(*Kernel)         {}
func (Placing) key() (string, bool)        { return "placing", true }
func (Placing) apply(*Kernel)              {}

func newSlots() (l slots) {
	l.soft.hooks = map[string]*hook{}
	return l
}

func (l *slots) open() bool { return len(l.soft.hooks) > 0 }

// unanswered yields the hooks without an answer, oldest first. If the loop's body
// answers or ends a hook that was not yielded yet, that hook is left out.
func (l *slots) unanswered(yield func(*hook) bool) {
	for _, id := range l.soft.order { // slots.over assigns a new slice to order, so the loop still reads the old one
		if h := l.soft.hooks[id]; h != nil && !h.answered && !yield(h) {
			return
		}
	}
}

func (l *slots) called(s *step, in input.HookCalled) {
	s.activity.alive(s)
	hooked := called(in.Call)
	if hooked {
		s.health.spoke(s, "hook")
	}
	h := &hook{id: in.Hook, call: in.Call, deadline: in.Deadline, limit: in.Deadline, patience: s.now.Add(s.cfg.ClientPatience), waitsFor: map[string]time.Time{}}
	h.guarded = in.Call.Use != nil && s.cfg.guarded()
	if h.ends = s.renewals.ends(s, in.Call); h.ends {
		h.deadline = sooner(h.limit, s.now.Add(endWait))
	}
	if h.call.Slot != "" && s.cfg.guarded() {
		h.deadline = h.limit.Add(-askTime)
	}
	l.soft.hooks[h.id] = h
	l.soft.order = append(l.soft.order, h.id)
	if s.attempts.exit() != nil || s.session.ledgerLost() {
		l.answer(s, h)
		return
	}
	if hooked {
		s.health.hookCalled(s)
	}
	if s.cfg.OneHook && s.scopes.number() == 0 {
		s.adopt(in.Call)
	}
	for _, sig := range in.Call.Signals {
		s.signal(sig, h)
	}
	l.locate(s, h)
	h.ends = h.ends && h.scope != 0
	maps.DeleteFunc(h.waitsFor, func(call string, _ time.Time) bool { return s.router.call(call) == nil })
	switch {
	case h.guarded:
		s.guards.tool(s, h)
	case h.call.Slot == "" && !h.ends || len(h.waitsFor) == 0:
		l.answer(s, h)
	}
}

// judged answers a hook that asked whether a tool may run.
func (l *slots) judged(s *step, hook string, v effect.HookVerdict) {
	if h := l.soft.hooks[hook]; h != nil && !h.answered {
		h.verdict = &v
		l.answer(s, h)
	}
}

// called reports whether a call is from a hook, and not from the status line, which
// arrives in the same way.
func called(call telemetry.HookCall) bool {
	return !slices.ContainsFunc(call.Signals, func(sig telemetry.Signal) bool { return sig.Source == statuslineSource })
}

// adopt begins a session whose only input is one hook call. It records what must
// have happened before that call, and emits events only for what the hook itself
// reports.
func (s *step) adopt(call telemetry.HookCall) {
	began := HarnessSessionOpened{Scope: 1, ID: call.Session, Cause: "unknown", Adopted: true}
	for _, sig := range call.Signals {
		if sig.Kind == telemetry.SessionLive {
			began.Cause, began.Adopted = sig.Cause, false
		}
	}
	s.record(began)
	if !began.Adopted {
		s.emit(emission{event: lifeloop.SessionStarting, evidence: by(call.Signals...), data: map[string]any{"cause": began.Cause}})
	}
	for _, sig := range call.Signals {
		if (sig.Kind == telemetry.TurnStop || sig.Kind == telemetry.TurnEnd) && s.turns.top() == nil {
			s.record(FrameAdopted{Frame: cmp.Or(sig.Turn, s.cfg.NewID("frm_")), Turn: sig.Turn})
		}
	}
}

// inside makes a hook wait for calls about one of its events. If a renewal can reset the
// harness by the hook's answer (h.ends), the hook waits only for the clients that can ask
// for a renewal. Otherwise it waits for all calls if it has a slot, and for none if it has
// no slot. The calls keep their places in the queues of their clients. If frame is not
// empty, that frame is opened when the hook is over.
func (l *slots) inside(s *step, h *hook, calls []callRef, frame string) {
	if h == nil {
		return
	}
	h.opens = cmp.Or(frame, h.opens)
	if h.call.Slot == "" && !h.ends {
		return
	}
	for _, c := range calls {
		if h.ends && !s.renewals.asking(s, c.Client) {
			continue // this client cannot ask for a renewal, so the hook does not wait for it
		}
		h.waitsFor[c.Call] = h.patience
		if s.router.free(c) {
			h.waitsFor[c.Call] = time.Time{}
		}
	}
}

// dispatched handles the dispatch of a call. A hook that waits for the call may then
// wait until its deadline for the client's answer.
func (l *slots) dispatched(call string) {
	for _, h := range l.soft.hooks {
		if _, waits := h.waitsFor[call]; waits {
			h.waitsFor[call] = time.Time{}
		}
	}
}

// returned answers the hooks that now wait for no other call.
func (l *slots) returned(s *step, call string) {
	for h := range l.unanswered {
		if _, waits := h.waitsFor[call]; !waits {
			continue
		}
		delete(h.waitsFor, call)
		if len(h.waitsFor) == 0 {
			l.answer(s, h)
		}
	}
}

// next returns the earliest of these times: the deadline of a hook, or its limit while
// it waits for the gate or a renewal; the end of its wait for a busy client; and the
// expiry of a waiting payload.
func (l *slots) next(k *Kernel) (at time.Time) {
	for _, h := range l.soft.hooks {
		if h.answered {
			continue
		}
		if h.asking > 0 || k.renewals.holding(h.id) {
			at = sooner(at, h.limit)
			continue
		}
		at = sooner(at, h.deadline)
		for _, free := range h.waitsFor {
			at = sooner(at, free)
		}
	}
	for _, p := range l.soft.waiting {
		// A payload in an answer has no timer. A sent answer cannot be taken back. If
		// the answer waits for the gate, the method permitted checks the expiry.
		if p.expires != nil && p.hook == "" {
			at = sooner(at, time.Unix(*p.expires, 0))
		}
	}
	return at
}

func (l *slots) wake(s *step) {
	for h := range l.unanswered {
		l.leaveBusy(s, h)
	}
	for h := range l.unanswered {
		if h.asking == 0 && s.due(h.deadline) || s.due(h.limit) {
			l.answer(s, h)
		}
	}
	l.giveUpIf(s, expired, func(p *parcel) bool { return p.expires != nil && s.due(time.Unix(*p.expires, 0)) })
}

// leaveBusy ends the hook's wait for clients that are still busy with earlier events, once
// the time h.patience has come. The calls keep their places in the queues of the clients,
// but their payloads miss this slot.
func (l *slots) leaveBusy(s *step, h *hook) {
	if h.guarded || h.asking > 0 { // the hook waits for the gate
		return
	}
	maps.DeleteFunc(h.waitsFor, func(_ string, turn time.Time) bool { return s.due(turn) })
	if len(h.waitsFor) == 0 {
		l.answer(s, h)
	}
}

// answer answers a hook with the waiting payloads that fit its slot, unless the hook must
// wait for a renewal. If there is a gate, answer first asks the gate about each payload.
// After the gate's last decision, answer is called again.
func (l *slots) answer(s *step, h *hook) {
	if s.renewals.holds(s, h) {
		return
	}
	if h.call.Slot != "" && s.attempts.exit() == nil && !s.session.ledgerLost() {
		l.fill(s, h)
		if l.submit(s, h) {
			return
		}
	}
	l.strike(s, h, "the harness ended, or the ledger could no longer be written, before the gate permitted the payload")
	h.answered = true
	if h.call.Slot == telemetry.SlotSession {
		l.soft.begun = max(l.soft.begun, h.scope)
	}
	if len(h.parcels) == 0 {
		s.do(effect.HookAnswer{Hook: h.id, Event: h.call.Event, Verdict: h.answerOf(s)})
		l.over(s, h, false)
		return
	}
	context := lifeloop.RenderPayloads(h.envelopes)
	f := Placing{Hook: h.id, Event: h.call.Event, Slot: h.call.Slot, Frame: l.frameOf(s, h), Bytes: context.Len()}
	for _, p := range h.parcels {
		f.Items = append(f.Items, placedRef{Call: p.call, Index: p.index, PayloadID: p.payload.PayloadID,
			Placement: p.chosen.Payload, Support: p.chosen.Support})
	}
	s.record(f)
	s.do(effect.HookAnswer{Hook: h.id, Event: h.call.Event, Context: context})
}

// answerOf returns the verdict in the answer of a hook; nil for a hook that does
// not ask whether a tool may run. Without a decision of the gate, the verdict
// refuses the tool.
func (h *hook) answerOf(s *step) *effect.HookVerdict {
	if !h.guarded {
		return nil
	}
	if h.verdict != nil {
		return h.verdict
	}
	f := GateAnswered{Act: gate.ActTool, Failure: lifeloop.StateConflict, Why: "the harness has ended, or the ledger can no longer be written"}
	return &effect.HookVerdict{Decision: telemetry.Deny, Reason: f.refusal()}
}

// closed handles the end of a hook's process. If the hook was answered without a
// payload and without a reset, the answer has already ended it, and closed does nothing.
func (l *slots) closed(s *step, in input.HookClosed) {
	h := l.soft.hooks[in.Hook]
	if h == nil {
		return
	}
	delivered := in.Delivered && h.answered // false if the hook ended before its whole answer was written
	h.answered = true
	l.over(s, h, delivered)
}

// over records the end of a hook, settles its payloads and opens its frame.
func (l *slots) over(s *step, h *hook, delivered bool) {
	if h.guarded && h.verdict == nil || h.asking > 0 {
		s.guards.closed(s, h.id)
	}
	f := HookAnswered{Hook: h.id, Event: h.call.Event, Session: h.call.Session, Turn: h.call.Turn,
		Payloads: len(h.parcels), Delivered: delivered}
	if v := h.answerOf(s); v != nil {
		f.Decision = v.Decision
	}
	s.record(f)
	for _, p := range h.parcels {
		if delivered {
			l.settle(s, p, lifeloop.Delivered, "", "")
		} else {
			p.hook = ""
			l.settle(s, p, lifeloop.Failed, lifeloop.PayloadRejected, "the hook ended before the answer was written")
		}
	}
	delete(l.soft.hooks, h.id)
	l.soft.order = slices.DeleteFunc(slices.Clone(l.soft.order), func(id string) bool { return id == h.id })
	if h.opens != "" {
		s.openFrame(h.opens, []lifeloop.Evidence{{Source: "hook", Detail: h.call.Event}})
	}
	s.renewals.hookEnded(s, h.id, delivered)
}

// hook returns a hook that has not ended, or nil.
func (l *slots) hook(id string) *hook { return l.soft.hooks[id] }

// letGo answers a hook that waited for a renewal. The answer does not reset the harness.
func (l *slots) letGo(s *step, id string) {
	if h := l.soft.hooks[id]; h != nil && !h.answered {
		h.ends = false
		l.answer(s, h)
	}
}

// clear answers a hook, and thereby asks the harness to empty its context.
func (l *slots) clear(s *step, id string) {
	h := l.soft.hooks[id]
	h.answered = true
	s.do(effect.HookAnswer{Hook: id, Event: h.call.Event, Clear: true})
}

// ending reports whether there is an unanswered hook whose answer can make the harness
// reset itself for a renewal.
func (l *slots) ending() bool {
	for h := range l.unanswered {
		if h.ends {
			return true
		}
	}
	return false
}

// answerAll answers the hooks that wait: there is nothing left to wait for.
func (l *slots) answerAll(s *step) {
	for h := range l.unanswered {
		l.answer(s, h)
	}
}

// closeAll ends the hooks that are still open when the time for the clients' last
// answers is over.
func (l *slots) closeAll(s *step) {
	for _, id := range slices.Clone(l.soft.order) {
		l.closed(s, input.HookClosed{Hook: id})
	}
}
