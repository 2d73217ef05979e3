//go:build linux

package main

import (
	"fmt"
	"io"
	"sort"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/lifeloop"
)

func statusCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status SESSION",
		Short: "Show what is known of a session",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, id, err := g.session(cmd, args[0])
			if err != nil {
				return err
			}
			k := st.read(id)
			if k.damage != nil {
				return no(lifeloop.StateConflict, "session %s: %v", id, k.damage).withHint("lifeloop-wrap ledger verify %s says more", id)
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), k.Status)
			}
			return printStatus(cmd.OutOrStdout(), k)
		},
	}
}

func printStatus(w io.Writer, k kept) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(tw, "%s\t%s\n", name, value) }
	line("session", k.SessionID)
	line("state", fmt.Sprintf("%s, %s", k.State, k.Liveness))
	ev := ""
	for _, e := range k.Evidence {
		ev = fmt.Sprintf(" (told by the %s: %s)", e.Source, e.Detail)
	}
	line("activity", fmt.Sprintf("%s since %s%s", k.Activity, k.Since.Local().Format(time.DateTime), ev))
	if s := k.LastSign; s != nil {
		line("last sign of life", fmt.Sprintf("%s (%s)", s.At.Local().Format(time.DateTime), s.Source))
	}
	line("adapter", fmt.Sprintf("%s, program %s", k.AdapterID, k.Program))
	if k.HarnessSessionID != nil {
		line("harness session", *k.HarnessSessionID)
	}
	if k.PID != 0 {
		line("pid", fmt.Sprint(k.PID))
	}
	line("context", contextText(k.Context))
	line("told", fmt.Sprintf("%d events, %d receipts", k.Events, k.Receipts))
	line("folder", k.WorkDir)
	line("kept in", k.dir)
	names := make([]string, 0, len(k.Capabilities))
	for n := range k.Capabilities {
		names = append(names, n)
	}
	sort.Strings(names)
	for i, n := range names {
		label := ""
		if i == 0 {
			label = "capabilities"
		}
		line(label, fmt.Sprintf("%s: %s", n, k.Capabilities[n]))
	}
	return tw.Flush()
}
