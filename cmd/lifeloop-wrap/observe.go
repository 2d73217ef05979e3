package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"lifeloop/internal/config"
	"lifeloop/internal/durable"
	"lifeloop/internal/nearest"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/kernel"
	"lifeloop/kernel/input"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/telemetry"
	"lifeloop/view"
)

type observeFlags struct {
	adapter, source, session, resume        string
	once, follow, fromStart, usage, keepLog bool
}

func observeCmd(g *globals) *cobra.Command {
	var f observeFlags
	cmd := &cobra.Command{
		Use:   "observe --adapter ID [PATH…] | observe --resume SESSION",
		Short: "Print the events of a harness session that runs without the wrapper",
		Long: `observe reads the sources of a harness session (its transcript, its store, its server),
prints its lifecycle events as JSON Lines and calls the configured clients. It launches
no harness and answers no hook, so no text of a client reaches the model. The events
have the integration mode telemetry_only. Without --ledger, observe stores nothing.
Several PATHs are sources of one session. Without a PATH, observe finds the newest
session of this folder in the adapter's usual places, and then switches to whichever
session of this folder gets the newest prompt; with --session or --ledger it does not
switch. For the adapter generic,
PATHs are activity files: the session starts when one of them changes, and their
content is not read. With --once, times come from the records, so without --ledger the
same files give the same lines.`,
		Example: `  lifeloop-wrap observe --adapter claude
  lifeloop-wrap observe --adapter claude --once --usage ~/.claude/projects/-src/5f0c….jsonl
  lifeloop-wrap observe --adapter codex --once rollout-….jsonl hooks=calls.jsonl
  lifeloop-wrap observe --adapter claude --client notes=./notes-client
  lifeloop-wrap observe --adapter opencode bus=http://127.0.0.1:4096/event`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			stateDir := ""
			if f.resume != "" {
				var err error
				if paths, stateDir, err = f.recover(g, cmd, paths); err != nil {
					return err
				}
			}
			if f.once && f.follow {
				return usage("--once cannot be used with --follow")
			}
			o, err := newObserver(f)
			if err != nil {
				return err
			}
			o.out, o.notes = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if o.cfg, _, err = g.load(cmd); err != nil {
				return err
			}
			o.cfg.StateDir = cmp.Or(stateDir, o.cfg.StateDir)
			g.warnOf(cmd, o.cfg)
			if len(paths) == 0 {
				err = o.find()
			} else {
				err = o.read(paths)
			}
			if err != nil {
				return err
			}
			return o.observe(cmd)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.adapter, "adapter", "", "`ID` of the adapter")
	fl.StringVar(&f.source, "source", "", "`KIND` of all PATHs; without this flag, KIND=PATH sets the kind of one PATH (default inferred from the content of each PATH)")
	fl.StringVar(&f.session, "session", "", "`ID` of the harness session, if a source or a folder holds several")
	fl.BoolVar(&f.once, "once", false, "read the existing records and exit")
	fl.BoolVar(&f.follow, "follow", false, "wait for more records, as by default, and also for a PATH that does not exist yet")
	fl.BoolVar(&f.fromStart, "from-start", false, "print the events of existing records too")
	fl.BoolVar(&f.usage, "usage", false, "after the events, print the token usage of all model calls together")
	fl.BoolVar(&f.keepLog, "ledger", false, "store a ledger, as lifeloop-wrap run does")
	fl.StringVar(&f.resume, "resume", "", "`SESSION` to continue after its observer died; reading resumes where it stopped")
	// The configuration reads these flags by name.
	fl.StringArray("client", nil, "client for every event except receipt.emitted and supervisor.tick, as `ID=CMDLINE` (repeatable)")
	fl.StringArray("require", nil, "capability that the session needs, as `CAP=LEVEL[:partial]`, where LEVEL is required, preferred or optional (repeatable)")
	durationFlag(fl, new(time.Duration), "client-drain", 5*time.Second, "how long clients may take to answer after the last record")
	return cmd
}

// An observer reads the records of one session and prints its events.
type observer struct {
	flags    observeFlags
	cfg      config.Config
	profile  profiles.Profile
	manifest lifeloop.Manifest
	sources  []profiles.Source
	session  string             // id of the harness session to observe, from --session or from the method find; empty for any
	next     supervisor.Chooser // finds the next session to observe; nil with a PATH, --session, --once or --ledger
	out      io.Writer
	notes    io.Writer     // notes for the user are written here
	found    bool          // a session was found
	facts    store.Session // the session's state, computed from the observed facts
	id       string        // the id of the wrapper's session for this observation
	folder   store.Folder  // the folder of the session's files; empty without --ledger
	ledger   *ledger.Log   // nil without --ledger
}

func newObserver(f observeFlags) (*observer, error) {
	const hint = "lifeloop-wrap manifest list lists the adapters"
	if f.adapter == "" {
		return nil, usage("observe needs --adapter").withHint(hint)
	}
	profile, manifest, ok := adapterOf(f.adapter)
	if !ok {
		return nil, usage("--adapter %q: no such adapter%s", f.adapter, nearest.Hint(f.adapter, manifests.IDs())).withHint(hint)
	}
	return &observer{flags: f, session: f.session, profile: profile, manifest: manifest, id: cmp.Or(f.resume, uuid.NewString())}, nil
}

// read adds the sources at the paths. A file that does not exist is an error, unless
// --follow or --resume is given.
func (o *observer) read(paths []string) error {
	dir, _ := os.Getwd() // after an error, the settings of the folder are not found
	dir = realPath(dir)
	for _, path := range paths {
		s, err := o.source(o.flags.source, path)
		if err != nil {
			return err
		}
		if _, err := os.Stat(s.Path); s.Form != profiles.Events && !o.flags.follow && o.flags.resume == "" && errors.Is(err, fs.ErrNotExist) {
			return no(lifeloop.AdapterUnavailable, "observe: %s does not exist", path).withHint("--follow waits for the file")
		}
		if slices.ContainsFunc(o.sources, func(other profiles.Source) bool { return sameSource(s, other) }) {
			return usage("observe: %s is named twice", path)
		}
		o.sources = append(o.sources, o.withWindows(s, dir))
	}
	return nil
}

