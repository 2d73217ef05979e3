//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/config"
	"lifeloop/internal/durable"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// sessions opens the store that the configuration names.
func (g *globals) sessions(cmd *cobra.Command) (store, error) {
	cfg, _, err := g.load(cmd)
	if err != nil {
		return store{}, err
	}
	return openStore(cfg.StateDir), nil
}

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

func statusCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status SESSION",
		Short: "Show what is known of a session",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := g.sessions(cmd)
			if err != nil {
				return err
			}
			id, err := st.find(args[0])
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

// reader is a command that prints a session's facts, one form or another.
type reader struct {
	g      *globals
	follow bool
	from   uint64
}

// each feeds every entry to print; with follow until the session is over.
func (r *reader) each(cmd *cobra.Command, session string, print func(kernel.Entry) error) error {
	st, err := r.g.sessions(cmd)
	if err != nil {
		return err
	}
	id, err := st.find(session)
	if err != nil {
		return err
	}
	dir := st.path(id)
	next, over := r.from, false
	read := func(entries iter.Seq2[kernel.Entry, error]) error {
		for e, err := range entries {
			if errors.Is(err, ledger.ErrTornTail) {
				return nil
			}
			if err != nil {
				return no(lifeloop.StateConflict, "session %s: %v", id, err).withHint("lifeloop-wrap ledger verify %s says more", id)
			}
			if err := print(e); err != nil {
				return err
			}
			next = e.Seq + 1
			if m, ok := e.Fact.(kernel.SessionMoved); ok && m.To.Terminal() {
				over = true
				return nil
			}
		}
		return nil
	}
	if !r.follow {
		return read(facts(dir, next))
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A session that was lost has no last fact: the end of its writer ends the
	// waiting, and what it wrote just before that is read once more.
	alive, gone := context.WithCancel(ctx)
	defer gone()
	go func() {
		_ = ledger.AwaitWriter(dir)
		gone()
	}()
	if err := read(decoded(ledger.Follow(alive, dir, max(next, 1)), next)); err != nil || over || ctx.Err() != nil {
		return err
	}
	return read(facts(dir, next))
}

func (r *reader) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.follow, "follow", false, "wait for more until the session is over")
}

func eventsCmd(g *globals) *cobra.Command {
	r := reader{g: g}
	as := "lifeloop"
	cmd := &cobra.Command{
		Use:   "events SESSION",
		Short: "Print what happened, as JSON Lines",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch as {
			case "lifeloop":
				return r.each(cmd, args[0], func(e kernel.Entry) error {
					if ev, ok := view.Event(e.Fact); ok {
						return printJSON(out, ev)
					}
					return nil
				})
			case "facts":
				return r.each(cmd, args[0], func(e kernel.Entry) error {
					return printJSON(out, map[string]any{"seq": e.Seq, "at": e.At, "kind": kernel.Kind(e.Fact), "fact": e.Fact})
				})
			}
			return usage("--as %s: want lifeloop or facts", as)
		},
	}
	r.flags(cmd)
	cmd.Flags().Uint64Var(&r.from, "from", 0, "begin at this `SEQ` of the ledger")
	cmd.Flags().StringVar(&as, "as", as, "`FORM`: lifeloop or facts")
	return cmd
}

func receiptsCmd(g *globals) *cobra.Command {
	r := reader{g: g}
	cmd := &cobra.Command{
		Use:   "receipts SESSION",
		Short: "Print the receipts, as JSON Lines",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.each(cmd, args[0], func(e kernel.Entry) error {
				if rc, ok := view.Receipt(e.Fact); ok {
					return printJSON(cmd.OutOrStdout(), rc)
				}
				return nil
			})
		},
	}
	r.flags(cmd)
	return cmd
}

func ledgerCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "ledger", Short: "Verify or recover a session's ledger"}
	verify := &cobra.Command{
		Use:   "verify SESSION",
		Short: "Check every entry and every link",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := g.sessions(cmd)
			if err != nil {
				return err
			}
			id, err := st.find(args[0])
			if err != nil {
				return err
			}
			r, err := ledger.Verify(st.path(id))
			if err != nil {
				return no(lifeloop.StateConflict, "session %s: %v", id, err).
					withHint("what is before that place is sound; nothing mends it, and nothing is written behind it")
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), map[string]any{"ok": true, "session_id": id, "entries": r.Entries,
					"segments": r.Segments, "last_digest": r.Last, "torn_bytes": r.TornBytes})
			}
			said := fmt.Sprintf("ok: %d entries in %d segment(s), last %s\n", r.Entries, r.Segments, r.Last)
			if r.TornBytes > 0 {
				said += fmt.Sprintf("the last line is unfinished (%d bytes): the writer died, or is writing this moment\n", r.TornBytes)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), said)
			return err
		},
	}
	recover := &cobra.Command{
		Use:   "recover SESSION",
		Short: "Cut off a last line that a crash left unfinished",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := g.sessions(cmd)
			if err != nil {
				return err
			}
			id, err := st.find(args[0])
			if err != nil {
				return err
			}
			r, err := ledger.Recover(st.path(id))
			if err != nil {
				return no(lifeloop.StateConflict, "session %s: %v", id, err)
			}
			if g.json {
				return printJSON(cmd.OutOrStdout(), map[string]any{"ok": true, "session_id": id, "entries": r.Entries, "cut_bytes": r.TornBytes})
			}
			said := fmt.Sprintf("cut %d bytes of an unfinished line; %d whole entries are kept\n", r.TornBytes, r.Entries)
			if r.TornBytes == 0 {
				said = fmt.Sprintf("nothing to recover: %d whole entries\n", r.Entries)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), said)
			return err
		},
	}
	cmd.AddCommand(verify, recover)
	return cmd
}

func pruneCmd(g *globals) *cobra.Command {
	var older time.Duration
	keep := -1
	cmd := &cobra.Command{
		Use:   "prune [--older-than D] [--keep N]",
		Short: "Remove ended sessions; never a live one",
		Long: `prune removes sessions that ended or were lost: those older than D, and those
beyond the newest N. With neither flag it removes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("older-than") && !cmd.Flags().Changed("keep") {
				return usage("prune: say what to remove").withHint("--older-than 720h, --keep 20, or both")
			}
			st, err := g.sessions(cmd)
			if err != nil {
				return err
			}
			st.sweep()
			list, err := st.list()
			if err != nil {
				return err
			}
			for i, k := range list { // the oldest first
				old := cmd.Flags().Changed("older-than") && time.Since(k.StartedAt) > older
				many := keep >= 0 && i < len(list)-keep
				if k.Liveness == "live" || !old && !many {
					continue
				}
				err := st.remove(k.SessionID)
				var locked *durable.LockedError
				if errors.As(err, &locked) || errors.Is(err, fs.ErrNotExist) {
					continue // it has come to life, or another prune was faster
				}
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), k.SessionID); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&older, "older-than", 0, "sessions that began longer ago than `D`")
	cmd.Flags().IntVar(&keep, "keep", -1, "keep the newest `N`")
	return cmd
}

func configCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show the configuration, or its schema"}
	cmd.AddCommand(&cobra.Command{
		Use: "show", Short: "The merged configuration, with each value's origin", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, origins, err := g.load(cmd)
			if err != nil {
				return err
			}
			if !g.json {
				_, err := io.WriteString(cmd.OutOrStdout(), config.Show(cfg, origins))
				return err
			}
			b, err := config.ShowJSON(cfg, origins)
			if err == nil {
				_, err = cmd.OutOrStdout().Write(append(b, '\n'))
			}
			return err
		},
	}, &cobra.Command{
		Use: "schema", Short: "The JSON Schema (2020-12) of a configuration file", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), strings.TrimRight(string(config.Schema()), "\n")+"\n")
			return err
		},
	})
	return cmd
}
