package supervisor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/dispatch"
	"lifeloop/kernel/effect"
	"lifeloop/lifeloop"
)

type lateClient struct{}

func (lateClient) Call(ctx context.Context, _ []byte) (dispatch.Answer, error) {
	<-ctx.Done()
	return dispatch.Answer{}, &dispatch.Failure{Class: lifeloop.Timeout, Why: "no answer in time", Err: context.Cause(ctx)}
}

// A late call fails with a reason that names its time limit. A canceled call fails with
// the reason that the client gives.
func TestALateCallNamesItsLimit(t *testing.T) {
	e := effect.Dispatch{Call: "c1", Timeout: time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), e.Timeout)
	defer cancel()
	in, _ := call(ctx, lateClient{}, e)
	require.Equal(t, lifeloop.Timeout, in.Failure)
	require.Equal(t, "no answer within 1ms", in.Why)

	stopped, stop := context.WithCancel(t.Context())
	stop()
	in, _ = call(stopped, lateClient{}, e)
	require.Equal(t, "no answer in time", in.Why, "a call that was cut off says so in its own words")
}
