package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"lifeloop/control"
	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
	"lifeloop/lifeloop"
)

// The names of the commands that a session accepts on its socket.
const (
	CommandFrame  = "frame" // the input is a FrameCommand
	CommandPause  = "pause" // the input of this command, and of the commands below, is a SessionCommand
	CommandResume = "resume"
	CommandAbort  = "abort"
	CommandRenew  = "renew"

	CommandApprove = "approve" // for approve and deny, Intent says which act is meant
	CommandDeny    = "deny"
)

// A FrameCommand is the input of CommandFrame, as `frame open` and `frame close`
// send it.
type FrameCommand struct {
	Do      string `json:"do"` // open or close
	FrameID string `json:"frame_id"`
	Parent  string `json:"parent,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// A SessionCommand is the input of `pause`, `resume`, `abort`, `renew`, `approve` and
// `deny`.
type SessionCommand struct {
	// Reason is the caller's own text, recorded with the command: one line of at
	// most 256 bytes.
	Reason string `json:"reason,omitempty"`
	// Profile is the profile of a renewal; empty for the first active profile.
	Profile string `json:"profile,omitempty"`
	// Intent says which waiting act is approved or denied: it is the digest of the
	// act's gate.Intent, or the beginning of this digest.
	Intent string `json:"intent,omitempty"`
}

// maxReason is the longest reason in bytes. It is short, because every view
// shows it.
const maxReason = 256

// Validate checks the reason and the profile.
func (c SessionCommand) Validate() error {
	switch {
	case len(c.Profile) > maxReason:
		return fmt.Errorf("the name of the profile has %d bytes; the limit is %d", len(c.Profile), maxReason)
	case len(c.Reason) > maxReason:
		return fmt.Errorf("the reason has %d bytes; the limit is %d", len(c.Reason), maxReason)
	case strings.ContainsFunc(c.Reason, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("the reason must be one line without control characters")
	}
	return nil
}

// A CommandAnswer is the answer to a command. FailureClass is empty when the
// command was carried out or, for an abort or a renewal, accepted.
type CommandAnswer struct {
	Error        string                `json:"error,omitempty"`
	FailureClass lifeloop.FailureClass `json:"failure_class,omitempty"`
	RetryClass   lifeloop.RetryClass   `json:"retry_class,omitempty"`
	Renewal      string                `json:"renewal,omitempty"` // id of the renewal that began
}

// Do serves one command, on the goroutine of its connection. Every valid and
// permitted command is answered: by the kernel, after its decision is on the ledger;
// with internal_error when that write failed; and with state_conflict when the
// session ended first.
//
// A process of the harness's own tree needs the session's token: the model
// decides what its tools do, and must not pause or end its own supervision by
// accident. Such a process may never approve an act: it can read the token,
// as any program of the user can, and an approval must come from the user.
func (s *supervisor) Do(ctx context.Context, c control.Command) []byte {
	id := s.requests.newID("ask_")
	var answer CommandAnswer
	in, err := command(id, c.Name, c.Input)
	switch {
	case err != nil:
		answer = CommandAnswer{FailureClass: lifeloop.InvalidRequest, Error: err.Error()}
	case c.Name == CommandApprove && s.inside(c):
		answer = CommandAnswer{FailureClass: lifeloop.OperatorRequired, Error: "a process that the harness started cannot approve an act: run the command in another terminal"}
	case !s.admits(c):
		answer = CommandAnswer{FailureClass: lifeloop.OperatorRequired, Error: "the session's token is wrong, or it is missing and the command comes from a process that the harness started"}
	default:
		answer = s.ask(ctx, id, in)
	}
	answer.RetryClass = answer.FailureClass.DefaultRetry()
	out, _ := json.Marshal(answer) // cannot fail, because all members are strings
	return out
}

// admits reports whether the sender of a command may change the session. A wrong
// token is refused from every process.
func (s *supervisor) admits(c control.Command) bool {
	if c.Token != "" {
		return isSecret(s.o.Token, c.Token)
	}
	return !s.inside(c)
}

// inside reports whether the sender of a command is in the harness's process tree.
func (s *supervisor) inside(c control.Command) bool { return s.o.Inside != nil && s.o.Inside(c.PID) }

// command decodes a command into an input of the kernel.
func command(id, name string, body []byte) (input.Input, error) {
	if name == CommandFrame {
		var f FrameCommand
		if err := json.Unmarshal(body, &f); err != nil || f.Do != "open" && f.Do != "close" {
			return nil, fmt.Errorf(`the input is not a valid frame command; expected a JSON object with "do": "open" or "do": "close"`)
		}
		return input.FrameRequested{Ask: id, Open: f.Do == "open", Frame: f.FrameID, Parent: f.Parent, Outcome: f.Outcome}, nil
	}
	var c SessionCommand
	if len(body) > 0 { // an empty body means a command without a reason
		if err := json.Unmarshal(body, &c); err != nil {
			return nil, fmt.Errorf("the input is not a valid %s command", name)
		}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	switch name {
	case CommandPause:
		return input.PauseAsked{Ask: id, Reason: c.Reason}, nil
	case CommandResume:
		return input.ResumeAsked{Ask: id, Reason: c.Reason}, nil
	case CommandAbort:
		return input.AbortAsked{Signal: int(syscall.SIGTERM), Ask: id, Reason: c.Reason}, nil
	case CommandApprove, CommandDeny:
		return input.ApprovalGiven{Ask: id, Intent: c.Intent, Reason: c.Reason, Approve: name == CommandApprove}, nil
	case CommandRenew:
		return input.RenewAsked{Ask: id, Reason: c.Reason, Profile: c.Profile}, nil
	}
	return nil, fmt.Errorf("unknown command %s", strconv.Quote(name))
}

// ask posts a command and waits for the kernel's reply.
func (s *supervisor) ask(ctx context.Context, id string, in input.Input) CommandAnswer {
	replied, done := await(&s.requests, s.requests.asks, id)
	defer done()
	s.post(in)
	var r effect.Reply
	select {
	case r = <-replied:
	case <-ctx.Done():
		select { // the reply may have been sent as the session's last effect
		case r = <-replied:
		default:
			r = effect.Reply{Why: "the session has ended", Failure: lifeloop.StateConflict}
		}
	}
	return CommandAnswer{Error: r.Why, FailureClass: r.Failure, Renewal: r.Renewal}
}

func (s *supervisor) reply(e effect.Reply) {
	if c := waiting(&s.requests, s.requests.asks, e.Ask); c != nil {
		c <- e
	}
}

// refuseAsked answers an input that is a command with internal_error, because the kernel
// handles no commands after the ledger has failed. Other inputs are ignored.
func (s *supervisor) refuseAsked(in input.Input) {
	ask := ""
	switch in := in.(type) {
	case input.FrameRequested:
		ask = in.Ask
	case input.PauseAsked:
		ask = in.Ask
	case input.ResumeAsked:
		ask = in.Ask
	case input.AbortAsked:
		ask = in.Ask
	case input.RenewAsked:
		ask = in.Ask
	case input.ApprovalGiven:
		ask = in.Ask
	}
	if ask != "" {
		s.reply(effect.Reply{Ask: ask, Failure: lifeloop.InternalError, Why: ErrLedger.Error() + ", and the session is being ended"})
	}
}
