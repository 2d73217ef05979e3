package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"lifeloop/harness"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/synth"
	"lifeloop/telemetry"
	"lifeloop/view"
)

// observeFlags are the flags of observe.
type observeFlags struct {
	adapter, source, session                string
	once, follow, fromStart, usage, keepLog bool
}

func observeCmd(g *globals) *cobra.Command {
	var f observeFlags
	cmd := &cobra.Command{
		Use:   "observe --adapter ID [PATH…]",
		Short: "Tell the events of a session that someone else launched",
		Long: `observe reads the sources of a session and prints its lifecycle events as JSON
Lines. It launches nothing and answers no hook: its mode is telemetry_only, and
without --ledger nothing durable is claimed. Several PATHs are sources of one
session. Without a PATH the newest session of this folder is looked for in the
adapter's usual places. Of an adapter that no file is understood of (generic),
PATHs are activity files: that one changes is the sign of life with which the
session begins, and nothing of it is read. With --once the clock is the records'
own time, so the same files give the same lines.`,
		Example: `  lifeloop-wrap observe --adapter claude
  lifeloop-wrap observe --adapter claude --once --usage ~/.claude/projects/-src/5f0c….jsonl
  lifeloop-wrap observe --adapter codex --once rollout-….jsonl hooks=calls.jsonl
  lifeloop-wrap observe --adapter opencode bus=http://127.0.0.1:4096/event`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if f.once && f.follow {
				return usage("--once and --follow exclude each other")
			}
			o, err := newObserver(f.adapter)
			if err != nil {
				return err
			}
			o.out, o.notes, o.session, o.total = cmd.OutOrStdout(), cmd.ErrOrStderr(), f.session, f.usage
			if len(paths) == 0 {
				err = o.find(f.source, cmd.ErrOrStderr())
			} else {
				err = o.read(f.source, paths)
			}
			if err != nil {
				return err
			}
			if f.keepLog {
				closeLog, err := o.keep(g, cmd)
				if err != nil {
					return err
				}
				defer closeLog()
			}
			if f.once {
				return o.once()
			}
			return o.follow(f.fromStart)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.adapter, "adapter", "", "the adapter `ID`")
	fl.StringVar(&f.source, "source", "", "what the PATHs are (`KIND`), if not what they look like")
	fl.StringVar(&f.session, "session", "", "the harness's own `ID` of the session, where a source or a folder holds several")
	fl.BoolVar(&f.once, "once", false, "read what is there and end")
	fl.BoolVar(&f.follow, "follow", false, "wait for more (the default)")
	fl.BoolVar(&f.fromStart, "from-start", false, "tell what is there already, too")
	fl.BoolVar(&f.usage, "usage", false, "after the events, a line with what the model calls add up to")
	fl.BoolVar(&f.keepLog, "ledger", false, "keep a ledger, as run does")
	return cmd
}

// An observer folds the records of one session and prints what they tell.
type observer struct {
	profile  profiles.Profile
	manifest lifeloop.Manifest
	sources  []profiles.Source
	session  string // the harness's id of the only session that is asked for
	out      io.Writer
	notes    io.Writer // for the person
	met      bool      // a session was told of
	total    bool      // tell the usage too
	status   view.Status
	id       string            // of our own session
	log      supervisor.Ledger // nil when none is kept
}

func newObserver(adapter string) (*observer, error) {
	if adapter == "" {
		return nil, usage("observe: --adapter is wanted").withHint("lifeloop-wrap manifest list names them")
	}
	profile, ok := profiles.For(adapter)
	manifest, known := manifests.Get(adapter)
	if !ok || !known {
		return nil, usage("--adapter %q: no such adapter", adapter).withHint("lifeloop-wrap manifest list names them")
	}
	return &observer{profile: profile, manifest: manifest, id: uuid.NewString()}, nil
}

// read takes what the person points at.
func (o *observer) read(kind string, paths []string) error {
	for _, path := range paths {
		s, err := o.source(kind, path)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(o.sources, func(other profiles.Source) bool { return sameSource(s, other) }) {
			return usage("observe: %s is given twice", path)
		}
		o.sources = append(o.sources, s)
	}
	return nil
}

// sameSource says whether two sources are one, under whatever path.
func sameSource(a, b profiles.Source) bool {
	if a.Name != b.Name || a.Path == b.Path {
		return a.Name == b.Name
	}
	one, err1 := os.Stat(a.Path)
	other, err2 := os.Stat(b.Path)
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}

// keep begins a ledger for what is observed.
func (o *observer) keep(g *globals, cmd *cobra.Command) (func(), error) {
	cfg, _, err := g.load(cmd)
	if err != nil {
		return nil, err
	}
	dir := string(store.Open(cfg.StateDir).Folder(o.id))
	log, err := ledger.Create(dir, ledger.Options{})
	if err != nil {
		return nil, no(lifeloop.InternalError, "keep a ledger in %s: %v", dir, err).withHint("--state-dir chooses another place")
	}
	o.log = log
	fmt.Fprintf(o.notes, "lifeloop-wrap: kept as session %s\n", o.id)
	return func() { _ = log.Close() }, nil // each append has told whether it was kept
}

