package harness

import (
	"context"
	"errors"
	"os"
	"os/signal"
)

// NotifyContext is like signal.NotifyContext, but receives the signals with [Notify].
func NotifyContext(parent context.Context, signals ...os.Signal) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	came := make(chan os.Signal, 1)
	Notify(came, signals...)
	go func() {
		select {
		case sig := <-came:
			cancel(&signalCause{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(came)
		cancel(nil)
	}
}

// A signalCause is the cause of a context that a signal has ended.
type signalCause struct{ sig os.Signal }

func (c *signalCause) Error() string { return c.sig.String() + " signal received" }

// EndedBy returns the signal that ended a context of [NotifyContext]. It returns nil if no
// signal did.
func EndedBy(ctx context.Context) os.Signal {
	if c, ok := errors.AsType[*signalCause](context.Cause(ctx)); ok {
		return c.sig
	}
	return nil
}
