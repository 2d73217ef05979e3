package supervisor

import (
	"context"
	"time"

	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/telemetry"
)

// OneHook runs the loop for a single hook call of a harness that runs without
// the wrapper. It calls the clients, calls write with the answer, and returns
// when the clients have answered, or at the deadline.
//
// If the kernel refuses the session, for example because a required capability is
// missing, OneHook calls neither a client nor write; the result has the reason.
//
// write is called at most once, with nil for an empty answer. It reports whether the
// answer was written completely, and must not block beyond the deadline. render
// encodes a client's payload for the harness. Only the ports Clients and
// Committed are used.
func OneHook(ctx context.Context, k *kernel.Kernel, p Ports, call telemetry.HookCall, deadline time.Time,
	render func(event, context string) []byte, write func([]byte) bool) (kernel.Result, error) {
	over, stop := context.WithDeadline(ctx, deadline)
	defer stop()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := newSupervisor(ctx, k, Ports{Clients: p.Clients, Committed: p.Committed}, Options{})
	defer s.wg.Wait()
	defer cancel()

	const id = "hook_1"
	waits, done := await(&s.requests, s.requests.hooks, id)
	defer done()
	s.results = []input.Input{input.HookCalled{Hook: id, Call: call, Deadline: deadline.Add(-hookMargin)}}
	s.wg.Go(func() {
		select {
		case a := <-waits:
			delivered := write(a.render(Plan{Answer: render}))
			if a.carries {
				s.post(input.HookClosed{Hook: id, Delivered: delivered})
			}
			s.post(input.SourcesDrained{}) // no other input follows
		case <-ctx.Done():
		}
	})
	return s.loop(over.Done())
}
