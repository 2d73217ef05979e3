package supervisor

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/gate"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
)

type gateFunc func(effect.AskGate) (input.GateDecision, error)

func (f gateFunc) Decide(e effect.AskGate) (input.GateDecision, error) { return f(e) }

// TestGateThatFails checks that a gate without a decision gives a failure, which
// refuses the act, and that the failure contains no text of the act.
func TestGateThatFails(t *testing.T) {
	const canary = "rm -rf canary"
	for name, c := range map[string]struct {
		gate Gate
		want lifeloop.FailureClass
	}{
		"no gate":  {nil, lifeloop.InternalError},
		"a panic":  {gateFunc(func(effect.AskGate) (input.GateDecision, error) { panic(canary) }), lifeloop.InternalError},
		"an error": {gateFunc(func(effect.AskGate) (input.GateDecision, error) { return input.GateDecision{}, errors.New(canary) }), lifeloop.InvalidRequest},
	} {
		in := decideAct(c.gate, effect.AskGate{Ask: "ask_1"})
		require.Equal(t, "ask_1", in.Ask, name)
		require.Equal(t, c.want, in.Failure, name)
		require.NotContains(t, in.Why, "canary", name)
		require.False(t, in.Decision.Allowed(), name)
	}
	in := decideAct(gateFunc(func(effect.AskGate) (input.GateDecision, error) { return input.GateDecision{Verdict: "allow"}, nil }), effect.AskGate{Ask: "a"})
	require.Empty(t, in.Failure)
	require.True(t, in.Decision.Allowed())
}

// TestEveryAppendMayFailUnderAPolicy repeats a run under a policy. In each run another
// append fails: the first, then the second, and so on.
// No launch, no payload and no tool call passes without its decision on the ledger. A
// failure of the sync that follows the answer to a tool call ends the run.
func TestEveryAppendMayFailUnderAPolicy(t *testing.T) {
	syncs := 0
	for n, more := 1, true; more; n++ {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.ledger.refuse = n
			r.gate = gateFunc(func(e effect.AskGate) (input.GateDecision, error) {
				return input.GateDecision{Verdict: "allow", IntentDigest: e.Act}, nil
			})
			r.answers["notes"] = brings("remember")
			r.launcher.play = func(func(input.Input)) {
				time.Sleep(time.Second)
				r.hook("Start", "")
				for _, call := range []string{"t1", "t2"} {
					r.hook("Tool", call)
					time.Sleep(time.Second)
				}
				r.hook("Prompt", "p1")
				time.Sleep(time.Second)
				r.launcher.child.end(input.ChildExited{})
			}
			_, err := r.run()
			where := strings.Join(r.trace, "\n")
			decided := map[string]int{}
			for _, f := range r.ledger.facts {
				if f, ok := f.(kernel.GateAnswered); ok && f.Allowed() {
					decided[f.Act]++
				}
			}
			require.LessOrEqual(t, len(r.lines("launch")), decided[gate.ActLaunch], where)
			require.LessOrEqual(t, strings.Count(where, `"pass\n"`), decided[gate.ActTool], where)
			require.LessOrEqual(t, strings.Count(where, "remember"), decided[gate.ActInject], where)
			if more = r.ledger.broken; !more {
				require.NoError(t, err)
				require.Equal(t, map[string]int{gate.ActLaunch: 1, gate.ActTool: 2, gate.ActInject: 1}, decided, where)
				return
			}
			require.ErrorIs(t, err, ErrLedger, where)
			if len(r.ledger.failed) == 0 {
				syncs++
			}
		})
	}
	require.Equal(t, 2, syncs, "each tool call is synced after its answer")
}
