package dispatch

import (
	"context"
	"errors"
	"time"

	"lifeloop/lifeloop"
)

// A Func is a client inside this program, for programs that embed the wrapper.
// It can replace a [Oneshot]. It receives its own copy of the envelope. Call validates
// its answer by the rules that apply to a program's answer.
//
// The call ends when ctx ends, even if the function has not returned; what it
// returns later is dropped. A function cannot be killed. It should therefore
// watch ctx. The next call may begin while the function still runs.
type Func func(ctx context.Context, env lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error)

// Call decodes env, calls f and encodes its answer. Every error is a
// [*Failure]: invalid_request for an envelope or an answer that is not valid,
// timeout when ctx ended, internal_error when f panicked or returned an error.
// An error that f returns becomes the cause of the failure, but its text is not
// quoted. A [*Failure] that f returns is passed on unchanged.
func (f Func) Call(ctx context.Context, env []byte) (Answer, error) {
	began := time.Now()
	body, failure := f.answer(ctx, env)
	a, err := result(began, body, failure)
	if err != nil {
		a.ExitCode = -1 // there is no process, so no exit code
	}
	return a, err
}

func (f Func) answer(ctx context.Context, env []byte) ([]byte, *Failure) {
	var unnamed Config // an empty Config, because the failures of a Func name no client
	if ctx.Err() != nil {
		return nil, unnamed.canceled(ctx)
	}
	asked, err := lifeloop.Parse[lifeloop.DispatchEnvelope](env)
	if err != nil {
		return nil, unnamed.fail(lifeloop.InvalidRequest, "the envelope is not valid", err)
	}
	done := make(chan returned, 1) // buffered, because nothing receives a late result
	go f.run(ctx, asked, done)
	var r returned
	select {
	case r = <-done:
	case <-ctx.Done():
		return nil, unnamed.canceled(ctx)
	}

	own, _ := errors.AsType[*Failure](r.err)
	switch {
	case r.panicked:
		return nil, unnamed.fail(lifeloop.InternalError, "the client panicked", nil)
	case own != nil:
		return nil, own
	case r.err != nil && ctx.Err() != nil:
		return nil, unnamed.canceled(ctx) // f probably returned because ctx ended
	case r.err != nil:
		return nil, unnamed.fail(lifeloop.InternalError, "the client returned an error", r.err)
	}
	if err := r.response.Validate(asked.Request.SchemaVersion); err != nil {
		return nil, unnamed.fail(lifeloop.InvalidRequest, "the answer is not a valid callback response", err)
	}
	body, err := r.response.Encode()
	if err != nil {
		return nil, unnamed.fail(lifeloop.InvalidRequest, "the answer cannot be encoded", err)
	}
	return body, nil
}

// returned is the result of one call of a Func.
type returned struct {
	response lifeloop.CallbackResponse
	err      error
	panicked bool // the function panicked or ended its goroutine
}

func (f Func) run(ctx context.Context, env lifeloop.DispatchEnvelope, done chan<- returned) {
	r := returned{panicked: true}
	defer func() {
		_ = recover()
		done <- r
	}()
	response, err := f(ctx, env)
	r = returned{response: response, err: err}
}
