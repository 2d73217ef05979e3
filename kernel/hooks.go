package kernel

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/telemetry"
)

// This file answers hooks. A hook with a slot waits, until its deadline, for
// the clients that were told inside it; any other hook is answered at once. A
// hook fails open: the harness goes on, and a receipt says what was lost.

// A hook is one call of a harness's hook that is not over yet.
type hook struct {
	id       string
	call     telemetry.HookCall
	deadline time.Time
	// waitsFor are the calls told inside it that are not back yet, each with
	// the time by which its client must be free; zero once it has begun.
	waitsFor  map[string]time.Time
	answered  bool
	envelopes []lifeloop.PayloadEnvelope
	parcels   []*parcel
	opens     string // frame that is told opened when the hook is over
}

func (s *step) hookAsked(in HookCalled) {
	s.alive()
	s.heard("hook")
	h := &hook{id: in.Hook, call: in.Call, deadline: in.Deadline, waitsFor: map[string]time.Time{}}
	s.soft.hooks[h.id] = h
	s.soft.hookOrder = append(s.soft.hookOrder, h.id)
	if s.hard.Exit != nil || s.soft.lame {
		s.answerHook(h)
		return
	}
	s.heardHook()
	if s.cfg.OneHook && s.hard.Scope == 0 {
		s.adopt(in.Call)
	}
	for _, sig := range in.Call.Signals {
		s.signal(sig, h)
	}
	for id := range h.waitsFor {
		if s.hard.Calls[id] == nil {
			delete(h.waitsFor, id)
		}
	}
	if h.call.Slot == "" || len(h.waitsFor) == 0 {
		s.answerHook(h)
	}
}

// adopt takes as given what must have been before a hook that is all we hear
// of a session: it tells what the hook itself tells, and nothing else.
func (s *step) adopt(call telemetry.HookCall) {
	began := HarnessSessionOpened{Scope: 1, ID: call.Session, Cause: "unknown", Adopted: true}
	for _, sig := range call.Signals {
		if sig.Kind == telemetry.SessionLive {
			began.Cause, began.Adopted = sig.Cause, false
		}
	}
	s.record(began)
	if !began.Adopted {
		s.tell(telling{event: lifeloop.SessionStarting, evidence: by(call.Signals...), data: map[string]any{"cause": began.Cause}})
	}
	for _, sig := range call.Signals {
		if (sig.Kind == telemetry.TurnStop || sig.Kind == telemetry.TurnEnd) && s.top() == nil {
			s.record(FrameAdopted{Frame: cmp.Or(sig.Turn, s.cfg.NewID("frm_")), Turn: sig.Turn})
		}
	}
}

// busyPatience is how long a call may be in flight before its client counts as
// slow. A hook waits for a client that is merely at work; it does not wait for
// one that is slow to be free.
const busyPatience = time.Second

// inside makes a hook with a slot wait for the calls of an event that was told
// in it. They overtake what waits in their clients' queues.
func (s *step) inside(h *hook, calls []CallRef) {
	if h == nil || h.call.Slot == "" {
		return
	}
	for _, c := range calls {
		var free time.Time
		if f, busy := s.soft.flying[c.Client]; busy {
			if free = f.began.Add(busyPatience); !s.now.Before(free) {
				s.busy(c.Call)
				continue
			}
		}
		same := s.overtake(c.Client)
		if free.IsZero() && same > 1 {
			free = s.now.Add(busyPatience) // it is free, but has others to hear first
		}
		h.waitsFor[c.Call] = free
	}
}

// overtake moves the calls of this invocation to the front of a client's queue
// and returns how many it moved. The waiting calls of the same frames move with
// them: a client receives the events of one frame in order, and the end of one
// frame before the opening of the next.
func (s *step) overtake(client string) int {
	queue := s.soft.queue[client]
	frames := map[string]bool{}
	for _, id := range queue {
		if k := s.hard.Calls[id]; k.Invocation == s.invocation() && k.Frame != nil {
			frames[k.Frame.FrameID] = true
		}
	}
	front, rest := []string{}, []string{}
	for _, id := range queue {
		if k := s.hard.Calls[id]; k.Invocation == s.invocation() || k.Frame != nil && frames[k.Frame.FrameID] {
			front = append(front, id)
		} else {
			rest = append(rest, id)
		}
	}
	s.soft.queue[client] = append(front, rest...)
	return len(front)
}

// busy ends a call that its client was not free for in time.
func (s *step) busy(call string) {
	k := s.hard.Calls[call]
	s.unqueue(k.Client, call)
	s.receiptFor(k, lifeloop.Skipped, "", "", []string{"client_busy"})
}

// patienceOver skips the clients that were not free in time, and answers the
// hooks that waited for nobody else.
func (s *step) patienceOver() {
	for _, id := range append([]string(nil), s.soft.hookOrder...) {
		h := s.soft.hooks[id]
		if h == nil || h.answered {
			continue
		}
		for _, call := range slices.Sorted(maps.Keys(h.waitsFor)) {
			if free := h.waitsFor[call]; !free.IsZero() && !s.now.Before(free) {
				delete(h.waitsFor, call)
				s.busy(call)
			}
		}
		if len(h.waitsFor) == 0 {
			s.answerHook(h)
		}
	}
}

