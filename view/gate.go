package view

import (
	"fmt"
	"strings"
	"time"

	"lifeloop/kernel"
)

// Gate counts the decisions of a session's gate.
type Gate struct {
	Allowed int `json:"allowed"`
	Refused int `json:"refused"`
	// Last is the newest refusal; null if there was none.
	Last *GateRefusal `json:"last_refusal"`
	// Waiting is the act that waits for an approval; absent if none does.
	Waiting *GateWaiting `json:"waiting,omitempty"`
}

// A GateWaiting is an act that `approve` or `deny` decides, by its intent.
type GateWaiting struct {
	Intent string    `json:"intent_digest"`
	Until  time.Time `json:"until"`
}

// approving notes the act that waits for an approval.
func (s *Status) approving(w *GateWaiting) {
	g := Gate{}
	if s.Gate != nil {
		g = *s.Gate
	}
	g.Waiting = w
	s.Gate = &g
}

// A GateRefusal is one act that the policy did not allow.
type GateRefusal struct {
	At           time.Time `json:"at"`
	Act          string    `json:"act"` // name of the act in its intent
	Verdict      string    `json:"verdict"`
	Reasons      []string  `json:"reason_codes"`
	Rule         string    `json:"matched_rule,omitempty"`
	IntentDigest string    `json:"intent_digest,omitempty"`
	TraceID      string    `json:"trace_id,omitempty"`
}

// decided counts a decision.
func (s *Status) decided(f kernel.GateAnswered, at time.Time) {
	g := Gate{}
	if s.Gate != nil {
		g = *s.Gate
	}
	if f.Allowed() {
		g.Allowed++
	} else {
		g.Refused++
		act := f.Act
		if f.Tool != "" {
			act = f.Tool
		}
		g.Last = &GateRefusal{At: at, Act: act, Verdict: f.Verdict, Reasons: append([]string{}, f.Reasons...), Rule: f.Rule, IntentDigest: f.IntentDigest, TraceID: f.TraceID}
	}
	s.Gate = &g
}

// Text describes the gate's decisions in one line.
func (g Gate) Text() string {
	text := fmt.Sprintf("%d allowed, %d refused", g.Allowed, g.Refused)
	if r := g.Last; r != nil {
		text += fmt.Sprintf("; the last, %s: %s (%s)", r.Act, r.Verdict, strings.Join(r.Reasons, ", "))
	}
	if w := g.Waiting; w != nil {
		text += "; waiting until " + w.Until.Local().Format(time.TimeOnly) + " for approve or deny of intent " + w.Intent[:min(12, len(w.Intent))]
	}
	return text
}
