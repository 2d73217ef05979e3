package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
)

func sessionCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "session", Short: "What a session has that is shown to nobody but its owner"})
	cmd.AddCommand(&cobra.Command{
		Use:   "token SESSION",
		Short: "Print a session's token",
		Long: `token prints the token of a session, which authorizes whoever has it. It stands
in no event, receipt or log; the ledger's first entry has its digest: that of the
64 digits that are printed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, id, err := g.session(cmd, args[0])
			if err != nil {
				return err
			}
			token, err := st.Folder(id).Token()
			if errors.Is(err, fs.ErrNotExist) {
				return no(lifeloop.InvalidRequest, "session %s has no token", id).withHint("an observed session has none")
			}
			if err != nil {
				return err
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), map[string]string{"session_id": id, "session_token": token})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	})
	return cmd
}
