// Package telemetry holds the harness-neutral signals that decoders produce from
// what a harness writes or calls: a transcript line, a hook's input, a status
// line, a terminal title. The decoders of each harness have a folder below it.
//
// A decoder is a pure function of its records, in order: it opens nothing, waits
// for nothing and guesses nothing. It counts by type the records that it does not
// know, and skips them. A signal never carries text of the session, only ids,
// names, numbers and times.
//
//	d := claude.Transcript()
//	for line := range lines {
//		for _, sig := range d.Decode(line) { … }
//	}
package telemetry

import "time"

// A Kind is what a signal reports. The set is closed. The comment of each kind ends
// with the names of the Signal fields that it sets.
type Kind string

const (
	// SessionLive: a harness session with this id is live. Session, Cause.
	SessionLive Kind = "session_live"
	// SessionGone: a harness session has ended or is about to end. Session, Reason.
	SessionGone Kind = "session_gone"
	// Prompt: the user, or the caller of a print mode, submitted a prompt. Turn.
	Prompt Kind = "prompt"
	// Working: the harness reports that it works. Turn when known.
	Working Kind = "working"
	// Idle: the harness reports that it waits for the next prompt. Outcome is set
	// where the harness reports every other end of a turn elsewhere. If no other
	// source reports the end, the turn ended with this Outcome. Without an Outcome,
	// a turn that never stopped was interrupted.
	Idle Kind = "idle"
	// NeedsInput: the harness waits for the user within a turn. Detail says for what.
	NeedsInput Kind = "needs_input"
	// TurnStop: the model finished; a hook may still make it continue. Turn, and
	// Outcome where the source has it.
	TurnStop Kind = "turn_stop"
	// TurnEnd: the turn is over for certain. Turn when known, Outcome, Error. The
	// Outcome is empty where the source lacks it: the turn then completed, unless a
	// TurnStop reported something else.
	TurnEnd Kind = "turn_end"
	// UsageSeen: tokens in use after a model call. Usage. Outcome is completed if
	// the call is known to be an answer. It is the turn's outcome if the turn stops
	// now.
	UsageSeen Kind = "usage"
	// WindowSeen: the context window became known without a usage. Window, WindowSource.
	WindowSeen Kind = "window"
	// Compacting: a compaction began; it may still fail. Compaction has the Trigger
	// alone, where the source has it.
	Compacting Kind = "compacting"
	// Compacted: the context was rewritten. Compaction.
	Compacted Kind = "compacted"
	// Cleared: the context was emptied, or cut back, within the session. Earlier
	// figures no longer hold.
	Cleared Kind = "cleared"
	// ToolStart, ToolEnd: a tool call began or ended. Tool.
	ToolStart Kind = "tool_start"
	ToolEnd   Kind = "tool_end"
	// LimitWait: the harness waits because of a rate limit or a busy server, and
	// will retry. Until, if the source has it; Error.
	LimitWait Kind = "limit_wait"
	// Fault: the harness reported an error that did not end the turn. Error.
	Fault Kind = "fault"
	// Gap: the harness's own sequence skipped the numbers in Missing.
	Gap Kind = "gap"
	// Alive: a sign of life only. If Turn is the turn that stopped, the turn
	// continues, unless a prompt of the user follows.
	Alive Kind = "alive"
)

// An Outcome is how a turn ended, in the words of `frame.ended`.
type Outcome string

const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted"
)

// An ErrorKind is the structured cause of a failed turn, never a message.
type ErrorKind string

const (
	ErrRateLimit      ErrorKind = "rate_limit"
	ErrServer         ErrorKind = "server_error"
	ErrAuth           ErrorKind = "auth"
	ErrInvalidRequest ErrorKind = "invalid_request"
	ErrContextFull    ErrorKind = "context_full"
	ErrQuota          ErrorKind = "quota"   // a usage limit is reached and will be lifted
	ErrBilling        ErrorKind = "billing" // a balance or a budget is used up: waiting does not help
	ErrNetwork        ErrorKind = "network"
	ErrUnknown        ErrorKind = "unknown"
)

