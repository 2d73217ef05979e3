package supervisor

import (
	"context"
	"errors"
	"syscall"
	"time"

	"lifeloop/harness"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
)

// A launched is one launch. After the start, a field changes only if its comment
// names an owner.
type launched struct {
	number  int
	plan    Plan
	child   Child              // owned by the loop; nil unless the harness runs
	started Child              // the harness, also after its end
	stop    context.CancelFunc // ends the reading of the launch's sources
	drained chan struct{}      // closed when the launch's sources were read to their end
	// questions is set if the launch has a plugin that streams events, or its harness
	// asks before each request to its model; otherwise nil.
	questions *questions
	runs      bool // owned by the loop; the harness was started, and Launched was passed to the kernel
	left      bool // owned by the loop; a process outlived the harness, or the guard was lost
	// graceEnd is owned by the loop. Until that time, processes of the harness's tree
	// may clean up.
	graceEnd time.Time
	// typed is owned by the goroutine that types. It says what was typed when the harness
	// was last reset in place (see Keys).
	typed harness.Typed
	over  bool // owned by the loop; set when the launch is finished and its further inputs are dropped
}

// temporary reports whether a launch failed because the machine lacked a resource,
// so that a retry may succeed.
func temporary(err error) bool {
	for _, short := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, short) {
			return true
		}
	}
	return false
}

// launch prepares a launch and starts it.
func (s *supervisor) launch(e effect.Launch) {
	l := &launched{number: e.Number, drained: make(chan struct{})}
	child, err := s.start(e, l)
	if err != nil {
		l.over = true
		code := 125
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			code = coded.ExitCode()
		}
		s.results = append(s.results, input.LaunchFailed{Code: code, Why: err.Error(), Transient: temporary(err)})
		return
	}
	l.child, l.started = child, child
	if l.plan.Callers != nil {
		l.plan.Callers.Launched(child.PID())
	}
	in := input.Launched{PID: child.PID(), Containment: l.plan.Containment}
	if m := l.plan.Setup.Manifest; m.AdapterID != "" {
		checkManifest(m)
	}
	if e.Number > 1 || s.o.Restart {
		in.Setup = &l.plan.Setup
	}
	s.results = append(s.results, in)
	s.follow(l)
	s.wg.Go(func() { s.postOf(l.number, child.Wait()) })
}

func (s *supervisor) start(e effect.Launch, l *launched) (Child, error) {
	plan, err := s.p.Launcher.Prepare(e)
	if err != nil {
		return nil, err
	}
	l.plan = plan
	if plan.Requests != nil {
		l.questions = newQuestions(plan.Requests)
	}
	s.current.Store(l) // stored before the harness can call a hook
	return plan.Start(func(in input.Input) { s.postOf(l.number, in) }, s.settle)
}

// follow starts reading the sources of a launch.
func (s *supervisor) follow(l *launched) {
	ctx, stop := context.WithCancel(s.ctx)
	l.stop = stop
	if l.plan.Asking != nil {
		s.serveQuestions(ctx, l)
	}
	if l.plan.Sources == nil {
		close(l.drained)
		return
	}
	l.plan.Sources.Launched(l.child.PID())
	s.wg.Go(func() {
		defer close(l.drained)
		if err := l.plan.Sources.Run(ctx, func(in input.Input) { s.postOf(l.number, in) }); err != nil {
			s.postOf(l.number, input.SourceTrouble{Source: watcher, What: input.TroubleStopped, Read: readNames(l.plan.Sources)})
			s.o.Log.Error().Err(err).Msg("cannot watch the harness's files")
		}
	})
}

// drain reads the sources of a launch once more to their ends, and then posts
// SourcesDrained. If another launch may follow, or a process outlived the harness, drain
// first waits, for a limited time, until the whole tree has ended: if two launches wrote
// the same files, their records could not be distinguished.
func (s *supervisor) drain(l *launched) {
	child := l.started
	left, wait := l.left, max(time.Until(l.graceEnd), 0)+treeTime
	s.wg.Go(func() {
		if s.o.Relaunch || left {
			patience := time.NewTimer(wait)
			defer patience.Stop()
			select {
			case <-child.Gone():
			case <-patience.C:
				s.o.Log.Warn().Int("launch", l.number).Msg("a process of the harness's tree cannot be killed")
			case <-s.ctx.Done():
			}
		}
		if l.questions != nil {
			l.questions.drained(s.ctx)
		}
		l.stop()
		<-l.drained
		s.copyTranscripts(l)
		if l.plan.Ended != nil {
			l.plan.Ended()
		}
		killed, more := child.Killed()
		s.postOf(l.number, input.SourcesDrained{Killed: killed, More: more})
	})
}

// copyTranscripts copies the transcripts of a launch into the session's folder. It is
// called after the sources of the launch were read to their end.
func (s *supervisor) copyTranscripts(l *launched) {
	if s.p.CopyTranscript == nil {
		return
	}
	for _, path := range transcripts(l.plan.Sources) {
		s.postOf(l.number, input.TranscriptCopy(s.p.CopyTranscript(path)))
	}
}

// transcripts lists the files of the harness's conversations that sources have read.
func transcripts(sources Sources) []string {
	if files, ok := sources.(interface{ Transcripts() []string }); ok {
		return files.Transcripts()
	}
	return nil
}

// suspend performs Suspend or Continue: it stops the harness and every process below it,
// or continues them.
func (s *supervisor) suspend(e effect.Effect) {
	child := s.child()
	if child == nil {
		return
	}
	do, what := child.Hold, "cannot suspend the harness's process tree"
	if _, on := e.(effect.Continue); on {
		do = func() error { return errors.Join(child.Free(), child.Continue()) } // also Continue, because another process may have stopped the harness
		what = "cannot continue the stopped processes of the harness"
	}
	if err := do(); err != nil {
		s.o.Log.Warn().Err(err).Msg(what)
	}
}

// child returns the running harness; nil if none runs.
func (s *supervisor) child() Child {
	if l := s.current.Load(); l != nil {
		return l.child
	}
	return nil
}

// stop performs the effect Stop. KILL goes to the tree even after the harness has
// ended, because other processes of the tree can outlive it.
func (s *supervisor) stop(e effect.Stop) {
	child := s.child()
	if l := s.current.Load(); e.Tree && l != nil {
		child = l.started
	}
	if child == nil {
		return
	}
	var err error
	if e.Tree {
		err = child.KillTree()
	} else {
		s.current.Load().graceEnd = time.Now().Add(e.Grace)
		err = errors.Join(child.Stop(syscall.Signal(e.Signal), e.Grace), child.Continue())
	}
	if err != nil {
		s.o.Log.Warn().Err(err).Int("signal", e.Signal).Bool("tree", e.Tree).Msg("cannot stop the harness")
	}
}
