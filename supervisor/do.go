package supervisor

import (
	"context"
	"encoding/json"
	"strconv"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// A FrameCommand is what `frame open` and `frame close` send to a session.
type FrameCommand struct {
	Do      string `json:"do"` // open or close
	FrameID string `json:"frame_id"`
	Parent  string `json:"parent,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// A CommandAnswer is what a session answers to a command. FailureClass is
// empty when it was done.
type CommandAnswer struct {
	Error        string                `json:"error,omitempty"`
	FailureClass lifeloop.FailureClass `json:"failure_class,omitempty"`
	RetryClass   lifeloop.RetryClass   `json:"retry_class,omitempty"`
}

// CommandFrame is the name of the command that a FrameCommand is.
const CommandFrame = "frame"

// Do is called by the door for a command, in a goroutine of the connection's
// own.
func (s *supervisor) Do(ctx context.Context, name string, input []byte) []byte {
	answer := CommandAnswer{FailureClass: lifeloop.InvalidRequest, Error: "unknown command " + strconv.Quote(name)}
	var f FrameCommand
	if name == CommandFrame {
		if err := json.Unmarshal(input, &f); err != nil || f.Do != "open" && f.Do != "close" {
			answer.Error = "not a frame command"
		} else {
			answer = s.ask(ctx, f)
		}
	}
	answer.RetryClass = answer.FailureClass.DefaultRetry()
	out, _ := json.Marshal(answer) // strings only
	return out
}

// ask puts a command to the kernel and waits for its answer.
func (s *supervisor) ask(ctx context.Context, f FrameCommand) CommandAnswer {
	id := "ask_" + strconv.FormatUint(s.hookN.Add(1), 10)
	replied := make(chan kernel.Reply, 1)
	s.hooksMu.Lock()
	s.asks[id] = replied
	s.hooksMu.Unlock()
	defer func() {
		s.hooksMu.Lock()
		delete(s.asks, id)
		s.hooksMu.Unlock()
	}()
	s.post(kernel.FrameAsked{Ask: id, Open: f.Do == "open", Frame: f.FrameID, Parent: f.Parent, Outcome: f.Outcome})
	select {
	case r := <-replied:
		return CommandAnswer{Error: r.Why, FailureClass: r.Failure}
	case <-ctx.Done():
		return CommandAnswer{Error: "the session has ended", FailureClass: lifeloop.StateConflict}
	}
}

func (s *supervisor) reply(e kernel.Reply) {
	s.hooksMu.Lock()
	replied := s.asks[e.Ask]
	s.hooksMu.Unlock()
	if replied != nil {
		replied <- e // has room: a question is answered once
	}
}
