package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
)

// opening is an envelope as the wrapper would encode it.
func opening(id string) []byte {
	key := "idem_1"
	env := lifeloop.DispatchEnvelope{SchemaVersion: lifeloop.Version, Request: lifeloop.CallbackRequest{
		SchemaVersion: lifeloop.Version, Event: lifeloop.SessionStarted, EventID: id, AdapterID: "generic", AdapterVersion: "0.1.0",
		IntegrationMode: lifeloop.LauncherWrapper, InvocationID: "inv_1", PayloadRefs: []lifeloop.PayloadRef{}, IdempotencyKey: &key}}
	b, err := env.Encode()
	if err != nil {
		panic(err)
	}
	return b
}

// A client that is a Go function. It answers every event with its id.
func ExampleFunc() {
	client := Func(func(ctx context.Context, env lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
		return lifeloop.CallbackResponse{Status: lifeloop.Observed, Warnings: []string{"seen " + env.Request.EventID}}, nil
	})
	answer, err := client.Call(context.Background(), opening("evt_1"))
	fmt.Println(string(answer.Body), err)
	// Output: {"status":"observed","warnings":["seen evt_1"]} <nil>
}

func TestFuncAnswersAreValidated(t *testing.T) {
	broken := errors.New("secret words")
	fine := lifeloop.CallbackResponse{Status: lifeloop.Observed}
	class := lifeloop.Timeout
	for _, c := range []struct {
		name    string
		f       Func
		env     []byte // if nil, the result of opening("e1") is used
		want    string
		failure *Failure // a nil Err matches any
	}{
		{name: "answers", f: func(context.Context, lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) { return fine, nil },
			want: observed},
		{name: "receives the request", f: func(_ context.Context, env lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
			return lifeloop.CallbackResponse{Status: lifeloop.Observed, SchemaVersion: env.SchemaVersion, Warnings: []string{env.Request.EventID, string(env.Request.Event)}}, nil
		}, want: `{"schema_version":"lifeloop.v0.2","status":"observed","warnings":["e1","session.started"]}`},
		{name: "answers with a failure", f: func(context.Context, lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
			return lifeloop.CallbackResponse{Status: lifeloop.Failed, FailureClass: &class}, nil
		}, want: `{"status":"failed","failure_class":"timeout"}`},
		{name: "no answer at all", f: func(context.Context, lifeloop.DispatchEnvelope) (r lifeloop.CallbackResponse, err error) { return },
			failure: &Failure{Class: lifeloop.InvalidRequest, Why: "the answer is not a valid callback response", ExitCode: -1}},
		{name: "a failure without a class", f: func(context.Context, lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
			return lifeloop.CallbackResponse{Status: lifeloop.Failed}, nil
		}, failure: &Failure{Class: lifeloop.InvalidRequest, Why: "the answer is not a valid callback response", ExitCode: -1}},
		{name: "another schema version than the request's", f: func(context.Context, lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
			return lifeloop.CallbackResponse{Status: lifeloop.Observed, SchemaVersion: "lifeloop.v9"}, nil
		}, failure: &Failure{Class: lifeloop.InvalidRequest, Why: "the answer is not a valid callback response", ExitCode: -1}},
		{name: "an invalid envelope", env: []byte(`{"request":{}}`), f: func(context.Context, lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
			t.Error("it was called")
			return fine, nil
		}, failure: &Failure{Class: lifeloop.InvalidRequest, Why: "the envelope is not valid", ExitCode: -1}},
		{name: "an error", f: func(context.Context, lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
			return fine, broken
		},
			failure: &Failure{Class: lifeloop.InternalError, Why: "the client returned an error", ExitCode: -1, Err: broken}},
		{name: "a failure of its own", f: func(context.Context, lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
			return fine, fmt.Errorf("wrapped: %w", &Failure{Client: "x", Class: lifeloop.StateConflict, Why: "out of date", ExitCode: -1})
		}, failure: &Failure{Client: "x", Class: lifeloop.StateConflict, Why: "out of date", ExitCode: -1}},
		{name: "a panic", f: func(context.Context, lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
			panic("secret words")
		},
			failure: &Failure{Class: lifeloop.InternalError, Why: "the client panicked", ExitCode: -1}},
		{name: "the end of its goroutine", f: func(context.Context, lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
			runtime.Goexit()
			return fine, nil
		}, failure: &Failure{Class: lifeloop.InternalError, Why: "the client panicked", ExitCode: -1}},
		{name: "no function", failure: &Failure{Class: lifeloop.InternalError, Why: "the client panicked", ExitCode: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := c.env
			if env == nil {
				env = opening("e1")
			}
			a, err := c.f.Call(context.Background(), env)
			if c.failure == nil {
				require.NoError(t, err)
				if string(a.Body) != c.want || a.ExitCode != 0 || a.Duration <= 0 {
					t.Errorf("answer %q, exit %d, after %v; want %q", a.Body, a.ExitCode, a.Duration, c.want)
				}
				return
			}
			var got *Failure
			require.ErrorAs(t, err, &got)
			want := *c.failure
			if want.Err == nil {
				want.Err = got.Err
			}
			require.Equal(t, want, *got)
			require.NotContains(t, err.Error(), "secret")
			if a.Body != nil || a.ExitCode != -1 {
				t.Errorf("with the error: body %q and exit code %d", a.Body, a.ExitCode)
			}
		})
	}
}

// A call ends when its context ends, even if the function has not returned. What
// the function returns later is not the answer to the next call.
func TestFuncThatReturnsLate(t *testing.T) {
	entered, release, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	client := Func(func(_ context.Context, env lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
		if env.Request.EventID == "slow" {
			defer close(over)
			close(entered)
			<-release // the function ignores its context
		}
		return lifeloop.CallbackResponse{Status: lifeloop.Observed, Warnings: []string{env.Request.EventID}}, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-entered; cancel() }()
	_, err := client.Call(ctx, opening("slow"))
	var f *Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, Failure{Class: lifeloop.Timeout, Why: "canceled before it answered", ExitCode: -1, Err: context.Canceled}, *f)
	require.EqualError(t, err, "client: canceled before it answered (timeout)")

	close(release)
	<-over
	a, err := client.Call(context.Background(), opening("quick"))
	require.NoError(t, err)
	if string(a.Body) != `{"status":"observed","warnings":["quick"]}` {
		t.Errorf("answer %s", a.Body)
	}
}

func TestFuncThatReturnsWhenItsContextEnds(t *testing.T) {
	client := Func(func(ctx context.Context, _ lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
		<-ctx.Done()
		return lifeloop.CallbackResponse{}, ctx.Err()
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, ctx := range []context.Context{ctx, expiring(t)} {
		_, err := client.Call(ctx, opening("e1"))
		var f *Failure
		require.ErrorAs(t, err, &f)
		if f.Class != lifeloop.Timeout || !errors.Is(err, ctx.Err()) {
			t.Errorf("failure %v because of %v", f, f.Err)
		}
	}
}

func expiring(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 1)
	t.Cleanup(cancel)
	return ctx
}
