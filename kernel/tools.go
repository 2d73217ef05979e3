package kernel

import (
	"cmp"
	"time"

	"lifeloop/telemetry"
)

// tools are the harness's own calls of tools. Silence is normal while one is in
// flight. Several sources report each call, so the ids of calls that are over
// are kept as well:
//
//	tool start ──► in flight ──► past
//	tool end ────────────────────▲
type tools struct {
	soft struct {
		flying map[string]toolCall
		past   map[string]bool
		pastIn []string // oldest first
	}
}

type toolCall struct {
	name  string
	began time.Time
}

type (
	// ToolCalled and ToolReturned record the harness's own call of a tool: its
	// name, and only digest and size of arguments and result (DECISIONS F1).
	ToolCalled struct {
		Tool string           `json:"tool"` // the call's id
		Name string           `json:"name"`
		Args *telemetry.Sized `json:"arguments,omitempty"`
	}
	ToolReturned struct {
		Tool       string           `json:"tool"`
		Name       string           `json:"name"`
		Result     *telemetry.Sized `json:"result,omitempty"`
		Error      string           `json:"error,omitempty"` // its type; empty for success
		DurationMS int64            `json:"duration_ms"`
	}
)

func (ToolCalled) apply(*Kernel)   {}
func (ToolReturned) apply(*Kernel) {}

// maxTools bounds the calls in flight, which are far fewer, and the memory of
// calls that are over: sources report the same turn at about one time.
const maxTools = 1000

func newTools() (t tools) {
	t.soft.flying, t.soft.past = map[string]toolCall{}, map[string]bool{}
	return t
}

func (t *tools) any() bool { return len(t.soft.flying) > 0 }

// launching forgets the launch before.
func (t *tools) launching() { *t = newTools() }

// shift moves the timers of the calls in flight on by the length of a pause.
func (t *tools) shift(pause time.Duration, now time.Time) {
	for id, call := range t.soft.flying {
		call.began = shifted(call.began, pause, now)
		t.soft.flying[id] = call
	}
}

// signal folds a signal of the current harness session.
func (t *tools) signal(s *step, sig telemetry.Signal) {
	switch sig.Kind {
	case telemetry.ToolStart:
		t.called(s, sig)
	case telemetry.ToolEnd:
		t.returned(s, sig)
	case telemetry.Prompt, telemetry.TurnEnd, telemetry.SessionLive, telemetry.SessionGone:
		clear(t.soft.flying)
	case telemetry.UsageSeen:
		// The model answered, so the harness does not wait for a limit any more.
		if s.activity.is(limitWait) || s.activity.is(wedged) {
			s.activity.signal(s, working, sig)
		}
	}
}

func (t *tools) called(s *step, sig telemetry.Signal) {
	s.attempts.worked()
	if _, known := t.soft.flying[sig.Tool]; known || sig.Tool == "" || t.soft.past[sig.Tool] || len(t.soft.flying) >= maxTools {
		return
	}
	t.soft.flying[sig.Tool] = toolCall{name: sig.ToolName, began: s.now}
	s.record(ToolCalled{Tool: sig.Tool, Name: sig.ToolName, Args: sig.Args})
	s.attempts.tool(s, sig.ToolName, sig.Args)
}

// returned records a result, once, and also one whose call was missed.
func (t *tools) returned(s *step, sig telemetry.Signal) {
	s.attempts.worked()
	if sig.Tool == "" || t.soft.past[sig.Tool] {
		return
	}
	call, known := t.soft.flying[sig.Tool]
	f := ToolReturned{Tool: sig.Tool, Name: cmp.Or(sig.ToolName, call.name), Result: sig.Result, Error: sig.ToolError}
	if known {
		f.DurationMS = s.now.Sub(call.began).Milliseconds()
	}
	delete(t.soft.flying, sig.Tool)
	t.remember(sig.Tool)
	s.record(f)
}

func (t *tools) remember(id string) {
	t.soft.past[id] = true
	t.soft.pastIn = append(t.soft.pastIn, id)
	if len(t.soft.pastIn) > maxTools {
		delete(t.soft.past, t.soft.pastIn[0])
		t.soft.pastIn = t.soft.pastIn[1:]
	}
}

// oldest is the call that has been in flight for longest.
func (t *tools) oldest() (id string, oldest toolCall, any bool) {
	for tool, call := range t.soft.flying {
		if !any || call.began.Before(oldest.began) || call.began.Equal(oldest.began) && tool < id {
			id, oldest, any = tool, call, true
		}
	}
	return id, oldest, any
}
