// Command embed supervises a program without lifeloop-wrap. The client and the
// callbacks are Go functions of embed. It writes no ledger. If the program fails,
// embed retries it once.
//
//	embed PROGRAM [ARGUMENT…]
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"lifeloop/attempt"
	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/supervisor"
	"lifeloop/view"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "guard" { // the guard is this program, started once more
		os.Exit(harness.GuardMain())
	}
	code, err := supervise(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
	}
	os.Exit(code)
}

func supervise(argv []string) (int, error) {
	terminal, err := harness.OpenTerminal(os.Stdin, os.Stdout, os.Stderr, harness.Auto)
	if err != nil {
		return 125, err
	}
	defer terminal.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	client := func(_ context.Context, e lifeloop.DispatchEnvelope) (lifeloop.CallbackResponse, error) {
		fmt.Fprintln(os.Stderr, "event:", e.Request.Event)
		return lifeloop.CallbackResponse{SchemaVersion: lifeloop.Version, Status: lifeloop.Observed}, nil
	}
	hooks := &view.Hooks{
		OnStart:    func(n int, _, _ bool) { fmt.Fprintln(os.Stderr, "attempt:", n) },
		OnError:    func(err error, retry, _ bool) { fmt.Fprintf(os.Stderr, "error: %v, retry %t\n", err, retry) },
		OnComplete: func(s view.L0State) { fmt.Fprintln(os.Stderr, "complete: retries", s.ModelRetryCount) },
	}
	notifier := supervisor.NewNotifier(hooks, view.L0{})
	var wg sync.WaitGroup
	wg.Go(notifier.Run)
	defer func() {
		notifier.Close()
		wg.Wait()
		if lost, panics := notifier.Lost(), hooks.Panics(); lost+panics > 0 {
			fmt.Fprintf(os.Stderr, "callbacks: %d events dropped, %d panics\n", lost, panics)
		}
	}()

	manifest, _ := manifests.Get("generic")
	id := uuid.NewString()
	l := launcher{argv, terminal, setup.Launch{Manifest: manifest, NoTelemetry: true}}
	result, err := supervisor.Run(ctx, kernel.New(kernel.Config{
		Session: id, Began: kernel.Began{SessionID: id, AdapterID: manifest.AdapterID}, Launch: l.setup,
		ClientDrain: 5 * time.Second, Limits: setup.Limits{AbortGrace: 5 * time.Second, SignDelay: supervisor.SignDelay},
		NewID:  func(prefix string) string { return prefix + uuid.NewString() },
		Policy: attempt.Policy{Retries: attempt.Retries{Attempts: 1, MaxRetries: 1, On: attempt.DefaultOn()}},
		Clients: []setup.Client{{ID: "printer", Timeout: 5 * time.Second,
			Events: map[lifeloop.Event]bool{lifeloop.SessionStarted: true, lifeloop.SessionEnded: true}}},
	}), supervisor.Ports{Launcher: l, Clients: map[string]supervisor.Client{"printer": dispatch.Func(client)}, Committed: notifier.Committed},
		supervisor.Options{Relaunch: true})
	return result.Code, err
}

// A launcher starts the same program for each attempt.
type launcher struct {
	argv     []string
	terminal *harness.Terminal
	setup    setup.Launch
}

func (l launcher) Prepare(effect.Launch) (supervisor.Plan, error) {
	h := supervisor.Harness{Terminal: l.terminal, Spec: harness.Spec{Argv: l.argv}}
	return supervisor.Plan{Setup: l.setup, Start: h.Start}, l.terminal.Prepare(nil)
}

func (l launcher) Release() { l.terminal.Restore() }
