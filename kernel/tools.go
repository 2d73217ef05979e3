package kernel

import (
	"cmp"
	"time"

	"lifeloop/telemetry"
)

// This file follows the harness's own calls of tools: which are in flight, for
// silence is no wonder meanwhile, and what of them is told.

// tools is soft state: the calls in flight, and the names of those that are
// over, because several sources tell of each.
type tools struct {
	flying map[string]toolCall
	past   map[string]bool
	pastIn []string // oldest first
}

type toolCall struct {
	name  string
	began time.Time
}

// maxTools is more than any model calls at once; what is beyond is not
// followed. It also bounds how many calls that are over are remembered: those
// of one turn, that is, for sources tell of the same turn at about one time.
const maxTools = 1000

// toolSignal folds a signal of the current harness session.
func (s *step) toolSignal(sig telemetry.Signal) {
	switch sig.Kind {
	case telemetry.ToolStart:
		s.toolCalled(sig)
	case telemetry.ToolEnd:
		s.toolReturned(sig)
	case telemetry.Prompt, telemetry.TurnEnd, telemetry.SessionLive, telemetry.SessionGone:
		clear(s.soft.tools.flying)
	case telemetry.UsageSeen:
		// The model answered, so it does not wait for a limit any more.
		if d := &s.soft.doing; d.what == limitWait || d.what == wedged {
			s.active(working, sig)
		}
	}
}

func (s *step) toolCalled(sig telemetry.Signal) {
	t, a := &s.soft.tools, &s.soft.attempt
	a.did = true
	if _, known := t.flying[sig.Tool]; known || sig.Tool == "" || t.past[sig.Tool] || len(t.flying) >= maxTools {
		return
	}
	if t.flying == nil {
		t.flying = map[string]toolCall{}
	}
	t.flying[sig.Tool] = toolCall{name: sig.ToolName, began: s.now}
	s.record(ToolCalled{Tool: sig.Tool, Name: sig.ToolName, Args: sig.Args})
	if sig.Args != nil && a.watch != nil && a.stopWhy == "" && a.watch.Tool(sig.ToolName, sig.Args.Digest) {
		s.drifted()
	}
}

// toolReturned records a result, once. One without a call is told too: its
// start may have been missed.
func (s *step) toolReturned(sig telemetry.Signal) {
	t := &s.soft.tools
	s.soft.attempt.did = true
	if sig.Tool == "" || t.past[sig.Tool] {
		return
	}
	call, known := t.flying[sig.Tool]
	f := ToolReturned{Tool: sig.Tool, Name: cmp.Or(sig.ToolName, call.name), Result: sig.Result, Error: sig.ToolError}
	if known {
		f.DurationMS = s.now.Sub(call.began).Milliseconds()
	}
	delete(t.flying, sig.Tool)
	t.remember(sig.Tool)
	s.record(f)
}

func (t *tools) remember(id string) {
	if t.past == nil {
		t.past = map[string]bool{}
	}
	t.past[id] = true
	t.pastIn = append(t.pastIn, id)
	if len(t.pastIn) > maxTools {
		delete(t.past, t.pastIn[0])
		t.pastIn = t.pastIn[1:]
	}
}

// oldest is the call that has been in flight for longest.
func (t *tools) oldest() (id string, oldest toolCall, any bool) {
	for tool, call := range t.flying {
		if !any || call.began.Before(oldest.began) || call.began.Equal(oldest.began) && tool < id {
			id, oldest, any = tool, call, true
		}
	}
	return id, oldest, any
}
