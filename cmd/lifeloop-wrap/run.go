package main

import (
	"cmp"
	"context"
	"os"
	"sync"
	"syscall"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/internal/vt"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
	"lifeloop/view"
)

func runCmd(g *globals) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD [ARG…] | run --resume SESSION",
		Short: "Run a harness in a session",
		Long: `run starts CMD in this terminal, exactly as it would run without the wrapper, and
records a session. With --retries, --max-retries, --fallback, --on-limit wait or an
attempts block in the configuration it can launch CMD again, or another program, after
a failure. A renewal (--profile) can launch it again too. Otherwise it launches CMD
once.

The exit code is that of the last launch, or:

  128+n  signal n ended CMD or the wrapper
  1      the session failed although the last launch exited with 0
  2      the command line or the configuration is wrong
  75     the session ended at a rate limit (--on-limit exit)
  124    the time limit of the session was reached (--max-duration, --idle-timeout)
  125    the wrapper failed or refused to run
  126    CMD cannot be executed
  127    CMD was not found`,
		Example: `  lifeloop-wrap run -- claude
  lifeloop-wrap run --client notes='./notes-client --project .' -- claude -p "fix the tests"
  lifeloop-wrap run --events events.jsonl -- codex
  lifeloop-wrap run --retries 3 --backoff exponential:1s:1m --fallback 'codex exec "fix the tests"' -- claude -p "fix the tests"
  lifeloop-wrap run --resume last        recover a session whose wrapper died`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.resume == "" && len(args) == 0 {
				return usage("run needs a command").withHint("lifeloop-wrap run -- claude, for example")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			stateDir := ""
			if f.resume != "" {
				st, words, err := f.recover(g, cmd, args)
				if err != nil {
					return err
				}
				args, stateDir = words, st.StateDir()
			}
			cfg, _, err := g.load(cmd)
			if err != nil {
				return ofRun(err)
			}
			cfg.StateDir = cmp.Or(stateDir, cfg.StateDir)
			g.warnOf(cmd, cfg)
			f.line, f.json = commandLineOf(cmd, args), g.json
			if f.guard, err = policyOf(cfg); err != nil {
				return err
			}
			return run(cfg, f, args)
		},
	}
	f.define(cmd.Flags())
	return cmd
}

// run sets up a session, runs it to its end, and returns its exit code, or the
// signal that ended the harness, as an error.
func run(cfg config.Config, f runFlags, argv []string) error {
	if err := f.check(cfg, argv[0]); err != nil {
		return err
	}
	if err := enough(sessionTasks, "a session"); err != nil {
		return err
	}
	terminal, err := harness.OpenTerminal(os.Stdin, os.Stdout, os.Stderr, harness.Mode(f.pty))
	if err != nil {
		return refused(lifeloop.InternalError, "open the terminal: %v", err)
	}
	defer terminal.Close()
	if cfg.Contain != "never" {
		if err := terminal.Contain(nil); err != nil && cfg.Contain == "always" {
			return refused(lifeloop.InternalError, "put the session into a control group: %v", err).withHint("with --contain auto, the session runs even without a control group; lifeloop-wrap doctor shows what is missing")
		}
	}
	// Started now, the guard gets ready while the session is opened.
	if err := terminal.Prepare(nil); err != nil {
		return refused(lifeloop.InternalError, "set up the guard process: %v", err)
	}
	if err := terminal.Adopt(); err != nil {
		return refused(lifeloop.InternalError, "%v", err)
	}
	launchable, err := ways(cfg, f.adapter, argv)
	if err != nil {
		return err
	}
	activity, err := activityFiles(f.activity)
	if err != nil {
		return err
	}
	// From now on, a signal waits until there is a session that it can abort.
	signals := make(chan os.Signal, 4)
	harness.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	s := &session{id: cmp.Or(f.resume, f.sessionID, uuid.NewString()), cfg: cfg}
	defer s.close()
	if err := s.open(f); err != nil {
		return err
	}
	if s.ledger != nil {
		s.folder.SaveCommand(f.line)
	}
	if f.events == "-" && terminal.Pty() {
		return usage("--events=- cannot be used while the harness runs in a terminal: the events would be mixed with its screen").withHint("name a file")
	}
	events, err := openEvents(f.events)
	if err != nil {
		return err
	}
	l := &launcher{gate: newGatekeeper(f.guard, s.id, launchable), approvalWait: f.approvalWait, session: s, terminal: terminal, ways: launchable, activity: activity, hooks: f.injection(), otlp: f.otlp, force: f.force}
	defer l.close()
	var calls view.Clients
	var proofs view.Proofs
	ports := supervisor.Ports{Launcher: l, Door: s.door, Signals: signals, Committed: func(entries []kernel.Entry) {
		for _, e := range entries {
			s.record.Apply(e)
			calls.Apply(e)
			proofs.Apply(e)
			events.append(e)
		}
	}}
	result, err := s.supervise(l, argv, f.resume != "", ports)
	s.remember(proofs)
	warnFailing(vt.NewFilter(os.Stderr), calls.Failing(), f.json)
	events.warn(vt.NewFilter(os.Stderr), f.json)
	warnUnpublished(vt.NewFilter(os.Stderr), s.id, s.published, f.json)
	switch {
	case err != nil:
		return err
	case result.Signal != 0:
		return death{syscall.Signal(result.Signal), terminal.EndedByKey()}
	}
	return exitCode(result.Code)
}

