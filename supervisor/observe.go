package supervisor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"lifeloop/kernel"
)

// A Listener receives the facts of an observed session, those of one turn of the
// kernel per call.
type Listener func(entries []kernel.Entry) error

// An observing steps a kernel that has no launcher and no clients, so there is
// no effect to perform.
type observing struct {
	k      *kernel.Kernel
	log    Ledger // nil without a ledger
	listen Listener
	seq    uint64
}

// step feeds one input, writes the facts and passes them to the listener.
func (o *observing) step(now time.Time, in kernel.Input) error {
	turn := o.k.Step(now, in)
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

// Observe follows the sources of a session that another program launched. log
// may be nil. It returns after a signal, or with the first error of the sources,
// the ledger or listen.
//
// It needs no loop and no inbox: each source steps the kernel itself, one at a
// time. An event is therefore emitted before its source reads the next record.
func Observe(k *kernel.Kernel, sources Sources, signals <-chan os.Signal, log Ledger, listen Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := &observation{observing: observing{k: k, log: log, listen: listen}, timer: time.NewTimer(time.Hour), over: make(chan struct{})}
	defer o.timer.Stop()
	o.step(kernel.Start{})
	ended := make(chan error, 1)
	go func() { ended <- sources.Run(ctx, o.step) }()
	for over := o.over; ; {
		select {
		case err := <-ended:
			o.step(kernel.SourcesDrained{})
			if o.err != nil {
				return o.err
			}
			return err
		case <-over:
			over = nil
			cancel() // further inputs of the sources are dropped
		case <-signals:
			cancel() // the sources read once more to their end
		case <-o.timer.C:
		}
		o.step(kernel.Wake{})
	}
}

// An observation is the kernel of Observe, stepped by one goroutine at a time.
type observation struct {
	mu sync.Mutex // guards all below, for the goroutines of the sources and of Observe
	observing
	timer *time.Timer
	err   error // of the ledger or the listener
	over  chan struct{}
	ended bool // over is closed and no input is stepped any more
}

func (o *observation) step(in kernel.Input) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.err = o.observing.step(time.Now(), in)
	if _, done := o.k.Done(); done || o.err != nil {
		o.ended = true
		close(o.over)
		return
	}
	if at, ok := o.k.Deadline(); ok {
		o.timer.Reset(time.Until(at))
	} else {
		o.timer.Stop()
	}
}
