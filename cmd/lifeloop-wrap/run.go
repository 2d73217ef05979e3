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
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/supervisor"
	"lifeloop/view"
)

// runFlags are the flags of run that the configuration does not have.
type runFlags struct {
	adapter, sessionID, events, pty string
	resume                          string // the session to recover; its id, once it was found
	line                            store.CommandLine
	activity                        []string
	noHooks, noLedger, otlp, force  bool
	json                            bool
}

func runCmd(g *globals) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD [ARG…] | run --resume SESSION",
		Short: "Run a harness in a session",
		Long: `run starts CMD in this terminal, exactly as it would run without the wrapper, and
records a session. With --retries, --fallback or an attempts block in the
configuration it launches CMD again, or another program, after a failure.
Otherwise it launches CMD once.

The exit code is that of the last launch, or:

  128+n  signal n ended it
  1      the session failed although the last launch exited with 0
  75     it stopped at a rate limit (--on-limit exit)
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
			f.line, f.json = commandLineOf(cmd, args), g.json
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
	fl.SetInterspersed(false) // what follows CMD belongs to CMD
	fl.StringVar(&f.adapter, "adapter", "", "`ID` of the adapter (default inferred from CMD's name)")
	fl.StringArray("client", nil, "client for every event, as `ID=CMDLINE` (repeatable)")
	fl.StringArray("require", nil, "capability that must be available, as `CAP=LEVEL[:partial]` (repeatable)")
	fl.StringArray("meta", nil, "label of the session, as `K=V`; stored and reported, never interpreted (repeatable)")
	fl.StringVar(&f.sessionID, "session-id", "", "`UUID` for the session (default random)")
	fl.StringVar(&f.resume, "resume", "", "`SESSION` to recover after its wrapper died; runs its stored command unless CMD is given")
	fl.StringVar(&f.events, "events", "", "`FILE` to append events and receipts to, as JSON Lines; - for stderr")
	fl.StringVar(&f.pty, "pty", "auto", "`WHEN` to give CMD a terminal: auto, always or never")
	fl.StringArrayVar(&f.activity, "activity", nil, "`PATH` of a file whose changes show that CMD is alive (repeatable)")
	fl.BoolVar(&f.noHooks, "no-hooks", false, "inject no hooks")
	fl.BoolVar(&f.otlp, "otlp", false, "receive the harness's log events (OTLP) and forward the user's own export")
	fl.BoolVar(&f.noLedger, "no-ledger", false, "store no ledger")
	fl.Int("retries", 0, "number of retries `N` after failures of CMD, for each profile")
	fl.Int("max-retries", 0, "limit `N` on all retries, whatever the cause (default: at least 6 with --retries)")
	fl.String("backoff", "", "wait before a retry, as `KIND:BASE[:MAX]`: fixed, linear or exponential; exponential:1s:1m")
	fl.StringArray("fallback", nil, "`CMDLINE` to run when CMD is not retried any more (repeatable)")
	fl.String("on-limit", "off", "`WHAT` to do at a rate limit: off, wait, fallback or exit")
	// The configuration reads these flags by name.
	for _, d := range []struct {
		name  string
		value time.Duration
		text  string
	}{
		{"timeout-initial", 0, "longest silence after a launch (default no limit)"},
		{"timeout-inter", 0, "longest silence later on, except while a tool runs or the user is asked (default no limit)"},
		{"timeout-tool", 0, "longest call of a tool (default no limit)"},
		{"max-duration", 0, "longest session (default no limit)"},
		{"idle-timeout", 0, "longest time without any activity (default no limit)"},
		{"client-drain", 5 * time.Second, "time for clients after CMD ended"},
		{"abort-grace", 5 * time.Second, "time from the first signal to KILL"},
	} {
		durationFlag(fl, new(time.Duration), d.name, d.value, d.text)
	}
	fl.BoolVar(&f.force, "force", false, "accept --timeout-inter even if silence cannot be distinguished from waiting for the user")
}

// check finds what is wrong with the flags before anything is started.
func (f runFlags) check(cfg config.Config, program string) error {
	u, err := uuid.Parse(f.sessionID)
	switch mode := harness.Mode(f.pty); {
	case mode != harness.Auto && mode != harness.Always && mode != harness.Never:
		return usage("--pty %s: want auto, always or never", f.pty)
	case f.sessionID != "" && (err != nil || u.String() != f.sessionID):
		return usage("--session-id %s: not a UUID in lower case with hyphens", f.sessionID)
	case program == "":
		return usage("run: the name of the program is empty")
	case cfg.SubagentFrames: // ignoring it would promise it
		return usage("subagent_frames is not supported by this version").withHint("remove it from the configuration")
	}
	return nil
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
	if err := terminal.Prepare(nil); err != nil { // the guard starts while files are opened
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
		return 0, usage("--events -: while a terminal is wrapped, standard error is the harness's screen").withHint("name a file")
	}
	committed, err := openEvents(f.events)
	if err != nil {
		return 0, err
	}
	l := &launcher{session: s, terminal: terminal, ways: launchable, newest: launchable[0], activity: activity, noHooks: f.noHooks, otlp: f.otlp, force: f.force}
	defer l.close()
	var calls view.Clients
	ports := supervisor.Ports{Launcher: l, Door: s.door, Signals: signals, Committed: func(e kernel.Entry) {
		calls.Apply(e)
		if committed != nil {
			committed(e)
		}
	}}
	code, err := s.supervise(l, argv, f.resume != "", ports)
	terminal.Restore() // supervise did, unless it failed before the launch
	warnFailing(os.Stderr, calls.Failing(), f.json)
	return code, err
}

// warnFailing reports the clients with failed calls, after the terminal was
// restored: no byte of ours is on the harness's screen.
func warnFailing(w io.Writer, clients []view.ClientCalls, asJSON bool) {
	for _, c := range clients {
		if asJSON {
			_ = printJSON(w, struct {
				Warning string `json:"warning"`
				view.ClientCalls
			}{"client_failed", c})
			continue
		}
		fmt.Fprintf(w, "lifeloop-wrap: client %s: %s\n", c.ClientID, c.Text())
	}
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
	clients, err := s.clients(l.terminal)
	if err != nil {
		return 0, err
	}
	defer clients.close() // after the terminal is restored, before its guard ends
	ports.Clients = clients
	if d := s.cfg.Attempts.Retry.Decide; len(d.Command) > 0 {
		if ports.Decider, err = dispatch.NewOneshot(dispatch.Config{ID: "retry.decide", Command: d.Command, MaxAnswer: 64 << 10,
			Timeout: l.policy.Decide, Env: append(os.Environ(), "LIFELOOP_SESSION_ID="+s.id), Started: l.terminal.Own, Ended: l.terminal.Disown}); err != nil {
			return 0, usage("%v", err)
		}
	}

	result, err := supervisor.Run(context.Background(), k, ports, supervisor.Options{
		Grace: s.cfg.Attempts.Timeouts.AbortGrace, KeepGoing: s.cfg.OnLedgerError == "continue", Restart: recovered, Relaunch: l.policy.Relaunches(), Log: s.log})
	l.terminal.Restore()
	if err != nil {
		return 0, refused(lifeloop.InternalError, "session %s: %v", s.id, err).
			withHint("check the disk of %s; to continue the session: lifeloop-wrap run --resume %s", s.cfg.StateDir, s.id)
	}
	s.folder.Forget()
	if result.Failure != "" {
		f := &failure{code: result.Code, class: result.Failure, text: result.Why}
		return 0, f.withHint("%s", startHint(f, l.newest.argv[0], l.newest.manifest.AdapterID))
	}
	return result.Code, nil
}

// testOnlyLedger wraps the ledger of a session, for tests that kill a process at
// one of its appends.
var testOnlyLedger func(dir string, l supervisor.Ledger) supervisor.Ledger
