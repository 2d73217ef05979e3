package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/dispatch"
	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/renewal"
	"lifeloop/renewal/profile"
	"lifeloop/renewal/programs"
	"lifeloop/supervisor"
	"lifeloop/vault"
	"lifeloop/view"
)

// This file has the command renew, and the parts of run that renew a session.

func renewCmd(g *globals) *cobra.Command {
	var w supervisor.SessionCommand
	wait := false
	cmd := &cobra.Command{
		Use: "renew SESSION", Short: "Move a live session into a fresh context", Args: cobra.ExactArgs(1),
		Long: `renew moves a session into a fresh harness session. The session must have an active
renewal profile (run --profile). When the harness is at its prompt, the profile's
prepare command runs, the harness is started again or reset in place, and what the
continue command prints is delivered to the new harness session. renew returns when
the renewal is accepted, or with --wait when it has ended. "lifeloop-wrap status SESSION"
shows the state of the renewal.

The exit code is 0 if the renewal was accepted (with --wait, if the text was delivered
to the new harness session). It is 1 if the renewal was refused, was rolled back before
the reset, or failed.`,
		Example: `  lifeloop-wrap renew last --reason "the context is full"
  lifeloop-wrap renew last --profile handoff --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.Validate(); err != nil {
				return usage("renew: %v", err)
			}
			id, answer, err := g.command(cmd, args[0], supervisor.CommandRenew, w)
			if err != nil {
				return err
			}
			said := renewed{SessionID: id, Command: supervisor.CommandRenew, Renewal: answer.Renewal}
			if wait {
				st, _, err := g.session(cmd, id)
				if err != nil {
					return err
				}
				if said.Last, err = awaitRenewal(cmd.Context(), st.Folder(id), id, answer.Renewal); err != nil {
					return err
				}
			}
			return g.print(cmd, said, "")
		},
	}
	acceptToken(cmd)
	cmd.Flags().StringVar(&w.Profile, "profile", "", "`NAME` of an active profile (default the first active one)")
	_ = cmd.Flags().SetAnnotation("profile", own, nil) // cannot fail, because the flag exists
	cmd.Flags().StringVar(&w.Reason, "reason", "", "`TEXT` to record as the reason, one line")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the renewal is over")
	return cmd
}

// renewed is the output of renew.
type renewed struct {
	SessionID string            `json:"session_id"`
	Command   string            `json:"command"`
	Renewal   string            `json:"renewal"`
	Last      *view.LastRenewal `json:"last,omitempty"` // only with --wait
}

// awaitRenewal waits for the end of a renewal. It returns an error unless the last state
// of the renewal is renewal.Delivered.
func awaitRenewal(ctx context.Context, folder store.Folder, id, wanted string) (*view.LastRenewal, error) {
	k := store.Session{Folder: folder, Status: view.Status{SessionID: id}}
	for e, err := range folder.Follow(ctx, 0) {
		if err != nil {
			return nil, damaged(id, err)
		}
		k.Apply(e)
		f, ok := e.Fact.(kernel.RenewalMoved)
		if !ok || f.Renewal != wanted || !f.To.Over() {
			continue
		}
		if f.To != renewal.Delivered {
			ending := map[renewal.State]string{renewal.Refused: "was refused", renewal.RolledBack: "was rolled back", renewal.Failed: "failed"}[f.To]
			return nil, no(f.Failure, "session %s: the renewal %s: %s", id, ending, f.Why)
		}
		return k.Renewals.Last, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, notLive(k)
}

// renewing describes the active profiles to the kernel.
func (s *session) renewing(active []profile.Profile) setup.Renewing {
	r := setup.Renewing{Stores: s.ledger != nil}
	for i, p := range active {
		rules := p.Rules()
		if i == 0 {
			rules.At = s.cfg.Renewal.At.Pressure
		}
		r.Renewals = append(r.Renewals, rules)
	}
	return r
}

// sessionVault returns the vault of a session. A vault stores continuations: the data
// that a renewal carries from one harness session to the next.
func sessionVault(folder store.Folder) *vault.Vault {
	return vault.At(filepath.Join(string(folder), "vault"))
}

// renewer returns the Renewer that runs the programs of the active profiles; nil if no
// profile is active or the session has no ledger.
func (s *session) renewer(l *launcher) (supervisor.Renewer, error) {
	active, t := l.profiles, l.terminal
	if s.ledger == nil {
		return nil, nil
	}
	held, now := sessionVault(s.folder), time.Now()
	if len(active) == 0 { // no profile can use a continuation that a dead wrapper has left
		if err := held.Clear(now); err != nil {
			s.log.Warn().Err(err).Msg("cannot erase the stored continuations of renewals")
		}
		return nil, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, refused(lifeloop.InternalError, "find the working directory: %v", err)
	}
	if err := held.Sweep(now, now.AddDate(0, 0, -1)); err != nil {
		s.log.Warn().Err(err).Msg("cannot erase used, discarded and expired continuations of renewals")
	}
	p, err := programs.New(programs.Config{Profiles: active, Vault: held, Dir: dir, Ask: l.askForNote, Around: func(client string) dispatch.Config {
		return s.program(t)
	}})
	if err != nil {
		return nil, refused(lifeloop.InternalError, "%v", err)
	}
	return p, nil
}

// askForNote returns the command line that asks a copy of a harness session for a
// note.
func (l *launcher) askForNote(r effect.RenewalRef) ([]string, bool) {
	w := l.newest.Load()
	if w.profile.Adapter != r.Adapter {
		return nil, false
	}
	return w.profile.Ask(w.argv, r.Session)
}
