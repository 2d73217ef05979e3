package supervisor

import (
	"context"
	"os"
	"time"

	"lifeloop/kernel"
)

// Observe folds what sources tell of a session that someone else launched. It
// has no launcher, no clients and no ledger, so nothing is ever performed. It
// returns when a signal came, or when told refuses a fact.
func Observe(k *kernel.Kernel, sources Sources, signals <-chan os.Signal, told func(kernel.Entry) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	inbox := make(chan kernel.Input, batch)
	ended := make(chan error, 1)
	go func() {
		ended <- sources.Run(ctx, func(in kernel.Input) { inbox <- in })
		close(inbox)
	}()
	// Whatever happens, the watcher is awaited; it may want to tell meanwhile.
	await := func() {
		cancel()
		for range inbox {
		}
	}
	defer await()

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	seq := uint64(0)
	for in := kernel.Input(kernel.Start{}); in != nil; {
		now := time.Now()
		for _, f := range k.Step(now, in).Facts {
			seq++
			if err := told(kernel.Entry{Seq: seq, At: now, Fact: f}); err != nil {
				return err
			}
		}
		if _, done := k.Done(); done {
			break
		}
		var due <-chan time.Time
		if at, ok := k.Deadline(); ok {
			timer.Reset(time.Until(at))
			due = timer.C
		}
		select {
		case next, open := <-inbox:
			if in = next; !open {
				in = kernel.SourcesDrained{}
			}
		case <-signals:
			cancel() // the sources read to their end once more and close the inbox
			in = kernel.Wake{}
		case <-due:
			in = kernel.Wake{}
		}
	}
	await()
	return <-ended
}
