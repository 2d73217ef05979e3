//go:build linux

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"lifeloop/control"
	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/internal/durable"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/synth"
	"lifeloop/view"
)

// runFlags are the flags of run that are not configuration.
type runFlags struct {
	adapter, sessionID, events, pty string
	resume                          string // the session to take up: its id, once it was found
	line                            commandLine
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
				if f.sessionID != "" || f.noLedger {
					return usage("run --resume: a session keeps its id and its ledger").withHint("leave --session-id and --no-ledger out")
				}
				if cmd.Flags().Changed("meta") {
					return usage("run --resume: what a session is called is fixed at its start").withHint("leave --meta out")
				}
				st, id, err := g.lost(cmd, f.resume)
				if err != nil {
					return err
				}
				if args, err = recall(cmd, st.path(id), args); err != nil {
					return err
				}
				f.resume, stateDir = id, filepath.Dir(st.dir)
			}
			cfg, _, err := g.load(cmd)
			if err != nil {
				return ofRun(err)
			}
			if stateDir != "" {
				cfg.StateDir = stateDir
			}
			f.line = commandLineOf(cmd, args)
			code, err := run(cfg, f, args)
			if err != nil {
				return err
			}
			return exitCode(code)
		},
	}
	fl := cmd.Flags()
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
	return cmd
}

// refused is an error that ends run with 125: the wrapper failed or refused.
func refused(class lifeloop.FailureClass, format string, args ...any) *failure {
	return &failure{code: 125, class: class, text: fmt.Sprintf(format, args...)}
}

// ofRun gives an error from before the run the exit code of run, unless it is
// one of usage.
func ofRun(err error) error {
	var f *failure
	if errors.As(err, &f) && f.code == exitUsage {
		return err
	}
	return refused(lifeloop.InternalError, "%v", err)
}

// usage is an error in what was asked, with exit code 2.
func usage(format string, args ...any) *failure {
	return &failure{code: exitUsage, class: lifeloop.InvalidRequest, text: fmt.Sprintf(format, args...)}
}

// run wires one session together, drives it to its end, and returns the exit
// code.
func run(cfg config.Config, f runFlags, argv []string) (int, error) {
	mode := harness.Mode(f.pty)
	if mode != harness.Auto && mode != harness.Always && mode != harness.Never {
		return 0, usage("--pty %s: want auto, always or never", f.pty)
	}
	if err := unsupported(cfg); err != nil {
		return 0, err
	}
	id := cmp.Or(f.resume, f.sessionID, uuid.NewString())
	if u, err := uuid.Parse(f.sessionID); f.sessionID != "" && (err != nil || u.String() != f.sessionID) {
		return 0, usage("--session-id %s: not a UUID in its usual form", f.sessionID)
	}
	if argv[0] == "" {
		return 0, usage("run: the program's name is empty")
	}
	ways, err := ways(cfg, f.adapter, argv)
	if err != nil {
		return 0, err
	}
	activity, err := activityFiles(f.activity)
	if err != nil {
		return 0, err
	}

	terminal, err := harness.OpenTerminal(os.Stdin, os.Stdout, os.Stderr, mode)
	if err != nil {
		return 0, refused(lifeloop.InternalError, "open the terminal: %v", err)
	}
	defer terminal.Close()
	if err := terminal.Prepare(nil); err != nil { // it starts while we are still at the disk
		return 0, refused(lifeloop.InternalError, "start the guard: %v", err)
	}
	// From here on no signal ends us half-way: it waits until there is a
	// session to abort.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	s := &session{id: id, cfg: cfg}
	defer s.close()
	if err := s.open(f.noLedger, f.resume != ""); err != nil {
		return 0, err
	}
	if s.ledger != nil {
		f.line.keep(s.dir)
	}
	if f.events == "-" && terminal.Pty() {
		return 0, usage("--events -: standard error is the harness's screen while a terminal is wrapped").withHint("give a file")
	}
	tee, err := openEvents(f.events)
	if err != nil {
		return 0, err
	}
	defer tee.Close()

	l := &launcher{session: s, terminal: terminal, ways: ways, newest: ways[0], activity: activity, noHooks: f.noHooks, otlp: f.otlp, force: f.force}
	defer l.close()
	stand, err := l.check()
	if err != nil {
		return 0, err
	}
	l.policy = policy(cfg, stand)
	k, err := s.kernel(l, argv, f.resume != "")
	if err != nil {
		return 0, err
	}
	ports := supervisor.Ports{Launcher: l, Door: s.door, Committed: tee.told, Signals: signals}
	if s.ledger != nil {
		ports.Ledger = s.ledger
		if testOnlyLedger != nil {
			ports.Ledger = testOnlyLedger(s.dir, s.ledger)
		}
	}
	clients, err := s.startable(terminal)
	if err != nil {
		return 0, err
	}
	defer clients.close() // after the terminal is restored, before its guard goes
	ports.Clients = clients.byID

	result, err := supervisor.Run(context.Background(), k, ports, supervisor.Options{
		Grace: cfg.AbortGrace, KeepGoing: cfg.OnLedgerError == "continue", Restart: f.resume != "", Relaunch: relaunches(l.policy), Log: s.log})
	terminal.Restore()
	if err != nil {
		return 0, refused(lifeloop.InternalError, "session %s: %v", id, err).
			withHint("look at the disk under %s; lifeloop-wrap run --resume %s takes the session up", cfg.StateDir, id)
	}
	s.forget()
	if result.Failure != "" {
		f := &failure{code: result.Code, class: result.Failure, text: result.Why}
		return 0, f.withHint("%s", wayOut(f, l.newest.argv[0], l.newest.manifest.AdapterID))
	}
	return result.Code, nil
}

