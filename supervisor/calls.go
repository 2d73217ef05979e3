package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"lifeloop/dispatch"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
)

func (s *supervisor) dispatch(e effect.Dispatch) {
	client := s.p.Clients[e.Client]
	ctx, cancel := context.WithTimeout(s.ctx, e.Timeout)
	s.cancel[e.Call] = cancel
	s.wg.Go(func() {
		defer cancel()
		var known []string
		if s.p.Renewer != nil {
			known = s.p.Renewer.Reads(e.Client)
		}
		in, body := call(ctx, client, e, known...)
		if s.p.Renewer != nil && in.Response != nil {
			in.Renew = s.p.Renewer.Asks(e.Client, body)
		}
		s.post(in)
	})
}

// call makes one dispatch. It returns the decoded answer, and in body the answer as the
// client wrote it. A panic of the client is a failure of this call alone. client is nil
// if the configuration has no such client. known lists members that the answer may have
// besides those of the contract.
func call(ctx context.Context, client Client, e effect.Dispatch, known ...string) (in input.Returned, body []byte) {
	failed := func(class lifeloop.FailureClass, why string) input.Returned {
		return input.Returned{Call: e.Call, Failure: class, Why: why}
	}
	if client == nil {
		return failed(lifeloop.InternalError, "no such client"), nil
	}
	defer func() {
		if recover() != nil {
			in = failed(lifeloop.InternalError, "the client panicked")
		}
	}()
	envelope, err := e.Envelope.Encode()
	if err != nil {
		return failed(lifeloop.InternalError, "the envelope cannot be encoded"), nil
	}
	answer, err := client.Call(ctx, envelope)
	if err != nil {
		var f *dispatch.Failure
		if errors.As(err, &f) {
			// The time-out of ctx, or the one in the client's dispatch.Config, has expired.
			if errors.Is(f, context.DeadlineExceeded) {
				return failed(f.Class, fmt.Sprintf("no answer within %v", e.Timeout)), nil
			}
			return failed(f.Class, f.Why), nil
		}
		return failed(lifeloop.InternalError, "the client could not be called"), nil
	}
	if len(bytes.TrimSpace(answer.Body)) == 0 {
		return failed(lifeloop.InvalidRequest, "the answer is empty"), nil
	}
	response, err := lifeloop.ParseCallbackResponse(answer.Body)
	if err == nil {
		err = response.Validate(e.Envelope.Request.SchemaVersion)
	}
	if err != nil {
		return failed(lifeloop.InvalidRequest, "the answer is not a valid callback response"+where(err)), nil
	}
	// An unknown member causes a warning in the receipt, because it may be
	// misspelt.
	for _, p := range lifeloop.Unknown("callback_response", answer.Body, known...) {
		response.Warnings = append(response.Warnings, p.Path+": "+p.Message)
	}
	return input.Returned{Call: e.Call, Response: &response}, answer.Body
}

// where returns text for the client's author. It names the first invalid member, or says
// what is wrong with the whole answer. It contains no value, because a client's output is
// never repeated. The command `event invoke` prints more.
func where(err error) string {
	var v *lifeloop.ValidationError
	if !errors.As(err, &v) || len(v.Problems) == 0 {
		return ""
	}
	first := v.Problems[0]
	if first.Path != "$" {
		return ": look at its member " + first.Path
	}
	return ": " + first.Message // a message about the whole answer quotes nothing from it
}