// hookCallDone lets the hooks go that waited for a call.
func (s *step) hookCallDone(call string) {
	for _, id := range append([]string(nil), s.soft.hookOrder...) {
		h := s.soft.hooks[id]
		if h == nil || h.answered {
			continue
		}
		if _, waits := h.waitsFor[call]; !waits {
			continue
		}
		delete(h.waitsFor, call)
		if len(h.waitsFor) == 0 {
			s.answerHook(h)
		}
	}
}

// answerHook closes a hook with whatever fits its slot by now.
func (s *step) answerHook(h *hook) {
	h.answered = true
	if h.call.Slot != "" && s.hard.Exit == nil && !s.soft.lame {
		h.parcels = s.fill(h)
	}
	if len(h.parcels) == 0 {
		s.do(HookAnswer{Hook: h.id, Event: h.call.Event})
		s.record(HookAnswered{Hook: h.id, Event: h.call.Event, Session: h.call.Session, Turn: h.call.Turn})
		s.hookOver(h)
		return
	}
	context := lifeloop.RenderPayloads(h.envelopes)
	f := Placing{Hook: h.id, Event: h.call.Event, Slot: h.call.Slot, Bytes: context.Len()}
	for _, p := range h.parcels {
		f.Items = append(f.Items, PlacedRef{Call: p.call, Index: p.index, PayloadID: p.payload.PayloadID,
			Placement: p.chosen.Payload, Support: p.chosen.Support})
	}
	s.record(f)
	s.do(HookAnswer{Hook: h.id, Event: h.call.Event, Context: context})
}

// hookClosed folds how an answer with payloads went. An empty answer is over
// when it is given.
func (s *step) hookClosed(in HookClosed) {
	h := s.soft.hooks[in.Hook]
	if h == nil {
		return
	}
	if !h.answered { // the harness stopped listening before we had an answer
		h.answered = true
		s.record(HookAnswered{Hook: h.id, Event: h.call.Event, Session: h.call.Session, Turn: h.call.Turn})
		s.hookOver(h)
		return
	}
	s.record(HookAnswered{Hook: h.id, Event: h.call.Event, Session: h.call.Session, Turn: h.call.Turn,
		Payloads: len(h.parcels), Delivered: in.Delivered})
	for _, p := range h.parcels {
		if in.Delivered {
			s.settle(p, lifeloop.Delivered, "", "")
		} else {
			p.hook = ""
			s.settle(p, lifeloop.Failed, lifeloop.PayloadRejected, "the hook was gone before the answer was written")
		}
	}
	s.hookOver(h)
}

// hookOver forgets a hook and tells that the frame it opened took delivery or
// skipped it.
func (s *step) hookOver(h *hook) {
	delete(s.soft.hooks, h.id)
	for i, id := range s.soft.hookOrder {
		if id == h.id {
			s.soft.hookOrder = append(s.soft.hookOrder[:i:i], s.soft.hookOrder[i+1:]...)
			break
		}
	}
	if h.opens != "" {
		s.frameOpened(h.opens, []lifeloop.Evidence{{Source: "hook", Detail: h.call.Event}})
	}
}

// heardHook notes that hooks are heard, and tells the recovery if they were
// thought lost.
func (s *step) heardHook() {
	s.soft.hookDue = time.Time{}
	if s.support(hooksCapability) == lifeloop.Unavailable {
		s.degrade(hooksCapability, lifeloop.Unavailable, s.claimed(hooksCapability), "a hook was heard")
	}
}

// hooksCapability is what is lost first when hooks are not heard.
const hooksCapability = string(lifeloop.FrameOpening)

// hooksUnheard tells that injected hooks stay silent: a dialog is open, or the
// user's or a managed setting turned them off.
func (s *step) hooksUnheard() {
	if !s.hard.Alive {
		return
	}
	s.degrade(hooksCapability, s.support(hooksCapability), lifeloop.Unavailable,
		"no hook heard "+s.cfg.HookPatience.String()+" after the launch: a dialog may be open, or hooks are turned off")
}

// claimed is the support that this launch began with, or what it is worth until
// it is proven of a version that was not tested.
func (s *step) claimed(capability string) lifeloop.Support {
	if s.hard.Unproven[capability] {
		return lifeloop.Partial
	}
	return negotiate.Support(s.manifest(), capability)
}

// support is what is left of it now.
func (s *step) support(capability string) lifeloop.Support {
	if now, moved := s.hard.Support[capability]; moved {
		return now
	}
	return s.claimed(capability)
}

// degrade tells capability.degraded, in either direction.
func (s *step) degrade(capability string, from, to lifeloop.Support, evidence string) {
	if from == to {
		return
	}
	retry := lifeloop.RetryAfterReconfigure
	if to.Stronger(from) {
		retry = lifeloop.SafeRetry // it is back: nothing has to change first
	}
	d := &lifeloop.Degradation{Event: lifeloop.CapabilityDegraded, Capability: capability, PreviousSupport: from,
		CurrentSupport: to, ObservedAtEpochS: s.now.Unix(), Evidence: evidence, RetryClass: retry}
	s.tell(telling{event: lifeloop.CapabilityDegraded, evidence: own(evidence), degradation: d, data: map[string]any{
		"capability": capability, "previous_support": string(from), "current_support": string(to),
		"observed_at_epoch_s": d.ObservedAtEpochS, "evidence": evidence, "retry_class": string(d.RetryClass)}})
}