// testOnlyLedger stands between a session and its ledger, for tests in which
// somebody dies there.
var testOnlyLedger func(dir string, l supervisor.Ledger) supervisor.Ledger

// wayOut is what to do about a harness that was not started.
func wayOut(f *failure, program, adapter string) string {
	switch {
	case f.code == 126:
		return "is it a file, a program for this machine, and may you run it? chmod +x makes a script one"
	case f.code == 127 && strings.Contains(program, "/"):
		return "is it there, and if it is a script, is the program that its first line names?"
	case f.code == 127:
		return "is it installed, and is its folder in PATH?"
	case f.class == lifeloop.CapabilityUnsupported:
		return fmt.Sprintf("lifeloop-wrap manifest show %s says what may be required; CAPABILITY=preferred goes on without it, CAPABILITY=required:partial accepts a part", adapter)
	}
	return ""
}

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

// A session is what one run has on the disk and in its sockets' folder.
type session struct {
	id     string
	cfg    config.Config
	dir    string // of the session's files
	temp   string // a folder to be removed, when nothing is kept
	ledger *ledger.Log
	door   *control.Server
	log    zerolog.Logger
	logTo  *os.File
}

func (s *session) open(noLedger, resumed bool) error {
	s.dir = openStore(s.cfg.StateDir).path(s.id)
	if resumed {
		if err := s.reopen(); err != nil {
			return err
		}
	} else if noLedger {
		dir, err := os.MkdirTemp("", "lifeloop-")
		if err != nil {
			return refused(lifeloop.InternalError, "make a folder for this run: %v", err)
		}
		s.dir, s.temp = dir, dir
	} else {
		log, err := ledger.Create(s.dir, ledger.Options{})
		var locked *durable.LockedError
		switch {
		case errors.Is(err, os.ErrExist), errors.As(err, &locked):
			return taken(openStore(s.cfg.StateDir).read(s.id))
		case err != nil:
			return refused(lifeloop.InternalError, "keep a ledger in %s: %v", s.dir, err).
				withHint("--state-dir chooses another place, --no-ledger keeps none")
		}
		s.ledger = log
	}
	if err := s.openLog(); err != nil {
		return err
	}
	path, err := control.SocketPath(s.id)
	if err == nil {
		s.door, err = control.Listen(path)
	}
	if err == nil {
		// Where the door is depends on the environment; other commands may have
		// another one.
		err = os.WriteFile(filepath.Join(s.dir, doorFile), []byte(path), 0o600)
	}
	if err != nil {
		return refused(lifeloop.InternalError, "open the session's door: %v", err)
	}
	return nil
}

