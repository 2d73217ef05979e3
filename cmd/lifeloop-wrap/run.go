package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/internal/store"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
	"lifeloop/supervisor"
)

// runFlags are the flags of run that are not configuration.
type runFlags struct {
	adapter, sessionID, events, pty string
	resume                          string // the session to recover; its id, once it was found
	line                            store.CommandLine
	activity                        []string
	noHooks, noLedger, otlp, force  bool
}

func runCmd(g *globals) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD [ARG…] | run --resume SESSION",
		Short: "Wrap a harness",
		Long: `run starts CMD in this terminal, exactly as it would run without a wrapper, and
keeps a session of what happens. With --retries, --fallback or an attempts block
in the configuration it launches it again, or another program, when it failed;
without them one launch is all.

Its exit code is that of the last launch; 128+n when signal n ended it; 1 when
the session failed although it left with 0; 75 when it stopped at a rate limit
(--on-limit exit), 124 when the session's time was over (--max-duration,
--idle-timeout); 125 when the wrapper failed or refused, 126 not executable, 127
not found.`,
		Example: `  lifeloop-wrap run -- claude
  lifeloop-wrap run --client notes='./notes-client --project .' -- claude -p "fix the tests"
  lifeloop-wrap run --events events.jsonl -- codex
  lifeloop-wrap run --retries 3 --backoff exponential:1s:1m --fallback 'codex exec "fix the tests"' -- claude -p "fix the tests"
  lifeloop-wrap run --resume last        take up a session whose wrapper died`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.resume != "" { // it is known what was run
				return nil
			}
			return cobra.MinimumNArgs(1)(cmd, args)
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
			f.line = commandLineOf(cmd, args)
			code, err := run(cfg, f, args)
			if err != nil {
				return err
			}
			return exitCode(code)
		},
	}
	f.define(cmd.Flags())
	return cmd
}

func (f *runFlags) define(fl *pflag.FlagSet) {
	fl.SetInterspersed(false) // what follows CMD is CMD's
	fl.StringVar(&f.adapter, "adapter", "", "the adapter `ID`; else inferred from CMD's name")
	fl.StringArray("client", nil, "`ID=CMDLINE` of a client for every event (repeatable)")
	fl.StringArray("require", nil, "`CAP=LEVEL[:partial]` that must be there (repeatable)")
	fl.StringArray("meta", nil, "`K=V` of what you call this session; told with it, and never looked at (repeatable)")
	fl.StringVar(&f.sessionID, "session-id", "", "a chosen `UUID` for the session")
	fl.StringVar(&f.resume, "resume", "", "take up this `SESSION`, whose wrapper died; its command is known")
	fl.StringVar(&f.events, "events", "", "append events and receipts to this `FILE` as JSON Lines (- for stderr)")
	fl.StringVar(&f.pty, "pty", "auto", "`WHEN` to give CMD a terminal: auto, always or never")
	fl.StringArrayVar(&f.activity, "activity", nil, "a file whose change is a sign of CMD's life; its `PATH` (repeatable)")
	fl.BoolVar(&f.noHooks, "no-hooks", false, "inject no hooks")
	fl.BoolVar(&f.otlp, "otlp", false, "have the harness export its log events to us (OTLP), and pass on the user's own")
	fl.BoolVar(&f.noLedger, "no-ledger", false, "keep no ledger")
	fl.Int("retries", 0, "how often CMD is tried again when it failed; `N` for each way to launch it")
	fl.Int("max-retries", 0, "how often anything is tried again, whyever it failed; `N` in all (when left out: as --retries needs, 6 at least)")
	fl.String("backoff", "", "the wait before a retry, `KIND:BASE[:MAX]`: fixed, linear or exponential, as in exponential:1s:1m")
	fl.StringArray("fallback", nil, "a `CMDLINE` to run when CMD is not tried again any more (repeatable)")
	fl.String("on-limit", "off", "`WHAT` to do at a rate limit: off, wait, fallback or exit")
	fl.Duration("timeout-initial", 0, "the longest silence after a launch")
	fl.Duration("timeout-inter", 0, "the longest silence later on, but while a tool runs or a person is waited for")
	fl.Duration("timeout-tool", 0, "the longest call of a tool")
	fl.Duration("max-duration", 0, "the longest session")
	fl.Duration("idle-timeout", 0, "the longest time in which nothing happens")
	fl.BoolVar(&f.force, "force", false, "take --timeout-inter where nothing can tell silence from waiting for a person")
	fl.Duration("client-drain", 5*time.Second, "how long clients have after CMD ended")
	fl.Duration("abort-grace", 5*time.Second, "from the first signal to KILL")
}

