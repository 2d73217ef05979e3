// Package telemetry holds the harness-neutral signals that decoders produce from
// what a harness writes or calls: a transcript line, a hook's input, a status
// line, a terminal title. The decoders of each harness are in a folder below this
// package.
//
// A decoder's signals depend only on its records and their order: a decoder opens
// nothing, waits for nothing and guesses nothing. It counts by type the records
// that it does not know, and skips them. A signal never contains text of the
// session, only ids, names, numbers and times.
//
//	d := claude.Transcript()
//	for line := range lines {
//		for _, sig := range d.Decode(line) { … }
//	}
package telemetry

import "time"

// A Kind is what a signal reports. The set is closed. The comment of each kind names
// the main fields of Signal that are set.
type Kind string

const (
	// SessionLive: a harness session with this id is live. Sets Session and Cause.
	SessionLive Kind = "session_live"
	// SessionGone: a harness session has ended or is about to end. Sets Session and
	// Reason.
	SessionGone Kind = "session_gone"
	// Prompt: the user, or the caller of a print mode, submitted a prompt. Sets
	// Turn.
	Prompt Kind = "prompt"
	// Working: the harness reports that it works. Sets Turn if it is known.
	Working Kind = "working"
	// Idle: the harness reports that it waits for the next prompt. If Outcome is set,
	// the turn ended with this Outcome, unless another source reports a different
	// outcome. If Outcome is empty and no TurnStop was reported for the turn, the turn
	// was interrupted.
	Idle Kind = "idle"
	// NeedsInput: the harness waits for the user within a turn. Detail names the
	// reason.
	NeedsInput Kind = "needs_input"
	// TurnStop: the model finished; a hook may still make it continue. Sets Turn,
	// and Outcome if the source has it.
	TurnStop Kind = "turn_stop"
	// TurnEnd: the turn has definitely ended. Sets Outcome and Error, and Turn if it
	// is known. Outcome is empty if the source does not have it; the turn then
	// completed, unless a TurnStop reported something else.
	TurnEnd Kind = "turn_end"
	// UsageSeen: tokens in use after a model call. Sets Usage. Outcome is completed
	// if the call is known to be a final answer. If the turn then ends and no source
	// reports an outcome, the turn has this Outcome.
	UsageSeen Kind = "usage"
	// WindowSeen: the source reported the size of the context window separately from a
	// usage. Sets Window and WindowSource.
	WindowSeen Kind = "window"
	// Compacting: a compaction began; it may still fail. If the source has the
	// trigger, Compaction is set and has only the Trigger.
	Compacting Kind = "compacting"
	// Compacted: the context was rewritten. Sets Compaction.
	Compacted Kind = "compacted"
	// Cleared: the context was emptied, or cut back, within the session. Earlier
	// numbers of tokens in use no longer hold.
	Cleared Kind = "cleared"
	// ToolStart, ToolEnd: a tool call began or ended. Each sets Tool.
	ToolStart Kind = "tool_start"
	ToolEnd   Kind = "tool_end"
	// LimitWait: the harness waits because of a rate limit or a busy server, and
	// will retry. Sets Error, and Until if the source has it.
	LimitWait Kind = "limit_wait"
	// Fault: the harness reported an error that did not end the turn. Sets Error.
	Fault Kind = "fault"
	// Gap: the harness numbers its records, and the numbers in Missing were
	// skipped.
	Gap Kind = "gap"
	// Alive: the harness did something that no other kind describes. If Turn is set and
	// a TurnStop was reported for that turn, this signal means that the turn can still
	// continue, and that the next prompt without a Turn is a part of it.
	Alive Kind = "alive"
)

// An Outcome is how a turn ended, in the words of `frame.ended`.
type Outcome string

const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted"
)

// An ErrorKind is the kind of a reported error. It never contains the error's message.
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
	Detail string    `json:"detail,omitempty"` // the place or the kind of the record in the source, such as a hook's name, an id or a state
	At     time.Time `json:"at,omitzero"`      // the time in the record; zero if it has none

	Session string `json:"session,omitempty"` // the harness's session id
	Turn    string `json:"turn,omitempty"`    // the harness's id of the turn
	Agent   string `json:"agent,omitempty"`   // the sub-agent that caused the signal: its id, or its kind; empty for the main chain, the main agent's conversation
	Side    string `json:"side,omitempty"`    // the purpose of a call beside the main chain ("title", "compaction"); else empty
	Cause   string `json:"cause,omitempty"`   // the cause of a session_live: startup|resume|clear|compact|fork|unknown
	// Origin says what submitted the prompt (DECISIONS L22): ByHarness, ByPeer or
	// BySchedule; empty if it was the user, as far as the source shows.
	Origin string `json:"origin,omitempty"`
	Reason string `json:"reason,omitempty"` // the reason of a session_gone, as the harness names it

	Outcome Outcome   `json:"outcome,omitempty"`
	Error   ErrorKind `json:"error,omitempty"`

	Usage      *Usage      `json:"usage,omitempty"`
	Compaction *Compaction `json:"compaction,omitempty"`

	Tool string `json:"tool,omitempty"` // the tool call's id
	// ToolName is the name of the called tool. Args and Result are the digests and the
	// sizes of the call's arguments and result.
	ToolName  string `json:"tool_name,omitempty"`
	Args      *Sized `json:"args,omitempty"`
	Result    *Sized `json:"result,omitempty"`
	ToolError string `json:"tool_error,omitempty"` // ToolNotFound, ToolFailed or ToolRefused; empty if the call succeeded
	Model     string `json:"model,omitempty"`      // the model's name, unchanged from the source
	Window    int64  `json:"window,omitempty"`
	// WindowSource is where Window comes from: "statusline" (the harness's status line),
	// "reported" (another report of the harness), "suffix" (a suffix of the model's
	// name), "table" (the built-in table of models), "settings" (the harness's settings)
	// or "catalog" (a list of models in the harness's files).
	WindowSource string `json:"window_source,omitempty"`
	// Path is a file that the harness says belongs to this session (its transcript).
	Path string `json:"path,omitempty"`
	// Until is when a limit ends, if the harness reports it.
	Until time.Time `json:"until,omitzero"`
	// Version is the harness's version, if the source has it.
	Version string `json:"version,omitempty"`
	// From is the earlier session that the reported session continues.
	From string `json:"from,omitempty"`
	// Dir is the session's working folder, as the harness reports it.
	Dir string `json:"dir,omitempty"`
	// Process is the process that wrote the source, as the source reports it. A
	// file may outlive its process, and the pid may be reused.
	Process *Process `json:"process,omitempty"`
	// Missing are the first and the last number that a sequence skipped.
	Missing *[2]uint64 `json:"missing,omitempty"`
}

