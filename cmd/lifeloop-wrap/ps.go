//go:build linux

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func psCmd(g *globals) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List sessions: live, and lost ones that need a look; --all for every one",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := g.sessions(cmd)
			if err != nil {
				return err
			}
			list, err := st.list()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if g.json {
				for _, k := range list {
					if all || k.Liveness != "ended" {
						if err := printJSON(out, k.Status); err != nil {
							return err
						}
					}
				}
				return nil
			}
			tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(tw, "SESSION\tSTARTED\tLIVENESS\tSTATE\tACTIVITY\tADAPTER\tCONTEXT\tRECEIPTS\tFOLDER")
			for _, k := range list {
				if !all && k.Liveness == "ended" {
					continue
				}
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", short(k.SessionID), k.StartedAt.Local().Format("01-02 15:04:05"),
					k.Liveness, orDash(k.State), orDash(k.Activity), orDash(k.AdapterID), contextText(k.Context), k.Receipts, orDash(k.WorkDir))
				if k.damage != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "lifeloop-wrap: session %s: %v\n", short(k.SessionID), k.damage)
				}
			}
			return tw.Flush()
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "ended sessions too")
	return cmd
}

func short(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func contextText(c map[string]any) string {
	f, ok := c["fraction"].(float64)
	if !ok {
		return "-"
	}
	text := fmt.Sprintf("%.0f%%", f*100)
	if stale, _ := c["stale"].(bool); stale {
		text += " (stale)"
	}
	return text
}
