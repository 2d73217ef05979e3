package supervisor

import (
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
)

// A Gate decides about a guarded act: one that the policy can refuse, such as a launch
// or a tool call. After an error there is no decision, and the act does not happen.
type Gate interface {
	Decide(effect.AskGate) (input.GateDecision, error)
}

// askGate asks the gate on a goroutine of its own, because the gate may read files
// that the act names, and the loop must not wait.
func (s *supervisor) askGate(e effect.AskGate) {
	s.wg.Go(func() { s.post(decideAct(s.p.Gate, e)) })
}

// decideAct asks the gate. After a panic only this question fails. The error's text
// is not used, because it may contain an argument of the act.
func decideAct(g Gate, e effect.AskGate) (in input.GateDecided) {
	in.Ask = e.Ask
	failed := input.GateDecided{Ask: e.Ask, Failure: lifeloop.InternalError, Why: "the gate failed"}
	defer func() {
		if recover() != nil {
			in = failed
		}
	}()
	if g == nil {
		return failed
	}
	d, err := g.Decide(e)
	if err != nil {
		failed.Failure, failed.Why = lifeloop.InvalidRequest, "the policy cannot evaluate the intent request for this act"
		return failed
	}
	in.Decision = d
	return in
}
