package supervisor

import (
	"sync/atomic"

	"lifeloop/kernel"
	"lifeloop/view"
)

// toldLimit is how many events wait for hooks that are slow.
const toldLimit = 1024

// A Teller calls the hooks of L0 beside a run, so that a slow one holds up
// neither the loop nor the harness (DECISIONS Z12): the loop puts events into a
// queue, and what does not fit any more is counted and lost. An event that was
// lost is seen by its number.
//
//	teller := supervisor.Tell(&view.Hooks{OnRetry: …}, view.L0{})
//	wg.Go(teller.Run)
//	supervisor.Run(ctx, k, supervisor.Ports{Committed: teller.Committed, …}, options)
//	teller.Close()
//	wg.Wait()
type Teller struct {
	hooks *view.Hooks // called by Run alone
	l0    view.L0     // owned by who calls Committed
	queue chan view.L0Event
	lost  atomic.Int64
}

// Tell returns a Teller for one session, whose events are those of l0.
func Tell(hooks *view.Hooks, l0 view.L0) *Teller {
	return &Teller{hooks: hooks, l0: l0, queue: make(chan view.L0Event, toldLimit)}
}

// Committed takes a fact that was written. It never waits, and is what
// [Ports.Committed] is told.
func (t *Teller) Committed(e kernel.Entry) {
	for _, event := range t.l0.Apply(e) {
		select {
		case t.queue <- event:
		default:
			t.lost.Add(1)
		}
	}
}

// Run calls the hooks, one event after the other, until Close was called and
// the queue is empty.
func (t *Teller) Run() {
	for event := range t.queue {
		t.hooks.Told(event)
	}
}

// Close says that no fact comes any more.
func (t *Teller) Close() { close(t.queue) }

// Lost counts the events for which there was no room.
func (t *Teller) Lost() int { return int(t.lost.Load()) }
