package supervisor

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"lifeloop/harness"
	"lifeloop/kernel/input"
	"lifeloop/telemetry"
)

// A Harness is one program to be run in the outer terminal.
type Harness struct {
	Spec     harness.Spec
	Terminal *harness.Terminal
	// OSC decodes the terminal's operating system commands (OSC sequences) that
	// Spec.OSC lists; nil if it lists none.
	OSC telemetry.Decoder
	// Shown, if not nil, receives the signals that OSC decodes, and must post them. It must
	// not block.
	Shown func([]telemetry.Signal)
	Log   zerolog.Logger
}

// Start starts the harness. It posts what happens in the terminal: output, stops and
// continuations, signals of OSC sequences, and whether the user has begun a line.
func (h *Harness) Start(post func(input.Input), settle func()) (Child, error) {
	child, err := harness.Start(h.Spec, h.Terminal, &sink{post: post, settle: settle, osc: h.OSC, shown: h.Shown, log: h.Log})
	if err != nil {
		return nil, startError{err}
	}
	return running{child}, nil
}

type startError struct{ error }

func (e startError) Unwrap() error { return e.error }

// ExitCode returns the exit code that env(1) uses: 126 not executable, 127 not
// found, 125 any other error.
func (e startError) ExitCode() int {
	var s *harness.StartError
	if errors.As(e.error, &s) {
		return s.Code
	}
	return 125
}

type running struct{ *harness.Child }

// KillTree kills the harness's process tree. It also stops waiting for a stalled
// reader of the output, so that the run can end.
func (r running) KillTree() error {
	r.Abandon()
	return r.Child.KillTree()
}

func (r running) Killed() (named []input.Process, more int) {
	return Named(r.Child.Killed())
}

// Named converts killed processes into the form in which the kernel records them.
func Named(killed harness.Killed) (named []input.Process, more int) {
	for _, p := range killed.Processes {
		named = append(named, input.Process(p))
	}
	return named, killed.More
}

func (r running) Wait() input.ChildExited {
	e := r.Child.Wait()
	in := input.ChildExited{Code: e.Code, Signal: int(e.Signal), Leftover: e.Leftover, Lost: e.GuardLost, OutputLost: e.OutputLost != nil,
		Interrupted: e.Interrupted}
	if in.Signal != 0 {
		in.Code = 0
	}
	return in
}

// A sink turns the harness's output into inputs.
type sink struct {
	post   func(input.Input)
	settle func()
	shown  func([]telemetry.Signal)
	log    zerolog.Logger
	// lost is the number of bytes that were lost so far. skipped is the number of lost
	// lines that the next posted text will report. The reading goroutine owns both.
	lost, skipped int64
	mu            sync.Mutex // guards the fields below, which two goroutines use
	osc           telemetry.Decoder
	last          []telemetry.Signal // the signals that were posted last
	at            time.Time          // when the signals in last were posted
}

// sameAgain is the time for which repetitions of the same signals are dropped. A title
// may change many times a second and give the same signals each time.
const sameAgain = time.Second

func (s *sink) Output(total, lines int64) {
	s.post(input.OutputSeen{Total: total, Lines: lines})
}

func (s *sink) Text(stream int, b []byte, total int64) {
	s.post(input.OutputSeen{Total: total, Stream: stream, Text: b, Skipped: s.skipped})
	s.skipped = 0
}

// TextLost posts, once in a launch, that a part of the output was dropped before the
// guardrails (the policy's rules about output) could check it.
func (s *sink) TextLost(bytes, lines int64) {
	s.skipped += lines
	if s.lost == 0 {
		s.post(input.SourceTrouble{Source: "terminal", What: input.TroubleOverflow})
	}
	s.lost += bytes
	s.log.Warn().Int64("bytes", bytes).Int64("so_far", s.lost).Msg("output came faster than it could be examined; a part was not examined")
}

func (s *sink) OSC(_ int, text string) {
	if s.osc == nil {
		return
	}
	s.mu.Lock()
	signals := s.osc.Decode([]byte(text))
	now := time.Now()
	news := len(signals) > 0 && !(slices.Equal(signals, s.last) && now.Sub(s.at) < sameAgain)
	if news {
		s.last, s.at = slices.Clone(signals), now
	}
	s.mu.Unlock()
	switch {
	case !news:
	case s.shown != nil:
		s.shown(signals)
	default:
		s.post(input.SignalsSeen{Signals: signals})
	}
}

func (s *sink) Line(begun bool) { s.post(input.LineSeen{Begun: begun}) }

func (s *sink) Continued() { s.post(input.ChildContinued{}) }

// Stopped waits for the ledger, because the wrapper's process may be stopped next.
// Without an entry about the stop, the session would appear to be running.
func (s *sink) Stopped(sig syscall.Signal) {
	s.post(input.ChildStopped{Signal: int(sig)})
	s.settle()
}