// taken says what there is already under a chosen id.
func taken(k kept) *failure {
	const another = "leave --session-id out, or take another one"
	switch {
	case k.Liveness == "live":
		return refused(lifeloop.StateConflict, "session %s is live already", k.SessionID).
			withHint("lifeloop-wrap status %s shows it; for one more session %s", k.SessionID, another)
	case k.damage != nil:
		return refused(lifeloop.StateConflict, "session %s exists already, and cannot be read: %v", k.SessionID, k.damage).withHint(another)
	case k.Ended():
		return refused(lifeloop.StateConflict, "session %s has ended already: %s", k.SessionID, ending(k)).withHint(another)
	}
	return refused(lifeloop.StateConflict, "session %s exists already, and is lost: its wrapper died", k.SessionID).
		withHint("lifeloop-wrap run --resume %s takes it up again; for a new session %s", k.SessionID, another)
}

// doorFile holds the path of a session's socket.
const doorFile = "door"

func (s *session) openLog() error {
	level, err := zerolog.ParseLevel(s.cfg.LogLevel)
	if err != nil || s.cfg.LogFile == "" {
		s.log = zerolog.Nop()
		return nil
	}
	if s.logTo, err = os.OpenFile(s.cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return refused(lifeloop.InternalError, "open the log: %v", err)
	}
	s.log = zerolog.New(s.logTo).Level(level).With().Timestamp().Str("session_id", s.id).Logger()
	return nil
}

// close lets go of what open took. The supervisor has closed the ledger of a
// session that ran; one that was refused on the way here is closed now.
func (s *session) close() {
	if s.door != nil {
		_ = s.door.Close()
	}
	if s.ledger != nil {
		seq, _ := s.ledger.Last()
		_ = s.ledger.Close()
		if seq == 0 {
			_ = os.RemoveAll(s.dir) // nothing ever happened in it
		}
	}
	if s.logTo != nil {
		_ = s.logTo.Close()
	}
	if s.temp != "" {
		_ = os.RemoveAll(s.temp)
	}
}

// prepareExports takes what the profile made of --otlp. A launch that exports
// nothing to us says so, and is as good as it was.
func prepareExports(e *supervisor.Exports, l *profiles.Launch, adapter string) error {
	const capability = "telemetry.otlp"
	if l.Export.Decoder == "" {
		said := slices.ContainsFunc(l.Weak, func(w profiles.Weakness) bool { return w.Capability == capability })
		if !said && !l.Plain {
			l.Weak = append(l.Weak, profiles.Weakness{Capability: capability, Reason: "adapter " + adapter + " exports no telemetry that is understood"})
		}
		return nil
	}
	if err := e.Prepared(l.Export); err != nil {
		return refused(lifeloop.InternalError, "%v", err).withHint("leave out --otlp")
	}
	return nil
}

// hookWords are the words by which a harness is told to call us back: the
// small program if it lies beside exe, for it starts sooner, else exe again.
//
// Its version is not asked for, which would cost each run a start of it. The
// two are built and installed together, and no harm is done where one of them
// is older: control's protocol passes over what it does not know and refuses
// what it cannot do, and a hook that is refused fails open.
func hookWords(exe string) []string {
	small := filepath.Join(filepath.Dir(exe), "lifeloop-hook")
	// A link is somebody's arrangement, and may lead to anything. (In exe the
	// kernel has followed them all.)
	if info, err := os.Lstat(small); err == nil && info.Mode().IsRegular() {
		if _, err := exec.LookPath(small); err == nil { // it may be started
			return []string{small}
		}
	}
	return []string{exe, "hook"}
}

func (s *session) kernelConfig(l *launcher, first kernel.Setup, argv []string) kernel.Config {
	dir, _ := os.Getwd() // it was found a moment ago
	digest := sha256.Sum256([]byte(strings.Join(argv[1:], "\x00")))
	c := kernel.Config{
		Session: s.id, Wants: wants(s.cfg.Requires), Ledger: s.ledger != nil, Setup: first, Policy: l.policy,
		Tick: s.cfg.Tick, ClientDrain: s.cfg.ClientDrain, AbortGrace: s.cfg.AbortGrace,
		NewID: func(prefix string) string { return prefix + uuid.NewString() },
		Began: kernel.Began{SessionID: s.id, AdapterID: first.Manifest.AdapterID, AdapterVersion: first.Manifest.AdapterVersion,
			Program: filepath.Base(argv[0]), Args: len(argv) - 1, ArgsDigest: "sha256:" + hex.EncodeToString(digest[:]),
			WorkDir: dir, Version: version, PID: os.Getpid(), PTY: l.terminal.Pty(), Clients: []string{}, Policy: "none",
			Meta: s.cfg.Attempts.Meta},
	}
	for _, w := range l.ways {
		c.Manifests = append(c.Manifests, w.manifest)
	}
	c.Clients = kernelClients(s.cfg.Clients)
	for _, cl := range c.Clients {
		c.Began.Clients = append(c.Began.Clients, cl.ID)
	}
	return c
}

