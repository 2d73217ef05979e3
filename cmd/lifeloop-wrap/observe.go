//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/profiles"
	"lifeloop/supervisor"
	"lifeloop/synth"
	"lifeloop/telemetry"
	"lifeloop/view"
)

func observeCmd(g *globals) *cobra.Command {
	var adapter, source string
	var once, follow, fromStart bool
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
			profile, ok := profiles.For(adapter)
			manifest, known := manifests.Get(adapter)
			if !ok || !known {
				return usage("--adapter %q: no such adapter", adapter).withHint("lifeloop-wrap manifest list names them")
			}
			o := observer{profile: profile, out: bufio.NewWriter(cmd.OutOrStdout()), hooks: source == "hooks"}
			switch {
			case source != "" && source != "hooks" && source != "transcript":
				return usage("--source %s: want transcript or hooks", source)
			case o.hooks && profile.HookDecoder == "":
				return usage("--source hooks: adapter %s has no hooks that are understood", adapter)
			case !o.hooks && profile.Transcript.Decoder == "":
				return no(lifeloop.CapabilityUnsupported, "adapter %s writes no file that is understood yet", adapter)
			}
			o.k = kernel.New(kernel.Config{Session: uuid.NewString(), Manifest: manifest, Observing: true,
				Synth: synth.Config{}, NewID: o.newID(once)})
			if once {
				return o.once(paths)
			}
			return o.follow(paths, fromStart)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&adapter, "adapter", "", "the adapter `ID`")
	fl.StringVar(&source, "source", "", "what PATH is, if not the adapter's transcript: hooks (`KIND`)")
	fl.BoolVar(&once, "once", false, "read what is there and end")
	fl.BoolVar(&follow, "follow", false, "wait for more (the default)")
	fl.BoolVar(&fromStart, "from-start", false, "tell what is there already, too")
	return cmd
}

// An observer folds the records of one session and prints what they tell.
type observer struct {
	profile profiles.Profile
	k       *kernel.Kernel
	out     *bufio.Writer
	hooks   bool
	clock   time.Time // of the newest record, when the clock is the records' own
}

// newID numbers the ids of a repeatable run, so that the same files give the
// same lines.
func (o *observer) newID(repeatable bool) func(string) string {
	if !repeatable {
		return func(prefix string) string { return prefix + uuid.NewString() }
	}
	n := 0
	return func(prefix string) string {
		n++
		return fmt.Sprintf("%s%06d", prefix, n)
	}
}

// once reads the files one after another, in the order in which their records
// happened.
func (o *observer) once(paths []string) error {
	var all []moment
	for _, p := range paths {
		ms, err := o.read(p)
		if err != nil {
			return err
		}
		all = merge(all, ms)
	}
	if len(all) > 0 {
		o.clock = all[0].at
	}
	if err := o.step(kernel.Start{}); err != nil {
		return err
	}
	for _, m := range all {
		if m.at.After(o.clock) {
			// What silence settles was settled before this record.
			for at, ok := o.k.Deadline(); ok && at.Before(m.at); at, ok = o.k.Deadline() {
				o.clock = at
				if err := o.step(kernel.Wake{}); err != nil {
					return err
				}
			}
			o.clock = m.at
		}
		if err := o.step(kernel.SignalsSeen{Signals: m.signals}); err != nil {
			return err
		}
	}
	if err := o.step(kernel.SourcesDrained{}); err != nil {
		return err
	}
	return o.out.Flush()
}

// A moment is what one record told, and when it happened.
type moment struct {
	at      time.Time
	signals []telemetry.Signal
}

// merge keeps each file's own order and lets times decide between files.
func merge(a, b []moment) []moment {
	out := make([]moment, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if b[0].at.Before(a[0].at) {
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	return append(append(out, a...), b...)
}

func (o *observer) read(path string) ([]moment, error) {
	if o.profile.Transcript.Form == profiles.Stamp && !o.hooks {
		return o.touched(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, no(lifeloop.AdapterUnavailable, "observe: %v", err)
	}
	defer f.Close()
	decode, err := o.decoder()
	if err != nil {
		return nil, err
	}
	var out []moment
	var at time.Time
	lines := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil // a half line at the end is not a record yet
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		signals := decode(line[:len(line)-1])
		if len(signals) == 0 {
			continue
		}
		if t := signals[0].At; !t.IsZero() && t.After(at) {
			at = t
		}
		out = append(out, moment{at, signals})
	}
}

// touched is the last change of an activity file, all that its folder keeps.
func (o *observer) touched(path string) ([]moment, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, no(lifeloop.AdapterUnavailable, "observe: %v", err)
	}
	decode, err := o.decoder()
	if err != nil {
		return nil, err
	}
	at := info.ModTime().UTC()
	return []moment{{at, decode([]byte(at.Format(time.RFC3339Nano)))}}, nil
}

// decoder turns a line of a PATH into signals.
func (o *observer) decoder() (func([]byte) []telemetry.Signal, error) {
	if !o.hooks {
		d, err := telemetry.NewDecoder(o.profile.Transcript.Decoder)
		if err != nil {
			return nil, err
		}
		return d.Decode, nil
	}
	return func(line []byte) []telemetry.Signal {
		var call struct {
			T     float64         `json:"t"`
			Stdin json.RawMessage `json:"stdin"`
		}
		var name struct {
			Event string `json:"hook_event_name"`
		}
		if json.Unmarshal(line, &call) != nil || json.Unmarshal(call.Stdin, &name) != nil {
			return nil
		}
		decoded, err := telemetry.DecodeHook(o.profile.HookDecoder, name.Event, call.Stdin)
		if err != nil {
			return nil
		}
		at := time.UnixMilli(int64(call.T * 1000)).UTC()
		for i := range decoded.Signals {
			decoded.Signals[i].At = at
		}
		return decoded.Signals
	}, nil
}

// follow watches the files until it is told to end.
func (o *observer) follow(paths []string, fromStart bool) error {
	if o.hooks {
		return usage("--source hooks can only be read with --once")
	}
	var fixed []profiles.Source
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return err
		}
		s := o.profile.Transcript
		s.Path = abs
		fixed = append(fixed, s)
	}
	files, err := supervisor.NewFiles(supervisor.Files{Fixed: fixed, Named: o.profile.Transcript, AtEnd: !fromStart})
	if err != nil {
		return err
	}
	files.Launched(0)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return supervisor.Observe(o.k, files, signals, func(e kernel.Entry) error {
		if r, ok := view.Event(e.Fact); ok {
			return printJSON(os.Stdout, r)
		}
		return nil
	})
}

// step feeds one input and prints the events that it told.
func (o *observer) step(in kernel.Input) error {
	for _, f := range o.k.Step(o.clock, in).Facts {
		if r, ok := view.Event(f); ok {
			if err := printJSON(o.out, r); err != nil {
				return err
			}
		}
	}
	return nil
}