// check finds what is wrong with the flags before anything is started.
func (f runFlags) check(cfg config.Config, program string) error {
	u, err := uuid.Parse(f.sessionID)
	switch mode := harness.Mode(f.pty); {
	case mode != harness.Auto && mode != harness.Always && mode != harness.Never:
		return usage("--pty %s: want auto, always or never", f.pty)
	case f.sessionID != "" && (err != nil || u.String() != f.sessionID):
		return usage("--session-id %s: not a UUID in its usual form", f.sessionID)
	case program == "":
		return usage("run: the program's name is empty")
	}
	return unsupported(cfg)
}

// run wires one session together, drives it to its end, and returns the exit
// code.
func run(cfg config.Config, f runFlags, argv []string) (int, error) {
	if err := f.check(cfg, argv[0]); err != nil {
		return 0, err
	}
	launchable, err := ways(cfg, f.adapter, argv)
	if err != nil {
		return 0, err
	}
	activity, err := activityFiles(f.activity)
	if err != nil {
		return 0, err
	}

	terminal, err := harness.OpenTerminal(os.Stdin, os.Stdout, os.Stderr, harness.Mode(f.pty))
	if err != nil {
		return 0, refused(lifeloop.InternalError, "open the terminal: %v", err)
	}
	defer terminal.Close()
	if err := terminal.Prepare(nil); err != nil { // it starts while files are opened
		return 0, refused(lifeloop.InternalError, "start the guard: %v", err)
	}
	// A signal now waits until there is a session to abort.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	s := &session{id: cmp.Or(f.resume, f.sessionID, uuid.NewString()), cfg: cfg}
	defer s.close()
	if err := s.open(f.noLedger, f.resume != ""); err != nil {
		return 0, err
	}
	if s.ledger != nil {
		s.folder.SaveCommand(f.line)
	}
	if f.events == "-" && terminal.Pty() {
		return 0, usage("--events -: standard error is the harness's screen while a terminal is wrapped").withHint("give a file")
	}
	tee, err := openEvents(f.events)
	if err != nil {
		return 0, err
	}
	defer tee.Close()
	l := &launcher{session: s, terminal: terminal, ways: launchable, newest: launchable[0], activity: activity, noHooks: f.noHooks, otlp: f.otlp, force: f.force}
	defer l.close()
	return s.supervise(l, argv, f.resume != "", supervisor.Ports{Launcher: l, Door: s.door, Committed: tee.write, Signals: signals})
}

// supervise runs the session to its end and returns the exit code.
func (s *session) supervise(l *launcher, argv []string, recovered bool, ports supervisor.Ports) (int, error) {
	checked, err := l.check()
	if err != nil {
		return 0, err
	}
	l.policy = s.cfg.Attempts.Policy(checked, s.cfg.OnLimit)
	k, err := s.kernel(l, argv, recovered)
	if err != nil {
		return 0, err
	}
	if s.ledger != nil {
		ports.Ledger = s.ledger
		if testOnlyLedger != nil {
			ports.Ledger = testOnlyLedger(string(s.folder), s.ledger)
		}
	}
	clients, err := s.startable(l.terminal)
	if err != nil {
		return 0, err
	}
	defer clients.close() // after the terminal is restored, before its guard ends
	ports.Clients = clients.byID

	result, err := supervisor.Run(context.Background(), k, ports, supervisor.Options{
		Grace: s.cfg.AbortGrace, KeepGoing: s.cfg.OnLedgerError == "continue", Restart: recovered, Relaunch: relaunches(l.policy), Log: s.log})
	l.terminal.Restore()
	if err != nil {
		return 0, refused(lifeloop.InternalError, "session %s: %v", s.id, err).
			withHint("look at the disk under %s; lifeloop-wrap run --resume %s takes the session up", s.cfg.StateDir, s.id)
	}
	s.folder.Forget()
	if result.Failure != "" {
		f := &failure{code: result.Code, class: result.Failure, text: result.Why}
		return 0, f.withHint("%s", wayOut(f, l.newest.argv[0], l.newest.manifest.AdapterID))
	}
	return result.Code, nil
}

// testOnlyLedger wraps the ledger of a session, for tests that kill a process at
// one of its appends.
var testOnlyLedger func(dir string, l supervisor.Ledger) supervisor.Ledger

// activityFiles are the files of --activity. They may not be there yet.
func activityFiles(paths []string) ([]profiles.Source, error) {
	var out []profiles.Source
	for _, p := range paths {
		if p == "" {
			return nil, usage("--activity: the path is empty")
		}
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, refused(lifeloop.InternalError, "find the working directory: %v", err)
		}
		out = append(out, profiles.Activity(abs))
	}
	return out, nil
}

// unsupported refuses what a configuration may say and this version does not
// do: silently ignoring it would promise it.
func unsupported(cfg config.Config) error {
	if cfg.SubagentFrames {
		return usage("subagent_frames: configured, and not supported by this version").withHint("take it out of the configuration")
	}
	return nil
}
