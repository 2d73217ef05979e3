package supervisor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
)

// A Listener receives the entries of an observed session, in their order, after
// they were written to the ledger, if there is one.
type Listener func(entries []kernel.Entry) error

// Observe follows the sources of a session that another program launched. It uses the
// loop of Run, but starts no harness. Of the ports it uses Ledger, Clients and Signals.
//
// After the first OS signal, or the end of ctx, each source is read a last time, to its
// present end. Then open client calls have a limited time to return. A further OS signal
// ends these calls early. An error of listen has the same effect as the first OS signal.
// Observe returns the first error of the ledger, listen or the sources.
func Observe(ctx context.Context, k *kernel.Kernel, sources Sources, p Ports, o Options, listen Listener) (kernel.Result, error) {
	asked, signals, again := ctx.Done(), p.Signals, make(chan os.Signal, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	reading, stop := context.WithCancel(ctx)
	p.Launcher, p.Signals = nothing{}, again
	var refused, failed error // refused is the error of listen, owned by the loop; failed is the error of the sources
	p.Committed = func(entries []kernel.Entry) {
		if refused != nil {
			return
		}
		if refused = listen(entries); refused != nil {
			stop()
		}
	}
	s := newSupervisor(ctx, k, p, o)
	s.wg.Go(func() {
		failed = sources.Run(reading, s.post)
		s.post(input.SourcesDrained{})
	})
	s.wg.Go(func() {
		for first := true; ; first = false {
			select {
			case sig := <-signals:
				if !first {
					again <- sig
					return // after a second signal, end the calls too
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

// nothing is the Launcher of an observation, which launches nothing.
type nothing struct{}

func (nothing) Prepare(effect.Launch) (Plan, error) {
	panic("supervisor: an observer launches nothing")
}
func (nothing) Release() {}

// An observing runs a kernel without the loop and without a launcher, at the times
// that its caller passes. It makes the client calls of one output of the kernel
// concurrently, and takes no further input until they have returned. So no client can
// fall behind, and the order of the facts does not depend on how fast the clients are.
type observing struct {
	ctx     context.Context // owned by Once; the end of ctx makes open calls fail
	k       *kernel.Kernel
	log     Ledger // nil if there is no ledger
	clients map[string]Client
	listen  Listener
	seq     uint64
}

// step passes one input to the kernel, and then the results of its effects.
func (o *observing) step(now time.Time, in input.Input) error {
	for inputs := []input.Input{in}; len(inputs) > 0; inputs = inputs[1:] {
		out := o.k.Step(now, inputs[0])
		checkDocuments(out)
		if err := o.commit(now, out); err != nil {
			return err
		}
		inputs = append(inputs, o.perform(out.Effects)...)
	}
	return nil
}

// commit writes the facts of one output of the kernel and passes them to the listener.
func (o *observing) commit(now time.Time, out kernel.Output) error {
	if len(out.Facts) == 0 {
		return nil
	}
	entries := make([]kernel.Entry, len(out.Facts))
	for i, f := range out.Facts {
		o.seq++
		entries[i] = kernel.Entry{Seq: o.seq, At: now, Fact: f}
	}
	if o.log != nil {
		if err := appendTo(o.log, entries, out.Sync); err != nil {
			return fmt.Errorf("%w: %w", ErrLedger, err)
		}
	}
	return o.listen(entries)
}

// perform makes the client calls (the effects Dispatch) of one output of the kernel. It
// returns their results in the same order. An observer has no other effects.
func (o *observing) perform(effects []effect.Effect) []input.Input {
	returned := make([]input.Input, len(effects))
	var wg sync.WaitGroup
	for i, e := range effects {
		d, ok := e.(effect.Dispatch)
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
	return slices.DeleteFunc(returned, func(in input.Input) bool { return in == nil })
}
