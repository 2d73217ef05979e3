package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lifeloop/gate"
	"lifeloop/kernel"
)

// Gate counts the decisions of a session's gate.
type Gate struct {
	Allowed int `json:"allowed"`
	Refused int `json:"refused"`
	// Last is the newest refusal of an act that the user has not approved later; null
	// if there is none.
	Last *GateRefusal `json:"last_refusal"`
	// before is the value that Last had before the newest refusal.
	before *GateRefusal
	// Waiting lists the acts that wait for an approval, the oldest first. It is absent
	// if there are none.
	Waiting []GateWaiting `json:"waiting,omitempty"`
}

// A GateWaiting is an act that waits until the user runs `approve` or `deny` with the
// value of Intent. Intent is the digest of the gate.Intent that describes the act. The act
// counts as refused until it is approved.
type GateWaiting struct {
	ask    string
	before *GateRefusal // the newest refusal that is older than the refusal of this act
	Act    string       `json:"act"` // the name of the called tool, or of another act, such as harness.launch
	Intent string       `json:"intent_digest"`
	Until  time.Time    `json:"until"`
}

// approving adds an act that waits for an approval.
func (s *Status) approving(f kernel.ApprovalAsked) {
	g := s.gate()
	g.Waiting = append(slices.Clone(g.Waiting), GateWaiting{f.Ask, g.before, cmp.Or(f.Tool, f.Act, gate.ActLaunch), f.Intent, f.Until})
	s.Gate = &g
}

// approved applies the answer about an act that waited. The gate's decision counted
// the act as refused. If the act is approved, it is counted as allowed instead.
func (s *Status) approved(f kernel.ApprovalAnswered) {
	g := s.gate()
	var answered GateWaiting
	g.Waiting = slices.DeleteFunc(slices.Clone(g.Waiting), func(w GateWaiting) bool {
		if w.ask == f.Ask {
			answered = w
		}
		return w.ask == f.Ask
	})
	if f.Approved {
		g.Allowed, g.Refused = g.Allowed+1, g.Refused-1
		replace := func(r **GateRefusal) {
			if *r != nil && (*r).IntentDigest == f.Intent {
				*r = answered.before
			}
		}
		replace(&g.Last)
		replace(&g.before)
		for i := range g.Waiting {
			replace(&g.Waiting[i].before)
		}
	}
	s.Gate = &g
}

// gate returns a copy of the counts: a caller may still use an earlier copy of the
// status, which must not change.
func (s *Status) gate() Gate {
	if s.Gate == nil {
		return Gate{}
	}
	return *s.Gate
}

// A GateRefusal is one act that the policy did not allow.
type GateRefusal struct {
	At           time.Time `json:"at"`
	Act          string    `json:"act"` // the name of the called tool, or of another act, such as harness.launch
	Verdict      string    `json:"verdict"`
	Reasons      []string  `json:"reason_codes"`
	Rule         string    `json:"matched_rule,omitempty"`
	IntentDigest string    `json:"intent_digest,omitempty"`
	TraceID      string    `json:"trace_id,omitempty"`
}

// decided counts a decision of the gate.
func (s *Status) decided(f kernel.GateAnswered, at time.Time) {
	g := s.gate()
	if f.Allowed() {
		g.Allowed++
	} else {
		g.Refused++
		act := f.Act
		if f.Tool != "" {
			act = f.Tool
		}
		g.before = g.Last
		g.Last = &GateRefusal{At: at, Act: act, Verdict: string(f.Verdict), Reasons: append([]string{}, f.Reasons...), Rule: f.Rule, IntentDigest: f.IntentDigest, TraceID: f.TraceID}
	}
	s.Gate = &g
}

// Text describes the gate's decisions in one line.
func (g Gate) Text() string {
	text := fmt.Sprintf("%d allowed, %d refused", g.Allowed, g.Refused)
	if r := g.Last; r != nil {
		text += fmt.Sprintf("; the last refusal, %s: %s (%s)", r.Act, r.Verdict, strings.Join(r.Reasons, ", "))
	}
	return text
}

// Text says which act waits, and until when.
func (w GateWaiting) Text() string {
	return w.Act + " waits for an approval until " + w.Until.Local().Format(time.TimeOnly)
}
