package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/google/uuid"

	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/telemetry"
)

// observe reads the sources that were found, to their present end or until a
// signal, and calls the clients.
func (o *observer) observe() error {
	for _, s := range o.sources {
		if o.flags.once && s.Form == profiles.Events {
			return usage("--once: %s is a server, whose events have no end", s.Path).withHint("leave --once out")
		}
	}
	if o.flags.keepLog {
		if err := o.createLedger(); err != nil {
			return err
		}
		defer o.ledger.Close() // each append has reported its error
	}
	clients, err := o.clients()
	if err != nil {
		return err
	}
	defer clients.close()
	signals := make(chan os.Signal, 2)
	if !o.flags.once || len(clients) > 0 { // clients need an end in order
		signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	}
	ports := supervisor.Ports{Clients: clients, Signals: signals}
	if o.ledger != nil {
		ports.Ledger = o.ledger
	}
	k := kernel.New(o.kernelConfig())
	if o.flags.once {
		err = o.readOnce(k, ports)
	} else {
		err = o.readOn(k, ports)
	}
	if result, done := k.Done(); err == nil && done && result.Failure != "" {
		return no(result.Failure, "observe: %s", result.Why).
			withHint("an observer places nothing and controls nothing; lifeloop-wrap manifest inspect %s lists what telemetry_only has", o.manifest.AdapterID)
	}
	return err
}

func (o *observer) createLedger() error {
	o.folder = store.Open(o.cfg.StateDir).Folder(o.id)
	log, err := ledger.Create(string(o.folder), ledger.Options{})
	if err != nil {
		return no(lifeloop.InternalError, "create a ledger in %s: %v", o.folder, err).withHint("--state-dir chooses another folder")
	}
	o.ledger = log
	fmt.Fprintf(o.notes, "lifeloop-wrap: recording session %s\n", o.id)
	return nil
}

// clients returns the configured clients. What a client writes to its stderr is
// stored beside the ledger, if there is one.
func (o *observer) clients() (clientPrograms, error) {
	return newClientPrograms(o.cfg.Clients, func(id string) dispatch.Config {
		cfg := dispatch.Config{Env: append(os.Environ(), "LIFELOOP_SESSION_ID="+o.id, "LIFELOOP_CLIENT_ID="+id)}
		if o.folder != "" {
			cfg.StderrFile = filepath.Join(string(o.folder), "stderr-"+fileName(id))
		}
		return cfg
	})
}

// kernelConfig describes an observation. With --once and without a ledger, ids are
// numbered, so that the same files give the same lines.
func (o *observer) kernelConfig() kernel.Config {
	newID := func(prefix string) string { return prefix + uuid.NewString() }
	if o.flags.once && o.ledger == nil {
		n := map[string]int{}
		newID = func(prefix string) string {
			n[prefix]++
			return fmt.Sprintf("%s%06d", prefix, n[prefix])
		}
	}
	dir, _ := os.Getwd() // only recorded
	var read []string
	for _, s := range o.sources {
		read = append(read, s.Name)
	}
	pressure := synthConfig(o.cfg, o.profile, profiles.Launch{})
	pressure.Infer = !slices.ContainsFunc(o.sources, func(s profiles.Source) bool { return !s.Blind })
	cfg := kernel.Config{Session: o.id, Observing: true, Clients: kernelClients(o.cfg.Clients), Wants: wants(o.cfg.Requires),
		Setup: kernel.Setup{Manifest: o.manifest, HarnessSession: o.session, Tested: o.profile.Tested, Synth: pressure,
			Rests: profiles.RestsOf(o.profile.Adapter).Reading(read...)},
		Ledger: o.ledger != nil, ClientDrain: o.cfg.ClientDrain, NewID: newID, Began: kernel.Began{SessionID: o.id, AdapterID: o.manifest.AdapterID,
			AdapterVersion: o.manifest.AdapterVersion, WorkDir: dir, Version: version, PID: os.Getpid(), Clients: []string{}, Policy: "none"}}
	if o.ledger == nil {
		cfg.Weak = append(cfg.Weak, kernel.Weakened{Capability: "receipts.receipt_ledger", Reason: "no ledger is stored"})
	}
	for _, c := range cfg.Clients {
		cfg.Began.Clients = append(cfg.Began.Clients, c.ID)
	}
	return cfg
}

// readOnce prints the events of the existing records.
func (o *observer) readOnce(k *kernel.Kernel, ports supervisor.Ports) error {
	out := bufio.NewWriter(o.out)
	err := supervisor.Once(context.Background(), k, o.sources, ports, o.listener(out))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, supervisor.ErrNotReadable) {
		err = no(lifeloop.AdapterUnavailable, "observe: %v", err)
	}
	if result, _ := k.Done(); err == nil && result.Failure == "" {
		err = errors.Join(o.printUsage(out), o.noSessionError())
	}
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	return err
}

// readOn prints events until a signal ends it.
func (o *observer) readOn(k *kernel.Kernel, ports supervisor.Ports) error {
	files, err := supervisor.NewFiles(supervisor.Files{Fixed: o.sources, Named: o.profile.Transcript, AtEnd: !o.flags.fromStart, Getenv: os.Getenv,
		Runs: func(p telemetry.Process) bool { return harness.Runs(p.PID, p.Start) }})
	if err != nil {
		return no(lifeloop.AdapterUnavailable, "observe: %v", err)
	}
	files.Launched(0)
	options := supervisor.Options{KeepGoing: o.cfg.OnLedgerError == "continue"}
	if _, err := supervisor.Observe(context.Background(), k, files, ports, options, o.listener(o.out)); err != nil {
		return err
	}
	return o.printUsage(o.out)
}
