package dispatch

import (
	"context"
	"errors"
	"time"

	"lifeloop/lifeloop"
)

// A Func is a client inside this program, for those who embed the wrapper: it
// can stand wherever a [Oneshot] can. It gets an envelope of its own, and its
// answer is held to the same rules as a program's.
//
// When ctx ends, the call ends: a function that has not returned is given up
// and what it returns later is dropped. It cannot be killed, so it should heed
// ctx itself, and must bear that the next call begins while it still runs.
type Func func(ctx context.Context, env lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error)

// Call decodes env, calls f and encodes its answer. Every error is a
// [*Failure]: invalid_request for an envelope or an answer that is not valid,
// timeout when ctx ended, internal_error when f panicked or returned an error.
// An error that f returns is the cause of the failure, and its text is not
// quoted; a [*Failure] is taken as it is.
func (f Func) Call(ctx context.Context, env []byte) (Answer, error) {
	began := time.Now()
	body, failure := f.answer(ctx, env)
	a := Answer{Body: body, Duration: time.Since(began)}
	if failure != nil {
		a.ExitCode = -1 // there is no process that could have had one
		return a, failure
	}
	return a, nil
}

func (f Func) answer(ctx context.Context, env []byte) ([]byte, *Failure) {
	var nobody Config // its failures name no client
	if ctx.Err() != nil {
		return nil, nobody.ended(ctx)
	}
	asked, err := lifeloop.Parse[lifeloop.DispatchEnvelope](env)
	if err != nil {
		return nil, nobody.fail(lifeloop.InvalidRequest, "the envelope is not valid", err)
	}
	done := make(chan returned, 1) // with room: nobody may be there to take it
	go f.run(ctx, asked, done)
	var r returned
	select {
	case r = <-done:
	case <-ctx.Done():
		return nil, nobody.ended(ctx)
	}

	var own *Failure
	switch {
	case r.panicked:
		return nil, nobody.fail(lifeloop.InternalError, "the client panicked", nil)
	case errors.As(r.err, &own) && own != nil:
		return nil, own
	case r.err != nil && ctx.Err() != nil:
		return nil, nobody.ended(ctx) // most likely it is what f heeded
	case r.err != nil:
		return nil, nobody.fail(lifeloop.InternalError, "the client returned an error", r.err)
	}
	if err := r.response.Validate(asked.Request.SchemaVersion); err != nil {
		return nil, nobody.fail(lifeloop.InvalidRequest, "the answer is not a valid callback response", err)
	}
	body, err := r.response.Encode()
	if err != nil {
		return nil, nobody.fail(lifeloop.InvalidRequest, "the answer cannot be encoded", err)
	}
	return body, nil
}

// returned is what became of one call of a Func.
type returned struct {
	response lifeloop.CallbackResponse
	err      error
	panicked bool // or ended its goroutine
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
