package supervisor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/harness"
	"lifeloop/lifeloop"
)

// Only the keys that were typed are taken back, the last first. If a line of the user was
// stored before these keys were typed, the line is restored after that.
func TestKeysAreTakenBack(t *testing.T) {
	keys := Keys{
		Reset: []harness.Stroke{{Then: time.Second}, {Keys: "/clear", Undo: "<<"}, {Keys: "\r", Undo: "<"}},
		Back:  []harness.Stroke{{Keys: "back"}},
	}
	back := func(strokes int, aside bool) (typed []string) {
		for _, s := range keys.undo(harness.Typed{Strokes: strokes, Aside: aside}) {
			typed = append(typed, s.Keys)
		}
		return typed
	}
	require.Empty(t, back(0, false))
	require.Equal(t, []string{"back"}, back(1, true))
	require.Equal(t, []string{"<<"}, back(2, false), "Enter was not typed")
	require.Equal(t, []string{"<", "<<"}, back(3, false))
	require.Equal(t, []string{"<", "<<", "back"}, back(3, true))
}

// failureOf keeps the class and the reason of errNoRenewer.
func TestNoRenewer(t *testing.T) {
	class, why := failureOf(errNoRenewer)
	require.Equal(t, lifeloop.InternalError, class)
	require.Equal(t, "no renewal profile is active", why)
}
