package main

import (
	"time"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/negotiate"
)

func negotiateCmd() *cobra.Command {
	var adapter, manifest, requests string
	cmd := &cobra.Command{
		Use:   "negotiate --adapter ID|--manifest FILE [--requests FILE|-]",
		Short: "Check requirements against a manifest",
		Long: `negotiate reads one JSON object,

  {"capabilities":[{"capability","level","support"?,"accept_partial"?}],
   "payloads":[PayloadEnvelope…],"profiles":["NAME"…]}

and prints the result for each capability and each payload, and the overall
outcome: the worst among the required ones. A missing preferred capability makes
the outcome degraded, never worse; an optional one does not count. In the request,
"support" is the weakest support that is accepted: native, or synthesized, which is
the default. If the manifest names profiles for renewal, its renewal claim counts only
if "profiles" in the request lists one of them. No client is called. The exit code is
1 if something required is not satisfied.`,
		Example: `  echo '{"capabilities":[{"capability":"frame.opening","level":"required"}]}' | lifeloop-wrap negotiate --adapter generic`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case adapter == "" && manifest == "":
				return usage("negotiate needs --adapter or --manifest")
			case adapter != "" && manifest != "":
				return usage("--adapter cannot be used with --manifest")
			case requests == "-" && manifest == "-":
				return usage("--manifest and --requests cannot both be read from standard input")
			}
			m, err := claimsOf(cmd, adapter, manifest)
			if err != nil {
				return err
			}
			text, err := readInput(cmd, requests)
			if err != nil {
				return err
			}
			request, err := negotiate.ParseRequest(text)
			if err != nil {
				return invalid("request", err).withHint("lifeloop-wrap negotiate --help shows the form of a request")
			}
			answer := request.Against(m, time.Now().Unix())
			if err := printJSON(cmd.OutOrStdout(), negotiated(answer)); err != nil {
				return err
			}
			if answer.Failure != "" {
				return exitCode(exitNo)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&adapter, "adapter", "", "`ID` of a shipped adapter")
	cmd.Flags().StringVar(&manifest, "manifest", "", "`FILE` with a manifest")
	cmd.Flags().StringVar(&requests, "requests", "-", "`FILE` with the request; - for standard input")
	return cmd
}

// claimsOf returns the shipped manifest of an adapter, or the manifest in a
// file.
func claimsOf(cmd *cobra.Command, adapter, file string) (lifeloop.Manifest, error) {
	if file == "" {
		m, ok := manifests.Get(adapter)
		if !ok {
			return m, noAdapter(adapter)
		}
		return m, nil
	}
	text, err := readInput(cmd, file)
	if err != nil {
		return lifeloop.Manifest{}, err
	}
	m, err := lifeloop.Parse[lifeloop.Manifest](text)
	if err != nil {
		return m, invalid("adapter_manifest", err)
	}
	return m, nil
}

// The printed form of an answer (CLI.md).
type (
	negotiatedAnswer struct {
		Outcome      negotiate.Outcome      `json:"outcome"`
		Capabilities []negotiatedCapability `json:"capabilities"`
		Placements   []negotiatedPlacement  `json:"placements"`
	}
	negotiatedCapability struct {
		Capability string                `json:"capability"`
		Level      lifeloop.Requirement  `json:"level"`
		Outcome    negotiate.Outcome     `json:"outcome"`
		Support    lifeloop.Support      `json:"support"`
		Failure    lifeloop.FailureClass `json:"failure_class,omitempty"`
		Warning    string                `json:"warning,omitempty"`
	}
	negotiatedPlacement struct {
		PayloadID string                     `json:"payload_id"`
		Placement *lifeloop.PayloadPlacement `json:"placement"`
		Status    lifeloop.Status            `json:"status"`
		Failure   lifeloop.FailureClass      `json:"failure_class,omitempty"`
	}
)

func negotiated(a negotiate.Answer) negotiatedAnswer {
	out := negotiatedAnswer{a.Outcome, make([]negotiatedCapability, len(a.Capabilities)), make([]negotiatedPlacement, len(a.Placements))}
	for i, c := range a.Capabilities {
		out.Capabilities[i] = negotiatedCapability{c.Want.Capability, c.Want.Level, c.Outcome, c.Have, c.Failure, c.Warning}
	}
	for i, p := range a.Placements {
		out.Placements[i] = negotiatedPlacement{PayloadID: p.PayloadID, Status: p.Status, Failure: p.Failure}
		if p.Placement != "" {
			out.Placements[i].Placement = &p.Placement
		}
	}
	return out
}