// A Signal is one harness-neutral event that a source reported.
type Signal struct {
	Kind   Kind      `json:"kind"`
	Source string    `json:"source"`           // "hook", "transcript", "rollout", "statusline", "registry", "terminal", "file", "stream", "notify", "history", "store", "otlp", "telemetry", "log", "plugin"
	Detail string    `json:"detail,omitempty"` // where in the source: hook name, record id, ordinal
	At     time.Time `json:"at,omitzero"`      // the record's own time; zero when it has none

	Session string `json:"session,omitempty"` // the harness's session id
	Turn    string `json:"turn,omitempty"`    // the harness's id of the turn
	Agent   string `json:"agent,omitempty"`   // set for a sub-agent's signals; empty for the main chain's
	Side    string `json:"side,omitempty"`    // set for a call beside the main chain: its purpose ("title", "compaction")
	Cause   string `json:"cause,omitempty"`   // session_live: startup|resume|clear|compact|fork|unknown
	// Origin is what began the turn of a prompt, if it was not the user (DECISIONS
	// L22): ByHarness, ByPeer or BySchedule.
	Origin string `json:"origin,omitempty"`
	Reason string `json:"reason,omitempty"` // session_gone: the harness's own word

	Outcome Outcome   `json:"outcome,omitempty"`
	Error   ErrorKind `json:"error,omitempty"`

	Usage      *Usage      `json:"usage,omitempty"`
	Compaction *Compaction `json:"compaction,omitempty"`

	Tool string `json:"tool,omitempty"` // the tool call's id
	// A tool call has its name, and its arguments and result without their text.
	ToolName  string `json:"tool_name,omitempty"`
	Args      *Sized `json:"args,omitempty"`
	Result    *Sized `json:"result,omitempty"`
	ToolError string `json:"tool_error,omitempty"` // ToolNotFound, ToolFailed or ToolRefused; empty when it succeeded
	Model     string `json:"model,omitempty"`      // model name as the source spells it
	Window    int64  `json:"window,omitempty"`
	// WindowSource is where Window comes from: statusline, reported, suffix, table.
	WindowSource string `json:"window_source,omitempty"`
	// Path is a file that the harness says belongs to this session (its transcript).
	Path string `json:"path,omitempty"`
	// Until is when a limit ends, where the harness reports it.
	Until time.Time `json:"until,omitzero"`
	// Version is the harness's own, where the source has it.
	Version string `json:"version,omitempty"`
	// From is the session that a live one continues.
	From string `json:"from,omitempty"`
	// Dir is the session's working folder, as the harness reports it.
	Dir string `json:"dir,omitempty"`
	// Process is the process that wrote the source, as the source reports it. A
	// file may outlive its process, and the pid may be reused.
	Process *Process `json:"process,omitempty"`
	// Missing are the first and the last number that a sequence skipped.
	Missing *[2]uint64 `json:"missing,omitempty"`
}

// ReportWindow sets the context window that the source reported, if it did.
func (s *Signal) ReportWindow(tokens int64) {
	if tokens > 0 {
		s.Window, s.WindowSource = tokens, "reported"
	}
}

// The values of Signal.Origin.
const (
	ByHarness  = "harness"  // a notification, as of a background agent that ended
	ByPeer     = "peer"     // a message of another session
	BySchedule = "schedule" // a time that had come
)

// Sized describes a text that is not stored: its digest ("sha256:" and 64 hex digits)
// and its length in bytes.
type Sized struct {
	Digest string `json:"digest"`
	Size   int64  `json:"byte_size"`
}

// Usage is one model call: what it cost, and the context in use after it.
//
// The parts are exclusive, whatever the harness itself does (OpenAI counts cached
// tokens within its input, Anthropic beside it): Input+CacheRead+CacheWrite went
// to the model. Output came back and includes Reasoning.
type Usage struct {
	// ID and Request name the call: repeated records of one (session, ID,
	// Request) are one call. Both may be empty; then each record is a call.
	ID      string `json:"id,omitempty"`
	Request string `json:"request,omitempty"`
	// Used is the number of tokens in the context after the call, as this harness
	// counts them; 0 where the source lacks it.
	Used int64 `json:"used,omitempty"`

	Input      int64 `json:"input,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	// Output is the call's own output. If a call has several figures, the largest
	// counts.
	Output    int64 `json:"output,omitempty"`
	Reasoning int64 `json:"reasoning,omitempty"`
	// Estimate marks a figure that the harness computed after a compaction: no
	// call was made, and nothing but Used is set.
	Estimate bool `json:"estimate,omitempty"`
}

// Process identifies one process of this machine permanently.
type Process struct {
	PID int `json:"pid"`
	// Start is when it began, in the kernel's ticks since boot (field 22 of
	// /proc/PID/stat); 0 where the source lacks it.
	Start uint64 `json:"start,omitempty"`
}

// Compaction is what a source knows of a finished compaction.
type Compaction struct {
	// Half is the kind of source: "hook", "start" (the hook of the session that
	// continues), "record", or "telemetry" where the harness writes or exports
	// telemetry too. Reports from different kinds can be about the same compaction.
	Half    string `json:"half"`
	Trigger string `json:"trigger"` // auto|manual|reactive|unknown
	// InTurn is the trigger if the signal's Turn is the running turn. Otherwise
	// Trigger is.
	InTurn string `json:"in_turn,omitempty"`
	Before *int64 `json:"before,omitempty"`
	After  *int64 `json:"after,omitempty"`
}

// A Decoder turns records of one source, in order, into signals. It may
// remember earlier records of the same source; it has no other state.
type Decoder interface {
	// Decode reads one whole record. A record that it does not know gives no signal
	// and is counted.
	Decode(record []byte) []Signal
	// Unknown counts, by type, the records that Decode does not know.
	Unknown() map[string]int
	// Missed is the sum of those counts.
	Missed() int
}

// A HookCall is one call of a harness's hook, decoded.
type HookCall struct {
	Event   string // the harness's own name of the hook
	Session string
	Turn    string
	Signals []Signal
	// Slot is the manifest placement class that an answer to this hook fills,
	// empty when the hook carries no context to the model.
	Slot string
	// Capacity is the largest additional context, in bytes, that the harness
	// passes to the model whole.
	Capacity int
	// Use is the tool call that the hook asks about; nil for a hook that cannot
	// refuse one.
	Use *ToolUse
}

// HTTPError is the cause that the status of a failed request shows. A status of 0
// means that no answer came.
func HTTPError(status int64) ErrorKind {
	switch {
	case status == 0:
		return ErrNetwork
	case status == 429:
		return ErrRateLimit
	case status == 401, status == 403:
		return ErrAuth
	case status == 402:
		return ErrBilling
	case status >= 500:
		return ErrServer
	case status >= 400:
		return ErrInvalidRequest
	}
	return ErrUnknown
}
