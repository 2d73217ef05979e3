package openclaw

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/telemetry"
)

func TestResets(t *testing.T) {
	d := Requests().(telemetry.Resetter)
	require.Equal(t, `{"op":"fresh","id":"rnw_1"}`, string(d.Ask(telemetry.PluginRequest{Op: telemetry.Fresh, ID: "rnw_1"})))
	for record, want := range map[string]telemetry.PluginReply{
		`{"k":"fresh","o":{"id":"rnw_1"}}`:                       {Op: telemetry.Fresh, ID: "rnw_1"},
		`{"k":"fresh","o":{"id":"rnw_1","busy":true}}`:           {Op: telemetry.Fresh, ID: "rnw_1", Busy: true},
		`{"k":"fresh","o":{"id":"rnw_1","failure":"not_found"}}`: {Op: telemetry.Fresh, ID: "rnw_1", Failure: "not_found"},
	} {
		reply, is := d.Reply([]byte(record))
		require.True(t, is, record)
		require.Equal(t, want, reply, record)
	}
	_, is := d.Reply([]byte(`{"k":"event"}`))
	require.False(t, is)
	require.Empty(t, d.Decode([]byte(`{"k":"event"}`)))
	require.Equal(t, 1, d.Missed())
}

// The call that reports the session after a reset has no slot. A later call,
// session_context, has the slot, and no signal other than Alive.
func TestResetHooks(t *testing.T) {
	call, err := Hooks{}.Decode("session_reset", []byte(`{"hook_event_name":"session_reset","session_id":"s","source":"clear"}`))
	require.NoError(t, err)
	require.Empty(t, call.Slot)
	require.Len(t, call.Signals, 1)
	require.Equal(t, telemetry.SessionLive, call.Signals[0].Kind)
	require.Equal(t, "clear", call.Signals[0].Cause)
	require.Nil(t, Hooks{}.Answer("session_reset", "x"))
	call, err = Hooks{}.Decode("session_context", []byte(`{"hook_event_name":"session_context","session_id":"s"}`))
	require.NoError(t, err)
	require.Equal(t, telemetry.SlotSession, call.Slot)
	require.Equal(t, telemetry.Alive, call.Signals[0].Kind)
	require.JSONEq(t, `{"context":"x"}`, string(Hooks{}.Answer("session_context", "x")))
}
