package kernel

import (
	"fmt"

	"lifeloop/kernel/effect"
	"lifeloop/kernel/input"
)

// handle passes an input to the machine that reacts to it.
func (s *step) handle(in input.Input) {
	if !s.ofHarness(in) && !s.ofSource(in) && !s.result(in) && !s.command(in) {
		panic(fmt.Sprintf("kernel: unknown input %T", in))
	}
}

// ofHarness handles the inputs about the life of the session and of its processes. Like
// the next three methods, it returns false for all other inputs.
func (s *step) ofHarness(in input.Input) bool {
	switch in := in.(type) {
	case input.Start:
		s.start()
	case input.Restarted:
		s.recover(in)
	case input.Launched:
		s.attempts.launched(s, in)
	case input.LaunchFailed:
		s.attempts.launchFailed(s, in)
	case input.FailureSeen:
		s.attempts.failureSeen(s, in)
	case input.CheckpointSeen:
		s.attempts.checkpoint(s, in.Checkpoint)
	case input.ChildStopped:
		s.session.stopped(s, in)
	case input.ChildContinued:
		s.session.continued(s)
	case input.ChildExited:
		s.attempts.exited(s, in)
	case input.SourcesDrained:
		s.ending.sourcesDrained(s, in)
	case input.ClientsEnded:
		s.ending.clientsEnded(s, in)
	case input.LedgerLost:
		s.ledgerLost()
	case input.Wake: // the machines wake in every step
	default:
		return false
	}
	return true
}

// ofSource handles what the harness's output, its sources and its hooks show.
func (s *step) ofSource(in input.Input) bool {
	switch in := in.(type) {
	case input.OutputSeen:
		s.activity.output(s, in)
	case input.SignOfLife:
		s.activity.lives(s, in.At)
	case input.LineSeen:
		s.activity.line(in.Begun)
		s.renewals.lineSeen(s, in.Begun)
	case input.SignalsSeen:
		s.signals(in)
	case input.TranscriptCopy:
		s.record(TranscriptCopied(in))
	case input.SourceTrouble:
		s.health.trouble(s, in)
	case input.UnknownSeen:
		s.record(UnknownCounted(in))
	case input.HookCalled:
		if !s.renewals.prompting(s, in) {
			s.slots.called(s, in)
		}
	case input.HookClosed:
		s.renewals.gaveUp(s, in.Hook)
		s.slots.closed(s, in)
	case input.FreshSeen:
		s.renewals.seen(s, in)
	default:
		return false
	}
	return true
}

// result handles the results of effects.
func (s *step) result(in input.Input) bool {
	switch in := in.(type) {
	case input.Returned:
		s.router.returned(s, in)
	case input.Decided:
		s.recovery.decided(s, in)
	case input.GateDecided:
		s.guards.decided(s, in)
	case input.KeysTyped:
		s.renewals.typed(s, in)
	case input.RenewalPrepared:
		s.renewals.prepared(s, in)
	case input.RenewalContinued:
		s.renewals.continued(s, in)
	default:
		return false
	}
	return true
}

// command handles the commands of users.
func (s *step) command(in input.Input) bool {
	switch in := in.(type) {
	case input.AbortAsked:
		s.ending.abort(s, in)
	case input.PauseAsked:
		s.session.pause(s, in)
	case input.ResumeAsked:
		s.session.resume(s, in)
	case input.RenewAsked:
		s.renewals.commanded(s, in)
	case input.ApprovalGiven:
		s.guards.given(s, in)
	case input.FrameRequested:
		s.requestFrame(in)
	case input.CloseAsked:
		s.closeLost(in)
	default:
		return false
	}
	return true
}

// An Output is the result of one Step.
type Output struct {
	Facts   []Fact          // facts to append to the ledger, in order, before any effect
	Effects []effect.Effect // effects to perform after the facts are appended; their results come back as inputs
	Sync    bool            // the facts must be on the disk before the effects (DECISIONS F3)
	// SyncAfter says that the facts must be synced to the disk right after the
	// effects.
	SyncAfter bool
}
