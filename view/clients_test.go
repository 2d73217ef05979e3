package view_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// Only failures of the client are counted, not calls that ended because the
// wrapper died or refused the session.
func TestClientCalls(t *testing.T) {
	at := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	answered := func(status lifeloop.Status, class lifeloop.FailureClass, warnings ...string) []kernel.Fact {
		return []kernel.Fact{kernel.Answered{Call: "c", Status: status, Failure: class, Warnings: warnings}}
	}
	for _, c := range []struct {
		name   string
		facts  []kernel.Fact // the facts between the event and the receipt
		class  lifeloop.FailureClass
		reason string // the reason of the failure; empty if the call did not fail
	}{
		{"answered", answered(lifeloop.Observed, ""), "", ""},
		{"exited", answered("", lifeloop.TransportError, "exit status 3"), lifeloop.TransportError, "exit status 3"},
		{"answered failed", answered(lifeloop.Failed, lifeloop.StateConflict), lifeloop.StateConflict, "the client answered that it failed: state conflict"},
		{"a required payload", append(answered(lifeloop.Observed, ""), kernel.PayloadSettled{Call: "c", Failure: lifeloop.PayloadRejected, Why: "expired"}),
			lifeloop.PayloadRejected, "expired"},
		{"a payload without words", append(answered(lifeloop.Observed, ""), kernel.PayloadSettled{Call: "c", Failure: lifeloop.PayloadTooLarge}),
			lifeloop.PayloadTooLarge, "payload too large"},
		{"a preferred payload", append(answered(lifeloop.Observed, ""), kernel.PayloadSettled{Call: "c", Failure: lifeloop.PayloadRejected}), "", ""},
		{"never free in time", nil, lifeloop.Timeout, "the session ended before the client was free"},
		{"the wrapper died", []kernel.Fact{kernel.Dispatched{Call: "c", Client: "notes"}}, lifeloop.TransportError, ""},
		{"refused", nil, lifeloop.CapabilityUnsupported, ""},
		{"skipped", nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			observed, err := kernel.Decode("observed", []byte(`{"record":{"event":"frame.opening"},"calls":[{"call":"c","client":"notes"}]}`))
			require.NoError(t, err)
			receipt := kernel.ReceiptIssued{Call: "c"}
			if c.class != "" {
				receipt.Receipt.FailureClass = &c.class
			}
			var calls view.Clients
			for _, f := range append(append([]kernel.Fact{observed}, c.facts...), receipt) {
				calls.Apply(kernel.Entry{At: at, Fact: f})
			}
			want := view.ClientCalls{ClientID: "notes", Calls: 1}
			if c.reason != "" {
				want.Failed = 1
				want.LastFailure = &view.ClientFailure{Event: lifeloop.FrameOpening, At: at, FailureClass: c.class, Reason: c.reason}
			}
			require.Equal(t, []view.ClientCalls{want}, calls.All())
			require.Equal(t, c.reason != "", len(calls.Failing()) == 1)
		})
	}
}
