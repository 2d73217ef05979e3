package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"lifeloop/canon"
	"lifeloop/dispatch"
	"lifeloop/harness"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
)

// A Renewer runs the programs of the active renewal profiles, and stores their
// tokens. An error may be a [*dispatch.Failure].
type Renewer interface {
	// Asks returns the profile for which a client's answer asks for a renewal; empty
	// if it asks for none.
	Asks(client string, answer []byte) string
	// Reads returns the names of the top-level JSON members by which a client's answers
	// can ask for a renewal.
	Reads(client string) []string
	// Prepare runs the prepare command, and stores the token that it prints.
	Prepare(ctx context.Context, r effect.RenewalRef) (digest string, expires *time.Time, err error)
	// Continue consumes the token and runs the continue command.
	Continue(ctx context.Context, r effect.RenewalRef, digest string) (lifeloop.Opaque, error)
	// Discard removes a token that will not be used.
	Discard(r effect.RenewalRef, digest string) error
}

// errNoRenewer is the failure of a renewal that began before the wrapper died, if the
// recovered session has no active profile.
var errNoRenewer = &dispatch.Failure{Class: lifeloop.InternalError, Why: "no renewal profile is active"}

// prepareRenewal runs a prepare command. A token that arrives after the time limit
// is removed.
func (s *supervisor) prepareRenewal(e effect.PrepareRenewal) {
	s.renewing(e.Renewal, e.Timeout, func(ctx context.Context) input.Input {
		in := input.RenewalPrepared{Renewal: e.Renewal}
		var err error = errNoRenewer
		if s.p.Renewer != nil {
			in.Digest, in.Expires, err = s.p.Renewer.Prepare(ctx, e.RenewalRef)
		}
		if err == nil && ctx.Err() != nil {
			s.discardToken(effect.DiscardToken{RenewalRef: e.RenewalRef, Digest: in.Digest})
		}
		in.Failure, in.Why = failureOf(err)
		return in
	})
}

// continueRenewal runs a continue command.
func (s *supervisor) continueRenewal(e effect.ContinueRenewal) {
	s.renewing(e.Renewal, e.Timeout, func(ctx context.Context) input.Input {
		in := input.RenewalContinued{Renewal: e.Renewal}
		var err error = errNoRenewer
		if s.p.Renewer != nil {
			in.Text, err = s.p.Renewer.Continue(ctx, e.RenewalRef, e.Digest)
		}
		in.Digest = string(canon.Sum([]byte(in.Text.Reveal())))
		in.Failure, in.Why = failureOf(err)
		return in
	})
}

// renewing runs a command of a renewal until it ends or is canceled.
func (s *supervisor) renewing(id string, timeout time.Duration, run func(context.Context) input.Input) {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	s.cancel[id] = cancel
	s.wg.Go(func() {
		defer cancel()
		s.post(run(ctx))
	})
}

// Keys are the keys that reset a harness in place: with them, the running harness begins
// a fresh session.
type Keys struct {
	Reset []harness.Stroke // typed on an empty line
	Aside []harness.Stroke // typed before Reset if the user has begun a line; if nil, Reset is typed only on an empty line
	Back  []harness.Stroke // typed after the strokes that undo Reset, if Aside was typed
	// Threads is a folder in which the harness locks a file for each session that it
	// has begun; empty if it has none.
	Threads string
}

// A typist is a child that can type keys into its harness. LineTaken corrects what the
// child has recorded about the user's input line, after the line was sent as a prompt.
// Locked lists the files in a folder that the harness's processes have locked.
type typist interface {
	Type(context.Context, harness.Typing) (harness.Typed, error)
	Locked(dir string) []string
	LineTaken()
}

// After the keys were typed, the locks in Threads are read every lookEvery, for at most
// lookFor, which is longer than the kernel waits for a fresh session.
const (
	lookEvery = 50 * time.Millisecond
	lookFor   = 20 * time.Second
)

