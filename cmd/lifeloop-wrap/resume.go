package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/durable"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/profiles"
)

// This file recovers a session whose wrapper died: `run --resume SESSION`. The
// ledger contains the session's past; the file command.json beside it contains
// the command line.

// notSaved are flags that do not carry over to the recovered session.
var notSaved = []string{"resume", "session-id", "state-dir", "json", "help"}

// commandLineOf returns the command line with which cmd was called.
func commandLineOf(cmd *cobra.Command, argv []string) store.CommandLine {
	dir, _ := os.Getwd()
	return store.CommandLine{Dir: dir, Argv: argv, Flags: givenFlags(cmd, func(name string) bool { return !slices.Contains(notSaved, name) })}
}

// recover finds the session of --resume and the command to run in it. It sets the
// session's saved flags and changes to the session's working directory.
func (f *runFlags) recover(g *globals, cmd *cobra.Command, argv []string) (st store.Store, words []string, err error) {
	if f.sessionID != "" || f.noLedger {
		return st, nil, usage("--resume cannot be used with --session-id or --no-ledger").withHint("a recovered session continues its own ledger under its own id")
	}
	if cmd.Flags().Changed("meta") {
		return st, nil, usage("--resume cannot be used with --meta").withHint("the labels of a session are fixed at its start")
	}
	st, f.resume, err = g.session(cmd, f.resume)
	if err == nil {
		known := st.Read(f.resume)
		if err = recoverable(known); err == nil && known.Observed() {
			err = usage("--resume: session %s was started by observe, not by run", f.resume).withHint("lifeloop-wrap %s", known.ResumeCommand())
		}
	}
	if err == nil {
		words, err = recall(cmd, st.Folder(f.resume), argv)
	}
	return st, words, err
}

// recall sets the saved flags of a session on cmd and returns its command. A
// flag or a command in the present command line replaces the saved one.
func recall(cmd *cobra.Command, folder store.Folder, argv []string) ([]string, error) {
	const name = "name the harness's command, CMD: lifeloop-wrap run --resume SESSION -- CMD"
	c, err := folder.Command()
	switch {
	case err == nil:
	case len(argv) > 0:
		return argv, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("--resume: the command of this session is not stored").withHint(name)
	default:
		return nil, usage("--resume: read the command of the session: %v", err).withHint(name)
	}
	if err := setSaved(cmd, c); err != nil {
		return nil, err
	}
	if len(argv) > 0 {
		return argv, nil
	}
	return c.Argv, nil
}

// setSaved sets the saved flags of a session, except those in the present command
// line, and changes to the session's working directory.
func setSaved(cmd *cobra.Command, c store.CommandLine) error {
	for name, values := range c.Flags {
		if f := cmd.Flags().Lookup(name); f == nil || f.Changed {
			continue
		}
		for _, v := range values {
			if err := cmd.Flags().Set(name, v); err != nil {
				return usage("--resume: saved flag --%s %s: %v", name, v, err)
			}
		}
	}
	if err := os.Chdir(c.Dir); err != nil {
		return refused(lifeloop.InternalError, "--resume: change to the working directory of the session: %v", err).
			withHint("harnesses find their sessions by working directory, so that directory must exist")
	}
	return nil
}

// recoverable returns an error unless the session is lost and its ledger is undamaged. A
// session is lost if its wrapper died before the session ended.
func recoverable(k store.Session) error {
	switch {
	case k.Liveness == store.Live:
		return refused(lifeloop.StateConflict, "session %s is live", k.SessionID).
			withHint("lifeloop-wrap status %s shows the session; lifeloop-wrap abort %s ends it", k.SessionID, k.SessionID)
	case k.Liveness == store.Ended:
		return refused(lifeloop.StateConflict, "session %s has ended, %s", k.SessionID, k.State).
			withHint("only a lost session can be recovered; to start a new one, run without --resume")
	case k.Damage != nil:
		return refused(lifeloop.InternalError, "session %s: %v", k.SessionID, k.Damage).
			withHint("lifeloop-wrap ledger verify %s shows the damage; a damaged ledger cannot be continued", k.SessionID)
	}
	return nil
}

// guardPatience is how long to wait for the end of a dead wrapper's process
// tree.
const guardPatience = 15 * time.Second

// reopen opens the ledger of a lost session, after the processes of its last wrapper
// have ended.
func (s *session) reopen() error {
	if err := s.folder.AwaitGuards(guardPatience); err != nil {
		return refused(lifeloop.StateConflict, "%v", err).withHint("try again in a few seconds")
	}
	if err := s.folder.Secure(); err != nil {
		return refused(lifeloop.InternalError, "%v", err)
	}
	opened, _, err := ledger.Open(string(s.folder), ledger.Options{})
	if _, locked := errors.AsType[*durable.LockedError](err); locked {
		return refused(lifeloop.StateConflict, "session %s is live", s.id)
	}
	if err != nil {
		return refused(lifeloop.InternalError, "open the ledger of session %s: %v", s.id, err).
			withHint("lifeloop-wrap ledger verify %s checks the ledger", s.id)
	}
	s.ledger = opened
	return nil
}

// replay returns the kernel of a session that is recovered. Most properties of
// the next launch are known only when it is prepared. Only the program, and
// whether it can continue a harness session, are derived from the command line
// here.
//
// Entries are applied one by one as they are read, because a ledger may be larger
// than memory. If the last launch was that of a fallback, the ledger is read a
// second time, because a kernel must have the fallback's profile before the first fact.
func (s *session) replay(l *launcher, argv []string) (*kernel.Kernel, error) {
	profile := 0
	for {
		if profile >= len(l.ways) {
			return nil, usage("--resume: session %s was running its fallback %d, and there are only %d now", s.id, profile, len(l.ways)-1).
				withHint("repeat its --fallback flags, or leave them all out")
		}
		w := l.ways[profile]
		setup := l.setup(w, profiles.Launch{})
		setup.Resumes = w.profile.Resumes(w.argv, l.terminal.Pty())
		cfg := s.kernelConfig(l, setup, argv)
		k, entries, last := kernel.New(cfg), 0, 0
		s.record = store.Recorder{}
		for e, err := range s.folder.Facts(0) {
			if err != nil {
				return nil, refused(lifeloop.InternalError, "read the ledger of session %s: %v", s.id, err)
			}
			if f, ok := e.Fact.(kernel.Launching); ok {
				last = f.Profile
			}
			if f, ok := e.Fact.(kernel.Began); ok && f.Policy != cfg.Began.Policy {
				return nil, refused(lifeloop.StateConflict, "session %s began with policy %s, and the policy of this run is %s", s.id, f.Policy, cfg.Began.Policy).
					withHint("a session keeps its policy: give the same file with --policy, or abort the session and start another one")
			}
			s.record.Apply(e)
			k.Fold(e)
			entries++
		}
		switch {
		case last != profile:
			profile = last
		case entries == 0: // nothing was recorded, so the session starts as a new one, with a new token
			var err error
			if cfg.Began.TokenDigest, err = s.folder.IssueToken(); err != nil {
				return nil, refused(lifeloop.InternalError, "store the session's token: %v", err)
			}
			return kernel.New(cfg), nil
		case k.State().Terminal():
			return nil, refused(lifeloop.StateConflict, "session %s has ended, %s", s.id, k.State())
		default:
			return k, nil
		}
	}
}
