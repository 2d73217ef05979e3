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

// A reader is a command that prints the ledger of a session in some form.
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
	cmd.Flags().BoolVar(&r.follow, "follow", false, "wait for more until the session ends")
}

func eventsCmd(g *globals) *cobra.Command {
	r := reader{g: g}
	as, callbacks := "lifeloop", false
	cmd := &cobra.Command{
		Use:   "events SESSION",
		Short: "Print the events of a session as JSON Lines",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			render, err := rendering(as, callbacks, &view.L0{})
			if err != nil {
				return err
			}
			if as == "hcp" || as == "l0" {
				return r.numbered(cmd, args[0], render)
			}
			return r.each(cmd, args[0], func(e kernel.Entry) error { return printLines(cmd.OutOrStdout(), render(e)) })
		},
	}
	r.flags(cmd)
	cmd.Flags().Uint64Var(&r.from, "from", 0, "first sequence number `SEQ` to print; with --as hcp and l0, that form's own")
	cmd.Flags().StringVar(&as, "as", as, "`FORM` of the events: lifeloop, hcp, l0 or facts")
	cmd.Flags().BoolVar(&callbacks, "callbacks", false, "with --as l0, print each event's callbacks after it")
	return cmd
}

// A line is one line of output and its number: that of the ledger's entry, or
// the one that the form itself counts.
type line struct {
	number uint64
	value  any
}

// A renderer turns the entries of one session, in order, into lines.
type renderer func(kernel.Entry) []line

// rendering returns the renderer for a value of --as. L0 is the view to use for
// "l0".
func rendering(as string, callbacks bool, l0 *view.L0) (renderer, error) {
	if callbacks && as != "l0" {
		return nil, usage("--callbacks needs --as l0")
	}
	switch as {
	case "lifeloop":
		return func(e kernel.Entry) []line {
			if ev, ok := view.Event(e.Fact); ok {
				return []line{{e.Seq, ev}}
			}
			return nil
		}, nil
	case "facts":
		return func(e kernel.Entry) []line {
			return []line{{e.Seq, map[string]any{"seq": e.Seq, "at": e.At, "kind": kernel.Kind(e.Fact), "fact": e.Fact}}}
		}, nil
	case "hcp":
		var hcp view.HCP
		return func(e kernel.Entry) (lines []line) {
			for _, m := range hcp.Apply(e) {
				lines = append(lines, line{m.Payload.Sequence, m})
			}
			return lines
		}, nil
	case "l0":
		return func(e kernel.Entry) (lines []line) {
			for _, ev := range l0.Apply(e) {
				lines = append(lines, line{ev.Seq, ev})
				if callbacks {
					for _, c := range view.L0Callbacks(ev) {
						lines = append(lines, line{ev.Seq, c})
					}
				}
			}
			return lines
		}, nil
	}
	return nil, usage("--as %s: want lifeloop, hcp, l0 or facts", as)
}

func printLines(out io.Writer, lines []line) error {
	for _, l := range lines {
		if err := printJSON(out, l.value); err != nil {
			return err
		}
	}
	return nil
}

// settledTogether is how many lines share one sync of the ledger.
const settledTogether = 256

// numbered prints a session in a form that counts its own events, so the
// ledger is read from its beginning, whatever --from is. The ledger is synced
// before a line is printed (DECISIONS F3): otherwise a crash of the machine
// could take an event back and give its number to another one.
func (r *reader) numbered(cmd *cobra.Command, session string, render renderer) error {
	st, id, err := r.g.session(cmd, session)
	if err != nil {
		return err
	}
	p := numberedPrinter{id: id, folder: st.Folder(id), out: cmd.OutOrStdout(), from: r.from, render: render}
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
	render  renderer
	next    uint64 // entry of the ledger
	over    bool   // the session's last entry was read
	waiting []line // lines to print after a sync
}

// print prints what the entries become, atOnce lines or more after each sync.
func (p *numberedPrinter) print(entries iter.Seq2[kernel.Entry, error], atOnce int) error {
	for e, err := range entries {
		if err != nil {
			return errors.Join(damaged(p.id, err), p.flush())
		}
		p.next, p.over = e.Seq+1, store.Final(e)
		for _, l := range p.render(e) {
			if l.number >= p.from {
				p.waiting = append(p.waiting, l)
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
	if err := printLines(p.out, p.waiting); err != nil {
		return err
	}
	p.waiting = p.waiting[:0]
	return nil
}

func receiptsCmd(g *globals) *cobra.Command {
	r := reader{g: g}
	cmd := &cobra.Command{
		Use:   "receipts SESSION",
		Short: "Print the receipts of a session as JSON Lines",
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
