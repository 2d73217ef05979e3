package kernel

import (
	"slices"

	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/telemetry"
)

// This file decides which slots a waiting payload can still reach (DECISIONS
// L19). A payload belongs to the frame of the event that it answers. Without a
// frame it belongs to the harness session. For each event that a payload may answer,
// the table shows the slots for the payload, in the order of a session:
//
//	              pre_session   its prompt   tool results   the next prompt
//	session.*          ●            ●              ●               ●
//	frame.opening                   ●              ●
//	frame.opened                                   ●
//	frame.ending                                   ●               ●
//	frame.ended                                                    ●
//
// Any other event counts as frame.opened if it has a frame, otherwise as session.*.
// A slot that has passed does not open again. A payload that can no longer reach
// any of its placements is settled in the same step.

// locate sets h.scope, the harness session in which the hook was called. A hook
// with another slot than pre_session shows that the session's pre_session slot has
// passed.
func (l *slots) locate(s *step, h *hook) {
	hs := s.scopes.current()
	if hs == nil || h.call.Session != "" && hs.ID != "" && h.call.Session != hs.ID {
		return // no harness session has begun, or the hook is of a harness that this harness has started
	}
	h.scope = s.scopes.number()
	if h.call.Slot != "" && h.call.Slot != telemetry.SlotSession {
		l.soft.begun = max(l.soft.begun, h.scope)
	}
}

// frameOf returns the frame in which the model reads the answer of a hook.
func (l *slots) frameOf(s *step, h *hook) string {
	switch {
	case h.opens != "":
		return h.opens
	case h.call.Slot == telemetry.SlotSession:
		return ""
	}
	return s.turns.topFrame()
}

// asking reports whether a frame is open and the hook of its prompt still waits for
// an answer.
func (l *slots) asking(s *step, frame string) bool {
	for h := range l.unanswered {
		if frame != "" && h.opens == frame {
			return s.turns.isOpen(frame)
		}
	}
	return false
}

// starts reports whether a hook for the start of a harness session waits for its
// answer.
func (l *slots) starts(scope int) bool {
	for h := range l.unanswered {
		if h.scope == scope && h.call.Slot == telemetry.SlotSession {
			return true
		}
	}
	return false
}

// reachable reports whether a slot of this candidate can still take a payload.
func (l *slots) reachable(s *step, p *parcel, c negotiate.Candidate) bool {
	if s.cfg.OneHook { // in this mode there is no later hook
		return slices.ContainsFunc(l.soft.order, func(id string) bool {
			h := l.soft.hooks[id]
			return !h.answered && h.call.Slot == string(c.Class)
		})
	}
	if s.scopes.of(p.scope).Ending { // the session is ending, so no prompt or tool call follows
		return false
	}
	session := p.frame == ""
	switch c.Class {
	case lifeloop.PreSession:
		return session && (l.soft.begun < p.scope || l.starts(p.scope))
	case lifeloop.ToolResult:
		return session || s.turns.isOpen(p.frame)
	}
	return session || l.asking(s, p.frame) || c.Payload == lifeloop.PrePromptFrame && l.nextPrompt(s, p)
}

// nextPrompt reports whether a payload can still be added to the prompt after the event
// that the payload answers: the user has not submitted this prompt, or the prompt's hook
// still waits for an answer. The result is false unless the event is frame.ending or
// frame.ended.
func (l *slots) nextPrompt(s *step, p *parcel) bool {
	if p.after < 0 {
		return false
	}
	later := s.turns.prompts() - p.after
	return later == 0 || later == 1 && l.asking(s, s.turns.topFrame())
}

// choose returns the candidate of a payload that a hook's slot can carry. A payload
// waits for the first placement in its list that it can still reach, even if a slot
// for a placement further down the list is open.
func (l *slots) choose(s *step, p *parcel, h *hook) (none negotiate.Candidate, ok bool) {
	if p.hook != "" || h.scope == 0 || p.scope != h.scope {
		return none, false
	}
	var first lifeloop.PayloadPlacement
	for _, c := range p.choices {
		if first != "" && c.Payload != first {
			break
		}
		if !l.reachable(s, p, c) {
			continue
		}
		first = c.Payload
		if string(c.Class) == h.call.Slot && l.within(s, p, h) {
			return c, true
		}
	}
	return none, false
}

// within reports whether a hook belongs to the frame of a payload, or to the next
// prompt if the payload waits for the next prompt. A payload without a frame accepts
// every hook.
func (l *slots) within(s *step, p *parcel, h *hook) bool {
	switch {
	case p.frame == "":
		return true
	case h.call.Slot == telemetry.SlotTool: // the tool call must be of the payload's own turn
		f := s.turns.top()
		return f == nil || f.Turn == "" || h.call.Turn == "" || f.Turn == h.call.Turn
	}
	return h.opens != "" && (h.opens == p.frame || h.opens == s.turns.topFrame() && l.nextPrompt(s, p))
}

// review settles the payloads that can no longer reach any of their placements.
func (l *slots) review(s *step) {
	over := func(p *parcel) bool {
		return s.scopes.of(p.scope).Ending || p.frame != "" && p.after < 0 && !s.turns.isOpen(p.frame)
	}
	for _, p := range l.soft.waiting { // settle stores a new slice, so the loop is not disturbed
		if p.hook != "" && !(over(p) && l.takeBack(p)) || slices.ContainsFunc(p.choices, func(c negotiate.Candidate) bool { return l.reachable(s, p, c) }) {
			continue
		}
		next := p.after >= 0 && slices.ContainsFunc(p.choices, func(c negotiate.Candidate) bool { return c.Payload == lifeloop.PrePromptFrame })
		switch {
		case s.scopes.of(p.scope).Ending:
			l.giveUp(s, p, lifeloop.PayloadRejected, "the harness session ended")
		case next:
			l.giveUp(s, p, lifeloop.PayloadRejected, "the next prompt was submitted without the payload")
		case p.frame != "" && !s.turns.isOpen(p.frame):
			l.giveUp(s, p, lifeloop.PayloadRejected, "its frame ended")
		default:
			l.giveUp(s, p, lifeloop.PlacementUnavailable, "no placement that the payload accepts is possible any more")
		}
	}
}

// lost is called when a placement class has become unavailable. It removes the class
// from the choices of the waiting payloads, and settles payloads that have no other
// choice.
func (l *slots) lost(s *step, class lifeloop.Placement, why string) {
	for _, p := range l.soft.waiting {
		if p.hook != "" {
			continue
		}
		had := len(p.choices)
		p.choices = slices.DeleteFunc(slices.Clone(p.choices), func(c negotiate.Candidate) bool { return c.Class == class })
		if had > 0 && len(p.choices) == 0 {
			l.giveUp(s, p, lifeloop.DegradedCapability, why)
		}
	}
}
