package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"lifeloop/evidence/redact"
	"lifeloop/evidence/sign"
	"lifeloop/internal/durable"
	"lifeloop/lifeloop"
)

func evidenceCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "evidence", Short: "Make and check evidence of sessions"})
	key := group(&cobra.Command{Use: "key", Short: "Make keys that sign evidence"})
	key.AddCommand(&cobra.Command{
		Use: "new FILE", Short: "Make a key pair: FILE is private, FILE.pub is public", Args: cobra.ExactArgs(1),
		Long: `new makes an Ed25519 key pair. FILE gets the private key, which only its owner
can read (0600), and FILE.pub the public key. Give FILE.pub to those who verify
evidence. Existing files are not replaced.`,
		RunE: func(cmd *cobra.Command, args []string) error { return g.newKey(cmd, args[0]) },
	})
	cmd.AddCommand(key, exportCmd(g), anchorCmd(g), verifyCmd(g), inspectCmd(g), diffCmd(g), redactCmd())
	return cmd
}

func redactCmd() *cobra.Command {
	return &cobra.Command{
		Use: "redact [FILE]", Short: "Print a text with marks in the place of secrets", Args: cobra.MaximumNArgs(1),
		Long: `redact prints FILE, or its standard input, with marks in the place of secrets:
known forms of tokens, private keys, Authorization headers, cookies, webhooks,
passwords in addresses and in flags (--password, curl -u), and values of names
such as API_KEY or DB_PASS. A mark has the first digits of the secret's SHA-256.
JSON stays JSON. Before you give a transcript to others, run redact on the
transcript, and read the result: not every secret has a known form.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "-"
			if len(args) > 0 {
				name = args[0]
			}
			text, err := readInput(cmd, name)
			if err != nil {
				return no(lifeloop.InvalidRequest, "cannot redact %s: %v", name, err).withHint("name a file that you may read, or none to read the standard input")
			}
			_, err = io.WriteString(cmd.OutOrStdout(), redact.New().Text(string(text)))
			return err
		},
	}
}

func (g *globals) newKey(cmd *cobra.Command, file string) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return no(lifeloop.InternalError, "make a key: %v", err)
	}
	for _, name := range []string{file, file + ".pub"} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return no(lifeloop.InvalidRequest, "cannot make key %s: %s exists or cannot be examined", file, name).withHint("choose another name; a key is never replaced")
		}
	}
	const hint = "FILE must be in a folder that exists and that you may write to"
	if err := writeNew(file+".pub", sign.EncodeKey(public), 0o644); err != nil {
		return no(lifeloop.InvalidRequest, "cannot make key: %v", err).withHint(hint)
	}
	if err := writeNew(file, sign.EncodeKey(private), 0o600); err != nil {
		_ = os.Remove(file + ".pub") // remove the file that was created above
		return no(lifeloop.InvalidRequest, "cannot make key: %v", err).withHint(hint)
	}
	id := sign.KeyID(public)
	return g.print(cmd, map[string]any{"ok": true, "private": file, "public": file + ".pub", "key_id": id},
		fmt.Sprintf("%s: the private key, for signing; keep it secret\n%s.pub: the public key, for verifying\nkey id %s\n", file, file, id))
}

// writeNew creates a file durably. It is an error if the file exists.
func writeNew(name string, data []byte, perm fs.FileMode) error {
	f, err := durable.Open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name) // do not leave an incomplete file
		return err
	}
	return nil
}
