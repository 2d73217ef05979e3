package supervisor

import (
	"sync/atomic"

	"lifeloop/kernel"
	"lifeloop/view"
)

// notifyLimit is the number of events that can wait for slow callbacks.
const notifyLimit = 1024

// A Notifier calls the callbacks of L0, a lifecycle specification
// (docs/contract/l0.md), on another goroutine than the loop's. So a slow callback
// delays neither the loop nor the harness (DECISIONS Z12). The loop puts events into a
// queue. An event that arrives while the queue is full is dropped and counted; a gap in
// the event numbers shows where.
//
//	notifier := supervisor.NewNotifier(&view.Hooks{OnRetry: …}, view.L0{})
//	wg.Go(notifier.Run)
//	supervisor.Run(ctx, k, supervisor.Ports{Committed: notifier.Committed, …}, options)
//	notifier.Close()
//	wg.Wait()
type Notifier struct {
	hooks *view.Hooks // used only by Run
	l0    view.L0     // owned by the caller of Committed
	queue chan view.L0Event
	lost  atomic.Int64
}

// NewNotifier returns a Notifier for one session; l0 derives the events from the entries
// that Committed receives.
func NewNotifier(hooks *view.Hooks, l0 view.L0) *Notifier {
	return &Notifier{hooks: hooks, l0: l0, queue: make(chan view.L0Event, notifyLimit)}
}

// Committed queues the events of written facts. It never waits. Set
// [Ports.Committed] to it.
func (t *Notifier) Committed(entries []kernel.Entry) {
	for _, e := range entries {
		for _, event := range t.l0.Apply(e) {
			select {
			case t.queue <- event:
			default:
				t.lost.Add(1)
			}
		}
	}
}

// Run makes the callbacks, one event after another. It returns when Close was
// called and the queue is empty.
func (t *Notifier) Run() {
	for event := range t.queue {
		t.hooks.Emit(event)
	}
}

// Close closes the queue. Committed must not be called afterwards.
func (t *Notifier) Close() { close(t.queue) }

// Lost returns the number of events that were dropped.
func (t *Notifier) Lost() int { return int(t.lost.Load()) }
