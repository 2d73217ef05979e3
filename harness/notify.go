package harness

import (
	"context"
	"os"
	"os/signal"
)

// NotifyContext is like signal.NotifyContext, but receives the signals with [Notify].
func NotifyContext(parent context.Context, signals ...os.Signal) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	came := make(chan os.Signal, 1)
	Notify(came, signals...)
	go func() {
		select {
		case <-came:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(came)
		cancel()
	}
}
