package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lifeloop/internal/inspect"
	"lifeloop/internal/nearest"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
	"lifeloop/profiles"
)

func manifestCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "manifest", Short: "Show or validate adapter manifests"})
	list := &cobra.Command{
		Use: "list", Short: "List the shipped adapters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			for _, id := range manifests.IDs() {
				m, _ := manifests.Get(id)
				if g.json {
					if err := printJSON(cmd.OutOrStdout(), map[string]any{"adapter_id": id, "adapter_version": m.AdapterVersion,
						"display_name": m.DisplayName, "conformance": manifests.Conformance(id)}); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", id, m.DisplayName, m.AdapterVersion, manifests.Conformance(id))
			}
			return tw.Flush()
		},
	}
	show := &cobra.Command{
		Use: "show ID", Short: "Print a manifest as JSON", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw := manifests.Raw(args[0])
			if raw == nil {
				return noAdapter(args[0])
			}
			_, err := cmd.OutOrStdout().Write(raw)
			return err
		},
	}
	validate := &cobra.Command{
		Use: "validate [FILE|-]", Short: "Check whether a manifest is valid", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := readDocument(cmd, args)
			if err != nil {
				return err
			}
			return g.verdict(cmd, "adapter_manifest", doc)
		},
	}
	explain := &cobra.Command{
		Use: "inspect ID", Short: "Explain each claim of a manifest", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, ok := manifests.Get(args[0])
			if !ok {
				return noAdapter(args[0])
			}
			in := inspect.Manifest(m)
			if g.json {
				return printJSON(cmd.OutOrStdout(), in)
			}
			return in.Print(cmd.OutOrStdout())
		},
	}
	cmd.AddCommand(list, show, explain, validate)
	return cmd
}

// adapterOf returns the profile and the manifest of an adapter.
func adapterOf(id string) (p profiles.Profile, m lifeloop.Manifest, ok bool) {
	p, ok = profiles.For(id)
	m, known := manifests.Get(id)
	return p, m, ok && known
}

func noAdapter(id string) *failure {
	return no(lifeloop.AdapterUnavailable, "no adapter %q%s", id, nearest.Hint(id, manifests.IDs())).withHint("lifeloop-wrap manifest list lists the adapters")
}
