package supervisor

import (
	"errors"
	"sync"
	"syscall"

	"github.com/rs/zerolog"

	"lifeloop/harness"
	"lifeloop/kernel"
	"lifeloop/telemetry"
)

// Harness launches one program in the outer terminal.
type Harness struct {
	Spec     harness.Spec
	Terminal *harness.Terminal
	// OSC decodes the terminal's operating system commands that Spec.OSC names;
	// nil when there are none.
	OSC telemetry.Decoder
	Log zerolog.Logger

	mu    sync.Mutex     // guards what follows: clients start on goroutines of their own
	child *harness.Child // nil before the launch
	early map[int]bool   // processes that were started before there was a guard to tell
}

// Launch starts the harness and begins to tell of it.
func (h *Harness) Launch(post func(kernel.Input)) (Child, error) {
	child, err := harness.Start(h.Spec, h.Terminal, &sink{post: post, osc: h.OSC})
	if err != nil {
		return nil, startError{err}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.child = child
	for pid := range h.early {
		child.Own(pid)
	}
	return running{child}, nil
}

// Release gives the terminal back.
func (h *Harness) Release() { h.Terminal.Restore() }

// Own tells the guard of a process that must not outlive us; Disown that it is
// gone.
func (h *Harness) Own(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.child != nil {
		h.child.Own(pid)
		return
	}
	if h.early == nil {
		h.early = map[int]bool{}
	}
	h.early[pid] = true
}

func (h *Harness) Disown(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.child != nil {
		h.child.Disown(pid)
	}
	delete(h.early, pid)
}

type startError struct{ error }

func (e startError) Unwrap() error { return e.error }

// ExitCode is what a shell would give: 126, 127, or 125.
func (e startError) ExitCode() int {
	var s *harness.StartError
	if errors.As(e.error, &s) {
		return s.Code
	}
	return 125
}

type running struct{ *harness.Child }

func (r running) Resume() error { return r.Signal(syscall.SIGCONT) }

func (r running) Wait() kernel.ChildExited {
	e := r.Child.Wait()
	in := kernel.ChildExited{Code: e.Code, Signal: int(e.Signal), Leftover: e.Leftover, Lost: e.GuardLost}
	if in.Signal != 0 {
		in.Code = 0
	}
	return in
}

// sink turns what the terminal tells into inputs.
type sink struct {
	post func(kernel.Input)
	mu   sync.Mutex // guards osc: two goroutines may tell at once
	osc  telemetry.Decoder
}

func (s *sink) Output(total int64) { s.post(kernel.OutputSeen{Total: total}) }

func (s *sink) OSC(_ int, text string) {
	if s.osc == nil {
		return
	}
	s.mu.Lock()
	signals := s.osc.Decode([]byte(text))
	s.mu.Unlock()
	if len(signals) > 0 {
		s.post(kernel.SignalsSeen{Signals: signals})
	}
}

func (s *sink) Stopped(sig syscall.Signal) { s.post(kernel.ChildStopped{Signal: int(sig)}) }
func (s *sink) Continued()                 { s.post(kernel.ChildContinued{}) }
