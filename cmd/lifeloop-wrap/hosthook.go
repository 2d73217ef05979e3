package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/google/uuid"

	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/internal/trust"
	"lifeloop/internal/vt"
	"lifeloop/kernel"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/telemetry"
)

// A hook that `host apply` installed runs without a wrapper. One call derives events from
// the hook's input, checks whether the required capabilities are available, sends the
// events to the clients and prints the answer. The call stores nothing, except
// continuations in the vault (hostVault) if --profile is given. It has no ledger, so the
// capability receipts.receipt_ledger is not available.
//
// The hook fails open: after any error its answer is empty and its exit code is
// 0. If a required capability is not available to a hook without a wrapper, the hook
// prints one sentence on stderr, which the harnesses do not show. If the harness runs
// below a wrapper, which injects its own hooks, the installed hook does nothing.

// hostHookTime is the time limit of installed hooks, less the time that the
// process takes to start.
const (
	hostHookTime        = 4500 * time.Millisecond
	hostHookRenewalTime = hostHookTime + 30*time.Second // the limit if the programs of a profile run too
)

// limit is the time limit of the call.
func (h hostCall) limit() time.Duration {
	if h.profile != "" {
		return hostHookRenewalTime
	}
	return hostHookTime
}

// A hostCall is one call of an installed hook.
type hostCall struct{ adapter, profile, event string }

// isHostHook finds `--host ADAPTER [--profile NAME] EVENT` among the arguments of
// hook.
func isHostHook(args []string) (h hostCall, ok bool) {
	switch {
	case len(args) == 3 && args[0] == "--host":
		return hostCall{adapter: args[1], event: args[2]}, true
	case len(args) == 5 && args[0] == "--host" && args[2] == "--profile":
		return hostCall{adapter: args[1], profile: args[3], event: args[4]}, true
	}
	return h, false
}

func hostHook(h hostCall, stdin io.Reader, stdout *os.File, stderr io.Writer) int {
	deadline := time.Now().Add(h.limit())
	// Always read stdin, because a harness may not expect that its hook closes the
	// pipe.
	input, err := readInTime(stdin, deadline)
	if err != nil || os.Getenv("LIFELOOP_SOCKET") != "" {
		return 0
	}
	profile, manifest, ok := adapterOf(h.adapter)
	if !ok || profile.Hooks == nil {
		return 0
	}
	call, err := profile.DecodeHook(h.event, input)
	if err != nil {
		return 0
	}
	dir, err := os.Getwd()
	if err != nil {
		return 0
	}
	cfg, _, err := config.Load(config.Options{Getenv: os.Getenv, WorkDir: dir, ReadFile: trust.ReadFile,
		Project: func(stateDir string) trust.File { return loadProject(dir, stateDir) }})
	if err != nil || len(cfg.Clients) == 0 && h.profile == "" {
		return 0
	}
	result, err := h.serve(cfg, profile, manifest, dir, call, deadline, stdout, stderr)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "lifeloop-wrap: %s\n", vt.Plain(err.Error()))
	case result.Failure != "":
		fmt.Fprintf(stderr, "lifeloop-wrap: hook without the wrapper: %s (%s)\n", vt.Plain(result.Why), result.Failure)
	}
	return 0
}

// serve handles the call and writes the answer.
func (h hostCall) serve(cfg config.Config, profile profiles.Profile, manifest lifeloop.Manifest, dir string, call telemetry.HookCall, deadline time.Time,
	stdout *os.File, stderr io.Writer) (none kernel.Result, err error) {
	id := uuid.NewString()
	around := func(string) dispatch.Config { return dispatch.Config{Env: []string{"LIFELOOP_SESSION_ID=" + id}} }
	// A persistent client starts with its first call and ends with this hook.
	clients, err := newClientPrograms(cfg.Clients, around)
	if err != nil {
		return none, err
	}
	defer clients.close()
	kc := kernel.Config{
		Session: id, OneHook: true, Wants: wants(cfg.Requires), Clients: kernelClients(cfg.Clients),
		Launch:      setup.Launch{Manifest: manifest, Synth: synthConfig(cfg, profiles.Profile{}, profiles.Launch{})},
		Limits:      setup.Limits{ClientPatience: cmp.Or(cfg.HookPatience, -1)},
		ClientDrain: time.Until(deadline), NewID: newID,
	}
	if h.profile != "" {
		kc.Limits.ClientPatience = time.Until(deadline)
		// An earlier hook may have been killed while a program of the profile read a
		// continuation from a file. Ungive removes such files.
		if err := hostVault(cfg.StateDir).Ungive(); err != nil {
			fmt.Fprintf(stderr, "lifeloop-wrap: cannot remove the continuation files that a killed hook left: %s\n", vt.Plain(err.Error()))
		}
		r, err := h.renewal(cfg, manifest, dir, around, stderr)
		if err != nil {
			return none, err
		}
		kc.Clients = joinRenewal(r, kc.Clients, clients)
	}
	k := kernel.New(kc)
	ctx, stop := harness.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	result, _ := supervisor.OneHook(ctx, k, supervisor.Ports{Clients: clients}, call, deadline, profile.Answer, func(answer []byte) bool {
		if len(answer) == 0 {
			return true
		}
		_ = stdout.SetWriteDeadline(deadline) // an error means that stdout does not support deadlines
		n, err := stdout.Write(answer)
		return err == nil && n == len(answer)
	}) // an error is ignored, because the harness must continue after an error of the hook
	return result, nil
}

// readInTime is readBounded with a deadline, because a harness may keep its end of the
// pipe open. After the deadline, the read continues until the process exits.
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
