package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/store"
	"lifeloop/lifeloop"
)

// sessions opens the store that the configuration names.
func (g *globals) sessions(cmd *cobra.Command) (store.Store, error) {
	cfg, _, err := g.load(cmd)
	if err != nil {
		return store.Store{}, err
	}
	return store.Open(cfg.StateDir), nil
}

// session opens the store and resolves SESSION in it.
func (g *globals) session(cmd *cobra.Command, name string) (st store.Store, id string, err error) {
	if st, err = g.sessions(cmd); err != nil {
		return st, "", err
	}
	id, err = st.Find(name)
	var missing *store.NotFoundError
	switch {
	case !errors.As(err, &missing):
		return st, id, err
	case missing.Matches > 1:
		return st, "", no(lifeloop.InvalidRequest, "%v", missing).withHint("give more of the id; lifeloop-wrap ps --all lists them")
	}
	return st, "", no(lifeloop.InvalidRequest, "%v", missing).withHint("lifeloop-wrap ps --all lists the sessions")
}

// damaged is the error of a ledger that cannot be read to its end.
func damaged(id string, err error) *failure {
	return no(lifeloop.StateConflict, "session %s: %v", id, err).withHint("lifeloop-wrap ledger verify %s says more", id)
}

func pruneCmd(g *globals) *cobra.Command {
	var older time.Duration
	keep := -1
	cmd := &cobra.Command{
		Use:   "prune [--older-than D] [--keep N]",
		Short: "Remove ended sessions; never a live one",
		Long: `prune removes sessions that ended or were lost: those older than D, and those
beyond the newest N. With neither flag it removes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			limit := store.Limit{OlderThan: -1, Keep: -1}
			if cmd.Flags().Changed("older-than") {
				limit.OlderThan = older
			}
			if cmd.Flags().Changed("keep") {
				limit.Keep = keep
			}
			switch {
			case !cmd.Flags().Changed("older-than") && !cmd.Flags().Changed("keep"):
				return usage("prune: say what to remove").withHint("--older-than 720h, --keep 20, or both")
			case older < 0 || cmd.Flags().Changed("keep") && keep < 0:
				return usage("prune: a number below nothing")
			}
			st, err := g.sessions(cmd)
			if err != nil {
				return err
			}
			return st.Prune(limit, func(id string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), id)
				return err
			})
		},
	}
	cmd.Flags().DurationVar(&older, "older-than", 0, "sessions that began longer ago than `D`")
	cmd.Flags().IntVar(&keep, "keep", -1, "keep the newest `N`")
	return cmd
}