// typeKeys performs the effect TypeKeys on the newest launch: it types the keys, or
// sends a request to our plugin.
func (s *supervisor) typeKeys(e effect.TypeKeys) {
	l := s.current.Load()
	ctx, cancel := context.WithCancel(s.ctx)
	s.cancel[e.Renewal] = cancel
	s.wg.Go(func() {
		defer cancel()
		in := input.KeysTyped{Renewal: e.Renewal, Undo: e.Undo}
		child, _ := l.started.(typist)
		before := l.threads(child)
		reset := func(ctx context.Context, undo bool) error { return l.typeKeys(ctx, child, undo) }
		if l.plan.Resets {
			reset = func(ctx context.Context, undo bool) error { return s.askFresh(ctx, l, e.Renewal, undo) }
		}
		err := reset(ctx, e.Undo)
		switch {
		case errors.Is(err, errReported):
			return
		case errors.Is(err, harness.ErrLine):
			in.Busy = true
		case err != nil:
			in.Failure = err.Error()
		}
		s.postOf(l.number, in)
		if err == nil && !e.Undo && l.plan.Keys.Threads != "" {
			s.look(l, child, e.Renewal, before)
		}
	})
}

// threads lists the files that the harness has locked for its sessions.
func (l *launched) threads(child typist) []string {
	if child == nil || l.plan.Keys.Threads == "" {
		return nil
	}
	return child.Locked(l.plan.Keys.Threads)
}

// look waits until the harness locks the file of a new session, and posts FreshSeen.
// before lists the files that were locked before the keys were typed.
func (s *supervisor) look(l *launched, child typist, renewal string, before []string) {
	ctx, cancel := context.WithTimeout(s.ctx, lookFor)
	defer cancel()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-l.started.Gone():
			return
		case <-ctx.Done():
			return
		}
		for _, name := range l.threads(child) {
			if id, is := strings.CutSuffix(name, ".lock"); is && !strings.HasPrefix(name, ".") && !slices.Contains(before, name) {
				s.postOf(l.number, input.FreshSeen{Renewal: renewal, ID: id, Source: "threads", Detail: name})
				return
			}
		}
		again.Reset(lookEvery)
	}
}

func (l *launched) typeKeys(ctx context.Context, child typist, undo bool) error {
	if child == nil {
		return errors.New("there is no harness to type into")
	}
	keys := l.plan.Keys
	if undo {
		_, err := child.Type(ctx, harness.Typing{Strokes: keys.undo(l.typed), Follows: true})
		return err
	}
	var err error
	l.typed, err = child.Type(ctx, harness.Typing{Strokes: keys.Reset, Aside: keys.Aside})
	return err
}

// undo returns the strokes that undo the typed strokes.
func (k Keys) undo(typed harness.Typed) (strokes []harness.Stroke) {
	for _, s := range slices.Backward(k.Reset[:typed.Strokes]) {
		if s.Undo != "" {
			strokes = append(strokes, harness.Stroke{Keys: s.Undo, Then: undoPause})
		}
	}
	if typed.Aside {
		strokes = append(strokes, k.Back...)
	}
	return strokes
}

// undoPause is the pause after keys that undo a typed stroke.
const undoPause = 200 * time.Millisecond

// failureOf returns the class and the reason of a failed command. The reason never
// quotes a program's output.
func failureOf(err error) (lifeloop.FailureClass, string) {
	if f, is := errors.AsType[*dispatch.Failure](err); is {
		return f.Class, f.Why
	}
	if err != nil {
		return lifeloop.InternalError, "the program could not be run"
	}
	return "", ""
}

func (s *supervisor) discardToken(e effect.DiscardToken) {
	if s.p.Renewer == nil {
		return
	}
	if err := s.p.Renewer.Discard(e.RenewalRef, e.Digest); err != nil {
		s.o.Log.Warn().Err(err).Str("renewal", e.Renewal).Msg("cannot remove an unused continuation token")
	}
}
