package kernel

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lifeloop/gate"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
)

// This file lets a person approve a launch, a renewal or a tool call for which the
// policy requires an approval. The act waits at most Config.ApprovalWait for the command
// `approve` or `deny`; a tool call waits no longer than its hook can. If ApprovalWait
// is 0, a launch and a renewal are refused at once. A tool call is refused too, unless
// its hook can make the harness ask its user. A delivery of a payload never waits,
// because a prompt would wait with it. If the wrapper dies, the act is refused.

type (
	// ApprovalAsked records that an act waits for an approval. Intent is the digest of
	// the [gate.Intent] of the act: the request that the gate has evaluated.
	ApprovalAsked struct {
		Ask    string    `json:"ask"`
		Act    string    `json:"act,omitempty"`       // empty in old ledgers, where it means a launch
		Tool   string    `json:"tool_name,omitempty"` // the tool name in that request
		Intent string    `json:"intent_digest"`
		Until  time.Time `json:"until"`
	}
	// ApprovalAnswered records the answer. If Failure is set, no answer came; the act
	// is then refused, or the harness asks its user itself.
	ApprovalAnswered struct {
		Ask      string                `json:"ask"`
		Intent   string                `json:"intent_digest"`
		Approved bool                  `json:"approved"`
		Reason   string                `json:"reason,omitempty"` // the reason given with the command
		Failure  lifeloop.FailureClass `json:"failure,omitempty"`
	}
)

func (ApprovalAsked) key() (string, bool) { return "approval_asked", true }
func (f ApprovalAsked) apply(k *Kernel) {
	k.guards.hard.Approvals = append(k.guards.hard.Approvals, f)
}

func (ApprovalAnswered) key() (string, bool) { return "approval_answered", true }
func (f ApprovalAnswered) apply(k *Kernel) {
	h := &k.guards.hard
	h.Approvals = slices.DeleteFunc(slices.Clone(h.Approvals), func(q ApprovalAsked) bool { return q.Ask == f.Ask })
}

func (q ApprovalAsked) act() string { return cmp.Or(q.Act, gate.ActLaunch) }

// waits makes an act wait for an approval if the gate's decision f requires one and
// the session is configured to wait. It reports whether the act waits.
func (g *guards) waits(s *step, p pending, f GateAnswered) bool {
	if f.Act == gate.ActInject || f.Verdict != gate.RequireApproval || f.Failure != "" || s.cfg.ApprovalWait <= 0 || s.ending.requested() || s.session.ledgerLost() {
		return false
	}
	until := s.now.Add(s.cfg.ApprovalWait)
	if !p.limit.IsZero() {
		until = sooner(until, p.limit)
	}
	if !s.now.Before(until) {
		return false
	}
	if p.reply != "" {
		s.do(effect.Reply{Ask: p.reply, Renewal: p.renewal})
		p.reply = ""
	}
	p.decision, p.until = f, until
	g.soft.acts[f.Ask] = p
	s.record(ApprovalAsked{Ask: f.Ask, Act: f.Act, Tool: f.Tool, Intent: f.IntentDigest, Until: p.until.UTC()})
	return true
}

// asksUser reports whether a tool call of the harness waits for an approval. While one
// waits, the harness is silent for a known reason, and the timers for silence do not run.
func (g *guards) asksUser() bool {
	return slices.ContainsFunc(g.hard.Approvals, func(q ApprovalAsked) bool { return q.act() == gate.ActTool })
}

// minIntent is the length of the shortest prefix of an intent's digest that the commands
// `approve` and `deny` accept.
const minIntent = 8

func (g *guards) given(s *step, in input.ApprovalGiven) {
	what := "deny"
	if in.Approve {
		what = "approve"
	}
	if s.session.ledgerLost() {
		s.refuseCommand(what, in.Ask, in.Reason, lifeloop.StateConflict, ledgerRefuses)
		return
	}
	i := slices.IndexFunc(g.hard.Approvals, func(q ApprovalAsked) bool {
		return len(in.Intent) >= minIntent && strings.HasPrefix(q.Intent, in.Intent)
	})
	if i < 0 {
		s.refuseCommand(what, in.Ask, in.Reason, lifeloop.StateConflict, "no act with this intent digest waits for an approval (give the digest that status shows, or at least its first 8 characters)")
		return
	}
	q := g.hard.Approvals[i]
	s.do(effect.Reply{Ask: in.Ask})
	g.approval(s, q, ApprovalAnswered{Approved: in.Approve, Reason: in.Reason})
}

// approval records f, the answer to q, and then performs or refuses the act.
func (g *guards) approval(s *step, q ApprovalAsked, f ApprovalAnswered) {
	p := g.soft.acts[q.Ask]
	delete(g.soft.acts, q.Ask)
	f.Ask, f.Intent = q.Ask, q.Intent
	s.record(f)
	g.conclude(s, p, p.decision, &f)
}
