package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
	"lifeloop/negotiate"
)

func payloadCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "payload", Short: "What a harness is handed for payloads"})
	cmd.AddCommand(&cobra.Command{
		Use:   "render [FILE|-]",
		Short: "Print the transport envelope of payloads, as a harness's slot gets it",
		Long: `render reads PayloadEnvelopes, a JSON array of them or one after another, and
prints {"payloads":[…]}: one object for each payload that is eligible, in the
order of the input, with its body as a verbatim string or its body_ref, which is
not followed. Not eligible, and told on standard error, are payloads that have
expired, and those whose first choice is receipt_only: no text of theirs is
meant for a prompt.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readDocument(cmd, args, 0)
			if err != nil {
				return err
			}
			payloads, err := negotiate.ParsePayloads(text)
			if err != nil {
				return invalid("list of payload_envelopes", err)
			}
			var eligible []lifeloop.PayloadEnvelope
			for _, p := range payloads {
				if why := negotiate.Excluded(p, time.Now().Unix()); why != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "lifeloop-wrap: payload %s is left out: %s\n", p.PayloadID, why)
					continue
				}
				eligible = append(eligible, p)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), lifeloop.RenderPayloads(eligible).Reveal()+"\n")
			return err
		},
	})
	return cmd
}
