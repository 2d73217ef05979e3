package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"lifeloop/kernel"
	"lifeloop/lifeloop"
)

// The commands that a session takes at its door.
const (
	CommandFrame  = "frame" // a FrameCommand
	CommandPause  = "pause" // a SessionCommand, and so are all below
	CommandResume = "resume"
	CommandAbort  = "abort"
	CommandRenew  = "renew"
)

// A FrameCommand is what `frame open` and `frame close` send to a session.
type FrameCommand struct {
	Do      string `json:"do"` // open or close
	FrameID string `json:"frame_id"`
	Parent  string `json:"parent,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// A SessionCommand is what `pause`, `resume`, `abort` and `renew` send to a session.
type SessionCommand struct {
	// Reason is why, in words of the one who asks. It is kept and told as the
	// reason of the session's move.
	Reason string `json:"reason,omitempty"`
}

// maxReason bounds a reason: it stands on the ledger, and in every view.
const maxReason = 256

// Validate says what is wrong with a wish, if anything is.
func (w SessionCommand) Validate() error {
	switch {
	case len(w.Reason) > maxReason:
		return fmt.Errorf("the reason has %d bytes, and may have %d", len(w.Reason), maxReason)
	case strings.ContainsFunc(w.Reason, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("the reason is more than a line of plain text")
	}
	return nil
}

// A CommandAnswer is what a session answers to a command. FailureClass is
// empty when it was done, or for an abort, when it was begun.
type CommandAnswer struct {
	Error        string                `json:"error,omitempty"`
	FailureClass lifeloop.FailureClass `json:"failure_class,omitempty"`
	RetryClass   lifeloop.RetryClass   `json:"retry_class,omitempty"`
}

// Do is called by the door for a command, in a goroutine of the connection's
// own. Every command is answered: by the kernel, once what it decided is on the
// ledger; with internal_error where the ledger refused that; and with
// state_conflict where the session ended before it came to the question.
func (s *supervisor) Do(ctx context.Context, name string, input []byte) []byte {
	id := "ask_" + strconv.FormatUint(s.hookN.Add(1), 10)
	var answer CommandAnswer
	if in, err := question(id, name, input); err != nil {
		answer = CommandAnswer{FailureClass: lifeloop.InvalidRequest, Error: err.Error()}
	} else {
		answer = s.ask(ctx, id, in)
	}
	answer.RetryClass = answer.FailureClass.DefaultRetry()
	out, _ := json.Marshal(answer) // strings only
	return out
}

// question is what a command asks of the kernel.
func question(id, name string, input []byte) (kernel.Input, error) {
	if name == CommandFrame {
		var f FrameCommand
		if err := json.Unmarshal(input, &f); err != nil || f.Do != "open" && f.Do != "close" {
			return nil, fmt.Errorf("not a frame command")
		}
		return kernel.FrameRequested{Ask: id, Open: f.Do == "open", Frame: f.FrameID, Parent: f.Parent, Outcome: f.Outcome}, nil
	}
	var w SessionCommand
	if len(input) > 0 { // nothing is a wish without a reason
		if err := json.Unmarshal(input, &w); err != nil {
			return nil, fmt.Errorf("not a %s command", name)
		}
	}
	if err := w.Validate(); err != nil {
		return nil, err
	}
	switch name {
	case CommandPause:
		return kernel.PauseAsked{Ask: id, Reason: w.Reason}, nil
	case CommandResume:
		return kernel.ResumeAsked{Ask: id, Reason: w.Reason}, nil
	case CommandAbort:
		return kernel.AbortAsked{Signal: int(syscall.SIGTERM), Ask: id, Reason: w.Reason}, nil
	case CommandRenew:
		return kernel.RenewAsked{Ask: id, Reason: w.Reason}, nil
	}
	return nil, fmt.Errorf("unknown command %s", strconv.Quote(name))
}

// ask puts a question to the kernel and waits for its answer.
func (s *supervisor) ask(ctx context.Context, id string, in kernel.Input) CommandAnswer {
	replied := make(chan kernel.Reply, 1)
	s.hooksMu.Lock()
	s.asks[id] = replied
	s.hooksMu.Unlock()
	defer func() {
		s.hooksMu.Lock()
		delete(s.asks, id)
		s.hooksMu.Unlock()
	}()
	s.post(in)
	select {
	case r := <-replied:
		return answered(r)
	case <-ctx.Done():
	}
	select { // the answer may have been the last thing that the session did
	case r := <-replied:
		return answered(r)
	default:
		return CommandAnswer{Error: "the session has ended", FailureClass: lifeloop.StateConflict}
	}
}

func answered(r kernel.Reply) CommandAnswer {
	return CommandAnswer{Error: r.Why, FailureClass: r.Failure}
}

func (s *supervisor) reply(e kernel.Reply) {
	s.hooksMu.Lock()
	replied := s.asks[e.Ask]
	s.hooksMu.Unlock()
	if replied != nil {
		replied <- e // has room: a question is answered once
	}
}

// refuseAsked answers the question that an input asks, if it asks one, where
// the kernel is not asked any more.
func (s *supervisor) refuseAsked(in kernel.Input) {
	ask := ""
	switch in := in.(type) {
	case kernel.FrameRequested:
		ask = in.Ask
	case kernel.PauseAsked:
		ask = in.Ask
	case kernel.ResumeAsked:
		ask = in.Ask
	case kernel.AbortAsked:
		ask = in.Ask
	case kernel.RenewAsked:
		ask = in.Ask
	}
	if ask != "" {
		s.reply(kernel.Reply{Ask: ask, Failure: lifeloop.InternalError, Why: ErrLedger.Error() + ", and the session is being ended"})
	}
}
