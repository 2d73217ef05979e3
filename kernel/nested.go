package kernel

import (
	"cmp"
	"fmt"

	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// This file lets a client open its own frames within the live harness session,
// below other frames if it wants (DECISIONS L20). The wire contract (package lifeloop)
// says: "frame_class = subcall requires parent_frame_id; top_level forbids it."

// clientSource is the evidence source of frames that a client opened.
const clientSource = "client"

func frameContext(id, parent string) *lifeloop.FrameContext {
	if parent == "" {
		return &lifeloop.FrameContext{FrameID: id, FrameClass: lifeloop.TopLevel}
	}
	return &lifeloop.FrameContext{FrameID: id, FrameClass: lifeloop.Subcall, ParentFrameID: &parent}
}

// requestFrame opens or closes a client's frame, or refuses the request.
func (s *step) requestFrame(in input.FrameRequested) {
	failure, why := s.frameRefusal(in)
	what := "frame close"
	if in.Open {
		what = "frame open"
	}
	s.record(CommandReceived{What: what, Frame: in.Frame, Failure: failure})
	s.do(effect.Reply{Ask: in.Ask, Failure: failure, Why: why})
	if failure != "" {
		return
	}
	ev := []lifeloop.Evidence{{Source: clientSource, Detail: what}}
	if in.Open {
		s.emit(emission{event: lifeloop.FrameOpening, frame: in.Frame, parent: in.Parent, evidence: ev, data: map[string]any{}})
		s.openFrame(in.Frame, ev)
		return
	}
	s.turns.endFrame(s, in.Frame, cmp.Or(in.Outcome, string(telemetry.Completed)), "", ev)
}

// frameRefusal returns why a request is refused; empty if it is accepted.
func (s *step) frameRefusal(in input.FrameRequested) (lifeloop.FailureClass, string) {
	if err := lifeloop.Validate(*frameContext(in.Frame, in.Parent)); err != nil {
		return lifeloop.InvalidRequest, err.Error()
	}
	f := s.turns.frame(in.Frame)
	switch hs := s.scopes.current(); {
	case s.session.ledgerLost():
		return lifeloop.InternalError, ledgerRefuses
	case hs == nil || !hs.Started || hs.Ending || s.attempts.exit() != nil:
		return lifeloop.StateConflict, "no harness session is live"
	case in.Open && f.ID != "":
		return lifeloop.StateConflict, fmt.Sprintf("frame %s is already open", in.Frame)
	case in.Open && s.turns.past(in.Frame):
		return lifeloop.StateConflict, fmt.Sprintf("frame %s was closed; a frame id can be used only once", in.Frame)
	case in.Open && in.Parent != "" && s.turns.frame(in.Parent).ID == "":
		return lifeloop.StateConflict, fmt.Sprintf("parent frame %s is not open", in.Parent)
	case in.Open:
		return "", ""
	case f.ID == "":
		return lifeloop.StateConflict, fmt.Sprintf("frame %s is not open", in.Frame)
	case !f.Client:
		return lifeloop.StateConflict, fmt.Sprintf("frame %s was not opened by a client", in.Frame)
	}
	switch in.Outcome {
	case "", "completed", "failed", "interrupted", "abandoned":
		return "", ""
	}
	return lifeloop.InvalidRequest, "outcome: want completed, failed, interrupted or abandoned"
}

// closeInner ends the frames below a frame that ends, innermost first.
func (t *turns) closeInner(s *step, id string, ev []lifeloop.Evidence) {
	for {
		inner := ""
		for _, f := range t.hard.Frames {
			if f.Parent == id {
				inner = f.ID // after the loop, the newest frame below id
			}
		}
		if inner == "" {
			return
		}
		t.close(s, inner, ev)
	}
}
