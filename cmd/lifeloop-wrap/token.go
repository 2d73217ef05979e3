//go:build linux

package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
)

// tokenFile holds a session's token: 64 hex digits and a line's end, for its
// owner alone. The ledger has its digest, and no view shows it (DECISIONS H6).
const tokenFile = "token"

// issueToken makes the session's token and returns its digest, which is that of
// the digits as they are printed. One that is taken up keeps the one it has.
func (s *session) issueToken() (digest string, err error) {
	token := make([]byte, 32)
	_, _ = rand.Read(token) // it never fails
	text := hex.EncodeToString(token)
	if err := os.WriteFile(filepath.Join(s.dir, tokenFile), []byte(text+"\n"), 0o600); err != nil {
		return "", refused(lifeloop.InternalError, "keep the session's token: %v", err)
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

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
			text, err := os.ReadFile(filepath.Join(st.path(id), tokenFile))
			if errors.Is(err, fs.ErrNotExist) {
				return no(lifeloop.InvalidRequest, "session %s has no token", id).withHint("an observed session has none")
			}
			if err != nil {
				return err
			}
			token := strings.TrimSpace(string(text))
			if g.json {
				return printJSON(cmd.OutOrStdout(), map[string]string{"session_id": id, "session_token": token})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	})
	return cmd
}