// supervise runs the session to its end and returns how it ended.
func (s *session) supervise(l *launcher, argv []string, recovered bool, ports supervisor.Ports) (kernel.Result, error) {
	checked, err := l.check()
	if err != nil {
		return kernel.Result{}, err
	}
	l.policy = s.cfg.Attempts.Policy(checked, s.cfg.OnLimit)
	if l.profiles, err = s.cfg.Active(); err != nil {
		return kernel.Result{}, usage("%v", err)
	}
	if ports.Renewer, err = s.renewer(l); err != nil {
		return kernel.Result{}, err
	}
	k, err := s.kernel(l, argv, recovered)
	if err != nil {
		return kernel.Result{}, err
	}
	if l.gate != nil {
		ports.Gate = l.gate
	}
	if s.ledger != nil {
		ports.Ledger = s.ledger
		if testOnlyLedger != nil {
			ports.Ledger = testOnlyLedger(string(s.folder), s.ledger)
		}
	}
	clients, err := s.clients(l.terminal)
	if err != nil {
		return kernel.Result{}, err
	}
	endClients := func() harness.Killed { // called after the terminal is restored and before the guard ends
		clients.close()
		return l.terminal.EndOrphans()
	}
	dismiss := sync.OnceFunc(func() {
		endClients()
		l.terminal.Dismiss() // does not wait until the guard exits; terminal.Close in run waits
	})
	defer dismiss() // for a run that failed
	ports.Clients = clients
	ports.EndClients = func() ([]input.Process, int) { return supervisor.Named(endClients()) }
	if d := s.cfg.Attempts.Retry.Decide; len(d.Command) > 0 {
		p := s.program(l.terminal)
		p.ID, p.Command, p.Timeout, p.Env, p.MaxAnswer = "retry.decide", d.Command, l.policy.Decide, d.Of(os.Environ(), p.Env...), 64<<10
		if ports.Decider, err = dispatch.NewOneshot(p); err != nil {
			return kernel.Result{}, usage("%v", err)
		}
	}

	if s.cfg.Archive && s.ledger != nil {
		ports.CopyTranscript = s.folder.CopyTranscript
	}
	if s.ledger != nil {
		if err := s.ledger.Named(); err != nil {
			return kernel.Result{}, noLedger(s.folder, err)
		}
	}
	anchors, err := s.anchors(l.terminal)
	if err != nil {
		return kernel.Result{}, err
	}
	token, _ := s.folder.Token() // an error means that there is no token, because there is no ledger
	result, err := supervisor.Run(context.Background(), k, ports, supervisor.Options{Inside: l.terminal.Below, Token: token,
		Grace: cmp.Or(s.cfg.Attempts.Timeouts.AbortGrace, -1), KeepGoing: s.cfg.OnLedgerError == "continue", Restart: recovered, Relaunch: l.relaunches(), Log: s.log})
	l.terminal.Restore()
	s.published = anchors.Wait(err == nil, ports.Signals)
	if err != nil {
		return kernel.Result{}, refused(lifeloop.InternalError, "session %s: %v", s.id, err).
			withHint("check the disk of %s; to continue the session: lifeloop-wrap run --resume %s", s.cfg.StateDir, s.id)
	}
	dismiss()
	s.tidy()
	if result.Failure != "" {
		newest := l.newest.Load()
		f := &failure{code: result.Code, class: result.Failure, text: result.Why}
		return kernel.Result{}, f.withHint("%s", startHint(f, newest.argv[0], newest.manifest.AdapterID))
	}
	return result, nil
}

// testOnlyLedger wraps the ledger of a session, for tests that kill a process at
// one of its appends.
var testOnlyLedger func(dir string, l supervisor.Ledger) supervisor.Ledger
