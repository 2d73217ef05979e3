package kernel

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// TestEveryErrorHasItsCause: every error that a source can report has a cause
// and a class, or is known to have none.
func TestEveryErrorHasItsCause(t *testing.T) {
	want := map[telemetry.ErrorKind]struct {
		cause attempt.Cause
		class lifeloop.FailureClass
	}{
		telemetry.ErrRateLimit:      {attempt.RateLimit, lifeloop.TransportError},
		telemetry.ErrQuota:          {attempt.RateLimit, lifeloop.OperatorRequired},
		telemetry.ErrServer:         {attempt.ServerError, lifeloop.TransportError},
		telemetry.ErrNetwork:        {attempt.Network, lifeloop.TransportError},
		telemetry.ErrAuth:           {attempt.Fatal, lifeloop.OperatorRequired},
		telemetry.ErrBilling:        {attempt.Fatal, lifeloop.OperatorRequired},
		telemetry.ErrInvalidRequest: {attempt.Fatal, lifeloop.InvalidRequest},
		telemetry.ErrContextFull:    {attempt.Model, lifeloop.InvalidRequest},
		telemetry.ErrUnknown:        {"", lifeloop.TransportError},
	}
	source, err := os.ReadFile("../telemetry/telemetry.go")
	require.NoError(t, err)
	all := regexp.MustCompile(`ErrorKind = "(\w+)"`).FindAllSubmatch(source, -1)
	require.Len(t, all, len(want))
	for _, m := range all {
		kind := telemetry.ErrorKind(m[1])
		require.Contains(t, want, kind)
		cause, _ := consequences(kind)
		require.Equal(t, want[kind].cause, cause, kind)
		require.Equal(t, want[kind].class, class(kind, telemetry.Failed), kind)
	}
	cause, _ := consequences("")
	require.Empty(t, cause)
	require.Empty(t, class("", telemetry.Completed))
}
