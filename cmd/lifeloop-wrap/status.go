package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/doctor"
	"lifeloop/internal/store"
	"lifeloop/synth"
	"lifeloop/view"
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
			k := st.Read(id)
			if k.Damage != nil {
				return damaged(id, k.Damage)
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), k.Status)
			}
			return printStatus(cmd.OutOrStdout(), k)
		},
	}
}

// callsText is what the session's model calls cost, in a line.
func callsText(s view.Status) string {
	part := func(name string, c synth.Calls) string {
		if c.Calls == 0 {
			return ""
		}
		return fmt.Sprintf("%s%d (%d tokens in, %d cached, %d out)", name, c.Calls, c.Input+c.CacheWrite, c.CacheRead, c.Output)
	}
	text := cmp.Or(part("", s.Usage.Main), "none seen") + fmt.Sprintf(" in %d %s", s.Turns, map[bool]string{true: "turn", false: "turns"}[s.Turns == 1])
	for _, more := range []string{part("sub-agents ", s.Usage.Agents), part("beside them ", s.Usage.Side)} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}

// attemptText says which attempt it is, and what the next one waits for.
func attemptText(s view.Status) string {
	text := tryText(s)
	switch {
	case s.RetryAt != nil:
		text += ", the next one at " + s.RetryAt.Local().Format(time.DateTime)
	case s.Held:
		text += ", paused; lifeloop-wrap resume lets it go on"
	}
	return text
}

func printStatus(w io.Writer, k store.Session) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(tw, "%s\t%s\n", name, value) }
	line("session", k.SessionID)
	line("state", fmt.Sprintf("%s, %s", k.State, k.Liveness))
	if k.StateReason != "" {
		line("because of", k.StateReason)
	}
	line("attempt", attemptText(k.Status))
	ev := ""
	for i, e := range k.Evidence {
		ev += fmt.Sprintf("%sthe %s: %s", []string{" (told by ", " and "}[min(i, 1)], e.Source, e.Detail)
	}
	if ev != "" {
		ev += ")"
	}
	doing := k.Activity
	if k.Uncertain {
		doing += "?"
	}
	if k.Until != nil {
		doing += " until " + k.Until.Local().Format(time.DateTime)
	}
	line("activity", fmt.Sprintf("%s since %s%s", doing, k.Since.Local().Format(time.DateTime), ev))
	if s := k.LastSign; s != nil {
		line("last sign of life", fmt.Sprintf("%s (%s)", s.At.Local().Format(time.DateTime), s.Source))
	}
	line("adapter", fmt.Sprintf("%s, program %s", k.AdapterID, k.Program))
	if k.HarnessVersion != nil {
		line("version", *k.HarnessVersion)
	}
	if k.HarnessSessionID != nil {
		line("harness session", *k.HarnessSessionID)
	}
	if k.PID != nil {
		line("pid", fmt.Sprint(*k.PID))
	}
	line("context", contextText(k.Context))
	line("model calls", callsText(k.Status))
	if n := doctor.UnknownRecords(k.UnknownRecords); n != "" {
		line("not understood", n)
	}
	line("told", fmt.Sprintf("%d events, %d receipts", k.Events, k.Receipts))
	for i, name := range slices.Sorted(maps.Keys(k.Meta)) {
		label := ""
		if i == 0 {
			label = "called"
		}
		line(label, name+": "+k.Meta[name])
	}
	line("folder", k.WorkDir)
	line("kept in", string(k.Folder))
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
