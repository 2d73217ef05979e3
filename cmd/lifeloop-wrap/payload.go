package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
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
			payloads, problems := parsePayloads(text)
			if len(problems) > 0 {
				return invalid("list of payload_envelopes", problems)
			}
			var eligible []lifeloop.PayloadEnvelope
			for _, p := range payloads {
				if why := ineligible(p, time.Now().Unix()); why != "" {
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

// ineligible says why a payload is not for a harness's slot, or nothing.
// "receipt_only: No prompt injection"; it is always satisfiable, so nothing
// behind it in the client's order is ever chosen.
func ineligible(p lifeloop.PayloadEnvelope, epoch int64) string {
	switch {
	case p.Expired(epoch):
		return "it has expired"
	case p.AcceptablePlacements[0].Placement == lifeloop.ReceiptOnly:
		return "its first choice is receipt_only"
	}
	return ""
}

// parsePayloads reads a JSON array of payload envelopes, or JSON Lines of them.
func parsePayloads(text []byte) (payloads []lifeloop.PayloadEnvelope, problems []lifeloop.Problem) {
	raws, err := values(text)
	if err != nil {
		return nil, []lifeloop.Problem{{Path: "$", Message: misfit(err)}}
	}
	for i, raw := range raws {
		if len(problems) >= maxProblems {
			break
		}
		p, err := lifeloop.Parse[lifeloop.PayloadEnvelope](raw)
		if err != nil {
			problems = append(problems, below(fmt.Sprintf("[%d]", i), err)...)
		}
		payloads = append(payloads, p)
	}
	return payloads, problems
}

func values(text []byte) (raws []json.RawMessage, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		return raws, json.Unmarshal(text, &raws)
	}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return raws, nil
		}
		if err != nil {
			return nil, fmt.Errorf("value %d: %w", len(raws)+1, err)
		}
		raws = append(raws, raw)
	}
}
