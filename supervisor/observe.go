package supervisor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"lifeloop/kernel"
)

// An Listener hears what an observer found true, a turn of the kernel at a time.
type Listener func(entries []kernel.Entry) error

// An observing is a kernel that is fed and never performs: it has no launcher
// and no clients.
type observing struct {
	k      *kernel.Kernel
	log    Ledger // nil when none is kept
	listen Listener
	seq    uint64
}

// step folds one input, keeps what that made true, and tells it.
func (o *observing) step(now time.Time, in kernel.Input) error {
	turn := o.k.Step(now, in)
	if len(turn.Facts) == 0 {
		return nil
	}
	if o.log != nil {
		if err := appendTo(o.log, now, turn.Facts, turn.Sync); err != nil {
			return fmt.Errorf("%w: %w", ErrLedger, err)
		}
	}
	entries := make([]kernel.Entry, len(turn.Facts))
	for i, f := range turn.Facts {
		o.seq++
		entries[i] = kernel.Entry{Seq: o.seq, At: now, Fact: f}
	}
	return o.listen(entries)
}

// Observe folds what sources tell of a session that someone else launched. It
// has no launcher and no clients, so nothing is ever performed; log may be nil.
// It returns when a signal came, or when the ledger or listen refuses.
//
// There is no loop and no inbox: whoever has something to say steps the kernel
// himself. An event is on its way before the source looks for the next record.
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
			cancel() // whatever the sources still want to tell, nobody hears it
		case <-signals:
			cancel() // the sources read to their end once more
		case <-o.timer.C:
		}
		o.step(kernel.Wake{})
	}
}

// An observation is the kernel of Observe, stepped by one goroutine at a time.
type observation struct {
	mu        sync.Mutex // guards all below: the sources' goroutines and that of Observe take turns
	observing            // what is stepped
	timer     *time.Timer
	err       error // of the ledger, or of listen
	over      chan struct{}
	ended     bool // over is closed: nothing is stepped any more
}

func (o *observation) step(in kernel.Input) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	if o.err = o.observing.step(time.Now(), in); o.err != nil {
		o.end()
		return
	}
	if _, done := o.k.Done(); done {
		o.end()
		return
	}
	if at, ok := o.k.Deadline(); ok {
		o.timer.Reset(time.Until(at))
	} else {
		o.timer.Stop()
	}
}

func (o *observation) end() {
	o.ended = true
	close(o.over)
}
