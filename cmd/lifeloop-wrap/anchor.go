package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"lifeloop/evidence/anchoring"
	"lifeloop/internal/store"
	"lifeloop/lifeloop"
)

func anchorCmd(g *globals) *cobra.Command {
	var a anchoring.Publisher
	follow := false
	cmd := &cobra.Command{
		Use: "anchor SESSION [--follow] [--file FILE] [-- CMD [ARG…]]", Short: "Publish the digest of the newest checkpoint, or of each one", DisableFlagsInUseLine: true,
		Long: `anchor publishes an anchor, one line of JSON: the newest checkpoint of a
session's evidence, and its digest. With --follow it publishes an anchor for
every checkpoint so far and then for each new one, until the session ends. A
running session never waits for this command. With an anchor block in the
configuration, lifeloop-wrap run publishes an anchor for each checkpoint.

Without --file and CMD the line is printed. --file appends each line to FILE,
unless FILE has it already. CMD is run for each line, even if FILE has it
already, and reads the line on its standard input.

Keep the lines where the user and the programs of the session cannot change or
remove them: evidence verify --anchor then detects that the end of a session's
chain or journal was removed. An anchor that cannot be published is reported on
stderr, the next ones are still published, and the exit code is 1.`,
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
			a.Print = func(line []byte) error { _, err := cmd.OutOrStdout().Write(line); return err }
			a.Warn = func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "lifeloop-wrap: %s\n", text) }
			a.Report = func(index int, err error) {
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
				a.Push = calls.pusher(cmd, args[1:])
			}
			a.Session = id
			return publishAnchors(calls.ctx, &a, st, follow)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&follow, "follow", false, "publish an anchor for each checkpoint until the session ends")
	f.StringVar(&a.File, "file", "", "`FILE` to append each line to")
	return cmd
}

// publishAnchors publishes the anchor of a session's newest checkpoint: a line of JSON with
// the checkpoint's digest (see package anchoring). If follow is set, it publishes an anchor
// for each checkpoint, until the session ends.
func publishAnchors(ctx context.Context, a *anchoring.Publisher, st store.Store, follow bool) error {
	id := a.Session
	if err := a.Open(); err != nil {
		f := no(lifeloop.InvalidRequest, "%v", err)
		f.hint = anchorFix(err)
		return f
	}
	if follow {
		if err := a.Each(ctx, st.Folder(id).FollowRecords(ctx, 1)); err != nil {
			return unreadAnchors(id, err)
		}
	} else {
		last, err := anchoring.Newest(id, st.Folder(id).Records())
		if err != nil {
			return unreadAnchors(id, err)
		}
		if last.Index == 0 {
			return no(lifeloop.StateConflict, "session %s has no checkpoint", id).withHint("the first checkpoint is made as soon as the harness has started")
		}
		a.Publish(ctx, last)
	}
	switch n := a.Failed(); {
	case n == 1:
		return no(lifeloop.TransportError, "1 anchor of session %s was not published", id)
	case n > 1:
		return no(lifeloop.TransportError, "%d anchors of session %s were not published", n, id)
	}
	return nil
}

// unreadAnchors converts an error that occurred while a session's checkpoints were read.
func unreadAnchors(id string, err error) *failure {
	if e, ok := errors.AsType[*anchoring.ReadError](err); ok {
		return damaged(id, e.Err)
	}
	return no(lifeloop.InternalError, "%v", err)
}

// anchorFix returns the hint for the user if err is about the file for anchors, and
// nothing otherwise.
func anchorFix(err error) string {
	if e, ok := errors.AsType[*anchoring.FileError](err); ok {
		return e.Fix
	}
	return ""
}

// pusher returns a function that runs the command argv with one line as its input.
func (c *calls) pusher(cmd *cobra.Command, argv []string) func(ctx context.Context, line []byte) error {
	return func(ctx context.Context, line []byte) error {
		defer c.orphans.Reap() // after each line, because with --follow this process may run for days and ended orphans would accumulate
		ctx, cancel := context.WithTimeout(ctx, anchoring.PushTime)
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
