package telemetry

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A call is reported once, even if almost callsKept other calls come between its
// records. After twice as many, the call is reported again.
func TestCalls(t *testing.T) {
	var c Calls
	call := func(n int) bool { return c.News("s", "m"+strconv.Itoa(n), "r"+strconv.Itoa(n), 5) }
	for n := range callsKept {
		require.True(t, call(n), n)
	}
	for n := range callsKept {
		require.False(t, call(n), "call %d, repeated after %d others", n, callsKept)
	}
	require.True(t, c.News("s", "m0", "r0", 6), "its output grew")
	for n := callsKept; n < 10*callsKept; n++ {
		call(n)
	}
	require.LessOrEqual(t, len(c.newer)+len(c.older), 2*callsKept, "memory is bounded")
	require.False(t, call(10*callsKept-1))
	require.True(t, call(0), "a call that far back is forgotten")
	require.True(t, c.News("s", "", "", 0))
	require.True(t, c.News("s", "", "", 0), "a call without a name is always news")
}
