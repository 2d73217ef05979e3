package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/harness"
	"lifeloop/internal/config"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
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
	missing, ok := errors.AsType[*store.NotFoundError](err)
	if !ok {
		return st, id, err
	}
	hint := "lifeloop-wrap ps --all lists the sessions"
	switch {
	case missing.Matches > 1:
		hint = "type more of the id; lifeloop-wrap ps --all lists the sessions"
	case missing.Known == 0:
		hint = "start one: lifeloop-wrap run -- claude"
	}
	return st, "", no(lifeloop.InvalidRequest, "%v", missing).withHint("%s", hint)
}

// onSession makes cmd a command on one SESSION. The function do receives the id of the
// session and the store that contains the session.
func (g *globals) onSession(cmd *cobra.Command, do func(cmd *cobra.Command, st store.Store, id string) error) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st, id, err := g.session(cmd, args[0])
		if err != nil {
			return err
		}
		return do(cmd, st, id)
	}
	return cmd
}

// damaged returns the error for a ledger that cannot be read to its end.
func damaged(id string, err error) *failure {
	if f, ok := errors.AsType[*store.FolderError](err); ok {
		return no(lifeloop.StateConflict, "session %s: %s", id, f.What).withHint("%s", f.Fix)
	}
	return no(lifeloop.StateConflict, "session %s: %v", id, err).withHint("lifeloop-wrap ledger verify %s shows whether and where it is damaged", id)
}

func pruneCmd(g *globals) *cobra.Command {
	var older time.Duration
	var keep int
	var size string
	cmd := &cobra.Command{
		Use:   "prune [--older-than D] [--keep N] [--size S]",
		Short: "Remove sessions that are not live",
		Long: `prune removes ended and lost sessions: those that started longer ago than D, those
beyond the newest N, and, while all sessions together take more than S, the oldest
ones. It never removes a live session. It prints the ids of the sessions that it
removes. It also removes empty control groups that earlier runs with --contain have
left. The retention block of the configuration sets the same limits for ended
sessions; they are applied whenever a session ends.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			limit := store.Limit{OlderThan: -1, Keep: -1, Bytes: -1}
			if cmd.Flags().Changed("older-than") {
				limit.OlderThan = older
			}
			if cmd.Flags().Changed("keep") {
				limit.Keep = keep
			}
			if cmd.Flags().Changed("size") {
				var err error
				if limit.Bytes, err = config.ParseSize(size); err != nil {
					return usage("--size: %v", err)
				}
			}
			switch {
			case !cmd.Flags().Changed("older-than") && !cmd.Flags().Changed("keep") && !cmd.Flags().Changed("size"):
				return usage("prune needs --older-than, --keep or --size").withHint("lifeloop-wrap prune --older-than 30d")
			case older < 0:
				return usage("--older-than must be 0 or more")
			case limit.Keep < 0 && cmd.Flags().Changed("keep"):
				return usage("--keep must be 0 or more")
			}
			st, err := g.sessions(cmd)
			if err != nil {
				return err
			}
			if err := st.Private(); err != nil {
				return no(lifeloop.InternalError, "nothing is removed: %v", err)
			}
			harness.RemoveEmptyGroups()
			return st.Prune(limit, func(id string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), vt.Plain(id))
				return err
			})
		},
	}
	durationFlag(cmd.Flags(), &older, "older-than", 0, "remove sessions that started longer ago than `D`, such as 12h or 30d (default no limit)")
	cmd.Flags().IntVar(&keep, "keep", 0, "number `N` of newest sessions to keep (default no limit)")
	cmd.Flags().StringVar(&size, "size", "", "largest total size `S` of all sessions, such as 500MB or 2GiB (default no limit)")
	return cmd
}

// retain removes the sessions that exceed the configured retention. It is called
// when the session with this id has ended, and never removes that session. Errors
// are only printed.
func retain(cfg config.Config, id string, stderr io.Writer) {
	r := cfg.Retention
	if r == (config.Retention{}) {
		return
	}
	limit := store.Limit{OlderThan: -1, Keep: -1, Bytes: -1, Ended: true, Except: id}
	if r.Age > 0 {
		limit.OlderThan = r.Age
	}
	if r.Count > 0 {
		limit.Keep = r.Count
	}
	if r.Size != "" {
		limit.Bytes, _ = config.ParseSize(r.Size) // cannot fail, because Load has checked the size
	}
	if err := store.Open(cfg.StateDir).Prune(limit, func(string) error { return nil }); err != nil {
		fmt.Fprintf(stderr, "lifeloop-wrap: retention: %s\n", vt.Plain(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
}

func sessionCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "session", Short: "Print a session's secret token"})
	cmd.AddCommand(g.onSession(&cobra.Command{
		Use:   "token SESSION",
		Short: "Print a session's token",
		Long: `token prints the token of a session. A process that the harness started needs it to
change the session, for example to pause or abort it; the user's other processes do
not. No event, receipt or log contains it. The ledger's first entry has the SHA-256
digest of the token's 64 hex digits.`,
	}, func(cmd *cobra.Command, st store.Store, id string) error {
		token, err := st.Folder(id).Token()
		if errors.Is(err, fs.ErrNotExist) {
			return no(lifeloop.InvalidRequest, "session %s has no token", id).withHint("only sessions started with lifeloop-wrap run have a token")
		}
		if err != nil {
			return err
		}
		return g.print(cmd, map[string]string{"session_id": id, "session_token": token}, token+"\n")
	}))
	return cmd
}
