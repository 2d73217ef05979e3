package claude

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
	"lifeloop/telemetry/telemetrytest"
)

func TestErrors(t *testing.T) {
	for word, want := range map[string]telemetry.ErrorKind{
		"rate_limit": telemetry.ErrRateLimit, "server_error": telemetry.ErrServer, "overloaded": telemetry.ErrServer,
		"authentication_failed": telemetry.ErrAuth, "oauth_org_not_allowed": telemetry.ErrAuth, "billing_error": telemetry.ErrBilling,
		"invalid_request": telemetry.ErrInvalidRequest, "model_not_found": telemetry.ErrInvalidRequest,
		"max_output_tokens": telemetry.ErrUnknown, "unknown": telemetry.ErrUnknown, "": telemetry.ErrUnknown,
	} {
		call, err := Hooks{}.Decode("StopFailure", []byte(`{"session_id":"s","error":"`+word+`"}`))
		require.NoError(t, err)
		require.Len(t, call.Signals, 1)
		if got := call.Signals[0]; got.Kind != telemetry.TurnStop || got.Outcome != telemetry.Failed || got.Error != want {
			t.Errorf("%s: got %s; want a failed turn_stop with %s", word, telemetrytest.Line(got), want)
		}
	}
}

func TestStatuslineIsDecodedAsAHook(t *testing.T) {
	call, err := Hooks{}.Decode("Statusline", []byte(`{"session_id":"s","prompt_id":"p","model":{"id":"claude-opus-4-8[1m]"},
		"context_window":{"total_input_tokens":12010,"context_window_size":1000000,
		"current_usage":{"input_tokens":10,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":12000}}}`))
	require.NoError(t, err)
	require.Equal(t, telemetry.HookCall{Event: "Statusline", Session: "s", Turn: "p", Signals: []telemetry.Signal{{
		Kind: telemetry.UsageSeen, Source: "statusline", Detail: "Statusline", Session: "s", Turn: "p",
		Usage: &telemetry.Usage{Used: 12010}, Model: "claude-opus-4-8[1m]", Window: 1_000_000, WindowSource: "statusline",
	}}}, call)
}
