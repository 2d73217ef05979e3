package negotiate_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
)

// Weaken changes only the given capability, and does not modify its argument. Without
// the delivery of a continuation, the continuation store is unavailable too.
func TestWeaken(t *testing.T) {
	for _, id := range manifests.IDs() {
		m, _ := manifests.Get(id)
		before, err := json.Marshal(m)
		require.NoError(t, err)
		for _, name := range negotiate.Names(m) {
			if name == "receipts.native" || name == negotiate.ContinuationStore || negotiate.Support(m, name) == lifeloop.Unavailable {
				continue
			}
			weaker := negotiate.Weaken(m, name, lifeloop.Unavailable)
			for _, other := range negotiate.Names(m) {
				want := negotiate.Support(m, other)
				if other == name || name == "renewal.continuation.payload_delivery" && other == negotiate.ContinuationStore {
					want = lifeloop.Unavailable
				}
				if got := negotiate.Support(weaker, other); got != want {
					t.Errorf("%s without %s: %s is %s, want %s", id, name, other, got, want)
				}
			}
		}
		after, err := json.Marshal(m)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	}
}