// source says how a PATH is read: as the kind that KIND=PATH or --source names,
// else as what it looks like.
func (o *observer) source(kind, path string) (profiles.Source, error) {
	kinds := o.profile.Observable()
	if len(kinds) == 0 {
		return profiles.Source{}, no(lifeloop.CapabilityUnsupported, "adapter %s writes no file that is understood yet", o.profile.Adapter)
	}
	if name, rest, found := strings.Cut(path, "="); found && kind == "" && !strings.Contains(name, "/") {
		kind, path = name, rest
	}
	if kind == "" {
		kind = kinds[0].Name
		if o.profile.Hooks != nil && holdsHookCalls(path) {
			kind = profiles.HookCalls
		}
	}
	var names []string
	for _, s := range kinds {
		names = append(names, s.Name)
		if s.Name != kind && !(kind == "transcript" && s.Name == o.profile.Transcript.Name) {
			continue
		}
		s.Path = path
		if s.Form == profiles.Events {
			return s, nil
		}
		var err error
		s.Path, err = filepath.Abs(path)
		return s, err
	}
	return profiles.Source{}, usage("--source %s: adapter %s has no such source", kind, o.profile.Adapter).
		withHint("it has %s", strings.Join(names, ", "))
}

// holdsHookCalls says whether a file begins with a recorded call of a hook.
func holdsHookCalls(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false // whoever reads it will say so
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return false
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 1<<20).ReadSlice('\n')
	var call struct {
		Stdin struct {
			Event string `json:"hook_event_name"`
		} `json:"stdin"`
	}
	return json.Unmarshal(line, &call) == nil && call.Stdin.Event != ""
}

// kernel is that of an observer. A repeatable one numbers its ids, so that the
// same files give the same lines.
func (o *observer) kernel(repeatable bool) *kernel.Kernel {
	newID := func(prefix string) string { return prefix + uuid.NewString() }
	if repeatable && o.log == nil {
		n := map[string]int{}
		newID = func(prefix string) string {
			n[prefix]++
			return fmt.Sprintf("%s%06d", prefix, n[prefix])
		}
	}
	dir, _ := os.Getwd() // only told
	blind := !slices.ContainsFunc(o.sources, func(s profiles.Source) bool { return !s.Blind })
	return kernel.New(kernel.Config{Session: o.id, Observing: true,
		Setup:  kernel.Setup{Manifest: o.manifest, HarnessSession: o.session, Tested: o.profile.Tested, Synth: synth.Config{Infer: blind}},
		Ledger: o.log != nil, NewID: newID, Began: kernel.Began{SessionID: o.id, AdapterID: o.manifest.AdapterID,
			AdapterVersion: o.manifest.AdapterVersion, WorkDir: dir, Version: version, PID: os.Getpid(), Clients: []string{}, Policy: "none"}})
}

// once tells what the sources hold.
func (o *observer) once() error {
	for _, s := range o.sources {
		if s.Form == profiles.Events {
			return usage("--once: %s is a server, which has no end", s.Path).withHint("leave --once out")
		}
	}
	out := bufio.NewWriter(o.out)
	err := supervisor.Once(o.kernel(true), o.sources, o.log, o.hear(out))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, supervisor.ErrNotReadable) {
		err = no(lifeloop.AdapterUnavailable, "observe: %v", err)
	}
	if err == nil {
		err = errors.Join(o.tellUsage(out), o.metNobody())
	}
	return cmp.Or(err, out.Flush())
}

// follow tells what comes, until it is told to end.
func (o *observer) follow(fromStart bool) error {
	files, err := supervisor.NewFiles(supervisor.Files{Fixed: o.sources, Named: o.profile.Transcript, AtEnd: !fromStart, Getenv: os.Getenv,
		Runs: func(p telemetry.Process) bool { return harness.Runs(p.PID, p.Start) }})
	if err != nil {
		return no(lifeloop.AdapterUnavailable, "observe: %v", err)
	}
	files.Launched(0)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := supervisor.Observe(o.kernel(false), files, signals, o.log, o.hear(o.out)); err != nil {
		return err
	}
	return o.tellUsage(o.out)
}

// hear prints the events that facts tell.
func (o *observer) hear(w io.Writer) supervisor.Listener {
	return func(entries []kernel.Entry) error {
		for _, e := range entries {
			if o.total {
				o.status.Apply(e)
			}
			o.note(e.Fact)
			if r, ok := view.Event(e.Fact); ok {
				if err := printJSON(w, r); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// note says to the person what keeps something from being told.
func (o *observer) note(f kernel.Fact) {
	switch f := f.(type) {
	case kernel.HarnessSessionOpened:
		o.met = true
	case kernel.BindRefused:
		fmt.Fprintf(o.notes, "lifeloop-wrap: session %s is not told: %s\n", f.ID, f.Reason)
	case kernel.SourceTroubled:
		fmt.Fprintf(o.notes, "lifeloop-wrap: the %s: %s\n", f.Source, troubleText(f.What))
	}
}

// troubleText is what is wrong with a source, in words.
func troubleText(what string) string {
	switch what {
	case "polling":
		return "its changes cannot be watched, so it is looked at once a second"
	case "truncated", "replaced":
		return "it was " + what + ", and is read from its start"
	case "deleted":
		return "nothing is there, or answers there, any more"
	case "unreadable":
		return "it cannot be read, or not as what it was taken for"
	case "stale":
		return "it was left behind by a process that is gone"
	case "line_too_long":
		return "a record of more than 64 MiB is passed over"
	case "broken":
		return "a record that is no whole value is passed over"
	case "recovered":
		return "it can be read again"
	}
	return what
}

// metNobody says that no session was told of at all.
func (o *observer) metNobody() error {
	switch {
	case o.met:
		return nil
	case o.session != "":
		return no(lifeloop.AdapterUnavailable, "observe: no session %s is told of in what was read", o.session).
			withHint("--session wants the whole id where a PATH is given")
	}
	fmt.Fprintln(o.notes, "lifeloop-wrap: no session is told of in what was read; --usage counts what was not understood")
	return nil
}

// tellUsage prints what the model calls of the session add up to.
func (o *observer) tellUsage(w io.Writer) error {
	if !o.total {
		return nil
	}
	return printJSON(w, map[string]any{"usage": o.status.Usage, "turns": o.status.Turns, "unknown_records": o.status.UnknownRecords})
}
