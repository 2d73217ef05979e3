package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"lifeloop/dispatch"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// decide performs the effect Decide: it asks the program of `retry.decide` whether
// to retry.
func (s *supervisor) decide(e kernel.Decide) {
	if s.p.Decider == nil {
		s.results = append(s.results, kernel.Decided{Ask: e.Ask, Failure: lifeloop.InternalError, Why: "retry.decide names no program"})
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
func askProgram(ctx context.Context, program Client, e kernel.Decide) kernel.Decided {
	failed := func(class lifeloop.FailureClass, why string) kernel.Decided {
		return kernel.Decided{Ask: e.Ask, Failure: class, Why: why}
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
	return kernel.Decided{Ask: e.Ask, Retry: *decision.Retry, DelayMS: decision.DelayMS}
}
