//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/view"
)

func observeCmd(g *globals) *cobra.Command {
	var adapter, source string
	var once, follow, fromStart, usageToo bool
	cmd := &cobra.Command{
		Use:   "observe --adapter ID PATH…",
		Short: "Tell the events of a session that someone else launched",
		Long: `observe reads the files of a session and prints its lifecycle events as JSON
Lines. It launches nothing, answers no hook and keeps no ledger: its mode is
telemetry_only, and nothing durable is claimed. Several PATHs are files of one
session. Of an adapter that no file is understood of (generic), they are
activity files: that one changes is the sign of life with which the session
begins, and nothing of it is read. With --once the clock is the records' own time, so the same files give
the same lines.`,
		Example: `  lifeloop-wrap observe --adapter claude --once ~/.claude/projects/-src/5f0c….jsonl
  lifeloop-wrap observe --adapter codex --follow rollout-….jsonl`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if once && follow {
				return usage("--once and --follow exclude each other")
			}
			o, err := newObserver(adapter, source, paths)
			if err != nil {
				return err
			}
			o.out = cmd.OutOrStdout()
			o.total = usageToo
			if once {
				return o.once()
			}
			return o.follow(fromStart)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&adapter, "adapter", "", "the adapter `ID`")
	fl.StringVar(&source, "source", "", "what PATH is, if not the adapter's transcript: hooks (`KIND`)")
	fl.BoolVar(&once, "once", false, "read what is there and end")
	fl.BoolVar(&follow, "follow", false, "wait for more (the default)")
	fl.BoolVar(&usageToo, "usage", false, "after the events, a line with what the model calls add up to")
	fl.BoolVar(&fromStart, "from-start", false, "tell what is there already, too")
	return cmd
}

// An observer folds the records of one session and prints what they tell.
type observer struct {
	profile  profiles.Profile
	manifest lifeloop.Manifest
	sources  []profiles.Source
	out      io.Writer
	total    bool // tell the usage too
	status   view.Status
}

func newObserver(adapter, kind string, paths []string) (*observer, error) {
	profile, ok := profiles.For(adapter)
	manifest, known := manifests.Get(adapter)
	if !ok || !known {
		return nil, usage("--adapter %q: no such adapter", adapter).withHint("lifeloop-wrap manifest list names them")
	}
	o := &observer{profile: profile, manifest: manifest}
	for _, path := range paths {
		s, err := o.source(kind, path)
		if err != nil {
			return nil, err
		}
		o.sources = append(o.sources, s)
	}
	return o, nil
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
		if o.profile.HookDecoder != "" && holdsHookCalls(path) {
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
	f, err := os.Open(path)
	if err != nil {
		return false // whoever reads it will say so
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
	if repeatable {
		n := 0
		newID = func(prefix string) string {
			n++
			return fmt.Sprintf("%s%06d", prefix, n)
		}
	}
	return kernel.New(kernel.Config{Session: uuid.NewString(), Manifest: o.manifest, Observing: true, NewID: newID})
}

// once tells what the sources hold.
func (o *observer) once() error {
	out := bufio.NewWriter(o.out)
	err := supervisor.Once(o.kernel(true), o.sources, o.telling(out))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, supervisor.ErrNotReadable) {
		err = no(lifeloop.AdapterUnavailable, "observe: %v", err)
	}
	if err == nil {
		err = o.tellUsage(out)
	}
	return errors.Join(err, out.Flush())
}

// follow tells what comes, until it is told to end.
func (o *observer) follow(fromStart bool) error {
	files, err := supervisor.NewFiles(supervisor.Files{Fixed: o.sources, Named: o.profile.Transcript, AtEnd: !fromStart})
	if err != nil {
		return err
	}
	files.Launched(0)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := supervisor.Observe(o.kernel(false), files, signals, o.telling(o.out)); err != nil {
		return err
	}
	return o.tellUsage(o.out)
}

// telling prints the event that a fact tells, if it tells one.
func (o *observer) telling(w io.Writer) func(kernel.Entry) error {
	return func(e kernel.Entry) error {
		if o.total {
			o.status.Apply(e)
		}
		if r, ok := view.Event(e.Fact); ok {
			return printJSON(w, r)
		}
		return nil
	}
}

// tellUsage prints what the model calls of the session add up to.
func (o *observer) tellUsage(w io.Writer) error {
	if !o.total {
		return nil
	}
	return printJSON(w, map[string]any{"usage": o.status.Usage, "turns": o.status.Turns, "unknown_records": o.status.UnknownRecords})
}