func synthConfig(cfg config.Config, l profiles.Launch) synth.Config {
	return synth.Config{Hooks: l.Hooks, Statusline: l.Statusline, Moderate: cfg.Pressure.Moderate, High: cfg.Pressure.High,
		Critical: cfg.Pressure.Critical, Hysteresis: cfg.Pressure.Hysteresis}
}

// startable makes a subprocess client of each configured one. The guard is
// told of every process, so that none outlives us.
func (s *session) startable(t *harness.Terminal) (clientPrograms, error) {
	return newClientPrograms(s.cfg.Clients, func(id string) dispatch.Config {
		return dispatch.Config{
			Env:        append(os.Environ(), "LIFELOOP_SESSION_ID="+s.id, "LIFELOOP_CLIENT_ID="+id),
			StderrFile: filepath.Join(s.dir, "stderr-"+fileName(id)), Started: t.Own, Ended: t.Disown}
	})
}

// clientPrograms are the configured clients, ready to be called. None runs
// before its first call.
type clientPrograms struct {
	byID  map[string]supervisor.Client
	stays []*dispatch.Persistent
}

// newClientPrograms makes them; around says what is the caller's to say of the
// client with an id.
func newClientPrograms(clients []config.Client, around func(id string) dispatch.Config) (clientPrograms, error) {
	out := clientPrograms{byID: map[string]supervisor.Client{}}
	for _, c := range clients {
		cfg := around(c.ID)
		cfg.ID, cfg.Command, cfg.Timeout = c.ID, c.Command, c.Timeout
		if c.Mode == config.Persistent {
			p, err := dispatch.NewPersistent(cfg)
			if err != nil {
				return out, usage("%v", err)
			}
			out.byID[c.ID], out.stays = p, append(out.stays, p)
			continue
		}
		one, err := dispatch.NewOneshot(cfg)
		if err != nil {
			return out, usage("%v", err)
		}
		out.byID[c.ID] = one
	}
	return out, nil
}

// close ends the clients that stay, all at once, so that many that are slow to
// go take no longer than one.
func (c clientPrograms) close() {
	var wg sync.WaitGroup
	for _, p := range c.stays {
		wg.Go(p.Close)
	}
	wg.Wait()
}

// fileName makes a client's id fit for a file name.
func fileName(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '.' || r < ' ' {
			return '_'
		}
		return r
	}, id)
}

// unsupported refuses what a configuration may say and this version does not
// do: silently ignoring it would promise it.
func unsupported(cfg config.Config) error {
	if cfg.SubagentFrames {
		return usage("subagent_frames: configured, and not supported by this version").withHint("take it out of the configuration")
	}
	return nil
}

func wants(rs []config.Require) []negotiate.Want {
	var out []negotiate.Want
	for _, r := range rs {
		out = append(out, negotiate.Want{Capability: r.Capability, Level: r.Level, Support: r.Support, AcceptPartial: r.AcceptPartial})
	}
	return out
}

// An eventsFile gets events and receipts as they become durable.
type eventsFile struct {
	w    io.Writer
	file *os.File
}

func openEvents(path string) (*eventsFile, error) {
	switch path {
	case "":
		return &eventsFile{}, nil
	case "-":
		return &eventsFile{w: os.Stderr}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, refused(lifeloop.InternalError, "open the events file: %v", err)
	}
	return &eventsFile{w: f, file: f}, nil
}

func (t *eventsFile) told(e kernel.Entry) {
	if t.w == nil {
		return
	}
	var v any
	if r, ok := view.Event(e.Fact); ok {
		v = r
	} else if r, ok := view.Receipt(e.Fact); ok {
		v = r
	} else {
		return
	}
	line, err := json.Marshal(v)
	if err != nil {
		return
	}
	_, _ = t.w.Write(append(line, '\n')) // a full disk must not end a session that its ledger survived
}

func (t *eventsFile) Close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}
