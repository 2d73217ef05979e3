package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lifeloop/internal/inspect"
	"lifeloop/lifeloop"
	"lifeloop/manifests"
)

func manifestCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "manifest", Short: "What each adapter can honestly claim"})
	list := &cobra.Command{
		Use: "list", Short: "The shipped adapters", Args: cobra.NoArgs,
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
		Use: "show ID", Short: "One manifest, as JSON", Args: cobra.ExactArgs(1),
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
		Use: "validate [FILE|-]", Short: "Say whether a manifest is valid, and what is wrong where", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := readDocument(cmd, args, 0)
			if err != nil {
				return err
			}
			return g.verdict(cmd, "adapter_manifest", doc)
		},
	}
	explain := &cobra.Command{
		Use: "inspect ID", Short: "What a manifest claims, claim by claim, in plain words", Args: cobra.ExactArgs(1),
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

func noAdapter(id string) *failure {
	return no(lifeloop.AdapterUnavailable, "no adapter %q", id).withHint("lifeloop-wrap manifest list names them")
}
