package renewal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/canon"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/renewal"
)

// The payload of a continuation is valid in a client's answer, and required: if it cannot
// be placed, the answer fails.
func TestPayload(t *testing.T) {
	const text = "the thread so far"
	p := renewal.Payload("pay_1", "notes", lifeloop.NewOpaque(text), string(canon.Sum([]byte(text))))
	body, err := lifeloop.CallbackResponse{Status: lifeloop.Delivered, ClientPayloads: []lifeloop.PayloadEnvelope{p}}.Encode()
	require.NoError(t, err)
	parsed, err := lifeloop.ParseCallbackResponse(body)
	require.NoError(t, err)
	require.Equal(t, text, parsed.ClientPayloads[0].Body.Reveal())

	placed := negotiate.Placement(lifeloop.Manifest{}, p)
	require.Equal(t, negotiate.Placed{Required: true, Failure: lifeloop.PlacementUnavailable}, placed)
	slot := lifeloop.PlacementClaim{Support: lifeloop.Native, SeenAs: lifeloop.SeenAsDeveloper}
	placed = negotiate.Placement(lifeloop.Manifest{Placement: map[lifeloop.Placement]lifeloop.PlacementClaim{lifeloop.PreFrameLeading: slot, lifeloop.PreSession: slot}}, p)
	require.Equal(t, lifeloop.PreSession, placed.Candidates[0].Class, "the start of the session comes first")
}
