package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/internal/durable"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
	"lifeloop/view"
)

func hcpCmd(g *globals) *cobra.Command {
	cmd := group(&cobra.Command{Use: "hcp", Short: `Read the output of "lifeloop-wrap events --as hcp"`})
	cmd.AddCommand(hcpConsumeCmd(g))
	return cmd
}

func hcpConsumeCmd(g *globals) *cobra.Command {
	var state string
	var window int
	var hold time.Duration
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Order HCP events and drop duplicates",
		Long: `consume reads HCP envelopes as JSON Lines on stdin, of any number of sessions, in
any order and with duplicates. It prints each event once and in the order of its
session, with its line unchanged. An event that comes too late for this order is
dropped. Standard error gets a line for each gap, each event that arrives after it
was reported missing or after the end of its session, each event with an implausible
number, each session that is forgotten because too many are open, and each line that
is not an envelope.`,
		Example: `  lifeloop-wrap events last --as hcp --follow | lifeloop-wrap hcp consume --state seen.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case window < 0:
				return usage("--window must be 0 or more")
			case hold < 0:
				return usage("--window-time must be 0 or more")
			}
			c := consumption{HCPConsumer: view.NewHCPConsumer(window, hold), file: state, json: g.json,
				out: bufio.NewWriter(cmd.OutOrStdout()), warnings: cmd.ErrOrStderr()}
			if state != "" {
				release, err := c.restore()
				if err != nil {
					return err
				}
				defer release()
			}
			return c.run(cmd.InOrStdin())
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "`FILE` to record the processed events in (default none)")
	cmd.Flags().IntVar(&window, "window", view.HCPWindow, "hold back at most `N` events of a session while an earlier one is missing")
	durationFlag(cmd.Flags(), &hold, "window-time", view.HCPWindowTime, "hold an event back for at most this time")
	return cmd
}

// A consumption is one run of consume.
type consumption struct {
	*view.HCPConsumer
	file     string // path of the state file; may be empty
	json     bool
	out      *bufio.Writer
	warnings io.Writer

	line    int // number of the newest input line
	pending int // events and warnings printed since the state was written
}

// restore reads the state and locks its file.
func (c *consumption) restore() (release func(), err error) {
	lock, err := durable.Lock(c.file + ".lock")
	if locked, ok := errors.AsType[*durable.LockedError](err); ok {
		return nil, no(lifeloop.StateConflict, "%s is in use by process %d", c.file, locked.PID)
	}
	if err != nil {
		return nil, err
	}
	// The lock file is never removed, because another process may be about to lock
	// it.
	release = func() { _ = lock.Unlock() }
	doc, err := durable.ReadLinked(c.file, maxArtifact)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = c.save() // if the state file cannot be written, fail before any event is processed
	case err == nil:
		if err = c.Restore(doc); err != nil {
			err = no(lifeloop.StateConflict, "%s: %v", c.file, err).withHint("with another --state FILE, all events are processed again")
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// An inputLine is one line of the input, or an error.
type inputLine struct {
	text []byte
	err  error
}

// run consumes the input to its end. It records printed events as processed
// before it waits for more input, and after every atMost events. Events that
// were not recorded because of a crash are printed again by the next run.
func (c *consumption) run(in io.Reader) error {
	const atMost = 256
	lines := make(chan inputLine, 64)
	go readLines(in, lines) // this goroutine ends with the input or with the process
	for {
		var due <-chan time.Time
		if len(lines) == 0 || c.pending >= atMost {
			if err := c.processed(); err != nil {
				return err
			}
			if at, ok := c.Deadline(); ok {
				due = time.After(time.Until(at))
			}
		}
		var err error
		select {
		case <-due:
			err = c.print(c.Wake(time.Now()))
		case next, more := <-lines:
			if more {
				err = c.consume(next)
			} else if err = c.print(c.End()); err == nil {
				return c.processed()
			}
		}
		if err != nil {
			return err
		}
	}
}

// errLong is the error of a line that exceeds longestLine.
var errLong = errors.New("the line is longer than 16 MiB")

// longestLine is the longest line that is accepted, in bytes.
const longestLine = 16 << 20

// readLines sends each line. A line that is too long is dropped and reported. A
// read error is reported and ends the input.
func readLines(in io.Reader, lines chan<- inputLine) {
	defer close(lines)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		var next inputLine
		part, err := r.ReadSlice('\n')
		for ; ; part, err = r.ReadSlice('\n') {
			if next.err == nil && len(next.text)+len(part) > longestLine {
				next = inputLine{err: errLong}
			}
			if next.err == nil {
				next.text = append(next.text, part...)
			}
			if err != bufio.ErrBufferFull {
				break
			}
		}
		if next.err != nil || len(next.text) > 0 {
			lines <- next
		}
		if err != nil {
			if err != io.EOF {
				lines <- inputLine{err: err}
			}
			return
		}
	}
}

func (c *consumption) consume(in inputLine) error {
	now := time.Now()
	if err := c.print(c.Wake(now)); err != nil {
		return err
	}
	if in.err != nil && in.err != errLong {
		return fmt.Errorf("read the input: %w", in.err)
	}
	c.line++
	if in.err == nil && len(bytes.TrimSpace(in.text)) == 0 {
		return nil
	}
	var e view.HCPEnvelope
	err := in.err
	if err == nil {
		e, err = view.ParseHCPEvent(in.text)
	}
	if err != nil {
		return c.warn(map[string]any{"warning": "not_an_envelope", "line": c.line, "why": err.Error()},
			fmt.Sprintf("not an envelope: line %d: %v", c.line, err))
	}
	return c.print(c.See(now, e))
}

// print prints events and warnings.
func (c *consumption) print(out []view.HCPOutcome) error {
	for _, o := range out {
		c.pending++
		if n := o.Warning; n != nil {
			numbers := fmt.Sprint("event ", n.From)
			if n.To > n.From {
				numbers = fmt.Sprintf("events %d to %d", n.From, n.To)
			}
			text := fmt.Sprintf("gap: session %s: missing %s", n.SessionID, numbers)
			switch n.Warning {
			case "late":
				text = fmt.Sprintf("late: session %s: %s arrived after it was reported missing; dropped", n.SessionID, numbers)
			case "implausible":
				text = fmt.Sprintf("implausible: session %s: no other event has a number near that of %s; dropped", n.SessionID, numbers)
			case "closed":
				text = fmt.Sprintf("closed: session %s: %s arrived after the end of the session; dropped", n.SessionID, numbers)
			case "forgotten":
				text = fmt.Sprintf("forgotten: session %s, because too many sessions are open; printed up to %s", n.SessionID, numbers)
			}
			if err := c.warn(n, text); err != nil {
				return err
			}
			continue
		}
		_, _ = c.out.Write(o.Event.Line)
		if err := c.out.WriteByte('\n'); err != nil { // if the Write above failed, WriteByte returns the same error
			return err
		}
	}
	return nil
}

func (c *consumption) warn(v any, text string) error {
	if c.json {
		return printJSON(c.warnings, v)
	}
	_, err := fmt.Fprintf(c.warnings, "lifeloop-wrap: %s\n", vt.Plain(text))
	return err
}

// processed flushes the printed events, then records them as processed.
func (c *consumption) processed() error {
	if err := c.out.Flush(); err != nil {
		return err
	}
	printed := c.pending > 0
	c.pending = 0
	if !printed || c.file == "" {
		return nil
	}
	return c.save()
}

func (c *consumption) save() error {
	doc, err := c.State()
	if err != nil {
		return err
	}
	return durable.WriteFile(c.file, doc, 0o600)
}
