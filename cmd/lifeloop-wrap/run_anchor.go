package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"lifeloop/dispatch"
	"lifeloop/evidence"
	"lifeloop/harness"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

// anchors publishes the checkpoints of a session that this process runs, as
// the configuration says. Like any other reader it follows the ledger, so the
// running session never waits for it. At the end of the session, wait returns
// when all checkpoints are published, after [pushTime], or at a signal. If
// the session did not end, wait returns at once.
func (s *session) anchors(t *harness.Terminal) (wait func(ended bool, signals <-chan os.Signal) store.Published, err error) {
	c := s.cfg.Anchor
	if s.ledger == nil || c.File == "" && len(c.Command) == 0 {
		return func(bool, <-chan os.Signal) store.Published { return store.Published{} }, nil
	}
	push, err := s.anchorCommand(t)
	if err != nil {
		return nil, err
	}
	state := s.folder.Published()
	if state.Failed > 0 && state.From == 0 {
		state.From = 1 // an earlier version of this program, which had no From, stored the state
	}
	a := &anchoring{follow: true, file: c.File, push: push, last: state.Last, from: state.From}
	a.warn = func(text string) { s.log.Warn().Msg(text) }
	if err := a.readFile(s.id); err != nil {
		f := refused(lifeloop.InvalidRequest, "anchor.file: %v", err)
		if inner, ok := errors.AsType[*failure](err); ok {
			f.hint = inner.hint
		}
		return nil, f
	}
	a.save = func(next evidence.Anchor) {
		if next.Index > state.Last.Index {
			state.Last = next
		}
		switch {
		case a.failed > 0:
		case next.Index >= a.last.Index: // every checkpoint that an earlier wrapper tried to publish is published now
			state.From, state.Failed, state.Why = 0, 0, ""
		case next.Index == state.From:
			state.From++
		}
		s.folder.SavePublished(state)
	}
	a.report = func(index int, err error) {
		if f, ok := errors.AsType[*dispatch.Failure](err); ok {
			err = errors.New("anchor.command: " + f.Why)
		}
		state.Why = err.Error()
		if index >= a.last.Index {
			state.Failed = a.failed
		} else {
			state.Failed = max(state.Failed, a.failed) // other checkpoints that an earlier wrapper could not publish are tried after this one
		}
		if state.From == 0 || index < state.From {
			state.From = max(index, 1)
		}
		s.folder.SavePublished(state)
		s.log.Warn().Int("checkpoint", index).Err(err).Msg("cannot publish an anchor")
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		last, err := a.read(ctx, s.id, s.folder.FollowRecords(ctx, 1))
		if err == nil && ctx.Err() != nil && state.Failed == 0 {
			err = errors.New("stopped before the last checkpoint was published")
		}
		if err != nil {
			a.failed++
			a.report(last.Index, err)
		}
	}()
	return func(ended bool, signals <-chan os.Signal) store.Published {
		if !ended {
			stop()
		}
		select {
		case <-done:
		case <-signals:
		case <-time.After(pushTime):
		}
		stop()
		<-done
		return state
	}, nil
}

// anchorCommand returns the function that runs the command of the configuration, or nil
// without one.
func (s *session) anchorCommand(t *harness.Terminal) (push func(ctx context.Context, line []byte) error, err error) {
	c := s.cfg.Anchor
	if len(c.Command) == 0 {
		return nil, nil
	}
	p := s.program(t)
	p.ID, p.Command, p.Timeout, p.Env = "anchor", c.Command, pushTime, c.Of(os.Environ(), p.Env...)
	p.StderrFile = filepath.Join(string(s.folder), "anchor.stderr")
	program, err := dispatch.NewOneshot(p)
	if err != nil {
		return nil, usage("anchor.command: %v", err)
	}
	return func(ctx context.Context, line []byte) error {
		_, err := program.Call(ctx, line)
		return err
	}, nil
}

// warnUnpublished reports checkpoints that are not published. Like warnFailing it is
// called after the terminal was restored.
func warnUnpublished(w io.Writer, id string, p store.Published, asJSON bool) {
	switch {
	case p.Failed == 0:
	case asJSON:
		_ = printJSON(w, map[string]any{"warning": "anchors_not_published", "session_id": id, "failed": p.Failed, "why": p.Why})
	default:
		fmt.Fprintf(w, "lifeloop-wrap: session %s: %s\n", id, vt.Plain(p.Text()))
	}
}
