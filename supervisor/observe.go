package supervisor

import (
	"context"
	"os"
	"sync"
	"time"

	"lifeloop/kernel"
)

// Observe folds what sources tell of a session that someone else launched. It
// has no launcher, no clients and no ledger, so nothing is ever performed. It
// returns when a signal came, or when told refuses a fact.
//
// There is no loop and no inbox: whoever has something to say steps the kernel
// himself. An event is on its way before the source looks for the next record.
func Observe(k *kernel.Kernel, sources Sources, signals <-chan os.Signal, told func(kernel.Entry) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := &observation{k: k, told: told, timer: time.NewTimer(time.Hour), over: make(chan struct{})}
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
	mu    sync.Mutex // guards all below: that of the sources and that of Observe take turns
	k     *kernel.Kernel
	seq   uint64
	told  func(kernel.Entry) error
	timer *time.Timer // of the kernel's deadline
	err   error       // of told
	over  chan struct{}
	ended bool // over is closed: nothing is stepped any more
}

func (o *observation) step(in kernel.Input) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	now := time.Now()
	for _, f := range o.k.Step(now, in).Facts {
		o.seq++
		if o.err = o.told(kernel.Entry{Seq: o.seq, At: now, Fact: f}); o.err != nil {
			o.end()
			return
		}
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