// sameSource reports whether two sources have the same kind and read the same file or
// server.
func sameSource(a, b profiles.Source) bool {
	one, err1 := os.Stat(a.Path)
	other, err2 := os.Stat(b.Path)
	return a.Name == b.Name && (a.Path == b.Path || err1 == nil && err2 == nil && os.SameFile(one, other))
}

// source returns the source for a PATH: of the kind that KIND=PATH or --source
// names, otherwise of the kind that its content suggests.
func (o *observer) source(kind, path string) (profiles.Source, error) {
	kinds := o.profile.Observable()
	if len(kinds) == 0 {
		return profiles.Source{}, no(lifeloop.CapabilityUnsupported, "no file format of adapter %s is supported", o.profile.Adapter)
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
	return profiles.Source{}, usage("observe: there is no source of kind %s for adapter %s", kind, o.profile.Adapter).
		withHint("the kinds are %s", strings.Join(names, ", "))
}

// holdsHookCalls reports whether a file begins with a recorded hook call.
func holdsHookCalls(path string) bool {
	f, err := durable.OpenLinked(path)
	if err != nil {
		return false // the later reading of the file will report the error
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 1<<20).ReadSlice('\n')
	return telemetry.IsHookCall(line)
}

// listener returns a function that writes the events of entries to w. A call of this
// function makes at most one write, unless it also writes a note for the user. So a
// reader of w wakes only once for the events of one record.
func (o *observer) listener(w io.Writer) supervisor.Listener {
	var lines bytes.Buffer
	flush := func() error {
		if lines.Len() == 0 {
			return nil
		}
		_, err := lines.WriteTo(w)
		return err
	}
	return func(entries []kernel.Entry) error {
		for _, e := range entries {
			if o.flags.usage || o.ledger != nil {
				o.facts.Apply(e)
			}
			if text := o.note(e.Fact); text != "" {
				if err := flush(); err != nil {
					return err
				}
				fmt.Fprintf(o.notes, "lifeloop-wrap: %s\n", text)
			}
			if r, ok := view.Event(e.Fact); ok {
				if err := printJSON(&lines, r); err != nil {
					return err
				}
			}
		}
		return flush()
	}
}

// note records that a harness session was found. note returns a message if a harness
// session is skipped, or if a source has or had a problem; otherwise note returns "".
func (o *observer) note(f kernel.Fact) string {
	switch f := f.(type) {
	case kernel.HarnessSessionOpened:
		o.found = true
	case kernel.BindRefused:
		return fmt.Sprintf("skipping harness session %s: %s", vt.Plain(f.ID), vt.Plain(f.Reason))
	case kernel.SourceTroubled:
		return fmt.Sprintf("the %s: %s", vt.Plain(f.Source), vt.Plain(troubleText(input.Trouble(f.What))))
	}
	return ""
}

// troubleText describes a problem of a source. A ledger of another version may contain
// a problem that is not in the map; its text is the problem's name.
func troubleText(what input.Trouble) string {
	return cmp.Or(map[input.Trouble]string{
		input.TroublePolling:      "it cannot be watched and is polled once a second",
		input.TroubleTruncated:    "it was truncated; it is read from its start if records already read were cut off",
		input.TroubleMissed:       "it was replaced, truncated or deleted while it was not observed; records may be missing",
		input.TroubleReplaced:     "it was replaced and is read from its start",
		input.TroubleDeleted:      "it does not exist any more or does not answer",
		input.TroubleUnreadable:   "it cannot be read, or has another format",
		input.TroubleStale:        "it belongs to a process that has ended",
		input.TroubleLineTooLong:  "a record of more than 64 MiB is skipped",
		input.TroubleEventTooLong: "an event of more than 16 MiB is skipped",
		input.TroubleBroken:       "an incomplete record is skipped",
		input.TroubleUnassigned:   "it does not show which harness session runs in this terminal",
		input.TroubleRecovered:    "it can be read normally again",
		input.TroubleOverflow:     "output came faster than it could be examined; a part was not examined",
		input.TroubleLost:         "exported telemetry was dropped; records may be missing",
		input.TroubleNotPassedOn:  "exported telemetry did not reach the user's own endpoint",
		input.TroubleStopped:      "its reader has stopped, so no more of its records are read",
	}[what], string(what))
}

// noSessionError returns the error for sources that contain no session, or not
// the session o.session; nil if a session was found.
func (o *observer) noSessionError() error {
	if o.found {
		return nil
	}
	var paths []string
	for _, s := range o.sources {
		paths = append(paths, s.Path)
	}
	text, hint := o.manifest.DisplayName+" session", "the records may have another format; --usage shows how many have an unknown type"
	if o.session != "" {
		text, hint = "session "+o.session, "with a PATH, --session needs the whole id"
	}
	return no(lifeloop.AdapterUnavailable, "observe: %s: no %s", strings.Join(paths, ", "), text).withHint("%s", hint)
}

// With --usage, printUsage prints the token usage of all model calls, the number of
// turns and the numbers of unknown records.
func (o *observer) printUsage(w io.Writer) error {
	if !o.flags.usage {
		return nil
	}
	return printJSON(w, map[string]any{"usage": o.facts.Usage, "turns": o.facts.Turns, "turns_other": o.facts.TurnsOther, "unknown_records": o.facts.UnknownRecords})
}
