package supervisor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

type gateFunc func(kernel.AskGate) (kernel.GateDecision, error)

func (f gateFunc) Decide(e kernel.AskGate) (kernel.GateDecision, error) { return f(e) }

// TestGateThatFails: without a decision there is a failure, which refuses the act, and
// no text of the act is in it.
func TestGateThatFails(t *testing.T) {
	const canary = "rm -rf canary"
	for name, c := range map[string]struct {
		gate Gate
		want lifeloop.FailureClass
	}{
		"no gate":  {nil, lifeloop.InternalError},
		"a panic":  {gateFunc(func(kernel.AskGate) (kernel.GateDecision, error) { panic(canary) }), lifeloop.InternalError},
		"an error": {gateFunc(func(kernel.AskGate) (kernel.GateDecision, error) { return kernel.GateDecision{}, errors.New(canary) }), lifeloop.InvalidRequest},
	} {
		in := decideAct(c.gate, kernel.AskGate{Ask: "ask_1"})
		require.Equal(t, "ask_1", in.Ask, name)
		require.Equal(t, c.want, in.Failure, name)
		require.NotContains(t, in.Why, "canary", name)
		require.False(t, in.Decision.Allowed(), name)
	}
	in := decideAct(gateFunc(func(kernel.AskGate) (kernel.GateDecision, error) { return kernel.GateDecision{Verdict: "allow"}, nil }), kernel.AskGate{Ask: "a"})
	require.Empty(t, in.Failure)
	require.True(t, in.Decision.Allowed())
}
