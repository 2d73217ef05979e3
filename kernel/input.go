package kernel

import (
	"time"

	"lifeloop/attempt"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// An Input is an event from outside the kernel. Its handle method passes it to the
// machine that reacts to it.
type Input interface{ handle(s *step) }

type (
	// Start asks for the session to begin.
	Start struct{}
	// Launched reports that the harness runs. Setup describes this launch; it is
	// nil for the first launch of a session that was not recovered, because Config
	// describes that.
	Launched struct {
		PID         int
		Containment string
		Setup       *Setup
	}
	// TranscriptCopy says that a transcript was copied, or why it was not.
	TranscriptCopy TranscriptCopied
	// LaunchFailed says that the harness could not be started. Code is the exit
	// code of a shell: 126 not executable, 127 not found, 125 other.
	LaunchFailed struct {
		Code int
		Why  string // the reason, in words for the user
		// Transient says that a later launch may succeed.
		Transient bool
		// Withheld says that the launch was not tried. Refused says that the gate did
		// not allow it.
		Withheld, Refused bool
	}
	// OutputSeen says that this launch has written Total bytes so far. If the
	// policy reads the output, Text is the next output of Stream, and follows
	// Skipped lines that were lost. Otherwise Lines is the number of lines so far.
	// Whole says that Text is one complete piece, which does not continue the piece
	// before it.
	OutputSeen struct {
		Total   int64
		Lines   int64
		Text    []byte
		Stream  int
		Skipped int64
		Whole   bool
	}
	// SignOfLife reports that output of the harness was read at the time At, which
	// is not after the time of the step. OutputSeen reports that output later.
	SignOfLife struct{ At time.Time }
	// FailureSeen reports, by a typed cause, why this attempt is about to fail. The
	// failure counts only when the attempt has ended.
	FailureSeen struct {
		Cause  attempt.Cause
		Code   string    // code of a network error, if it has one
		Until  time.Time // when a limit is lifted; zero if unknown
		Source string
	}
	// CheckpointSeen says that a later launch can continue from a checkpoint.
	// Checkpoint is its id, never its text.
	CheckpointSeen struct{ Checkpoint string }
	// SignalsSeen carries the decoded signals of one telemetry record.
	SignalsSeen struct {
		Signals  []telemetry.Signal
		Position *Position // the position up to which the source was read; nil for sources without positions
		// Source is the source to which Position belongs. If there are no Signals,
		// an observer begins to read the source there.
		Source string
		// Taken and Digest are as in [SourceRead].
		Taken  int64
		Digest string
	}
	// HookCalled says that the harness called a hook and waits for the answer
	// until Deadline.
	HookCalled struct {
		Hook     string // our id of this call
		Call     telemetry.HookCall
		Deadline time.Time
	}
	// HookClosed says that the hook has ended. Delivered says that the whole answer
	// was written while the hook was still reading.
	HookClosed struct {
		Hook      string
		Delivered bool
	}
	// Returned carries the result of one dispatch: a valid Response, or a Failure
	// with a short reason in Why.
	Returned struct {
		Call     string
		Response *lifeloop.CallbackResponse
		Failure  lifeloop.FailureClass
		Why      string
		// Renew is the renewal profile for which the answer asks for a renewal;
		// empty if it asks for none.
		Renew string
	}
	// ChildExited says that the harness ended and its terminal was drained.
	ChildExited struct {
		Code     int  // exit code, when Signal is 0
		Signal   int  // the signal that ended it
		Leftover int  // the number of processes of its tree that still run and are being ended
		Lost     bool // the guard was lost, so the rest is unknown
		// OutputLost says that some output could not be written to its
		// destination.
		OutputLost bool
		// Interrupted says that the user typed the interrupt key shortly before.
		Interrupted bool
	}
	// SourcesDrained says that every watched file was read to its end after
	// the harness exited. Killed names the first processes of its tree that were
	// killed; More is the number of the others.
	SourcesDrained struct {
		Killed []Process
		More   int
	}
	// ClientsEnded says that no process of a client is left. Killed and More
	// describe the processes that clients left behind and that were killed.
	ClientsEnded struct {
		Killed []Process
		More   int
	}
	// ChildStopped and ChildContinued report that a signal of job control stopped
	// or continued the harness.
	ChildStopped   struct{ Signal int }
	ChildContinued struct{}
	// AbortAsked asks the wrapper to end. It was caused by a signal, or by a
	// command with the id Ask on the session socket.
	AbortAsked struct {
		Signal int
		Ask    string
		Reason string
	}
	// PauseAsked, ResumeAsked and RenewAsked are commands of the session socket. If
	// Profile is empty, a renewal uses the first active one.
	PauseAsked  struct{ Ask, Reason string }
	ResumeAsked struct{ Ask, Reason string }
	RenewAsked  struct{ Ask, Reason, Profile string }
	// Restarted asks to recover a session whose wrapper died. It is the first
	// input of a kernel that replayed the ledger. PID is the new wrapper's.
	Restarted struct{ PID int }
	// CloseAsked asks to close a session whose wrapper died, without launching or
	// calling anything. It is the only input of a kernel that replayed the
	// ledger.
	CloseAsked struct{ Reason string }
	// SourceTrouble and UnknownSeen carry the content of SourceTroubled and
	// UnknownCounted.
	SourceTrouble SourceTroubled
	UnknownSeen   UnknownCounted
	// FrameRequested asks to open or close a client's own frame.
	FrameRequested struct {
		Ask     string // our id of the command
		Open    bool   // open the frame; otherwise close it
		Frame   string
		Parent  string // parent of a frame to open; empty for a top-level frame
		Outcome string // outcome of a frame to close; empty for completed
	}
	// LedgerLost says that the ledger refused a write and the run continues
	// without it.
	LedgerLost struct{}
	// Wake says that the time returned by Deadline has come.
	Wake struct{}
)

func (Start) handle(s *step)             { s.start() }
func (in Launched) handle(s *step)       { s.attempts.launched(s, in) }
func (in LaunchFailed) handle(s *step)   { s.attempts.launchFailed(s, in) }
func (in OutputSeen) handle(s *step)     { s.activity.output(s, in) }
func (in SignOfLife) handle(s *step)     { s.activity.lives(s, in.At) }
func (in FailureSeen) handle(s *step)    { s.attempts.failureSeen(s, in) }
func (in CheckpointSeen) handle(s *step) { s.attempts.checkpoint(s, in.Checkpoint) }
func (in SignalsSeen) handle(s *step)    { s.signals(in) }
func (in TranscriptCopy) handle(s *step) { s.record(TranscriptCopied(in)) }
func (in HookCalled) handle(s *step) {
	if !s.renewals.prompting(s, in) {
		s.slots.called(s, in)
	}
}
func (in HookClosed) handle(s *step) {
	s.renewals.gaveUp(s, in.Hook)
	s.slots.closed(s, in)
}
func (in Returned) handle(s *step)       { s.router.returned(s, in) }
func (in ChildExited) handle(s *step)    { s.attempts.exited(s, in) }
func (in SourcesDrained) handle(s *step) { s.ending.sourcesDrained(s, in) }
func (in ClientsEnded) handle(s *step)   { s.ending.clientsEnded(s, in) }
func (in ChildStopped) handle(s *step)   { s.session.stopped(s, in) }
func (ChildContinued) handle(s *step)    { s.session.continued(s) }
func (in AbortAsked) handle(s *step)     { s.ending.abort(s, in) }
func (in PauseAsked) handle(s *step)     { s.session.pause(s, in) }
func (in ResumeAsked) handle(s *step)    { s.session.resume(s, in) }
func (in RenewAsked) handle(s *step)     { s.renewals.commanded(s, in) }
func (in Restarted) handle(s *step)      { s.recover(in) }
func (in CloseAsked) handle(s *step)     { s.closeLost(in) }
func (in SourceTrouble) handle(s *step)  { s.health.trouble(s, in) }
func (in UnknownSeen) handle(s *step)    { s.record(UnknownCounted(in)) }
func (in FrameRequested) handle(s *step) { s.requestFrame(in) }
func (LedgerLost) handle(s *step)        { s.ledgerLost() }
func (Wake) handle(*step)                {} // nothing to do, because the machines wake in every step

// An Effect is an action that the supervisor must perform after the turn's
// facts were written.
type Effect interface{ isEffect() }

type (
	// Launch starts the harness of a profile. Number counts the launches of the
	// session from 1. Resume is the id of the harness session to continue; empty
	// for a fresh start. Fresh is set for a renewal: the launch continues no
	// session, and does not repeat the prompt of the command line.
	Launch struct {
		Run     string
		Number  int
		Profile int
		Resume  string
		Fresh   bool
	}
	// Stop sends Signal to the harness's process group; Tree sends it to every
	// process below the wrapper. Grace is how long the processes of the tree may
	// take to clean up.
	Stop struct {
		Signal int
		Tree   bool
		Grace  time.Duration
	}
	// Suspend stops every process below the wrapper; Continue continues them.
	Suspend  struct{}
	Continue struct{}
	// Watch begins to read a file that a signal named.
	Watch struct{ Path string }
	// Dispatch calls a client. The envelope may hold payload bodies.
	Dispatch struct {
		Call     string
		Client   string
		Envelope lifeloop.DispatchEnvelope
		Timeout  time.Duration
	}
	// Cancel gives up what is still running under the id Call: a dispatch, the question
	// to the policy's program, or the command or the typing of a renewal.
	Cancel struct{ Call string }
	// HookAnswer answers a hook with the context for the model, which may be
	// empty.
	HookAnswer struct {
		Hook    string
		Event   string
		Context lifeloop.Opaque
		Verdict *HookVerdict // the answer to a hook that asks whether a tool may run
		Clear   bool         // the harness is to empty its context
	}
	// Reply answers a command of the session socket. Failure is empty if the
	// command was carried out, and Renewal is the id of the renewal that the
	// command began.
	Reply struct {
		Ask     string
		Failure lifeloop.FailureClass
		Why     string
		Renewal string
	}
	// Release restores the terminal, because the harness has ended.
	Release struct{}
	// DrainSources reads every watched file once more to its end.
	DrainSources struct{}
	// EndClients ends the persistent clients and the processes that clients left
	// behind.
	EndClients struct{}
)

func (Launch) isEffect()       {}
func (Stop) isEffect()         {}
func (Suspend) isEffect()      {}
func (Continue) isEffect()     {}
func (Watch) isEffect()        {}
func (Dispatch) isEffect()     {}
func (Cancel) isEffect()       {}
func (HookAnswer) isEffect()   {}
func (Reply) isEffect()        {}
func (Release) isEffect()      {}
func (DrainSources) isEffect() {}
func (EndClients) isEffect()   {}

// A Turn is the result of one Step.
type Turn struct {
	Facts   []Fact   // facts to append to the ledger, in order, before any effect
	Effects []Effect // effects to perform after that; their results come back as Inputs
	Sync    bool     // the facts must be on the disk before the effects (DECISIONS F3)
	// SyncAfter says that the facts must be synced to the disk right after the
	// effects.
	SyncAfter bool
}
