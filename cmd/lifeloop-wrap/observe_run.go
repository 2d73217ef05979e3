package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/internal/durable"
	"lifeloop/internal/proven"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/kernel/setup"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/telemetry"
)

// observe reads the sources that were found, to their present end or until a
// signal, and calls the clients.
func (o *observer) observe(cmd *cobra.Command) error {
	for _, s := range o.sources {
		if o.flags.once && s.Form == profiles.Events {
			return usage("--once: %s is a server, whose events have no end", s.Path).withHint("run observe without --once")
		}
	}
	if err := o.openLedger(cmd); err != nil {
		return err
	}
	if o.ledger != nil {
		defer func() {
			_ = o.ledger.Close() // an error does not matter here, because each append has reported its errors
			o.facts.Conclude(o.id, o.folder)
			retain(o.cfg, o.id, o.notes)
		}()
	}
	clients, err := o.clients()
	if err != nil {
		return err
	}
	defer clients.close()
	signals := make(chan os.Signal, 2)
	if !o.flags.once || len(clients) > 0 { // if there are clients, a signal must end the observation in an orderly way
		harness.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	}
	ports := supervisor.Ports{Clients: clients, Signals: signals}
	if o.ledger != nil {
		ports.Ledger = o.ledger
		if testOnlyLedger != nil {
			ports.Ledger = testOnlyLedger(string(o.folder), o.ledger)
		}
	}
	k := kernel.New(o.kernelConfig())
	past, err := o.recall(k)
	if err != nil {
		return err
	}
	if o.flags.once {
		err = o.readOnce(k, past, ports)
	} else {
		err = o.readOn(k, past, ports)
	}
	if err == nil && o.ledger != nil {
		o.folder.Forget()
	}
	if result, done := k.Done(); err == nil && done && result.Failure != "" {
		return no(result.Failure, "observe: %s", result.Why).
			withHint("an observer cannot send text to the model or control the harness; lifeloop-wrap manifest inspect %s shows which events the mode telemetry_only reports", o.manifest.AdapterID)
	}
	return err
}

// openLedger opens the ledger, if --ledger is given. For a new ledger it also
// saves the data that a resume needs.
func (o *observer) openLedger(cmd *cobra.Command) (err error) {
	switch {
	case !o.flags.keepLog:
		return nil
	case o.flags.resume != "":
		return o.reopen()
	}
	o.folder = store.Open(o.cfg.StateDir).Folder(o.id)
	created, err := createLedger(o.folder)
	if err == nil {
		if err = created.Named(); err != nil {
			_ = created.Close()
			o.folder.Discard()
		}
	}
	if err != nil {
		return no(lifeloop.InternalError, "create a ledger in %s: %v", o.folder, err).withHint("--state-dir chooses another folder")
	}
	o.ledger = created
	var sources []string
	for _, s := range o.sources {
		sources = append(sources, s.Name+"="+s.Path)
	}
	line := commandLineOf(cmd, sources)
	if o.session != "" {
		line.Flags["session"] = []string{o.session}
	}
	delete(line.Flags, "source")
	o.folder.SaveCommand(line)
	fmt.Fprintf(o.notes, "lifeloop-wrap: recording session %s\n", o.id)
	return nil
}

// reopen opens the ledger of an observation that was killed.
func (o *observer) reopen() (err error) {
	o.folder = store.Open(o.cfg.StateDir).Folder(o.id)
	if err = o.folder.Secure(); err == nil {
		o.ledger, _, err = ledger.Open(string(o.folder), ledger.Options{})
	}
	if _, locked := errors.AsType[*durable.LockedError](err); locked {
		return no(lifeloop.StateConflict, "session %s is live", o.id)
	}
	if err != nil {
		return no(lifeloop.InternalError, "open the ledger of session %s: %v", o.id, err).
			withHint("lifeloop-wrap ledger verify %s checks the ledger", o.id)
	}
	fmt.Fprintf(o.notes, "lifeloop-wrap: resuming session %s\n", o.id)
	return nil
}

// recall replays the ledger of a killed observation into k and o.facts. The sum that
// --usage prints then includes the model calls in the ledger. Without --resume, recall
// returns nil.
func (o *observer) recall(k *kernel.Kernel) (past *supervisor.Past, err error) {
	if o.flags.resume == "" {
		return nil, nil
	}
	past = supervisor.ReadPast(func(yield func(kernel.Entry) bool) {
		for e, failed := range o.folder.Facts(0) {
			if failed != nil {
				err = failed
				return
			}
			if !yield(e) {
				return
			}
		}
	}, func(e kernel.Entry) {
		k.Fold(e)
		o.facts.Apply(e)
		if _, ok := e.Fact.(kernel.HarnessSessionOpened); ok {
			o.found = true
		}
	})
	if err != nil {
		return nil, no(lifeloop.InternalError, "read the ledger of session %s: %v", o.id, err)
	}
	return past, nil
}

