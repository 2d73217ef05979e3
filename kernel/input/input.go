// Package input lists what the kernel is given: what happened to the harness, what its
// sources and hooks report, the results of effects, and the commands of users. An input
// is data. A kernel decides by its configuration, by the inputs and by the time of each
// input, and by nothing else.
//
// The package reads no source and decides nothing. An input may have a text of the
// session, such as output or a hook call. The kernel may use such a text in a decision
// or an effect, but no fact may contain it.
//
//	out := k.Step(time.Now(), input.ChildExited{Code: 0})
package input

import (
	"time"

	"lifeloop/attempt"
	"lifeloop/gate"
	"lifeloop/kernel/setup"
	"lifeloop/lifeloop"
	"lifeloop/telemetry"
)

// An Input is an event from outside the kernel.
type Input interface{ isInput() }

// The life of the session and of the harness.
type (
	// Start asks for the session to begin.
	Start struct{}
	// Restarted asks to recover a session whose wrapper died. It is the first
	// input of a kernel that replayed the ledger. PID is the new wrapper's.
	Restarted struct{ PID int }
	// Launched reports that the harness runs. Setup describes this launch. Setup is
	// nil for the first launch of a session that was not recovered, because
	// kernel.Config describes that launch.
	Launched struct {
		PID         int
		Containment string
		Setup       *setup.Launch
	}
	// LaunchFailed says that the harness could not be started. Code is the exit code: 126
	// if the program is not executable, 127 if it was not found, else 125.
	LaunchFailed struct {
		Code int
		Why  string // the reason, in words for the user
		// Transient says that a later launch may succeed.
		Transient bool
		// Withheld says that the launch was not tried. Refused says that the gate did
		// not allow it.
		Withheld, Refused bool
	}
	// FailureSeen reports why this attempt will probably fail. The report counts only
	// when the attempt has ended, but the policy's action for a rate limit may be taken
	// at once.
	FailureSeen struct {
		Cause  attempt.Cause
		Code   string    // code of a network error, if it has one
		Until  time.Time // when a limit is lifted; zero if unknown
		Source string
	}
	// CheckpointSeen says that a later launch can continue from a checkpoint.
	// Checkpoint is its id, never its text.
	CheckpointSeen struct{ Checkpoint string }
	// ChildStopped and ChildContinued report that a signal of job control stopped
	// or continued the harness.
	ChildStopped   struct{ Signal int }
	ChildContinued struct{}
	// ChildExited says that the harness ended and its terminal was drained.
	ChildExited struct {
		Code     int  // exit code, when Signal is 0
		Signal   int  // the signal that ended it
		Leftover int  // how many processes that the harness started still run and are being ended
		Lost     bool // the guard died before it reported this end: the wrapper ended the processes, and Code and Signal do not show the outcome
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
	// LedgerLost says that the ledger could not be written and the run continues
	// without it.
	LedgerLost struct{}
	// Wake says that the time returned by Deadline has come.
	Wake struct{}
)

// What the harness does, as its output, its sources and its hooks show it.
type (
	// OutputSeen says that this launch has written Total bytes so far. If the
	// policy reads the output, Text is the next output of Stream, and Skipped is how many
	// lines right before Text were lost. Otherwise Lines is the number of lines so far.
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
	// SignOfLife reports that the harness was not silent. Either output of the harness
	// was read at the time At, or an input from one of its sources had to wait until At,
	// because too many inputs came before it. The kernel gets this output or input after
	// the SignOfLife. At may be later than the time of the step.
	SignOfLife struct{ At time.Time }
	// LineSeen says whether the user has begun a line in the harness, as far as the
	// keys show it. With some harnesses, an open dialog counts as a begun line.
	LineSeen struct{ Begun bool }
	// SignalsSeen carries the decoded signals of one telemetry record.
	SignalsSeen struct {
		Signals  []telemetry.Signal
		Position *Position // the position up to which the source was read; nil for sources without positions
		// Source is the source to which Position belongs. Without Signals, the input
		// says that an observer begins to read Source at Position.
		Source string
		// Taken is the number of signals of Source so far, including those in Signals,
		// and Digest is their digest. Both are set only if Source does not write its
		// records in order of time.
		Taken  int64
		Digest string
	}
	// TranscriptCopy says that a transcript was copied into the session's folder, or
	// that this failed. File is the name of the copy. After a failure, Why has the reason.
	TranscriptCopy struct {
		Path   string
		File   string
		Digest string
		Bytes  int64
		Why    string
	}
	// SourceTrouble says that a source, or a whole reader, does not work as expected.
	SourceTrouble struct {
		Source string // a source's name in the manifest, or the name of a reader
		What   Trouble
		// Read lists the sources of a reader that has stopped. If Read is empty, the
		// trouble concerns only Source.
		Read []string
	}
	// UnknownSeen says how many records the decoder of a source did not recognize so
	// far: Types has one number for each type of record.
	UnknownSeen struct {
		Source string
		Types  map[string]int
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
	// FreshSeen reports a session that the harness has begun after the keys of a renewal
	// were typed. The session is detected by something that the harness's process holds,
	// such as a lock, because the hooks of the session may come much later.
	FreshSeen struct {
		Renewal        string
		ID             string
		Source, Detail string
	}
)

// A Trouble is a problem with a source, or the end of such a problem (TroubleRecovered).
// The ledger stores the strings below.
type Trouble string

const (
	TroublePolling      Trouble = "polling"        // a file cannot be watched and is polled until TroubleRecovered
	TroubleTruncated    Trouble = "truncated"      // a file became shorter; it is read from its start if records already read were cut off
	TroubleReplaced     Trouble = "replaced"       // a path has another file now, or the file was rewritten; it is read from its start
	TroubleMissed       Trouble = "missed"         // a file was replaced, truncated or deleted while no observer read it
	TroubleDeleted      Trouble = "deleted"        // a file does not exist any more, or a server does not answer
	TroubleUnreadable   Trouble = "unreadable"     // a source cannot be read, or has another format
	TroubleStale        Trouble = "stale"          // the process that wrote a file has ended
	TroubleRecovered    Trouble = "recovered"      // a source can be read normally again
	TroubleLineTooLong  Trouble = "line_too_long"  // a record of a file was too long and was skipped
	TroubleBroken       Trouble = "broken"         // text that cannot be read as a JSON value was skipped
	TroubleEventTooLong Trouble = "event_too_long" // an event of a server was too long and was skipped
	TroubleOverflow     Trouble = "overflow"       // output came too fast, and the policy's rules did not check a part of it
	TroubleLost         Trouble = "lost"           // telemetry that the harness exported was dropped
	TroubleNotPassedOn  Trouble = "not_passed_on"  // exported telemetry was received, but the user's own endpoint did not get it
	TroubleUnassigned   Trouble = "unassigned"     // no record shows which harness session runs in the terminal
	TroubleStopped      Trouble = "stopped"        // a reader has stopped before the harness, so its sources are not read any more
)

// The results of effects.
type (
	// Returned carries the result of one dispatch: a valid Response, or a Failure
	// with a short reason in Why.
	Returned struct {
		Call     string
		Response *lifeloop.CallbackResponse
		Failure  lifeloop.FailureClass
		Why      string
		// Renew is the profile of the renewal that the answer asks for;
		// empty if the answer asks for no renewal.
		Renew string
	}
	// Decided carries the answer of the program that the policy names in retry.decide:
	// Retry and DelayMS, or a Failure with a short reason in Why.
	Decided struct {
		Ask     string
		Retry   bool
		DelayMS *int64 // nil means the delay of the policy's own rule
		Failure lifeloop.FailureClass
		Why     string
	}
	// GateDecided carries the decision, or a Failure with a short reason in Why.
	GateDecided struct {
		Ask      string
		Decision GateDecision
		Failure  lifeloop.FailureClass
		Why      string
	}
	// KeysTyped carries the result of TypeKeys. Busy says that nothing was typed,
	// because the user has begun a line, has just sent one, or has a dialog open.
	// Failure says why only some keys were typed, or none.
	KeysTyped struct {
		Renewal string
		Undo    bool
		Busy    bool
		Failure string
	}
	// RenewalPrepared carries the result of PrepareRenewal: the digest of the token
	// that is now in the vault (package vault), or a Failure with a reason in Why.
	RenewalPrepared struct {
		Renewal string
		Digest  string
		Expires *time.Time
		Failure lifeloop.FailureClass
		Why     string
	}
	// RenewalContinued carries the result of ContinueRenewal: the text for the new
	// session and its digest, or a Failure.
	RenewalContinued struct {
		Renewal string
		Text    lifeloop.Opaque
		Digest  string
		Failure lifeloop.FailureClass
		Why     string
	}
)

// Commands.
type (
	// AbortAsked asks the wrapper to end. The cause is a signal, or a command on the
	// session socket. Ask is the id of the command; empty for a signal.
	AbortAsked struct {
		Signal int
		Ask    string
		Reason string
	}
	// PauseAsked, ResumeAsked and RenewAsked are commands of the session socket. If
	// Profile is empty, the renewal uses the first active profile.
	PauseAsked  struct{ Ask, Reason string }
	ResumeAsked struct{ Ask, Reason string }
	RenewAsked  struct{ Ask, Reason, Profile string }
	// ApprovalGiven is the command approve or deny of the session socket. Intent says
	// which waiting act the command answers: it is the digest of the gate.Intent that
	// describes the act, or at least the first 8 characters of this digest.
	ApprovalGiven struct {
		Ask, Intent, Reason string
		Approve             bool
	}
	// FrameRequested asks to open or close a client's own frame.
	FrameRequested struct {
		Ask     string // our id of the command
		Open    bool   // open the frame; otherwise close it
		Frame   string
		Parent  string // parent of a frame to open; empty for a top-level frame
		Outcome string // outcome of a frame to close; empty for completed
	}
	// CloseAsked asks to close a session whose wrapper died. Nothing is launched or
	// called. The kernel that gets CloseAsked has replayed the ledger, and gets no
	// other input.
	CloseAsked struct{ Reason string }
)

// Parts of inputs that facts contain too, with their names in the ledger.
type (
	// A GateDecision is what the gate decided about one intent, the description of an
	// act (gate.Intent). It has digests and codes, and no argument of the act.
	GateDecision struct {
		Tool         string       `json:"tool_name,omitempty"` // the tool name in the intent
		Verdict      gate.Verdict `json:"verdict"`
		Reasons      []string     `json:"reason_codes"`
		Violations   []string     `json:"violations,omitempty"`
		Rule         string       `json:"matched_rule,omitempty"`
		IntentDigest string       `json:"intent_digest,omitempty"`
		ArgsDigest   string       `json:"args_digest,omitempty"`
		PolicyDigest string       `json:"policy_digest,omitempty"`
		TraceID      string       `json:"trace_id,omitempty"`
	}
	// A Position says up to which byte a file was read. After a crash, the reader
	// continues at this byte, so that it neither loses nor repeats a line. Dev, Ino and
	// Prefix show whether the path still names the same file; Prefix is a digest of the
	// first bytes.
	Position struct {
		Path   string `json:"path"`
		Dev    uint64 `json:"dev"`
		Ino    uint64 `json:"ino"`
		Prefix string `json:"prefix"`
		Offset int64  `json:"offset"`
		// Last has the digest of the bytes right before Offset, and how many bytes the
		// digest covers.
		Last string `json:"last,omitempty"`
	}
	// A Process is one process. Name is what the system shows in /proc/PID/comm; it has
	// no text of the command line.
	Process struct {
		PID  int    `json:"pid"`
		Name string `json:"name"`
	}
)

// Allowed reports whether the act may happen.
func (d GateDecision) Allowed() bool { return d.Verdict == gate.Allow }

func (Start) isInput()            {}
func (Restarted) isInput()        {}
func (Launched) isInput()         {}
func (LaunchFailed) isInput()     {}
func (FailureSeen) isInput()      {}
func (CheckpointSeen) isInput()   {}
func (ChildStopped) isInput()     {}
func (ChildContinued) isInput()   {}
func (ChildExited) isInput()      {}
func (SourcesDrained) isInput()   {}
func (ClientsEnded) isInput()     {}
func (LedgerLost) isInput()       {}
func (Wake) isInput()             {}
func (OutputSeen) isInput()       {}
func (SignOfLife) isInput()       {}
func (LineSeen) isInput()         {}
func (SignalsSeen) isInput()      {}
func (TranscriptCopy) isInput()   {}
func (SourceTrouble) isInput()    {}
func (UnknownSeen) isInput()      {}
func (HookCalled) isInput()       {}
func (HookClosed) isInput()       {}
func (FreshSeen) isInput()        {}
func (Returned) isInput()         {}
func (Decided) isInput()          {}
func (GateDecided) isInput()      {}
func (KeysTyped) isInput()        {}
func (RenewalPrepared) isInput()  {}
func (RenewalContinued) isInput() {}
func (AbortAsked) isInput()       {}
func (PauseAsked) isInput()       {}
func (ResumeAsked) isInput()      {}
func (RenewAsked) isInput()       {}
func (ApprovalGiven) isInput()    {}
func (FrameRequested) isInput()   {}
func (CloseAsked) isInput()       {}
