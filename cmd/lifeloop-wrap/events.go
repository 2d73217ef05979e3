package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"lifeloop/harness"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/kernel"
	"lifeloop/ledger"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

// A reader is a command that prints a session in some form, line by line.
type reader struct {
	g      *globals
	follow bool
	from   uint64 // the number of the first line to print
}

func (r *reader) flags(cmd *cobra.Command, from string) {
	cmd.Flags().BoolVar(&r.follow, "follow", false, "wait for more lines until the session ends")
	cmd.Flags().Uint64Var(&r.from, "from", 0, "print from sequence number `SEQ` on, "+from)
}

// printedTogether is the number of lines of existing entries that are printed as one
// group. The ledger is synced at most once for each group.
const printedTogether = 256

// print prints the lines of a session. With --follow it continues until the
// session ends or a signal arrives.
//
// numbered means that the output form selected by --as numbers its events itself. In
// this case the ledger is always read from its beginning, and it is synced before a line
// is printed (DECISIONS F3). Without the sync, a crash of the machine could remove an
// event that was already printed, and its number would be given to another event.
func (r *reader) print(cmd *cobra.Command, session string, render renderer, numbered bool) error {
	st, id, err := r.g.session(cmd, session)
	if err != nil {
		return err
	}
	ctx, stop := cmd.Context(), func() {}
	if r.follow {
		ctx, stop = harness.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	}
	defer stop()
	folder, next, over := st.Folder(id), r.from, false
	if numbered {
		next = 0
	}
	var waiting []line
	flush := func() error {
		if numbered && len(waiting) > 0 {
			if err := ledger.Settle(string(folder)); err != nil {
				return err
			}
		}
		err := printLines(cmd.OutOrStdout(), waiting)
		waiting = waiting[:0]
		return err
	}
	read := func(entries iter.Seq2[kernel.Entry, error], atOnce int) error {
		for e, err := range entries {
			if err != nil {
				return errors.Join(damaged(id, err), flush())
			}
			next, over = e.Seq+1, store.Final(e)
			for _, l := range render(e) {
				if l.number >= r.from {
					waiting = append(waiting, l)
				}
			}
			if len(waiting) >= atOnce {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	}
	// Existing entries are printed in groups, new ones immediately.
	if err := read(folder.Facts(next), printedTogether); err != nil || !r.follow || over {
		return err
	}
	return read(folder.Follow(ctx, next), 1)
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
			return r.print(cmd, args[0], render, as == "hcp" || as == "l0")
		},
	}
	r.flags(cmd, "as counted in the ledger; with --as hcp or l0, as counted in that form")
	formFlags(cmd, &as, &callbacks)
	return cmd
}

func formFlags(cmd *cobra.Command, as *string, callbacks *bool) {
	cmd.Flags().StringVar(as, "as", *as, "`FORM` of the events: lifeloop, hcp, l0 or facts")
	cmd.Flags().BoolVar(callbacks, "callbacks", false, "with --as l0, print after each event its L0 callbacks, such as onStart")
}

// A line is one line of output. If the output form selected by --as numbers its events
// itself, number is that number. Otherwise it is the sequence number of the ledger entry.
type line struct {
	number uint64
	value  any
}

// A renderer turns the entries of one session, in order, into lines.
type renderer func(kernel.Entry) []line

// rendering returns the renderer for as, the value of --as. If as is "l0", the renderer
// makes its lines with the view that the parameter l0 points to.
func rendering(as string, callbacks bool, l0 *view.L0) (renderer, error) {
	if callbacks && as != "l0" {
		return nil, usage("--callbacks needs --as l0")
	}
	switch as {
	case "lifeloop":
		return eventLines, nil
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

func receiptsCmd(g *globals) *cobra.Command {
	r := reader{g: g}
	cmd := &cobra.Command{
		Use:   "receipts SESSION",
		Short: "Print the receipts of a session as JSON Lines",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.print(cmd, args[0], receiptLines, false)
		},
	}
	r.flags(cmd, "as counted in the ledger")
	return cmd
}

func receiptLines(e kernel.Entry) []line {
	if rc, ok := view.Receipt(e.Fact); ok {
		return []line{{e.Seq, rc}}
	}
	return nil
}

func eventLines(e kernel.Entry) []line {
	if ev, ok := view.Event(e.Fact); ok {
		return []line{{e.Seq, ev}}
	}
	return nil
}

// An eventsFile is the file of --events. It stays open until the process ends.
type eventsFile struct {
	path string
	out  io.Writer // nil without --events
	err  error     // the first write error
}

// openEvents opens the file of --events. It does not wait: a FIFO without a reader is an
// error.
func openEvents(path string) (*eventsFile, error) {
	f := os.Stderr
	switch path {
	case "":
		return &eventsFile{}, nil
	case "-":
	default:
		var err error
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o600); err != nil {
			return nil, refused(lifeloop.InternalError, "open the events file: %v", err)
		}
	}
	return &eventsFile{path: path, out: vt.NewFilter(f)}, nil
}

// append appends the durable event or receipt of an entry. A full disk must not end
// a session whose ledger still works, so an error is reported at the end.
func (f *eventsFile) append(e kernel.Entry) {
	if f.out == nil {
		return
	}
	for _, l := range slices.Concat(eventLines(e), receiptLines(e)) {
		text, err := json.Marshal(l.value)
		if err == nil {
			_, err = f.out.Write(append(text, '\n'))
		}
		f.err = cmp.Or(f.err, err)
	}
}

// warn reports that some lines could not be written.
func (f *eventsFile) warn(w io.Writer, asJSON bool) {
	switch {
	case f.err == nil:
	case asJSON:
		_ = printJSON(w, struct {
			Warning string `json:"warning"`
			Path    string `json:"path"`
			Why     string `json:"why"`
		}{"events_missing", f.path, f.err.Error()})
	default:
		fmt.Fprintf(w, "lifeloop-wrap: --events %s: some lines are missing: %s\n", vt.Plain(f.path), vt.Plain(f.err.Error()))
	}
}
