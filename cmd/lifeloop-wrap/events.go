//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// reader is a command that prints a session's facts, one form or another.
type reader struct {
	g      *globals
	follow bool
	from   uint64
}

// each feeds every entry to print; with follow until the session is over.
func (r *reader) each(cmd *cobra.Command, session string, print func(kernel.Entry) error) error {
	st, id, err := r.g.session(cmd, session)
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
				return damaged(id, err)
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

// damaged says that a ledger cannot be read to its end.
func damaged(id string, err error) *failure {
	return no(lifeloop.StateConflict, "session %s: %v", id, err).withHint("lifeloop-wrap ledger verify %s says more", id)
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

// numbered prints the session in a tongue that counts its own events, so the
// ledger is read from its beginning whatever --from says. What is printed is on
// the disk first (DECISIONS F3): else a crash of the machine could take an
// event back, and give its number to another one.
func (r reader) numbered(cmd *cobra.Command, session string, apply func(kernel.Entry) []numbered) error {
	st, id, err := r.g.session(cmd, session)
	if err != nil {
		return err
	}
	first, follow := r.from, r.follow
	var waiting []any
	over := false
	flush := func() error {
		if len(waiting) == 0 {
			return nil
		}
		if err := ledger.Settle(st.path(id)); err != nil {
			return err
		}
		for _, line := range waiting {
			if err := printJSON(cmd.OutOrStdout(), line); err != nil {
				return err
			}
		}
		waiting = waiting[:0]
		return nil
	}
	read := func(from uint64, atOnce int, follow bool) (next uint64, err error) {
		next = from
		r.from, r.follow = from, follow
		err = r.each(cmd, id, func(e kernel.Entry) error {
			next = e.Seq + 1
			m, ok := e.Fact.(kernel.SessionMoved)
			over = over || ok && m.To.Terminal()
			for _, n := range apply(e) {
				if n.number >= first {
					waiting = append(waiting, n.line)
				}
			}
			if len(waiting) < atOnce {
				return nil
			}
			return flush()
		})
		return next, errors.Join(err, flush())
	}
	// What is there already is synced once for many, what comes is not kept
	// waiting.
	next, err := read(0, settledTogether, false)
	if err == nil && follow && !over {
		_, err = read(next, 1, true)
	}
	return err
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
