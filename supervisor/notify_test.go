package supervisor

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lifeloop/kernel"
	"lifeloop/session"
	"lifeloop/view"
)

// A callback that takes an hour delays neither the loop nor the harness. Events that
// arrive while the queue is full are lost and counted. A gap in the event numbers shows
// where events were lost.
func TestSlowCallbackDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var received []uint64
		started := 0
		hooks := &view.Hooks{OnStart: func(int, bool, bool) { started++; panic("and it fails") }}
		hooks.OnEvent = func(e view.L0Event) {
			if e.Seq == 1 {
				time.Sleep(time.Hour)
			}
			received = append(received, e.Seq)
		}
		notifier := NewNotifier(hooks, view.L0{})
		var wg sync.WaitGroup
		wg.Go(notifier.Run)

		began := time.Now()
		notifier.Committed([]kernel.Entry{{Fact: kernel.Began{SessionID: "sess"}}})
		notifier.Committed([]kernel.Entry{{Fact: kernel.SessionMoved{To: session.Pending}}})
		synctest.Wait() // the callback sleeps
		const more = notifyLimit + 100
		for range more {
			notifier.Committed([]kernel.Entry{{Fact: kernel.CheckpointSaved{Checkpoint: "T1"}}})
		}
		require.Zero(t, time.Since(began), "the loop does not wait")
		require.Equal(t, 100, notifier.Lost())
		time.Sleep(time.Hour)
		synctest.Wait()
		notifier.Committed([]kernel.Entry{{Fact: kernel.CheckpointSaved{Checkpoint: "T2"}}})
		notifier.Close()
		wg.Wait()

		require.Equal(t, 1, started)
		require.Equal(t, 1, hooks.Panics())
		require.Len(t, received, 1+notifyLimit+1, "the events that found room, in order")
		for i, seq := range received[:len(received)-1] {
			require.Equal(t, uint64(i+1), seq)
		}
		require.Equal(t, uint64(1+more+1), received[len(received)-1], "the numbers show the gap")
	})
}
