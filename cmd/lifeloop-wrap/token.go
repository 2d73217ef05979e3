package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
)

func sessionCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "session", Short: "Print a session's secret token"})
	cmd.AddCommand(&cobra.Command{
		Use:   "token SESSION",
		Short: "Print a session's token",
		Long: `token prints the token of a session. It authorizes every program that has it, and
no event, receipt or log contains it. The ledger's first entry has the SHA-256
digest of its 64 digits.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, id, err := g.session(cmd, args[0])
			if err != nil {
				return err
			}
			token, err := st.Folder(id).Token()
			if errors.Is(err, fs.ErrNotExist) {
				return no(lifeloop.InvalidRequest, "session %s has no token", id).withHint("only sessions of lifeloop-wrap run have one")
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
