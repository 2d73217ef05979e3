package kernel

import (
	"cmp"
	"strings"

	"lifeloop/canon"
	"lifeloop/gate"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/session"
	"lifeloop/telemetry"
)

// This file asks the gate about each guarded act, and performs or refuses the
// act after the decision.

// admit asks about the first launch of the session, before the session runs.
func (g *guards) admit(s *step) {
	g.ask(s, pending{}, GateAsked{Act: gate.ActLaunch, Profile: s.recovery.spent().Profile}, effect.AskGate{})
}

// launch performs a launch. Under a policy it asks the gate first, and the launch
// waits for the decision, unless the gate has admitted it already.
func (g *guards) launch(s *step, l effect.Launch) {
	if g.soft.admitted || !s.cfg.guarded() {
		g.soft.admitted = false
		s.do(l)
		return
	}
	g.ask(s, pending{launch: &l}, GateAsked{Act: gate.ActLaunch, Profile: l.Profile}, effect.AskGate{})
}

// renew asks about a renewal whose required capabilities are available. The prepare
// command does not run before the gate has allowed the renewal. reply is the id of the
// user's command that asked for the renewal; empty if none did.
func (g *guards) renew(s *step, r *renewal.Machine, path renewal.Path, reply string) {
	client := cmp.Or(s.renewals.rules(s).Client, selfClient)
	g.ask(s, pending{renewal: r.ID, path: path, reply: reply}, GateAsked{Act: gate.ActRenew, Renewal: r.ID, Profile: s.recovery.spent().Profile},
		effect.AskGate{Renewal: &effect.RenewalAct{ID: r.ID, Profile: r.Profile, Client: client, By: r.By, Path: path, Number: r.Count + 1}})
}

// tool asks about a tool call of the harness. The hook h of that call waits for the
// decision.
func (g *guards) tool(s *step, h *hook) {
	use := h.call.Use
	g.ask(s, pending{hook: h.id, limit: h.limit, canAsk: use.CanAsk}, GateAsked{Act: gate.ActTool, Hook: h.id, Tool: use.Name, Call: use.Tool}, effect.AskGate{Use: use})
}

// deliver asks about a payload that is to be delivered by a hook.
func (g *guards) deliver(s *step, h *hook, p *parcel) {
	e := p.payload
	act := &effect.PayloadAct{ID: e.PayloadID, Client: p.client, Kind: e.PayloadKind, Placement: p.chosen.Payload, Slot: string(p.chosen.Class), Bytes: size(e)}
	switch {
	case e.Body != nil:
		act.Digest = string(canon.Sum([]byte(e.Body.Reveal())))
	case e.ContentDigest != nil:
		act.Digest = *e.ContentDigest
	}
	g.ask(s, pending{hook: h.id, limit: h.limit, parcel: p}, GateAsked{Act: gate.ActInject, Hook: h.id, Payload: e.PayloadID, Dispatch: p.call, Index: p.index}, effect.AskGate{Payload: act})
}

// conclude performs or refuses an act after the gate's decision f. The fact a says how
// the wait for an approval ended, with or without the user's answer; a is nil if the
// act did not wait.
func (g *guards) conclude(s *step, p pending, f GateAnswered, a *ApprovalAnswered) {
	allowed, why := f.Allowed(), f.refusal()
	if a != nil {
		allowed = a.Approved
		if a.Reason != "" {
			why += "; the user's reason: " + a.Reason
		}
	}
	switch f.Act {
	case gate.ActTool:
		if a != nil && a.Failure != lifeloop.StateConflict {
			s.activity.waited(s)
		}
		s.slots.judged(s, p.hook, f.verdict(p.canAsk, a, why))
	case gate.ActInject:
		s.slots.permitted(s, p, f)
	case gate.ActRenew:
		s.renewals.permitted(s, p, allowed, why)
	default:
		g.concludeLaunch(s, p, allowed, why)
	}
}

func (g *guards) concludeLaunch(s *step, p pending, allowed bool, why string) {
	switch {
	case p.launch != nil && allowed && s.ending.signal() == 0:
		s.do(*p.launch)
	case p.launch != nil:
		refused := !allowed && !s.ending.requested() && s.session.timeout() == ""
		s.attempts.launchFailed(s, input.LaunchFailed{Code: 125, Why: why, Withheld: true, Refused: refused})
	case s.ending.requested():
		s.session.move(s, session.Rejected, abortedBeforeStart)
	case !allowed:
		s.refuse(why, lifeloop.OperatorRequired)
	default:
		g.soft.admitted = true
		s.approved()
	}
}

// refusal returns the reason why an act was refused, as text for the user or
// the model.
func (f GateAnswered) refusal() string {
	what := f.Act
	if f.Act == gate.ActTool {
		what = "this tool call"
	}
	text := "the policy does not allow " + what
	switch {
	case f.Failure != "":
		return "the gate did not decide on " + what + ", so it is not allowed: " + f.Why
	case f.Verdict == gate.RequireApproval:
		text = "the policy requires approval of " + what + ", which was not given"
	}
	if codes := strings.Join(f.Reasons, ", "); codes != "" {
		text += ": " + codes
	}
	if f.Rule != "" {
		text += " (rule " + f.Rule + ")"
	}
	return text
}

// verdict returns the answer to the hook of a tool call. If the policy requires an
// approval and the user gave no answer, the verdict makes the harness ask the user,
// if the hook can do this (canAsk).
func (f GateAnswered) verdict(canAsk bool, a *ApprovalAnswered, why string) effect.HookVerdict {
	unanswered := a == nil || a.Failure == lifeloop.Timeout
	switch {
	case f.Allowed(), a != nil && a.Approved:
		return effect.HookVerdict{Decision: telemetry.Allow}
	case f.Verdict == gate.RequireApproval && canAsk && f.Failure == "" && unanswered:
		return effect.HookVerdict{Decision: telemetry.Ask, Reason: "the policy requires approval: " + cmp.Or(strings.Join(f.Reasons, ", "), "no reason given")}
	}
	return effect.HookVerdict{Decision: telemetry.Deny, Reason: why}
}
