package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/doctor"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
	"lifeloop/synth"
	"lifeloop/view"
)

func statusCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "status SESSION", Short: "Show the state of a session"}
	return g.onSession(cmd, func(cmd *cobra.Command, st store.Store, id string) error {
		k := st.Read(id)
		switch {
		case k.Damage != nil:
			return damaged(id, k.Damage)
		case g.json:
			return printJSON(cmd.OutOrStdout(), struct {
				view.Status
				Anchors store.Published `json:"anchors,omitzero"`
			}{k.Status, k.Folder.Published()})
		}
		failed, err := failedReceipts(k.Folder)
		if err != nil {
			return damaged(id, err)
		}
		return printStatus(cmd.OutOrStdout(), k, failed)
	})
}

// callsText summarizes the session's model calls.
func callsText(s view.Status) string {
	part := func(name string, c synth.Calls) string {
		if c.Calls == 0 {
			return ""
		}
		return fmt.Sprintf("%s%d (%d new tokens in, %d from the cache, %d out)", name, c.Calls, c.Input+c.CacheWrite, c.CacheRead, c.Output)
	}
	text := cmp.Or(part("", s.Usage.Main), "none seen") + fmt.Sprintf(" in %d %s", s.Turns, map[bool]string{true: "turn", false: "turns"}[s.Turns == 1])
	if s.TurnsOther > 0 {
		text += fmt.Sprintf(" and %d that the harness opened by itself", s.TurnsOther)
	}
	for _, more := range []string{part("sub-agents ", s.Usage.Agents), part("others ", s.Usage.Side)} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}

// livenessText returns the state of a session and whether a wrapper supervises
// it.
func livenessText(s view.Status) string {
	switch s.Liveness {
	case store.Lost:
		return fmt.Sprintf("lost (last known: %s)", cmp.Or(s.State, "nothing"))
	case store.Live:
		return cmp.Or(s.State, "starting") + ", live"
	}
	return s.State
}

// launchText returns the number and the profile of the launch. It adds the time of the
// next launch if one is planned, or else a note if a command paused the session.
func launchText(s view.Status) string {
	text := shortLaunch(s)
	switch {
	case s.RetryAt != nil:
		text += ", next one at " + s.RetryAt.Local().Format(time.DateTime)
	case s.Held:
		text += ", paused; to continue: lifeloop-wrap resume SESSION"
	}
	return text
}

// activityDetail returns the activity, its start or its duration so far, and its
// sources.
func activityDetail(k store.Session) string {
	text := k.Activity
	if k.Liveness == store.Live {
		text += " for " + time.Since(k.Since).Truncate(time.Second).String()
	} else {
		text += " since " + k.Since.Local().Format(time.DateTime)
	}
	if k.Until != nil {
		text += ", until " + k.Until.Local().Format(time.DateTime)
	}
	if k.Uncertain {
		text += " (unconfirmed)"
	}
	var sources []string
	for _, e := range k.Evidence {
		source := e.Source
		if source == "registry" {
			source = "session file of the harness"
		}
		sources = append(sources, source+": "+e.Detail)
	}
	if len(sources) > 0 {
		text += fmt.Sprintf(" (source: %s)", strings.Join(sources, "; "))
	}
	return text
}

// contextDetail returns the context with its exact numbers.
func contextDetail(k store.Session) string {
	text := contextText(k.Context, nowIfLive(k))
	switch c := k.Context; {
	case c == nil:
		return text
	case c.Window == nil:
		return fmt.Sprintf("%s, %d tokens in use, window size unknown", text, c.Tokens)
	default:
		return fmt.Sprintf("%s, %d of %d tokens (window size from %s)", text, c.Tokens, *c.Window, windowSourceText(c.WindowSource))
	}
}

// windowSourceText describes a source of the context window.
func windowSourceText(source string) string {
	switch source {
	case "configured":
		return "the configuration"
	case "statusline":
		return "the status line of the harness"
	case "reported":
		return "the harness"
	case "settings":
		return "the settings of the harness"
	case "catalog":
		return "the list of models of the harness"
	case "suffix":
		return "the model's name"
	case "table":
		return "the built-in table"
	case "seen":
		return "a call that needed the larger of the model's two windows"
	}
	return source
}

// failedReceipts counts the receipts with status failed, without those that were issued
// again for a repeated delivery.
func failedReceipts(f store.Folder) (n int, err error) {
	for e, err := range f.Facts(0) {
		if err != nil {
			return n, err
		}
		if r, ok := view.Receipt(e.Fact); ok && !r.Replay && r.Status == lifeloop.Failed {
			n++
		}
	}
	return n, nil
}

// printStatus prints a session; failed is the number of its failed receipts.
func printStatus(w io.Writer, k store.Session, failed int) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(tw, "%s\t%s\n", name, vt.Plain(value)) }
	list := func(name string, values map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			line(name, key+": "+values[key])
			name = ""
		}
	}
	line("session", k.SessionID)
	line("state", livenessText(k.Status))
	if k.StateReason != "" {
		line("reason", view.ReasonText(k.StateReason))
	}
	line("launch", launchText(k.Status))
	line("activity", activityDetail(k))
	if s := k.LastSign; s != nil { // the last recorded sign of life; a sign too soon after another sign is not recorded
		line("last sign of life", fmt.Sprintf("%s or later (%s)", s.At.Local().Format(time.DateTime), s.Source))
	}
	line("adapter", fmt.Sprintf("%s, program %s", k.AdapterID, k.Program))
	if k.HarnessVersion != nil {
		line("harness version", *k.HarnessVersion)
	}
	if k.HarnessSessionID != nil {
		line("harness session", *k.HarnessSessionID)
	}
	if k.PID != nil {
		line("harness pid", fmt.Sprint(*k.PID))
	}
	line("context", contextDetail(k))
	if k.Hooks != "" {
		line("hooks", k.Hooks)
	}
	if k.Policy != "none" {
		line("policy", k.Policy)
	}
	if g := k.Gate; g != nil {
		line("gate", g.Text())
		for _, w := range g.Waiting {
			line("", fmt.Sprintf("%s: lifeloop-wrap approve %s %s", w.Text(), short(k.SessionID), w.Intent[:min(12, len(w.Intent))]))
		}
	}
	line("model calls", callsText(k.Status))
	if n := doctor.UnknownRecords(k.UnknownRecords); n != "" {
		line("unknown records", n)
	}
	line("recorded", fmt.Sprintf("%d events, %d receipts (%d failed)", k.Events, k.Receipts, failed))
	name := "clients"
	for _, c := range k.Clients {
		line(name, c.ClientID+": "+c.Text())
		name = ""
	}
	if r := k.Renewals; r != nil {
		line("renewals", fmt.Sprintf("%d, the last one %s", r.Count, r.Last.Text()))
		if r.Stopped != "" {
			line("", "stopped: "+r.Stopped)
		}
	}
	if p := k.Folder.Published(); p != (store.Published{}) {
		line("anchors", p.Text())
	}
	list("meta", k.Meta)
	line("folder", k.WorkDir)
	line("stored in", string(k.Folder))
	capabilities := map[string]string{}
	for name, support := range k.Capabilities {
		capabilities[name] = string(support)
	}
	list("capabilities", capabilities)
	return tw.Flush()
}
