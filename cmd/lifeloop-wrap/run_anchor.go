package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lifeloop/dispatch"
	"lifeloop/evidence/anchoring"
	"lifeloop/harness"
	"lifeloop/internal/store"
	"lifeloop/internal/vt"
	"lifeloop/lifeloop"
)

// anchors starts to publish the session's anchors, as the configuration says. An anchor
// has the digest of one checkpoint of the session's evidence. The result is nil if the
// configuration has no file and no command for anchors, or if the session has no ledger.
func (s *session) anchors(t *harness.Terminal) (*anchoring.Follower, error) {
	c := s.cfg.Anchor
	if s.ledger == nil || c.File == "" && len(c.Command) == 0 {
		return nil, nil
	}
	push, err := s.anchorCommand(t)
	if err != nil {
		return nil, err
	}
	a := &anchoring.Publisher{Session: s.id, File: c.File, Push: push}
	a.Warn = func(text string) { s.log.Warn().Msg(text) }
	a.Explain = func(err error) error {
		if f, ok := errors.AsType[*dispatch.Failure](err); ok {
			return errors.New("anchor.command: " + f.Why)
		}
		return err
	}
	a.Report = func(index int, err error) {
		s.log.Warn().Int("checkpoint", index).Err(err).Msg("cannot publish an anchor")
	}
	published, err := anchoring.Follow(s.folder, a)
	if err != nil {
		f := refused(lifeloop.InvalidRequest, "anchor.file: %v", err)
		f.hint = anchorFix(err)
		return nil, f
	}
	return published, nil
}

// anchorCommand returns the function that runs the configured command for anchors; nil if
// the configuration has no such command.
func (s *session) anchorCommand(t *harness.Terminal) (push func(ctx context.Context, line []byte) error, err error) {
	c := s.cfg.Anchor
	if len(c.Command) == 0 {
		return nil, nil
	}
	p := s.program(t)
	p.ID, p.Command, p.Timeout, p.Env = "anchor", c.Command, anchoring.PushTime, c.Of(os.Environ(), p.Env...)
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
