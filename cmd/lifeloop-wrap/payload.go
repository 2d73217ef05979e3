package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
	"lifeloop/negotiate"
)

func payloadCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "payload", Short: "Render payloads"})
	cmd.AddCommand(&cobra.Command{
		Use:   "render [FILE|-]",
		Short: "Print payloads in the form in which the model's context receives them",
		Long: `render reads PayloadEnvelopes, in one JSON array or one after another, and
prints {"payloads":[…]}: an object for each eligible payload, in the order of the
input, with its body as a verbatim string or its body_ref, which is not followed.
Payloads that have expired, or whose first placement is receipt_only, are not
eligible; standard error lists them.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readDocument(cmd, args)
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
					fmt.Fprintf(cmd.ErrOrStderr(), "lifeloop-wrap: skipping payload %s: %s\n", vt.Plain(p.PayloadID), vt.Plain(why))
					continue
				}
				eligible = append(eligible, p)
			}
			_, err = io.WriteString(exact(cmd), lifeloop.RenderPayloads(eligible).Reveal()+"\n")
			return err
		},
	})
	return cmd
}
