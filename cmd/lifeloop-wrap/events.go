package main

import (
	"errors"
	"io"
	"iter"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lifeloop/internal/store"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/view"
)

// reader is a command that prints a session's facts, one form or another.
type reader struct {
	g      *globals
	follow bool
	from   uint64
}

// each passes every entry of a session to print; with --follow until the
// session is over.
func (r *reader) each(cmd *cobra.Command, session string, print func(kernel.Entry) error) error {
	st, id, err := r.g.session(cmd, session)
	if err != nil {
		return err
	}
	entries, stop := r.entries(cmd, st.Folder(id), r.from)
	defer stop()
	for e, err := range entries {
		if err != nil {
			return damaged(id, err)
		}
		if err := print(e); err != nil {
			return err
		}
	}
	return nil
}

// entries are those of a session from sequence number from on; with --follow
// the later ones too, until a signal ends the wait.
func (r *reader) entries(cmd *cobra.Command, f store.Folder, from uint64) (entries iter.Seq2[kernel.Entry, error], stop func()) {
	if !r.follow {
		return f.Facts(from), func() {}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	return f.Follow(ctx, from), stop
}

func (r *reader) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.follow, "follow", false, "wait for more until the session is over")
}

func eventsCmd(g *globals) *cobra.Command {
	r := reader{g: g}
	as, callbacks := "lifeloop", false
	cmd := &cobra.Command{
		Use:   "events SESSION",
		Short: "Print what happened, as JSON Lines",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if callbacks && as != "l0" {
				return usage("--callbacks: only --as l0 has them")
			}
			switch as {
			case "lifeloop":
				return r.each(cmd, args[0], func(e kernel.Entry) error { return printEvent(out, e) })
			case "facts":
				return r.each(cmd, args[0], func(e kernel.Entry) error { return printFact(out, e) })
			case "hcp":
				var hcp view.HCP
				return r.numbered(cmd, args[0], func(e kernel.Entry) (lines []numbered) {
					for _, m := range hcp.Apply(e) {
						lines = append(lines, numbered{m.Payload.Sequence, m})
					}
					return lines
				})
			case "l0":
				var l0 view.L0
				return r.numbered(cmd, args[0], func(e kernel.Entry) (lines []numbered) {
					for _, ev := range l0.Apply(e) {
						for _, line := range l0Lines(ev, callbacks) {
							lines = append(lines, numbered{ev.Seq, line})
						}
					}
					return lines
				})
			}
			return usage("--as %s: want lifeloop, hcp, l0 or facts", as)
		},
	}
	r.flags(cmd)
	cmd.Flags().Uint64Var(&r.from, "from", 0, "begin at this `SEQ`: of the ledger, or with --as hcp and l0 the session's own")
	cmd.Flags().StringVar(&as, "as", as, "`FORM`: lifeloop, hcp, l0 or facts")
	cmd.Flags().BoolVar(&callbacks, "callbacks", false, "with --as l0: after each event the callbacks that it makes")
	return cmd
}

// printEvent prints the lifecycle event that an entry tells, if it tells one.
func printEvent(out io.Writer, e kernel.Entry) error {
	if ev, ok := view.Event(e.Fact); ok {
		return printJSON(out, ev)
	}
	return nil
}

// printFact prints an entry as the ledger holds it.
func printFact(out io.Writer, e kernel.Entry) error {
	return printJSON(out, map[string]any{"seq": e.Seq, "at": e.At, "kind": kernel.Kind(e.Fact), "fact": e.Fact})
}

// l0Lines are an event of L0 and, when they are asked for, the callbacks that
// it makes.
func l0Lines(e view.L0Event, callbacks bool) []any {
	lines := []any{e}
	if callbacks {
		for _, c := range view.L0Callbacks(e) {
			lines = append(lines, c)
		}
	}
	return lines
}

// A numbered line belongs to an event whose number counts what its tongue
// tells, and is none of the ledger's.
type numbered struct {
	number uint64
	line   any
}

// settledTogether is how many lines wait for one sync of what they were read from.
const settledTogether = 256

// numbered prints a session in a form that counts its own events, so the
// ledger is read from its beginning, whatever --from is. The ledger is synced
// before a line is printed (DECISIONS F3): otherwise a crash of the machine
// could take an event back and give its number to another one.
func (r *reader) numbered(cmd *cobra.Command, session string, apply func(kernel.Entry) []numbered) error {
	st, id, err := r.g.session(cmd, session)
	if err != nil {
		return err
	}
	p := numberedPrinter{id: id, folder: st.Folder(id), out: cmd.OutOrStdout(), from: r.from, apply: apply}
	// Existing entries share syncs; new ones are printed at once.
	err = p.print(p.folder.Facts(0), settledTogether)
	if err == nil && r.follow && !p.over {
		entries, stop := r.entries(cmd, p.folder, p.next)
		defer stop()
		err = p.print(entries, 1)
	}
	return err
}

// A numberedPrinter is one run of numbered.
type numberedPrinter struct {
	id      string
	folder  store.Folder
	out     io.Writer
	from    uint64
	apply   func(kernel.Entry) []numbered
	next    uint64 // entry of the ledger
	over    bool   // the session's last entry was read
	waiting []any  // lines to print after a sync
}

// print prints what the entries become, atOnce lines or more after each sync.
func (p *numberedPrinter) print(entries iter.Seq2[kernel.Entry, error], atOnce int) error {
	for e, err := range entries {
		if err != nil {
			return errors.Join(damaged(p.id, err), p.flush())
		}
		p.next, p.over = e.Seq+1, store.Final(e)
		for _, n := range p.apply(e) {
			if n.number >= p.from {
				p.waiting = append(p.waiting, n.line)
			}
		}
		if len(p.waiting) >= atOnce {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return p.flush()
}

// flush syncs the ledger and prints the waiting lines.
func (p *numberedPrinter) flush() error {
	if len(p.waiting) == 0 {
		return nil
	}
	if err := ledger.Settle(string(p.folder)); err != nil {
		return err
	}
	for _, line := range p.waiting {
		if err := printJSON(p.out, line); err != nil {
			return err
		}
	}
	p.waiting = p.waiting[:0]
	return nil
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
