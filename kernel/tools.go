package kernel

import (
	"cmp"
	"time"

	"lifeloop/telemetry"
)

// This file tracks the harness's own tool calls. Several sources may report a call,
// so the ids of returned calls are kept, to drop late reports of them:
//
//	tool start ──► in flight ──► past
//	tool end ────────────────────▲

// A toolCall is a call in flight.
type toolCall struct {
	name  string
	began time.Time
}

type (
	// ToolCalled and ToolReturned record the harness's own tool call: the
	// name, and only digest and size of arguments and result (DECISIONS F1).
	ToolCalled struct {
		Tool string           `json:"tool"` // the id of the call
		Name string           `json:"name"`
		Args *telemetry.Sized `json:"arguments,omitempty"`
	}
	ToolReturned struct {
		Tool       string           `json:"tool"`
		Name       string           `json:"name"`
		Result     *telemetry.Sized `json:"result,omitempty"`
		Error      string           `json:"error,omitempty"` // type of the error; empty for success
		DurationMS int64            `json:"duration_ms"`
	}
)

func (ToolCalled) key() (string, bool)   { return "tool_called", false }
func (ToolCalled) apply(*Kernel)         {}
func (ToolReturned) key() (string, bool) { return "tool_returned", false }
func (ToolReturned) apply(*Kernel)       {}

// maxTools limits the ids of ended calls that are kept, and the calls in flight, which
// are far fewer. Older ids are not needed, because all sources report a turn at about
// the same time.
const maxTools = 1000

// shift postpones the timers of the calls in flight by the length of a pause.
func (a *activity) shift(pause time.Duration, now time.Time) {
	for id, call := range a.soft.flying {
		call.began = shifted(call.began, pause, now)
		a.soft.flying[id] = call
	}
}

// tool handles the tool calls in a signal of the current harness session.
func (a *activity) tool(s *step, sig telemetry.Signal) {
	switch sig.Kind {
	case telemetry.ToolStart:
		a.called(s, sig)
	case telemetry.ToolEnd:
		a.returned(s, sig)
	case telemetry.Prompt, telemetry.TurnEnd, telemetry.SessionLive, telemetry.SessionGone:
		clear(a.soft.flying)
	case telemetry.UsageSeen:
		// The model answered: a wait for a limit is over, and a wedged harness works again.
		if a.is(limitWait) && s.attempts.answers(sig) || a.is(wedged) {
			a.signal(s, working, sig)
		}
	}
}

func (a *activity) called(s *step, sig telemetry.Signal) {
	s.attempts.worked()
	if _, known := a.soft.flying[sig.Tool]; known || sig.Tool == "" || a.soft.past[sig.Tool] || len(a.soft.flying) >= maxTools {
		return
	}
	a.soft.flying[sig.Tool] = toolCall{name: sig.ToolName, began: s.now}
	s.record(ToolCalled{Tool: sig.Tool, Name: sig.ToolName, Args: sig.Args})
	s.attempts.tool(s, sig.ToolName, sig.Args)
}

// returned records the result of a call once, even if the call itself was missed.
func (a *activity) returned(s *step, sig telemetry.Signal) {
	s.attempts.worked()
	if sig.Tool == "" || a.soft.past[sig.Tool] {
		return
	}
	call, known := a.soft.flying[sig.Tool]
	f := ToolReturned{Tool: sig.Tool, Name: cmp.Or(sig.ToolName, call.name), Result: sig.Result, Error: sig.ToolError}
	if known {
		f.DurationMS = s.now.Sub(call.began).Milliseconds()
	}
	delete(a.soft.flying, sig.Tool)
	a.remember(sig.Tool)
	s.record(f)
}

func (a *activity) remember(id string) {
	a.soft.past[id] = true
	a.soft.pastIn = append(a.soft.pastIn, id)
	if len(a.soft.pastIn) > maxTools {
		delete(a.soft.past, a.soft.pastIn[0])
		a.soft.pastIn = a.soft.pastIn[1:]
	}
}

// toolBegan returns the time from which the duration of the oldest call in flight is
// measured: the start of the call, or the time at which the harness last stopped waiting
// for input or an approval, whichever is later.
func (a *activity) toolBegan() time.Time {
	_, call := a.oldest()
	if call.began.Before(a.soft.freed) {
		return a.soft.freed
	}
	return call.began
}

// oldest returns the call that has been in flight for the longest time.
func (a *activity) oldest() (id string, oldest toolCall) {
	for tool, call := range a.soft.flying {
		if id == "" || call.began.Before(oldest.began) || call.began.Equal(oldest.began) && tool < id {
			id, oldest = tool, call
		}
	}
	return id, oldest
}
