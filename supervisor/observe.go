package supervisor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"lifeloop/kernel"
)

// A Listener receives the facts of an observed session, in their order, after they
// were written.
type Listener func(entries []kernel.Entry) error

// Observe follows the sources of a session that another program launched, with the
// loop of Run and no harness. Of the ports it uses Ledger, Clients and Signals.
//
// The first signal, or the end of ctx, ends the reading: each source is read once
// more to its end, and then the open client calls have a last period to return. A
// second signal ends that period too. An error of listen ends the observation in the
// same way. The returned error is the first one of the ledger, of listen or of the
// sources.
func Observe(ctx context.Context, k *kernel.Kernel, sources Sources, p Ports, o Options, listen Listener) (kernel.Result, error) {
	asked, signals, again := ctx.Done(), p.Signals, make(chan os.Signal, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	reading, stop := context.WithCancel(ctx)
	p.Launcher, p.Signals = nothing{}, again
	var refused, failed error // refused: the error of listen, owned by the loop; failed: the error of the sources
	p.Committed = func(e kernel.Entry) {
		if refused != nil {
			return
		}
		if refused = listen([]kernel.Entry{e}); refused != nil {
			stop()
		}
	}
	s := newSupervisor(ctx, k, p, o)
	s.wg.Go(func() {
		failed = sources.Run(reading, s.post)
		s.post(kernel.SourcesDrained{})
	})
	s.wg.Go(func() {
		for first := true; ; first = false {
			select {
			case sig := <-signals:
				if !first {
					again <- sig
					return // the second signal ends the calls too
				}
			case <-asked:
				asked = nil
			case <-ctx.Done():
				return
			}
			stop()
		}
	})
	result, err := s.loop(nil)
	cancel()
	s.wg.Wait()
	for _, e := range []error{err, refused, failed} {
		if e != nil {
			return result, e
		}
	}
	return result, nil
}

// nothing is the Launcher of a run without launches.
type nothing struct{}

func (nothing) Prepare(kernel.Launch) (Plan, error) {
	panic("supervisor: an observer launches nothing")
}
func (nothing) Release() {}

// An observing steps a kernel that has no launcher, at the times of its own clock. It
// makes the client calls of one turn at the same time, and reads nothing until they
// have returned. So no client can fall behind, and the order of the facts does not
// depend on how fast the clients are.
type observing struct {
	ctx     context.Context // owned by Once: its end fails the calls
	k       *kernel.Kernel
	log     Ledger // nil without a ledger
	clients map[string]Client
	listen  Listener
	seq     uint64
}

// step steps the kernel with one input, and then with the outcomes of its effects.
func (o *observing) step(now time.Time, in kernel.Input) error {
	for inputs := []kernel.Input{in}; len(inputs) > 0; inputs = inputs[1:] {
		turn := o.k.Step(now, inputs[0])
		checkDocuments(turn)
		if err := o.commit(now, turn); err != nil {
			return err
		}
		inputs = append(inputs, o.perform(turn.Effects)...)
	}
	return nil
}

// commit writes the facts of a turn and passes them to the listener.
func (o *observing) commit(now time.Time, turn kernel.Turn) error {
	if len(turn.Facts) == 0 {
		return nil
	}
	entries := make([]kernel.Entry, len(turn.Facts))
	for i, f := range turn.Facts {
		o.seq++
		entries[i] = kernel.Entry{Seq: o.seq, At: now, Fact: f}
	}
	if o.log != nil {
		if err := appendTo(o.log, entries, turn.Sync); err != nil {
			return fmt.Errorf("%w: %w", ErrLedger, err)
		}
	}
	return o.listen(entries)
}

// perform makes the dispatches of one turn and returns their outcomes, in the order
// of the dispatches. An observer has no other effect.
func (o *observing) perform(effects []kernel.Effect) []kernel.Input {
	returned := make([]kernel.Input, len(effects))
	var wg sync.WaitGroup
	for i, e := range effects {
		d, ok := e.(kernel.Dispatch)
		if !ok {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(o.ctx, d.Timeout)
			defer cancel()
			returned[i], _ = call(ctx, o.clients[d.Client], d)
		})
	}
	wg.Wait()
	return slices.DeleteFunc(returned, func(in kernel.Input) bool { return in == nil })
}
