//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lifeloop/harness"
	"lifeloop/internal/durable"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
)

// This file takes up a session whose wrapper died: `run --resume SESSION`. The
// ledger says what it was; beside it lies, for the owner alone and only as long
// as the session lives, what it was started with.

const (
	// commandFile holds the command line of a session. Its arguments may be a
	// prompt, so it is not a fact, and it goes when the session ends.
	commandFile = "command.json"
	// guardsFile names the guards that run, for whoever comes after a wrapper
	// that was killed.
	guardsFile = "guards.json"
)

// A commandLine is what a session was started with.
type commandLine struct {
	Dir   string              `json:"dir"`
	Argv  []string            `json:"argv"`
	Flags map[string][]string `json:"flags"` // those that were given, by name
}

// notKept are flags that are another's when a session is taken up.
var notKept = []string{"resume", "session-id", "state-dir", "json", "help"}

// commandLineOf is what cmd was called with.
func commandLineOf(cmd *cobra.Command, argv []string) commandLine {
	c := commandLine{Argv: argv, Flags: map[string][]string{}}
	c.Dir, _ = os.Getwd()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch list, many := f.Value.(pflag.SliceValue); {
		case slices.Contains(notKept, f.Name):
		case many:
			c.Flags[f.Name] = list.GetSlice()
		default:
			c.Flags[f.Name] = []string{f.Value.String()}
		}
	})
	return c
}

// keep writes it down. Without it the session runs as well; it only takes more
// words to take it up.
func (c commandLine) keep(dir string) {
	if text, err := json.Marshal(c); err == nil {
		_ = os.WriteFile(filepath.Join(dir, commandFile), text, 0o600)
	}
}

// recall reads the command line of a session into cmd: flags that were given
// now are those that count, and so is a command.
func recall(cmd *cobra.Command, dir string, argv []string) ([]string, error) {
	var c commandLine
	text, err := os.ReadFile(filepath.Join(dir, commandFile))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil && len(c.Argv) == 0 {
		err = errors.New("it names no command")
	}
	switch {
	case err == nil:
	case len(argv) > 0:
		return argv, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("run --resume: what the session was started with is not kept").
			withHint("give the command again: lifeloop-wrap run --resume SESSION -- CMD")
	default:
		return nil, usage("run --resume: read what the session was started with: %v", err).
			withHint("give the command again: lifeloop-wrap run --resume SESSION -- CMD")
	}
	for name, values := range c.Flags {
		f := cmd.Flags().Lookup(name)
		if f == nil || f.Changed {
			continue
		}
		for _, v := range values {
			if err := cmd.Flags().Set(name, v); err != nil {
				return nil, usage("run --resume: what the session was started with: --%s %s: %v", name, v, err)
			}
		}
	}
	if err := os.Chdir(c.Dir); err != nil {
		return nil, refused(lifeloop.InternalError, "run --resume: go where the session was started: %v", err).
			withHint("its folder is needed again, for harnesses keep their sessions by folder")
	}
	if len(argv) > 0 {
		return argv, nil
	}
	return c.Argv, nil
}

// lost resolves a session that can be taken up: one whose wrapper died.
func (g *globals) lost(cmd *cobra.Command, name string) (store, string, error) {
	st, id, err := g.session(cmd, name)
	if err != nil {
		return st, "", err
	}
	switch k := st.read(id); {
	case k.Liveness == "live":
		return st, "", refused(lifeloop.StateConflict, "session %s is live", id).
			withHint("lifeloop-wrap status %s shows it; lifeloop-wrap abort %s ends it", id, id)
	case k.Liveness == "ended":
		return st, "", refused(lifeloop.StateConflict, "session %s has ended, %s", id, k.State).
			withHint("what has ended is not taken up; run without --resume begins a new session")
	case k.damage != nil:
		return st, "", refused(lifeloop.InternalError, "session %s: %v", id, k.damage).
			withHint("lifeloop-wrap ledger verify %s says more; what follows a damage cannot be trusted", id)
	}
	return st, id, nil
}

// reopen opens the ledger of a session that is taken up.
func (s *session) reopen() error {
	if err := awaitGuards(s.dir); err != nil {
		return err
	}
	log, _, err := ledger.Open(s.dir, ledger.Options{})
	var locked *durable.LockedError
	switch {
	case errors.As(err, &locked):
		return refused(lifeloop.StateConflict, "session %s is live", s.id)
	case err != nil:
		return refused(lifeloop.InternalError, "open the ledger of session %s: %v", s.id, err).
			withHint("lifeloop-wrap ledger verify %s says more", s.id)
	}
	s.ledger = log
	return nil
}

// guardTime is how long the tree of a dead wrapper has to end.
const guardTime = 15 * time.Second

// awaitGuards returns when the guards of the wrapper before are gone, and with
// them everything that it had started.
func awaitGuards(dir string) error {
	var guards []harness.Process
	text, err := os.ReadFile(filepath.Join(dir, guardsFile))
	if err != nil || json.Unmarshal(text, &guards) != nil {
		return nil // there was none, or its wrapper died writing this
	}
	for end := time.Now().Add(guardTime); ; time.Sleep(5 * time.Millisecond) {
		guards = slices.DeleteFunc(guards, func(g harness.Process) bool { return !harness.Runs(g.PID, g.Start) })
		if len(guards) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return refused(lifeloop.StateConflict, "what the session's last wrapper had started is still being ended, by process %d", guards[0].PID).
				withHint("try again in a moment")
		}
	}
}

// tellGuards writes down which guards run.
func (s *session) tellGuards(t *harness.Terminal) {
	if text, err := json.Marshal(t.Guards()); err == nil && s.ledger != nil {
		_ = os.WriteFile(filepath.Join(s.dir, guardsFile), text, 0o600)
	}
}

// forget removes what only a session that lives needs.
func (s *session) forget() {
	for _, name := range []string{commandFile, guardsFile} {
		_ = os.Remove(filepath.Join(s.dir, name))
	}
}

// replay is the kernel of a session that is taken up. What its next launch will
// be like is known when it is made ready; which program that is, and whether it
// can go on with a session of its own, the command line tells.
func (s *session) replay(l *launcher, argv []string) (*kernel.Kernel, error) {
	var entries []kernel.Entry
	profile := 0
	for e, err := range facts(s.dir, 0) {
		if err != nil {
			return nil, refused(lifeloop.InternalError, "read the ledger of session %s: %v", s.id, err)
		}
		if f, ok := e.Fact.(kernel.Launching); ok {
			profile = f.Profile
		}
		entries = append(entries, e)
	}
	if profile >= len(l.ways) {
		return nil, usage("run --resume: session %s had come to its fallback %d, and there are %d now", s.id, profile, len(l.ways)-1).
			withHint("give its --fallback flags again, or leave them all out")
	}
	w := l.ways[profile]
	setup := l.setup(w, profiles.Launch{})
	setup.Resumes = w.profile.Resumes(w.argv, l.terminal.Pty())
	cfg := s.kernelConfig(l, setup, argv)
	if len(entries) == 0 { // it begins anew, and so does its token
		var err error
		if cfg.Began.TokenDigest, err = s.issueToken(); err != nil {
			return nil, err
		}
	}
	k := kernel.Replay(cfg, slices.Values(entries))
	if k.State().Terminal() {
		return nil, refused(lifeloop.StateConflict, "session %s has ended, %s", s.id, k.State())
	}
	return k, nil
}
