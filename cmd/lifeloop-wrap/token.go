package main

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"lifeloop/internal/store"
	"lifeloop/lifeloop"
)

func sessionCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "session", Short: "Print a session's secret token"})
	cmd.AddCommand(g.onSession(&cobra.Command{
		Use:   "token SESSION",
		Short: "Print a session's token",
		Long: `token prints the token of a session. It authorizes every program that has it, and
no event, receipt or log contains it. The ledger's first entry has the SHA-256
digest of its 64 digits.`,
	}, func(cmd *cobra.Command, st store.Store, id string) error {
		token, err := st.Folder(id).Token()
		if errors.Is(err, fs.ErrNotExist) {
			return no(lifeloop.InvalidRequest, "session %s has no token", id).withHint("only sessions of lifeloop-wrap run have one")
		}
		if err != nil {
			return err
		}
		return g.print(cmd, map[string]string{"session_id": id, "session_token": token}, token+"\n")
	}))
	return cmd
}
