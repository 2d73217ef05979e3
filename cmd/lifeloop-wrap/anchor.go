package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/evidence"
	"lifeloop/internal/durable"
	"lifeloop/internal/store"
	"lifeloop/lifeloop"
)

// pushTime is the time limit of one run of the command that publishes an anchor.
const pushTime = 30 * time.Second

// anchoring publishes the anchors of one session.
type anchoring struct {
	follow bool
	file   string
	push   func(ctx context.Context, line []byte) error // runs the command; nil if there is no command
	print  func(line []byte) error                      // is called if there is neither a file nor a command
	report func(index int, err error)                   // is called for each anchor that cannot be published; index is that of its checkpoint
	save   func(evidence.Anchor)                        // is called for each published anchor; nil to save nothing
	warn   func(text string)                            // is called if file needed a repair

	last   evidence.Anchor   // the newest anchor that an earlier process saved
	from   int               // the oldest checkpoint that an earlier process could not publish; 0 if there is none
	known  []evidence.Anchor // the session's anchors that file contained at the start
	failed int               // number of anchors that could not be published
}

func anchorCmd(g *globals) *cobra.Command {
	var a anchoring
	cmd := &cobra.Command{
		Use: "anchor SESSION [--follow] [--file FILE] [-- CMD [ARG…]]", Short: "Publish the digest of the newest checkpoint, or of each one", DisableFlagsInUseLine: true,
		Long: `anchor publishes an anchor, one line of JSON: the newest checkpoint of a
session's evidence, and its digest. With --follow it publishes an anchor for
every checkpoint so far and then for each new one, until the session ends. A
running session never waits for this command. With an anchor block in the
configuration, run itself publishes an anchor for each checkpoint.

Without --file and CMD the line is printed. --file appends each line to FILE,
unless FILE has it already. CMD is run for each line, even if FILE has it
already, and reads the line on its standard input.

Keep the lines where the user and the programs of the session cannot change or
remove them: evidence verify --anchor then detects that the end of a chain was
removed. An anchor that cannot be published is reported on stderr, the next ones
are still published, and the exit code is 1.`,
		Example: `  lifeloop-wrap evidence anchor last --follow --file /mnt/other-machine/anchors
  lifeloop-wrap evidence anchor last --follow -- git notes append -F -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); len(args) == 0 || n == 0 || n < 0 && len(args) > 1 || n > 1 {
				return usage("evidence anchor needs one session; write a command only after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			st, id, err := g.session(cmd, args[0])
			if err != nil {
				return err
			}
			a.print = func(line []byte) error { _, err := cmd.OutOrStdout().Write(line); return err }
			a.warn = func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "lifeloop-wrap: %s\n", text) }
			a.report = func(index int, err error) {
				fmt.Fprintf(cmd.ErrOrStderr(), "lifeloop-wrap: the anchor of checkpoint %d is not published: %v\n", index, err)
			}
			if len(args) > 1 {
				if _, err := exec.LookPath(args[1]); err != nil {
					return no(lifeloop.InvalidRequest, "%v", err)
				}
			}
			calls, err := beginCalls()
			if err != nil {
				return err
			}
			defer calls.end()
			if len(args) > 1 {
				a.push = calls.pusher(cmd, args[1:])
			}
			return a.run(calls.ctx, st, id)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&a.follow, "follow", false, "publish an anchor for each checkpoint until the session ends")
	f.StringVar(&a.file, "file", "", "`FILE` to append each line to")
	return cmd
}

func (a *anchoring) run(ctx context.Context, st store.Store, id string) error {
	if err := a.readFile(id); err != nil {
		return err
	}
	records := st.Folder(id).Records()
	if a.follow {
		records = st.Folder(id).FollowRecords(ctx, 1)
	}
	last, err := a.read(ctx, id, records)
	switch {
	case err != nil:
		return err
	case last.Index == 0 && !a.follow:
		return no(lifeloop.StateConflict, "session %s has no checkpoint", id).withHint("the first checkpoint is made when the harness runs")
	case last.Index > 0 && !a.follow:
		a.publish(ctx, last)
	}
	switch {
	case a.failed == 1:
		return no(lifeloop.TransportError, "1 anchor of session %s was not published", id)
	case a.failed > 1:
		return no(lifeloop.TransportError, "%d anchors of session %s were not published", a.failed, id)
	}
	return nil
}

// read returns the newest anchor of a ledger. With --follow it publishes each
// anchor.
func (a *anchoring) read(ctx context.Context, id string, records iter.Seq2[store.Record, error]) (last evidence.Anchor, err error) {
	x := evidence.NewExport()
	for r, err := range records {
		if err != nil {
			return last, damaged(id, err)
		}
		x.Apply(r.Entry, r.Digest)
		for {
			next, ok, err := x.NextAnchor()
			if err != nil {
				return last, no(lifeloop.InternalError, "session %s: %v", id, err)
			}
			if !ok {
				break
			}
			if last = next; a.follow {
				a.publish(ctx, next)
			}
		}
	}
	return last, nil
}

// readFile reads the session's anchors that are already in the file.
func (a *anchoring) readFile(id string) error {
	if a.file == "" {
		return nil
	}
	text, err := durable.ReadFile(a.file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(a.file)); err != nil {
			return no(lifeloop.InvalidRequest, "cannot append to %s: %v", a.file, err).withHint("make the folder first, or name a file in another one")
		}
		return nil
	}
	if err == nil {
		text, err = a.setAside(text)
	}
	if err != nil {
		return no(lifeloop.InvalidRequest, "cannot append to %s: %v", a.file, err).withHint("name a regular file that you may read and write")
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if a.known, err = evidence.ParseAnchors(text); err != nil {
		return no(lifeloop.InvalidRequest, "cannot append to %s: %v", a.file, err).withHint("the file must have anchors only, one on each line; name another file, or repair that line")
	}
	a.known = slices.DeleteFunc(a.known, func(k evidence.Anchor) bool { return k.SessionID != id })
	return nil
}

// setAside moves a last line that is torn, as after a crash during an append, to
// another file, and returns the text without it. If another line is not an anchor, it
// changes nothing.
func (a *anchoring) setAside(text []byte) ([]byte, error) {
	end := bytes.LastIndexByte(text, '\n') + 1
	torn := text[end:]
	if _, err := evidence.ParseAnchors(text[:end]); err != nil && len(bytes.TrimSpace(text[:end])) > 0 || !evidence.TornAnchor(torn) {
		return text, nil
	}
	aside := a.file + ".torn"
	if err := appendLine(aside, append(slices.Clone(torn), '\n')); err != nil {
		return nil, err
	}
	if err := os.Truncate(a.file, int64(end)); err != nil {
		return nil, err
	}
	a.warn(fmt.Sprintf("the last line of %s was incomplete, as after a crash, and was moved to %s", a.file, aside))
	return text[:end], nil
}

// publish appends one anchor to the file and passes it to the command, or prints it if
// there is neither. A failure is reported, and does not keep the next ones from being
// published.
func (a *anchoring) publish(ctx context.Context, next evidence.Anchor) {
	i := slices.IndexFunc(a.known, func(k evidence.Anchor) bool { return k.Index == next.Index })
	inFile := i >= 0 && a.known[i] == next
	again := a.from > 0 && next.Index >= a.from // an earlier process may not have published it
	if !again && (next.Index < a.last.Index || next == a.last) {
		return // the checkpoint was published before
	}
	line, err := json.Marshal(next)
	line = append(line, '\n')
	switch {
	case err != nil:
	case i >= 0 && !inFile:
		err = fmt.Errorf("%s has another digest for it: the session's evidence was rewritten", a.file)
	case next.Index == a.last.Index && next != a.last:
		err = errors.New("another digest was published for it: the session's evidence was rewritten")
	case a.file == "" && a.push == nil:
		err = a.print(line)
	default:
		if a.file != "" && !inFile {
			err = appendLine(a.file, line)
		}
		if a.push != nil {
			err = errors.Join(err, a.push(ctx, line))
		}
	}
	if err != nil {
		a.failed++
		a.report(next.Index, err)
	} else if a.save != nil {
		a.save(next)
	}
}

// appendLine appends a line to a file. If the file does not end with a newline, it adds
// one first.
func appendLine(file string, line []byte) error {
	f, err := durable.Open(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte("\n"), line...)
		}
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Sync(), f.Close())
}

// pusher returns a function that runs the command argv with one line as its input.
func (c *calls) pusher(cmd *cobra.Command, argv []string) func(ctx context.Context, line []byte) error {
	return func(ctx context.Context, line []byte) error {
		defer c.orphans.Reap() // not only at the end, because with --follow this process may run for days
		ctx, cancel := context.WithTimeout(ctx, pushTime)
		defer cancel()
		push := exec.CommandContext(ctx, argv[0], argv[1:]...)
		push.Stdin, push.Stdout, push.Stderr = bytes.NewReader(line), cmd.OutOrStdout(), cmd.ErrOrStderr()
		push.WaitDelay = time.Second
		if err := push.Run(); err != nil {
			return fmt.Errorf("%s: %w", argv[0], err)
		}
		return nil
	}
}
