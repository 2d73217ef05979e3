package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"

	"lifeloop/dispatch"
	"lifeloop/internal/config"
	"lifeloop/kernel"
	"lifeloop/profiles"
	"lifeloop/supervisor"
)

// A hook that `host apply` installed runs without a wrapper: one call observes,
// dispatches and answers. "Negotiation happens inside the existing synchronous
// command invocation." It stores nothing and claims nothing durable.
//
// It fails open: after any error its answer is empty and it exits 0. A required
// capability that one call cannot give is one sentence on stderr, which the
// harnesses do not show. Below a wrapper,
// which injects its own hooks, it does nothing.

// hostHookTime is the time limit of installed hooks, less that of a start.
const hostHookTime = 4500 * time.Millisecond

// isHostHook finds `--host ADAPTER EVENT` among the arguments of hook.
func isHostHook(args []string) (adapter, event string, ok bool) {
	if len(args) != 3 || args[0] != "--host" {
		return "", "", false
	}
	return args[1], args[2], true
}

func hostHook(adapter, event string, stdin io.Reader, stdout *os.File, stderr io.Writer) int {
	deadline := time.Now().Add(hostHookTime)
	// Always read: a harness may not expect that its hook closes the pipe.
	input, err := readInTime(stdin, deadline)
	if err != nil || os.Getenv("LIFELOOP_SOCKET") != "" {
		return 0
	}
	profile, manifest, ok := adapterOf(adapter)
	if !ok || profile.Hooks == nil {
		return 0
	}
	call, err := profile.DecodeHook(event, input)
	if err != nil {
		return 0
	}
	dir, err := os.Getwd()
	if err != nil {
		return 0
	}
	cfg, _, err := config.Load(config.Options{Getenv: os.Getenv, WorkDir: dir, ReadFile: os.ReadFile})
	if err != nil || len(cfg.Clients) == 0 {
		return 0
	}
	id := uuid.NewString()
	k := kernel.New(kernel.Config{
		Session: id, OneHook: true, Wants: wants(cfg.Requires), Clients: kernelClients(cfg.Clients),
		Setup:       kernel.Setup{Manifest: manifest, Synth: synthConfig(cfg, profiles.Profile{}, profiles.Launch{})},
		Limits:      kernel.Limits{ClientPatience: cmp.Or(cfg.HookPatience, -1)},
		ClientDrain: time.Until(deadline), NewID: func(prefix string) string { return prefix + uuid.NewString() },
	})
	// A persistent client starts with its first call and ends with this hook.
	clients, err := newClientPrograms(cfg.Clients, func(client string) dispatch.Config {
		return dispatch.Config{Env: append(os.Environ(), "LIFELOOP_SESSION_ID="+id, "LIFELOOP_CLIENT_ID="+client)}
	})
	if err != nil {
		return 0
	}
	defer clients.close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	result, _ := supervisor.OneHook(ctx, k, supervisor.Ports{Clients: clients}, call, deadline, profile.Answer, func(answer []byte) bool {
		if len(answer) == 0 {
			return true
		}
		_ = stdout.SetWriteDeadline(deadline) // if the file supports deadlines
		n, err := stdout.Write(answer)
		return err == nil && n == len(answer)
	}) // fails open
	if result.Failure != "" {
		fmt.Fprintf(stderr, "lifeloop-wrap: %s in a single hook call (%s)\n", result.Why, result.Failure)
	}
	return 0
}

// readInTime is readBounded with a deadline: a harness may keep the other end
// open. The process then exits, which ends the reading.
func readInTime(r io.Reader, deadline time.Time) ([]byte, error) {
	var doc []byte
	var err error
	done := make(chan struct{})
	go func() {
		doc, err = readBounded(r)
		close(done)
	}()
	select {
	case <-done:
		return doc, err
	case <-time.After(time.Until(deadline)):
		return nil, os.ErrDeadlineExceeded
	}
}
