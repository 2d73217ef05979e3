package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"lifeloop/dispatch"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
)

// decide performs the effect Decide: it asks the program of `retry.decide` whether
// to retry.
func (s *supervisor) decide(e effect.Decide) {
	if s.p.Decider == nil {
		s.results = append(s.results, input.Decided{Ask: e.Ask, Failure: lifeloop.InternalError, Why: "retry.decide names no program"})
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, e.Timeout)
	s.cancel[e.Ask] = cancel
	s.wg.Go(func() {
		defer cancel()
		s.post(askProgram(ctx, s.p.Decider, e))
	})
}

// askProgram calls the program once and decodes its answer. Errors never quote
// the answer.
func askProgram(ctx context.Context, program Client, e effect.Decide) input.Decided {
	failed := func(class lifeloop.FailureClass, why string) input.Decided {
		return input.Decided{Ask: e.Ask, Failure: class, Why: why}
	}
	question, err := json.Marshal(e.Question)
	if err != nil {
		return failed(lifeloop.InternalError, "the question cannot be encoded")
	}
	answer, err := program.Call(ctx, append(question, '\n'))
	if f, is := errors.AsType[*dispatch.Failure](err); is {
		return failed(f.Class, f.Why)
	}
	if err != nil {
		return failed(lifeloop.InternalError, "the program could not be called")
	}
	var decision struct {
		Retry   *bool  `json:"retry"`
		DelayMS *int64 `json:"delay_ms"`
	}
	d := json.NewDecoder(bytes.NewReader(answer.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&decision); err != nil || decision.Retry == nil || decision.DelayMS != nil && *decision.DelayMS < 0 {
		return failed(lifeloop.InvalidRequest, "the answer is not {\"retry\": BOOL, \"delay_ms\": N}")
	}
	if _, err := d.Token(); err != io.EOF {
		return failed(lifeloop.InvalidRequest, "text follows the JSON value of the answer")
	}
	return input.Decided{Ask: e.Ask, Retry: *decision.Retry, DelayMS: decision.DelayMS}
}
