package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lifeloop/canon"
	"lifeloop/internal/nearest"
	"lifeloop/lifeloop"
)

// commonSchema is the name of the schema with the definitions that all schemas
// share.
const commonSchema = "common"

func envelopeCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "envelope",
		Short: "Check JSON documents that wrapper and clients exchange",
		Long: `envelope reads one JSON document of the contract between wrapper and clients, from
FILE or from standard input. KIND is one of:

  ` + strings.Join(lifeloop.Kinds(), "\n  "),
	})
	validate := onDocument("validate", "Check whether a document is valid", g.verdict)
	echo := onDocument("echo", "Print a document as canonical JSON (RFC 8785), without unknown members", echoDocument)
	schema := &cobra.Command{
		Use:       "schema KIND",
		Short:     "Print the JSON Schema (2020-12) of a kind; for " + commonSchema + ", the definitions that all kinds share",
		Args:      cobra.ExactArgs(1),
		ValidArgs: append(lifeloop.Kinds(), commonSchema),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := lifeloop.Schema(args[0])
			if text == nil {
				return knownKind(args[0])
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.AddCommand(validate, echo, schema)
	return cmd
}

// onDocument returns a subcommand that reads a document of a kind.
func onDocument(verb, short string, do func(cmd *cobra.Command, kind string, doc []byte) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " KIND [FILE|-]", Short: short, Args: cobra.RangeArgs(1, 2), ValidArgs: lifeloop.Kinds(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := knownKind(args[0]); err != nil {
				return err
			}
			doc, err := readDocument(cmd, args[1:])
			if err != nil {
				return err
			}
			return do(cmd, args[0], doc)
		},
	}
}

func echoDocument(cmd *cobra.Command, kind string, doc []byte) error {
	again, err := lifeloop.Echo(kind, doc)
	if err != nil {
		return invalid(kind, err)
	}
	if again, err = canon.Transform(again); err != nil { // the document has a number outside the range of a double
		return no(lifeloop.InvalidRequest, "the %s is valid but cannot be written as canonical JSON: %v", kind, err)
	}
	_, err = exact(cmd).Write(append(again, '\n'))
	return err
}

func knownKind(kind string) error {
	if slices.Contains(lifeloop.Kinds(), kind) {
		return nil
	}
	return usage("unknown kind %q%s", kind, nearest.Hint(kind, lifeloop.Kinds())).withHint("the kinds are %s", strings.Join(lifeloop.Kinds(), ", "))
}
