//go:build linux

package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// After a wrapper was killed, a program waits for the wrapper's guards. So Guards
// must list all: the guard of the child and the one for the next child.
func TestGuardsListsEveryGuard(t *testing.T) {
	t.Parallel()
	term, _, _ := onFiles(t, Never, nil)
	require.Empty(t, term.Guards())
	require.NoError(t, term.Prepare(nil))
	waiting := term.Guards()
	require.Len(t, waiting, 1)
	require.True(t, Runs(waiting[0].PID, waiting[0].Start))

	c := begin(t, sh("sleep 300"), term, &recorder{})
	inCharge := term.Guards()
	require.Contains(t, inCharge, waiting[0], "the guard that waited is in charge now")
	require.NoError(t, c.KillTree())
	c.Wait()
	term.Close()
	eventually(t, "no guard is left", func() bool {
		for _, g := range inCharge {
			if Runs(g.PID, g.Start) {
				return false
			}
		}
		return true
	})
	require.False(t, Runs(waiting[0].PID, waiting[0].Start+1), "another process of the same number is none")
}
