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
				return r.each(cmd, args[0], func(e kernel.Entry) error { return printEvent(out, e) })
			case "facts":
				return r.each(cmd, args[0], func(e kernel.Entry) error { return printFact(out, e) })
			}
			if as == "hcp" {
				return r.hcp(cmd, args[0])
			}
			if as == "l0" {
				return usage("--as l0: this version has no L0 view yet").withHint("--as hcp tells the session, --as facts everything there is")
			}
			return usage("--as %s: want lifeloop, hcp or facts", as)
		},
	}
	r.flags(cmd)
	cmd.Flags().Uint64Var(&r.from, "from", 0, "begin at this `SEQ`: of the ledger, or with --as hcp the session's own")
	cmd.Flags().StringVar(&as, "as", as, "`FORM`: lifeloop, hcp or facts")
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

// settledTogether is how many envelopes wait for one sync of what they were read from.
const settledTogether = 256

// hcp prints the session as HCP L2 tells it. Its numbers count events, so the
// ledger is read from its beginning whatever --from says. What is printed is on
// the disk first (DECISIONS F3): else a crash of the machine could take an
// event back, and give its number to another one.
func (r reader) hcp(cmd *cobra.Command, session string) error {
	st, id, err := r.g.session(cmd, session)
	if err != nil {
		return err
	}
	first, follow := r.from, r.follow
	var hcp view.HCP
	var waiting []view.HCPMessage
	over := false
	flush := func() error {
		if len(waiting) == 0 {
			return nil
		}
		if err := ledger.Settle(st.path(id)); err != nil {
			return err
		}
		for _, m := range waiting {
			if err := printJSON(cmd.OutOrStdout(), m); err != nil {
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
			for _, m := range hcp.Apply(e) {
				if m.Payload.Sequence >= first {
					waiting = append(waiting, m)
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
