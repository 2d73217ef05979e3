package kernel

import (
	"slices"
	"strings"
	"time"

	"lifeloop/lifeloop"
)

// This file lets a person approve a launch for which the policy requires an approval.
// The session waits for the command `approve` or `deny`, for as long as its owner
// chose; without that wait the act is refused at once. The wrapper's death refuses it.

type (
	// ApprovalAsked records that a launch waits for an approval.
	ApprovalAsked struct {
		Ask    string    `json:"ask"`
		Intent string    `json:"intent_digest"`
		Until  time.Time `json:"until"`
	}
	// ApprovalAnswered records the answer. If Failure is set, there was none, and the
	// launch is refused.
	ApprovalAnswered struct {
		Ask      string                `json:"ask"`
		Intent   string                `json:"intent_digest"`
		Approved bool                  `json:"approved"`
		Reason   string                `json:"reason,omitempty"` // given with the command
		Failure  lifeloop.FailureClass `json:"failure,omitempty"`
	}
	// ApprovalGiven is the command approve or deny of the session socket. Intent is the
	// digest of an intent, or a beginning of it.
	ApprovalGiven struct {
		Ask, Intent, Reason string
		Approve             bool
	}
)

func (in ApprovalGiven) handle(s *step) { s.guards.given(s, in) }

func (ApprovalAsked) key() (string, bool) { return "approval_asked", true }
func (f ApprovalAsked) apply(k *Kernel) {
	k.guards.hard.Approvals = append(k.guards.hard.Approvals, f)
}

func (ApprovalAnswered) key() (string, bool) { return "approval_answered", true }
func (f ApprovalAnswered) apply(k *Kernel) {
	h := &k.guards.hard
	h.Approvals = slices.DeleteFunc(slices.Clone(h.Approvals), func(q ApprovalAsked) bool { return q.Ask == f.Ask })
}

// waits makes a launch wait for an approval, if its owner wants that.
func (g *guards) waits(s *step, p pending, f GateAnswered) bool {
	if f.Act != ActLaunch || f.Verdict != verdictApproval || f.Failure != "" || s.cfg.ApprovalWait <= 0 || s.ending.requested() {
		return false
	}
	p.decision = f
	p.until = s.now.Add(s.cfg.ApprovalWait)
	g.soft.acts[f.Ask] = p
	s.record(ApprovalAsked{Ask: f.Ask, Intent: f.IntentDigest, Until: p.until.UTC()})
	return true
}

// minIntent is how much of a digest names an intent.
const minIntent = 8

func (g *guards) given(s *step, in ApprovalGiven) {
	what := "deny"
	if in.Approve {
		what = "approve"
	}
	i := slices.IndexFunc(g.hard.Approvals, func(q ApprovalAsked) bool {
		return len(in.Intent) >= minIntent && strings.HasPrefix(q.Intent, in.Intent)
	})
	if i < 0 || s.session.ledgerLost() {
		s.refuseCommand(what, in.Ask, in.Reason, lifeloop.StateConflict, "no act with this intent waits for an approval")
		return
	}
	q := g.hard.Approvals[i]
	s.do(Reply{Ask: in.Ask})
	g.approval(s, q, ApprovalAnswered{Approved: in.Approve, Reason: in.Reason})
}

// approval records the answer, and then performs or refuses the launch.
func (g *guards) approval(s *step, q ApprovalAsked, f ApprovalAnswered) {
	p := g.soft.acts[q.Ask]
	delete(g.soft.acts, q.Ask)
	f.Ask, f.Intent = q.Ask, q.Intent
	s.record(f)
	g.conclude(s, p, f.Approved, p.decision.refusal())
}