// recover finds the session of --resume, sets its saved flags, changes to its working
// directory and returns its sources.
func (f *observeFlags) recover(g *globals, cmd *cobra.Command, paths []string) (sources []string, stateDir string, err error) {
	if len(paths) > 0 {
		return nil, "", usage("--resume cannot be used with PATHs: the sources of the session are stored")
	}
	st, id, err := g.session(cmd, f.resume)
	if err != nil {
		return nil, "", err
	}
	known := st.Read(id)
	if err := recoverable(known); err != nil {
		if refusal, ok := errors.AsType[*failure](err); ok {
			refusal.code = exitNo
		}
		return nil, "", err
	}
	if known.Program != "" {
		return nil, "", usage("--resume: session %s was started by run, not by observe", id).withHint("lifeloop-wrap run --resume %s", id)
	}
	c, err := st.Folder(id).Command()
	if err != nil {
		return nil, "", usage("--resume: read the sources of session %s: %v", id, err)
	}
	if cmd.Flags().Changed("once") || cmd.Flags().Changed("follow") { // the user gave one of these two flags, which exclude each other, so drop the saved ones
		delete(c.Flags, "once")
		delete(c.Flags, "follow")
	}
	f.resume = id
	return c.Argv, st.StateDir(), setSaved(cmd, c)
}

// clients returns the configured clients. Their stderr is stored beside the
// ledger, if there is one.
func (o *observer) clients() (clientPrograms, error) {
	return newClientPrograms(o.cfg.Clients, func(id string) dispatch.Config {
		cfg := dispatch.Config{Env: []string{"LIFELOOP_SESSION_ID=" + o.id}}
		if o.folder != "" {
			cfg.StderrFile = filepath.Join(string(o.folder), "stderr-"+fileName(id))
		}
		return cfg
	})
}

// kernelConfig describes an observation. With --once and without a ledger, ids are
// numbered, so that the same files give the same lines.
func (o *observer) kernelConfig() kernel.Config {
	ids := newID
	if o.flags.once && o.ledger == nil {
		n := map[string]int{}
		ids = func(prefix string) string {
			n[prefix]++
			return fmt.Sprintf("%s%06d", prefix, n[prefix])
		}
	}
	dir, _ := os.Getwd() // the folder is only recorded, so an error is ignored
	var read []string
	for _, s := range o.sources {
		read = append(read, s.Name)
	}
	pressure := synthConfig(o.cfg, o.profile, profiles.Launch{})
	pressure.Infer = !slices.ContainsFunc(o.sources, func(s profiles.Source) bool { return !s.Blind })
	cfg := kernel.Config{Session: o.id, Observing: true, Clients: kernelClients(o.cfg.Clients), Wants: wants(o.cfg.Requires),
		Launch: setup.Launch{Manifest: o.manifest, HarnessSession: o.session, Versions: setup.Versions{Tested: o.profile.Tested, Proven: proven.Read(o.cfg.StateDir).Of(o.profile.Adapter)}, Synth: pressure,
			Rests: profiles.RestsOf(o.profile.Adapter).Reading(read...)},
		Ledger: o.ledger != nil, ClientDrain: o.cfg.ClientDrain, NewID: ids, Began: kernel.Began{SessionID: o.id, AdapterID: o.manifest.AdapterID,
			AdapterVersion: o.manifest.AdapterVersion, WorkDir: dir, Version: version, PID: os.Getpid(), Clients: []string{}, Policy: "none"}}
	if o.ledger == nil {
		cfg.Weak = append(cfg.Weak, setup.Weakness{Capability: "receipts.receipt_ledger", Reason: "no ledger is stored"})
	}
	for _, c := range cfg.Clients {
		cfg.Began.Clients = append(cfg.Began.Clients, c.ID)
	}
	return cfg
}

// readOnce prints the events of the existing records.
func (o *observer) readOnce(k *kernel.Kernel, past *supervisor.Past, ports supervisor.Ports) error {
	out := bufio.NewWriter(o.out)
	err := supervisor.Once(context.Background(), k, o.sources, past, ports, o.listener(out))
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

// readOn prints events until a signal arrives.
func (o *observer) readOn(k *kernel.Kernel, past *supervisor.Past, ports supervisor.Ports) error {
	files, err := supervisor.NewFiles(supervisor.Files{Fixed: o.sources, Named: o.profile.Transcript, AtEnd: !o.flags.fromStart, Sessions: o.next, Getenv: os.Getenv, Positions: o.ledger != nil,
		Runs: func(p telemetry.Process) bool { return harness.Runs(p.PID, p.Start) }})
	if err != nil {
		return no(lifeloop.AdapterUnavailable, "observe: %v", err)
	}
	options := supervisor.Options{KeepGoing: o.cfg.OnLedgerError == "continue", Restart: o.flags.resume != ""}
	if options.Restart {
		if err := files.Resume(k, past, ports.Ledger, o.listener(o.out)); err != nil {
			return err
		}
	}
	// Each line is read, decoded and printed in turn, so more processors would not help.
	// Waking them for each line would take 10 of the 70 µs from the file's notification
	// to the printed event.
	runtime.GOMAXPROCS(1)
	files.Launched(0)
	if _, err := supervisor.Observe(context.Background(), k, files, ports, options, o.listener(o.out)); err != nil {
		return err
	}
	return o.printUsage(o.out)
}
