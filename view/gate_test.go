package view_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/gate"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/view"
)

// TestLastRefusal checks that Gate.Last is the newest refusal of an act that the user has
// not approved later.
func TestLastRefusal(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	refuse := func(intent string) kernel.Fact {
		return kernel.GateAnswered{Act: gate.ActLaunch, GateDecision: input.GateDecision{IntentDigest: intent, Verdict: "require_approval"}}
	}
	ask := func(intent string) kernel.Fact { return kernel.ApprovalAsked{Ask: "ask-" + intent, Intent: intent} }
	answer := func(intent string, approved bool) kernel.Fact {
		return kernel.ApprovalAnswered{Ask: "ask-" + intent, Intent: intent, Approved: approved}
	}
	for _, c := range []struct {
		name  string
		facts []kernel.Fact
		last  string
	}{
		{"none", []kernel.Fact{refuse("a"), ask("a"), answer("a", true)}, ""},
		{"denied", []kernel.Fact{refuse("a"), ask("a"), answer("a", false)}, "a"},
		{"an earlier one", []kernel.Fact{refuse("a"), refuse("b"), ask("b"), answer("b", true)}, "a"},
		{"both approved, in order", []kernel.Fact{refuse("a"), ask("a"), refuse("b"), ask("b"), answer("a", true), answer("b", true)}, ""},
		{"both approved, in reverse", []kernel.Fact{refuse("a"), ask("a"), refuse("b"), ask("b"), answer("b", true), answer("a", true)}, ""},
		{"one before both", []kernel.Fact{refuse("x"), refuse("a"), ask("a"), refuse("b"), ask("b"), answer("a", true), answer("b", true)}, "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s view.Status
			for _, f := range c.facts {
				s.Apply(kernel.Entry{At: at, Fact: f})
			}
			last := ""
			if s.Gate.Last != nil {
				last = s.Gate.Last.IntentDigest
			}
			require.Equal(t, c.last, last)
		})
	}
}
