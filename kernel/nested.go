package kernel

import (
	"fmt"

	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// This file keeps the frame tree: a recursive client opens frames of its own
// under the live session (DECISIONS L20). "subcall requires parent_frame_id,
// top_level forbids it."

// clientSource is the evidence source of frames that a client opened.
const clientSource = "client"

func frameContext(id, parent string) *lifeloop.FrameContext {
	if parent == "" {
		return &lifeloop.FrameContext{FrameID: id, FrameClass: lifeloop.TopLevel}
	}
	return &lifeloop.FrameContext{FrameID: id, FrameClass: lifeloop.Subcall, ParentFrameID: &parent}
}

// frameAsked opens or closes a client's frame, or says why not.
func (s *step) frameAsked(in FrameRequested) {
	class, why := s.frameRefusal(in)
	what := "frame close"
	if in.Open {
		what = "frame open"
	}
	s.record(CommandReceived{What: what, Frame: in.Frame, Failure: class})
	s.do(Reply{Ask: in.Ask, Failure: class, Why: why})
	if class != "" {
		return
	}
	ev := []lifeloop.Evidence{{Source: clientSource, Detail: what}}
	if in.Open {
		s.tell(telling{event: lifeloop.FrameOpening, frame: in.Frame, parent: in.Parent, evidence: ev, data: map[string]any{}})
		s.frameOpened(in.Frame, ev)
		return
	}
	outcome := in.Outcome
	if outcome == "" {
		outcome = string(telemetry.Completed)
	}
	s.endFrame(in.Frame, outcome, class, ev)
}

// frameRefusal says what is wrong with a wish, if anything is.
func (s *step) frameRefusal(in FrameRequested) (lifeloop.FailureClass, string) {
	context := frameContext(in.Frame, in.Parent)
	if err := context.Validate(); err != nil {
		return lifeloop.InvalidRequest, err.Error()
	}
	hs := s.current()
	switch {
	case s.soft.lame:
		return lifeloop.InternalError, "the ledger is lost, and nothing is acted on any more"
	case hs == nil || !hs.Started || hs.Ending || s.hard.Exit != nil:
		return lifeloop.StateConflict, "no harness session is live"
	case in.Open && s.hard.frame(in.Frame).ID != "":
		return lifeloop.StateConflict, fmt.Sprintf("frame %s is open already", in.Frame)
	case in.Open && s.hard.Past[in.Frame]:
		return lifeloop.StateConflict, fmt.Sprintf("frame %s was closed; an id is used once", in.Frame)
	case in.Open && in.Parent != "" && s.hard.frame(in.Parent).ID == "":
		return lifeloop.StateConflict, fmt.Sprintf("parent frame %s is not open", in.Parent)
	case in.Open:
		return "", ""
	case s.hard.frame(in.Frame).ID == "":
		return lifeloop.StateConflict, fmt.Sprintf("frame %s is not open", in.Frame)
	case !s.hard.frame(in.Frame).Client:
		return lifeloop.StateConflict, fmt.Sprintf("frame %s is the harness's own", in.Frame)
	}
	switch in.Outcome {
	case "", "completed", "failed", "interrupted", "abandoned":
		return "", ""
	}
	return lifeloop.InvalidRequest, "outcome: want completed, failed, interrupted or abandoned"
}

// endInner ends what is still open below a frame that ends, innermost first: a
// child that outlives its parent is closed first.
func (s *step) endInner(id string, ev []lifeloop.Evidence) {
	for {
		inner := ""
		for _, f := range s.hard.Frames {
			if f.Parent == id {
				inner = f.ID // the newest one
			}
		}
		if inner == "" {
			return
		}
		s.closeFrame(inner, ev)
	}
}