// Typed is a line that the user typed in the terminal of a harness. The line was read
// from the harness's list of such lines, or from the prompt in a record of a session.
type Typed struct {
	Session string // only for an entry of the harness's list: the first session of the process in which the line was typed
	At      time.Time
	Text    uint64 // hash of the typed line
	Begins  string // the cause of the next session, "clear" or "resume", if the line is a command that changes the session
}

// ReportWindow sets Window to the size that the source reported. It does nothing if
// tokens is 0.
func (s *Signal) ReportWindow(tokens int64) {
	if tokens > 0 {
		s.Window, s.WindowSource = tokens, "reported"
	}
}

// The values of Signal.Origin.
const (
	ByHarness  = "harness"  // a notification of the harness, for example that a background agent ended
	ByPeer     = "peer"     // a message from another session
	BySchedule = "schedule" // a schedule
)

// Sized describes a text that is not stored: its digest ("sha256:" and 64 hex digits)
// and its length in bytes.
type Sized struct {
	Digest string `json:"digest"`
	Size   int64  `json:"byte_size"`
}

// Usage describes one model call: its tokens, and the context in use after it.
//
// No token is counted in two of the input parts, although harnesses differ
// (OpenAI counts cached tokens as part of the input, Anthropic separately): the
// model received Input+CacheRead+CacheWrite. Output is what the model returned,
// including Reasoning.
type Usage struct {
	// ID and Request identify the call: records with the same session, ID and
	// Request are one call. If both are empty, each record is a call.
	ID      string `json:"id,omitempty"`
	Request string `json:"request,omitempty"`
	// Used is the number of tokens in the context after the call, as this harness
	// counts them; 0 if the source does not have it.
	Used int64 `json:"used,omitempty"`

	Input      int64 `json:"input,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	// Output is the output of this call. If several records of a call report it,
	// the largest number counts.
	Output    int64 `json:"output,omitempty"`
	Reasoning int64 `json:"reasoning,omitempty"`
	// Estimate marks a number that the harness computed after a compaction: no
	// call was made, and only Used is set.
	Estimate bool `json:"estimate,omitempty"`
}

// Process identifies one process. If Start is set, no other process matches PID and
// Start until the machine restarts. If Start is 0, another process matches as soon as
// the system uses the pid again.
type Process struct {
	PID int `json:"pid"`
	// Start is the process's start time, in the kernel's ticks since boot (field
	// 22 of /proc/PID/stat); 0 if the source does not have it.
	Start uint64 `json:"start,omitempty"`
}

// Compaction is what a source reports about a compaction. A Compacting signal has
// only the Trigger.
type Compaction struct {
	// Half is the kind of source that reported the compaction: "hook" (a hook or an event
	// of a plugin), "start" (the session-start hook, which the harness calls again after
	// a compaction), "record" (a record of the session, for example in a transcript) or
	// "telemetry" (telemetry that the harness writes or exports). Sources of different
	// kinds can report the same compaction.
	Half    string `json:"half"`
	Trigger string `json:"trigger"` // auto|manual|reactive|unknown
	// InTurn, if set, replaces Trigger if the signal's Turn is the running turn.
	InTurn string `json:"in_turn,omitempty"`
	Before *int64 `json:"before,omitempty"`
	After  *int64 `json:"after,omitempty"`
}

// A Decoder turns records of one source, in order, into signals. It may
// remember earlier records of the same source; it has no other state.
type Decoder interface {
	// Decode reads one whole record. A record of an unknown type gives no signal
	// and is counted.
	Decode(record []byte) []Signal
	// Unknown counts, by type, the records that Decode does not know.
	Unknown() map[string]int
	// Missed is the number of records that Decode did not know.
	Missed() int
}

// A Holder is a Decoder that may hold back signals.
type Holder interface {
	Decoder
	// End returns the signals that are still held back. It is called only after the
	// last record of a plugin's stream, or of a database that is read during a launch.
	End() []Signal
}

// A HookCall is one call of a harness's hook, decoded.
type HookCall struct {
	Event   string // the harness's name of the hook
	Session string
	Turn    string
	Signals []Signal
	// Slot is where an answer to this hook adds text to the model's context:
	// SlotSession, SlotLeading, SlotFrame or SlotTool; empty if the answer adds none.
	Slot string
	// Capacity is the largest additional context, in bytes, that the harness
	// passes to the model without cutting it.
	Capacity int
	// Use is the tool call that the hook asks about; nil if the hook cannot refuse
	// a tool call.
	Use *ToolUse
	// Clears says that the answer to this hook, which is called at the end of a turn,
	// can make the harness empty its context. The hook's [Dialect] is then a [Clearer].
	Clears bool
}

// HTTPError returns the cause that the HTTP status of a failed request indicates.
// A status of 0 means that no answer came.
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
