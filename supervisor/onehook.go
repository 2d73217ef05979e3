package supervisor

import (
	"context"
	"time"

	"lifeloop/kernel"
	"lifeloop/telemetry"
)

// OneHook is the loop for a single call of a hook, without a wrapper around
// the harness: it tells the clients, hands the answer to write, and returns
// when they have answered, or at the deadline. write reports whether the
// answer was written whole and must not block beyond the deadline; it is
// called once, with nil when there is nothing to say; render puts what a client
// gave into the harness's own words. Of the ports only Clients and Committed are
// used.
func OneHook(ctx context.Context, k *kernel.Kernel, p Ports, call telemetry.HookCall, deadline time.Time,
	render func(event, context string) []byte, write func([]byte) bool) error {
	over, stop := context.WithDeadline(ctx, deadline)
	defer stop()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &supervisor{k: k, p: Ports{Clients: p.Clients, Committed: p.Committed}, ctx: ctx,
		inbox: make(chan posted, batch), cancel: map[string]context.CancelFunc{}, hooks: map[string]chan answer{}}
	defer s.wg.Wait()
	defer cancel()

	const id = "hook_1"
	waits := make(chan answer, 1)
	s.hooks[id] = waits
	s.own = []kernel.Input{kernel.HookCalled{Hook: id, Call: call, Deadline: deadline.Add(-hookMargin)}}
	s.wg.Go(func() {
		select {
		case a := <-waits:
			delivered := write(a.render(render))
			if a.carries {
				s.post(kernel.HookClosed{Hook: id, Delivered: delivered})
			}
			s.post(kernel.SourcesDrained{}) // nothing else will be heard
		case <-ctx.Done():
		}
	})
	_, err := s.loop(over.Done())
	return err
}
