//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/durable"
)

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
			if !cmd.Flags().Changed("older-than") && !cmd.Flags().Changed("keep") {
				return usage("prune: say what to remove").withHint("--older-than 720h, --keep 20, or both")
			}
			if older < 0 || cmd.Flags().Changed("keep") && keep < 0 {
				return usage("prune: a number below nothing")
			}
			st, err := g.sessions(cmd)
			if err != nil {
				return err
			}
			st.sweep()
			list, err := st.list()
			if err != nil {
				return err
			}
			for i, k := range list { // the oldest first
				old := cmd.Flags().Changed("older-than") && time.Since(k.StartedAt) > older
				many := keep >= 0 && i < len(list)-keep
				if k.Liveness == "live" || !old && !many {
					continue
				}
				err := st.remove(k.SessionID)
				var locked *durable.LockedError
				if errors.As(err, &locked) || errors.Is(err, fs.ErrNotExist) {
					continue // it has come to life, or another prune was faster
				}
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), k.SessionID); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&older, "older-than", 0, "sessions that began longer ago than `D`")
	cmd.Flags().IntVar(&keep, "keep", -1, "keep the newest `N`")
	return cmd
}
