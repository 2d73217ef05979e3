package kernel_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lifeloop/gate"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/telemetry"
)

// This file has the laws of guarded acts: such an act happens only if the gate or the user
// has permitted it. The tests check the kernel's facts and effects against these laws. They
// also check that each approval by the user permits only one act.

// A guardAccount records which acts the gate permitted, and which of them
// happened.
type guardAccount struct {
	acts     map[string]kernel.GateAsked // acts by the id of their question
	waiting  map[string]bool             // questions whose act waits for an approval
	granted  map[string]bool             // subjects of the questions that the gate allowed
	launches int                         // number of permitted launches that have not happened yet

	permitted bool // an effect.Launch followed the newest kernel.Launching
	withheld  int  // number of launches that ended without an effect.Launch
	given     bool // this step is an approval by the user, which permits one act
}

func newGuardAccount() guardAccount {
	return guardAccount{acts: map[string]kernel.GateAsked{}, waiting: map[string]bool{}, granted: map[string]bool{}}
}

// subject names what a question is about.
func subject(q kernel.GateAsked) string {
	return q.Act + " " + q.Hook + q.Renewal + " " + q.Dispatch + strconv.Itoa(q.Index)
}

func (g *guardAccount) grant(ask string) {
	if q := g.acts[ask]; q.Act == gate.ActLaunch {
		g.launches++
	} else {
		g.granted[subject(q)] = true
	}
}

// fact checks that no guarded act is recorded without a decision before it, and that
// each question is answered once.
func (g *guardAccount) fact(t require.TestingT, f kernel.Fact) {
	switch f := f.(type) {
	case kernel.GateAsked:
		require.NotContains(t, g.acts, f.Ask)
		g.acts[f.Ask] = f
	case kernel.GateAnswered:
		require.Contains(t, g.acts, f.Ask)
		require.NotContains(t, g.waiting, f.Ask, "a question is answered twice")
		g.waiting[f.Ask] = false
		require.False(t, f.Failure != "" && f.Allowed(), "a gate that failed permits nothing")
		if f.Allowed() {
			g.grant(f.Ask)
		}
	case kernel.ApprovalAsked:
		require.Contains(t, g.waiting, f.Ask, "an approval without a decision")
		require.NotEqual(t, gate.ActInject, f.Act, "a delivery never waits for an approval")
		g.waiting[f.Ask] = true
	case kernel.ApprovalAnswered:
		require.True(t, g.waiting[f.Ask], "an answer without a question")
		g.waiting[f.Ask] = false
		require.False(t, f.Failure != "" && f.Approved)
		if f.Approved {
			g.grant(f.Ask)
		}
	case kernel.Running:
		g.launches--
		require.GreaterOrEqual(t, g.launches, 0, "a launch that was not permitted")
	case kernel.Exited:
		if f.NotStarted { // the permitted launch did not happen
			g.launches = 0
		}
	case kernel.RenewalMoved:
		if f.To == renewal.Negotiated {
			require.True(t, g.granted[subject(kernel.GateAsked{Act: gate.ActRenew, Renewal: f.Renewal})], "a renewal that was not permitted")
		}
	case kernel.Placing:
		for _, item := range f.Items {
			require.True(t, g.granted[subject(kernel.GateAsked{Act: gate.ActInject, Hook: f.Hook, Dispatch: item.Call, Index: item.Index})], "payload %s was not permitted", item.PayloadID)
		}
	case kernel.HookAnswered:
		if f.Decision == telemetry.Allow {
			require.True(t, g.granted[subject(kernel.GateAsked{Act: gate.ActTool, Hook: f.Hook})], "a tool call that was not permitted")
		}
	}
}

// guarded checks a fact of a session under a policy.
func (j *judge) guarded(f kernel.Fact) {
	if j.cfg.Gate == "" {
		return
	}
	j.guardAccount.fact(j.t, f)
	switch f := f.(type) {
	case kernel.GateAnswered:
		j.reach["gate "+f.Act+" "+string(f.Verdict)]++
		if f.Failure != "" {
			j.reach["gate "+string(f.Failure)]++
		}
	case kernel.Exited:
		if !j.permitted { // the launch ended without having been performed
			j.withheld++
		}
	case kernel.ApprovalAnswered:
		require.True(j.t, j.given || !f.Approved, "one approval permits one act")
		j.given = j.given && !f.Approved
		j.reach[fmt.Sprint("approved ", f.Approved, " ", f.Failure)]++
	}
}

// effect checks that no guarded act happens without its decision.
func (g *guardAccount) effect(t require.TestingT, e effect.Effect) {
	switch e := e.(type) {
	case effect.Launch:
		require.Positive(t, g.launches, "a launch that was not permitted")
	case effect.HookAnswer:
		if e.Verdict != nil && e.Verdict.Decision == telemetry.Allow {
			require.True(t, g.granted[subject(kernel.GateAsked{Act: gate.ActTool, Hook: e.Hook})], "a tool call that was not permitted")
		}
	}
}

// checkGuarded checks the facts of a session, and the effects of its newest output, by the
// laws of this file.
func checkGuarded(t require.TestingT, cfg kernel.Config, entries []kernel.Entry, out kernel.Output) {
	if cfg.Gate == "" {
		return
	}
	g := newGuardAccount()
	for _, e := range entries {
		g.fact(t, e.Fact)
	}
	for _, e := range out.Effects {
		g.effect(t, e)
	}
}

// drawGate draws whether a policy guards the session.
func drawGate(r *rapid.T, cfg *kernel.Config) {
	if !cfg.Observing && chance(r, "guarded", 2) {
		cfg.Guarding = setup.Guarding{Gate: "sha256:policy", ApprovalWait: pick(r, "approval wait", 0, 2*time.Second, 20*time.Second)}
	}
}

// unanswered returns the questions without an answer.
func (g *guardAccount) unanswered() (asks []string) {
	for ask := range g.acts {
		if _, answered := g.waiting[ask]; !answered {
			asks = append(asks, ask)
		}
	}
	slices.Sort(asks)
	return asks
}

// decides lets the gate answer a question, or answer one again.
func (w *fate) decides() {
	asks := w.unanswered()
	if len(asks) == 0 || chance(w.r, "a late answer", 20) {
		asks = slices.Sorted(maps.Keys(w.acts))
	}
	if len(asks) == 0 {
		return
	}
	ask := pick(w.r, "which question", asks...)
	in := input.GateDecided{Ask: ask, Decision: input.GateDecision{Tool: w.acts[ask].Act, IntentDigest: pick(w.r, "intent", "aaaaaaaaaa", "aaaaaaaaab", "bbbbbbbbbb"),
		Verdict: gate.Verdict(pick(w.r, "verdict", "allow", "allow", "allow", "allow", "allow", "allow", "block", "require_approval", "require_approval", "dry_run", ""))}}
	if chance(w.r, "the gate fails", 12) {
		in.Failure, in.Why = lifeloop.TransportError, "the trace cannot be written"
	}
	w.feed(in)
}

// approves lets the user approve or deny an act. The command gives the digest of the
// act's intent, or its first characters. Possibly no such act waits.
func (w *fate) approves() {
	w.feed(input.ApprovalGiven{Ask: "a1", Approve: !chance(w.r, "denied", 3), Reason: pick(w.r, "reason", "", "because"),
		Intent: pick(w.r, "of the intent", "aaaaaaaaaa", "aaaaaaaaab", "bbbbbbbbbb", "aaaaaaaa", "aaaa", "")})
}
